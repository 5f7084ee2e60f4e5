"""FedSpray as an audit runs it: which subjects, what attacks find, what is claimed, and bad input."""

import numpy as np
import pytest

from fgl_secure.attacks.base import DataSecret
from fgl_secure.attacks.proxies.knowledge import ProxyKnowledge, close, proxy_rows
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.errors import InputError
from fgl_secure.graph import Data, FederatedGraph, Graph, SplitMasks, datasets
from fgl_secure.methods import FedSpray
from fgl_secure.methods.fedspray import audit_runs
from fgl_secure.methods.fedspray.audit_target import claim_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Recording, Role, Secret
from fgl_secure.schemes import names, server_scheme
from fgl_secure.training.server_sums import promises
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
    assert "1 of 4 classes are labelled by no client" in first["classes of clients"].finding
    assert not any(record.violates_guarantee for record in records)


SERVER, ANY = {Role.SERVER: 1}, Circumstance.ANY
SCHEMES = [name for name in names("server") if name != "plaintext"]


def test_in_the_clear_only_the_paper_s_promise_stands() -> None:
    """Averages are said to be irreversible; of classes and shares nothing is promised, and their exposure declared."""
    claim = claim_of(Plaintext(), 5)
    broken = claim.broken_by(DataSecret.STRUCTURE_FEATURE, SERVER, ANY)
    assert broken is not None
    assert "4.5.1" in broken.source
    assert claim.broken_by(DataSecret.CLASS_PRESENCE, SERVER, ANY) is None
    assert {leak.secret for leak in claim.leaks_by_design} >= {DataSecret.CLASS_PRESENCE, DataSecret.LABEL_SHARES}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_promises_summands_and_nothing_of_their_parts(name: str) -> None:
    """One sum of fractions can tell every client's counts, so that neither shares nor classes are promised."""
    claim = claim_of(server_scheme(name), 5)
    inner = promises(server_scheme(name), 5)
    assert inner is not None
    assert claim.guarantees == inner.guarantees
    assert claim.broken_by(Secret.SUMMAND, SERVER, ANY) is not None
    declared = {(leak.secret, leak.role, leak.circumstance) for leak in claim.leaks_by_design}
    for secret in (DataSecret.CLASS_PRESENCE, DataSecret.LABEL_SHARES):
        assert claim.broken_by(secret, SERVER, ANY) is None
        assert (secret, Role.SERVER, ANY) in declared


def test_two_clients_hide_nothing_from_each_other() -> None:
    """Of two clients each subtracts its own part; of three none can."""
    for clients, declared in ((2, True), (3, False)):
        leaks = claim_of(server_scheme("ckks-shared-key"), clients).leaks_by_design
        statements = [leak.statement for leak in leaks if leak.role is Role.SILO]
        assert any("of two clients" in each for each in statements) is declared
