"""FedSpray as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

import numpy as np
import pytest

from fgl_secure.attacks.proxies.knowledge import ProxyKnowledge, close, proxy_rows
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.errors import InputError
from fgl_secure.graph import Data, FederatedGraph, Graph, SplitMasks, datasets
from fgl_secure.methods import FedSpray
from fgl_secure.methods.fedspray import audit_runs
from fgl_secure.methods.fedspray.audit_runs import turns, with_few_labels
from fgl_secure.runtime import Recording, Role
from tests.error_codes import about
from tests.graphs import first_digits

QUICK, DATA = FedSpray(epochs=1), Data(partition="louvain")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_digits_graph", lambda: first_digits(300))


def test_proxies_of_the_truth_are_those_that_were_trained() -> None:
    """Training the first round again for its truth gives the very summands that were recorded."""
    (subject,) = QUICK.plan(DATA, ["plaintext"]).subjects
    first = next(iter(subject.runs(subject.train(recording=Recording.everything(1)))))
    (seen,) = proxy_rows(first.transcript.views(Role.SERVER), first.public, first.knows(ProxyKnowledge))
    single = first.truth(ProxyTruth).labelled[:, 0] == 1
    assert single.any()
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


@pytest.mark.parametrize(("scheme", "message"), [("secmp", "scheme"), ("pairwise-masking[threshold=2]", "threshold")])
def test_schemes_that_do_not_serve_are_refused(scheme: str, message: str) -> None:
    """There are no neighbourhood sums, and a threshold of two among five would show single clients."""
    with pytest.raises(InputError, check=about(message)):
        QUICK.plan(DATA, [scheme])


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
