"""FedSpray as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fgl_secure.attacks.proxies.knowledge import ProxyKnowledge, close, proxy_rows
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report
from fgl_secure.errors import InputError
from fgl_secure.graph import Data, FederatedGraph, Graph, SplitMasks
from fgl_secure.methods import FedSpray
from fgl_secure.methods.fedspray import audit_runs
from fgl_secure.methods.fedspray.audit_runs import turns, with_few_labels
from fgl_secure.runtime import Recording, Role
from tests.error_codes import about

QUICK, DATA = FedSpray(epochs=1), Data(partition="louvain")
ATTACKS = (
    "proxy-classes",
    "proxy-counts",
    "proxy-partial-fractions",
    "proxy-singletons",
    "proxy-differencing",
    "proxy-label-changes",
    "proxy-membership",
)


@cache
def report() -> Report:
    """Summands in the clear and under masks, read by all attacks on them; six rounds follow the first."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(audit_runs, "ADDITIONS", 6)
        return audit(QUICK, DATA, attacks=ATTACKS)


def found(protocol: str, attack: str, metric: str = "") -> list[Record]:
    """What an attack found under a protocol, in all kinds of rounds."""
    return [
        record
        for record in report().records
        if record.protocol.split("[")[0] == protocol and record.attack == attack and metric in ("", record.metric)
    ]


@pytest.mark.parametrize("attack", ["proxy-classes", "proxy-counts"])
def test_classes_and_counts_are_read_in_the_clear_and_not_under_masks(attack: str) -> None:
    """Every client's labels show in its summand; in the sum they do not. Five clients may be too few for a verdict."""
    clear = found("plaintext", attack)
    assert all(record.value > record.prior + 0.2 and record.n <= 5 for record in clear)
    masked = found("pairwise-masking", attack)
    assert masked
    assert not any(record.verdict.is_exposure for record in masked)


def test_single_nodes_contradict_that_averages_are_irreversible() -> None:
    """A class proxy of one node is that node's: the paper's promise does not hold in the clear."""
    read = found("plaintext", "proxy-singletons", "proxies of single nodes")
    assert all(record.value == 1 and record.contradicts_claim for record in read)
    assert "4.5.1" in read[0].claim


def test_masks_are_not_contradicted() -> None:
    """What attacks find in sums is declared, and controls hold throughout."""
    assert not [record for record in report().contradictions if record.protocol.startswith("pairwise-masking")]
    assert all(record.controls_hold for record in report().records if record.verdict.is_measured)


@pytest.mark.parametrize(("preset", "broken"), [("paper", True), ("honest", False)])
def test_one_sum_of_exact_shares_is_explained_and_one_on_the_grid_is_not(
    preset: str, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under masks nearly all counts of all clients are read off the exact sum, which is declared; none off the grid.

    They are those of five clients, which are too few for a verdict. The first round tells, so that hardly any follow.
    """
    monkeypatch.setattr(audit_runs, "ADDITIONS", 1)
    method = replace(QUICK, preset=preset)
    records = audit(method, DATA, "pairwise-masking", "proxy-partial-fractions").records
    read = [each for each in records if each.attack == "proxy-partial-fractions"]
    first = next(each for each in read if each.protocol == "pairwise-masking")
    assert first.value == (0.9 if broken else 0)
    assert first.n == 5
    assert not any(record.contradicts_claim for record in records)


def test_masks_do_not_hide_how_labels_change() -> None:
    """When one client adds a labelled node, the sums before and after tell all its counts, on the grid less often; the
    claim says so."""
    (record,) = found("pairwise-masking", "proxy-label-changes")
    assert record.verdict.is_exposure
    assert "the change of the sum tells how many labelled nodes" in str(report().claims["pairwise-masking"])


def test_proxies_of_the_truth_are_those_that_were_trained() -> None:
    """Training the first round again for its truth gives the very summands that were recorded."""
    (subject,) = QUICK.plan(DATA, ["plaintext"]).subjects
    first = next(iter(subject.runs(subject.train(recording=Recording.everything(1)))))
    (seen,) = proxy_rows(first.transcript.views(Role.SERVER), first.public, first.knows(ProxyKnowledge))
    single = first.truth(ProxyTruth).labelled[:, 0] == 1
    assert single.sum() == 5
    assert close(seen.proxies[single], first.truth(ProxyTruth).singles[:, 0][single]).all()


def test_rounds_grow_by_one_label_of_one_client() -> None:
    """Clients have few labelled nodes at first and add one in turn; each new one has its proxy in the truth."""
    graph = DATA.federated(0, (0.4, 0.3, 0.3))
    few = with_few_labels(graph, 4, 0)
    assert np.bincount(few.silo_of[few.train_mask]).tolist() == [4] * 5
    assert graph.train_mask[few.train_mask].all()
    added = turns(few, graph.train_mask & ~few.train_mask, 7, 0)
    assert [int(few.silo_of[node]) for node, _ in added] == [0, 1, 2, 3, 4, 0, 1]
    assert len({node for node, _ in added}) == 7
    assert all(few.silo_of[node] == few.silo_of[other] for node, other in added)


def test_clients_without_further_labels_add_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every label is used from the start there is one round, and nothing about additions is measured."""
    monkeypatch.setattr(audit_runs, "FEW_LABELS", 10_000)
    (subject,) = QUICK.plan(DATA, ["plaintext"]).subjects
    *_, grown = subject.runs(subject.train(recording=Recording.everything(1)))
    assert grown.truth(ProxyTruth).added.shape[1] == 1
    assert not np.isfinite(grown.truth(ProxyTruth).added).any()


@pytest.mark.parametrize(
    ("choice", "message"),
    [({"backbone": "gat"}, "backbone"), ({"preset": "none"}, "preset"), ({"epochs": 0}, "epochs")],
    ids=str,
)
def test_bad_choices_are_refused_when_they_are_made(choice: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        replace(QUICK, **choice)  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize(("scheme", "message"), [("secmp", "scheme"), ("pairwise-masking[threshold=2]", "threshold")])
def test_schemes_that_do_not_serve_are_refused(scheme: str, message: str) -> None:
    """There are no neighbourhood sums, and a threshold of two among five would show single clients."""
    with pytest.raises(InputError, check=about(message)):
        QUICK.plan(DATA, [scheme])


def test_lonely_clients_are_refused() -> None:
    """A masked sum of one client would be its summand."""
    with pytest.raises(InputError, check=about("silos")):
        QUICK.plan(Data(silos=1))


def test_a_graph_without_edges_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated nodes, a class that nobody has labelled, another that one client has a single node of: the audit runs,
    and that node's proxy shows in the sum, which is declared."""
    monkeypatch.setattr(audit_runs, "ADDITIONS", 1)
    labels = np.tile([0, 0, 1, 1], 15)
    clients = np.repeat(np.arange(3), 20)
    train = np.arange(60) % 4 < 3
    labels[0] = 3  # labelled, and the only one; class 2 has no node at all
    features = np.random.default_rng(0).random((60, 6), dtype=np.float32)
    graph = Graph.from_arrays("drawn", features, labels, np.empty((2, 0), dtype=np.int64))
    held = FederatedGraph.from_assignment(graph, clients, SplitMasks(train, ~train, np.zeros(60, dtype=np.bool_)))
    records = audit(QUICK, held, "pairwise-masking", ("proxy-singletons", "proxy-classes")).records
    first = {record.metric: record for record in records if record.protocol == "pairwise-masking"}
    assert first["proxies of single nodes"].value == 1
    assert "1 of 4 classes are labelled by nobody" in first["classes of clients"].finding
    assert not any(record.contradicts_claim for record in records)
