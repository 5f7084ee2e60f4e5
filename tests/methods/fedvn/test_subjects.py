"""FedVN as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.audit import Record, contradictions
from fgl_secure.audit.schema import Report
from fgl_secure.cli.main import OK, main
from fgl_secure.commands.audit import audit
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods.fedavg.choice import UpdateChoice
from fgl_secure.methods.fedvn import scenarios
from fgl_secure.methods.fedvn.choice import VirtualChoice
from fgl_secure.methods.fedvn.subjects import DEMONSTRATED, fedvn_plan
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.protocols.staged.registry import STAGED
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.server_sums import ServerSums, server_sums
from tests.methods.fedvn.settings import QUICK, options

READING = ("virtual-node-labels", "virtual-node-population", "virtual-node-clients")


@cache
def report() -> Report:
    """Summands in the clear and under masks, read by all attacks of this method."""
    return audit(options(), (), READING)


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


def test_no_finding_contradicts_a_claim_and_all_controls_hold() -> None:
    """Attacks break what they must break and are at chance on permuted truth, and no promise is broken."""
    assert not contradictions(report())
    assert all(record.controls_hold for record in report().records if record.verdict.is_measured)


class Leaking(ServerSums):
    """Sums under a scheme whose clients also send what they have as it is."""

    def __init__(self, inner: ServerSums, channel: Channel) -> None:
        self._inner, self._channel = inner, channel

    def __call__(self, rows: NDArray[np.float64], step: Step) -> NDArray[np.float64]:
        """Sends the rows, and sums them up."""
        clients, (server,) = self._channel.parties.ids(Role.SILO), self._channel.parties.ids(Role.SERVER)
        self._channel.send(Phase.SUMMANDS, step, clients, np.full(len(clients), server), rows)
        return self._inner(rows, step)


def test_clients_that_leak_under_masks_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: what clients send beside their masked vectors contradicts what masks promise."""

    def leaking(scheme: StagedScheme | None, channel: Channel) -> ServerSums:
        return Leaking(server_sums(scheme, channel), channel)

    monkeypatch.setattr(scenarios, "server_sums", leaking)
    twin = audit(options("pairwise-masking", epochs=8), (), READING)
    assert {record.attack for record in contradictions(twin)} == {"virtual-node-clients"}
    assert any(record.attack == "virtual-node-labels" for record in twin.records)


def test_attacks_read_what_training_sends() -> None:
    """The rounds that are recorded for attacks are those of training, bit for bit."""
    (subject,) = fedvn_plan(options("plaintext", epochs=2), ()).subjects
    trained = subject.train(recording=Recording.everything(2))
    (run,) = subject.runs(trained)
    sent = [each.views(Role.SERVER).messages(Phase.SUMMANDS) for each in (trained.transcript, run.transcript)]
    assert [len(batches) for batches in sent] == [2, 2]
    for first, second in zip(*sent, strict=True):
        assert first.payload is not None
        assert second.payload is not None
        assert first.payload.tobytes() == second.payload.tobytes()


def test_every_scheme_trains_to_the_same_model() -> None:
    """Accuracy does not depend on how summands are added up."""
    plan = fedvn_plan(options("plaintext", "pairwise-masking", "lightsecagg", epochs=2), ())
    reached = {subject.train().accuracy for subject in plan.subjects}
    assert len(reached) == 1


def test_demonstrates_two_schemes_and_takes_any() -> None:
    """Without a name, plaintext and pairwise masking; every staged scheme by name."""
    assert tuple(subject.name for subject in fedvn_plan(QUICK, ()).subjects) == DEMONSTRATED
    assert tuple(subject.name for subject in fedvn_plan(options(*STAGED), ()).subjects) == tuple(STAGED)


def test_the_plan_speaks_of_clients_and_graphs() -> None:
    """Silos are clients, devices are nodes of graphs, and the figure is a mean over clients."""
    plan = fedvn_plan(QUICK, ())
    assert plan.graph.num_silos == 3
    assert plan.averaged == "mean of the accuracy of 3 clients, on 36 graphs"
    assert plan.epochs == QUICK.epochs


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"updates": UpdateChoice(("secmp",))}, "scheme must be one of plaintext"),
        ({"updates": UpdateChoice(threshold=0)}, "threshold must be at least 1"),
        ({"updates": UpdateChoice(("pairwise-masking",), threshold=1)}, "threshold must be at least 2, .*; found 1"),
        ({"updates": UpdateChoice(batch=4)}, "batch must be left out for fedvn, .*; found 4"),
        ({"updates": UpdateChoice(local_steps=2)}, "local_steps must be left out for fedvn, .*; found 2"),
        ({"updates": UpdateChoice(noise=1.0)}, "noise must be left out for fedvn, .*; found 1.0"),
        ({"virtual": VirtualChoice(0)}, "virtual_nodes must be at least 1; found 0"),
        ({"epochs": 0}, "epochs must be at least 1; found 0"),
        ({"static_first_layer": True}, "static_first_layer must be left out for fedvn"),
        ({"silo_file": Path("silos.txt")}, "silo_file must be left out for fedvn, .*; found silos.txt"),
        ({"backbone": "gcn"}, "backbone must be one of gin"),
        ({"dataset": "cora"}, "graph set must be one of"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_choices_are_refused_before_anything_runs(choice: dict[str, object], message: str) -> None:
    """The message names the argument, the rule and the value."""
    with pytest.raises((InputError, UnknownNameError), match=message):
        fedvn_plan(replace(QUICK, **choice), ())  # type: ignore[arg-type]  # one of several


def test_choices_of_other_methods_are_refused() -> None:
    """A protocol for neighbourhood sums and a single graph are not FedVN's."""
    with pytest.raises(InputError, match=r"protocol must be left out for fedvn, .*; found secmp"):
        fedvn_plan(QUICK, ("secmp",))
    with pytest.raises(InputError, match=r"graph must be left out for fedvn, .*; found Motif-mini"):
        fedvn_plan(QUICK, (), fedvn_plan(QUICK, ()).graph)


def test_training_says_under_which_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    """`train fedvn` runs under masks unless told otherwise, on a set that needs no download."""
    assert main(["train", "fedvn", "--epochs", "1", "--virtual-nodes", "2", "--json"]) == OK
    written = json.loads(capsys.readouterr().out)
    assert (written["protocol"], written["dataset"]) == ("pairwise-masking", "Motif-mini")


def test_an_audit_of_a_named_scheme_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing contradicts LightSecAgg, and the report is written."""
    words = ["audit", "--method", "fedvn", "--scheme", "lightsecagg", "--epochs", "2", "--virtual-nodes", "2"]
    assert main([*words, "--attack", "virtual-node-population", "--out", str(tmp_path)]) == OK
    assert "lightsecagg" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
