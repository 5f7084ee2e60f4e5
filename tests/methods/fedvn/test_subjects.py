"""FedVN as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.auditing import Record, Report
from fgl_secure.auditing.audit import audit
from fgl_secure.cli.main import OK, main
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Data
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods import FedVN
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.schemes import names
from fgl_secure.training.calls import Call
from fgl_secure.training.one_process import OneProcess
from tests.error_codes import about
from tests.methods.fedvn.settings import QUICK

SHORT = replace(QUICK, epochs=2)
READING = ("virtual-node-labels", "virtual-node-population", "virtual-node-clients")


@cache
def report() -> Report:
    """Summands in the clear and under masks, read by all attacks of this method."""
    return audit(QUICK, attacks=READING)


def found(protocol: str, attack: str) -> list[Record]:
    """What an attack found under a protocol."""
    return [record for record in report().records if record.protocol == protocol and record.attack == attack]


def test_summands_in_the_clear_tell_clients_without_names() -> None:
    """Score vectors alone tell whose a summand is, in the clear."""
    told = {record.metric: record for record in found("plaintext", "virtual-node-clients")}
    assert told["clients told by score vectors"].verdict.is_exposure
    assert {"clients told by virtual nodes", "clients told by the model"} < set(told)


def test_masks_leave_the_sum_alone_to_be_read() -> None:
    """Under masks no attack on single clients has anything to read; the one on the sum has, and the claim says so."""
    assert not found("pairwise-masking", "virtual-node-clients")
    assert not found("pairwise-masking", "virtual-node-labels")
    assert found("pairwise-masking", "virtual-node-population")
    assert "how often each label occurs at all clients together" in str(report().claims["pairwise-masking"])


def test_reports_say_which_rounds_attacks_read() -> None:
    """The first twelve, or all where there are no more; here there are six."""
    assert QUICK.epochs == 6
    assert report().notes[0].startswith("Attacks read what was sent in the first 6 rounds of training")


def test_no_finding_contradicts_a_claim_and_all_controls_hold() -> None:
    """Attacks break what they must break and are at chance on permuted truth, and no promise is broken."""
    assert not report().contradictions
    assert all(record.controls_hold for record in report().records if record.verdict.is_measured)


class Leaking(OneProcess):
    """Sums under a scheme whose clients also send what they have as it is."""

    def _server_sum(self, rows: list[NDArray[Any]], call: Call) -> list[NDArray[Any]]:
        """Sends the rows, and sums them up."""
        clients, (server,) = self._channel.parties.ids(Role.SILO), self._channel.parties.ids(Role.SERVER)
        self._channel.send(Phase.VECTORS, call.step, clients, np.full(len(clients), server), np.stack(rows))
        return super()._server_sum(rows, call)


def test_clients_that_leak_under_masks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: what clients send beside their masked vectors contradicts what masks promise."""
    monkeypatch.setattr("fgl_secure.methods.fedvn.program.OneProcess", Leaking)
    twin = audit(replace(QUICK, epochs=8), None, "pairwise-masking", READING)
    assert {record.attack for record in twin.contradictions} == {"virtual-node-clients"}
    assert any(record.attack == "virtual-node-labels" for record in twin.records)


def test_attacks_read_what_training_sends() -> None:
    """The rounds that are recorded for attacks are those of training, bit for bit."""
    (subject,) = SHORT.plan(None, ["plaintext"]).subjects
    trained = subject.train(recording=Recording.everything(2))
    (run,) = subject.runs(trained)
    sent = [each.views(Role.SERVER).messages(Phase.VECTORS) for each in (trained.transcript, run.transcript)]
    assert [len(batches) for batches in sent] == [4, 4]
    for first, second in zip(*sent, strict=True):
        assert first.payload is not None
        assert second.payload is not None
        assert first.payload.tobytes() == second.payload.tobytes()


def test_demonstrates_two_schemes_and_takes_any() -> None:
    """Without a name, plaintext and pairwise masking; every staged scheme by name."""
    assert tuple(subject.name for subject in QUICK.plan().subjects) == FedVN.demonstrated
    assert tuple(subject.name for subject in QUICK.plan(None, names("server")).subjects) == tuple(names("server"))


def test_the_plan_speaks_of_clients_and_graphs() -> None:
    """Silos are clients, devices are nodes of graphs, and the figure is a mean over clients."""
    plan = QUICK.plan()
    assert plan.graph.num_silos == 3
    assert plan.averaged == "mean of the accuracy of 3 clients, on 36 graphs"
    assert plan.epochs == QUICK.epochs


@pytest.mark.parametrize(
    ("choice", "message"),
    [({"virtual_nodes": 0}, "virtual_nodes"), ({"epochs": 0}, "epochs"), ({"preset": "best"}, "preset")],
    ids=str,
)
def test_bad_choices_are_refused_when_they_are_made(choice: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        replace(QUICK, **choice)  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("magic", "scheme"),
        ("secmp", "scheme"),
        ("neighbours=secmp", "scheme"),
        ("pairwise-masking[threshold=1]", "threshold"),
        ("plaintext[T=9]", "parameter of plaintext"),
    ],
)
def test_schemes_that_do_not_serve_the_server_are_refused(scheme: str, message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        QUICK.plan(None, [scheme])


def test_clients_have_many_graphs() -> None:
    """A single graph, dealt to silos or ready, is not what FedVN is trained on; sets that there are not, neither."""
    for data in (Data(), QUICK.plan().graph):
        with pytest.raises(InputError, check=about("data")):
            QUICK.plan(data)
    for name, kind in (("cora", InputError), ("corral", UnknownNameError)):
        with pytest.raises(kind, check=about("graph set")):
            QUICK.plan(GraphSets(name))


def test_training_says_under_which_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    """`train fedvn` runs under masks unless told otherwise, on a set that needs no download."""
    assert main(["train", "fedvn", "--epochs", "1", "--virtual-nodes", "2", "--json"]) == OK
    written = json.loads(capsys.readouterr().out)
    assert (written["protocol"], written["dataset"]) == ("pairwise-masking", "Motif-mini")
