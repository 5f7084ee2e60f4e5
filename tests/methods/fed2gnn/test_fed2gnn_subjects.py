"""Fed2GNN on the command line: choices, claims, audits."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from fgl_secure.attacks.base import Attack, DataSecret, guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import FglSecureError
from fgl_secure.graph import Data, FederatedGraph, Graph, SplitMasks
from fgl_secure.methods import Fed2GNN
from fgl_secure.methods.fed2gnn.audit_target import claim_of, trained_hops
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.program import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Circumstance, Recording, Role, Secret
from tests.error_codes import about

SINGLE = Circumstance.SINGLE_NEIGHBOUR
SUBTRACTED = Circumstance.REPEATED_SUM
METHOD = Fed2GNN(epochs=1)
DEVICE = torch.device("cpu")
ON_HOP_SUMS: tuple[Attack[Any, Any], ...] = (
    named("hop-feature-single"), named("hop-feature-differencing"), named("hop-feature-topology"),
    named("hop-feature-edges"),
)  # fmt: skip


def attached(nodes: int = 150, clients: int = 5) -> FederatedGraph:
    """A preferential-attachment graph with normal features, dealt to clients at random."""
    rng = np.random.default_rng(0)
    pairs = np.array(nx.barabasi_albert_graph(nodes, 2, seed=0).edges, dtype=np.int64)
    edges = np.concatenate([pairs, pairs[:, ::-1]]).T
    labels = np.arange(nodes) % 3
    graph = Graph.from_arrays("reference", rng.normal(size=(nodes, 12)).astype(np.float32), labels, edges)
    parts = rng.permutation(nodes) % 3
    return FederatedGraph.from_assignment(
        graph, rng.permutation(nodes) % clients, SplitMasks(parts == 0, parts == 1, parts == 2)
    )


QUICK = Fed2GNNPreset(
    "honest", epochs=1, neighbours=10, decoder=DecoderPreset(blocks=1, width=8, epochs=1), latent=LatentPreset(6, 2)
)


def exchanged(scheme: Plaintext | RelayCoded) -> RecordedRun:
    """What clients say before training."""
    job = clients_of(attached(), {"neighbours": scheme}, QUICK, device=DEVICE)
    return trained_hops(job, QUICK, scheme, "gcn", 0)


@pytest.mark.parametrize(
    ("scheme", "k_min"),
    [
        (Plaintext(), 1),
        (RelayCoded(bound=64.0, k_min=1, profile=Profile.SHOWN), 1),
        (RelayCoded(bound=64.0, profile=Profile.SHOWN), 3),
    ],
)
def test_what_is_exchanged_before_training_is_what_attacks_read(scheme: Plaintext | RelayCoded, k_min: int) -> None:
    """Rows read from a total over one neighbour are those that were mapped and sent; with k_min = 3 there are none."""
    run = exchanged(scheme)
    guess = named("hop-feature-single").infer(run.transcript.views(Role.SILO), run.public)
    assert guess is not None
    assert bool(len(guess.nodes)) is (k_min == 1)
    assert guess.values.shape[1] == 6
    assert guess.values == pytest.approx(run.truth(TreeTruth).features[guess.nodes], abs=1e-4)


def test_a_twin_that_answers_groups_of_one_contradicts_the_claim() -> None:
    """With the claim of k_min = 3, a scheme that answers every group is caught by the attack on single neighbours."""
    twin, claimed = (
        RelayCoded(bound=64.0, k_min=1, profile=Profile.SHOWN),
        RelayCoded(bound=64.0, profile=Profile.SHOWN),
    )
    run = exchanged(twin)
    card = named("hop-feature-single").card
    guess = named("hop-feature-single").infer(run.transcript.views(card.observer), run.public)
    assert guess is not None
    found = named("hop-feature-single").score(guess, run.truth(TreeTruth))
    assert found[0].value == 1
    assert claim_of(claimed, Plaintext(), 5).broken_by(card.secret, card.coalition, card.circumstance) is not None
    assert claim_of(twin, Plaintext(), 5).broken_by(card.secret, card.coalition, card.circumstance) is None


def test_claims_follow_the_schemes() -> None:
    """In the clear nothing is promised; a scheme promises single neighbours, and admits what subtraction tells."""
    clear = claim_of(Plaintext(), Plaintext(), 5)
    hidden = claim_of(RelayCoded(profile=Profile.SHOWN), PairwiseMasking(), 5)
    client = {Role.SILO: 1}
    assert not clear.guarantees
    assert hidden.broken_by(DataSecret.NODE_FEATURES, client, SINGLE) is not None
    assert hidden.broken_by(DataSecret.NODE_FEATURES, client, SUBTRACTED) is None
    assert hidden.broken_by(DataSecret.FOREIGN_EDGE, client, Circumstance.ANY) is None
    assert hidden.broken_by(Secret.EMBEDDING, {Role.RELAY: 1}, Circumstance.ANY) is not None
    assert hidden.broken_by(Secret.EMBEDDING, {Role.RELAY: 2}, Circumstance.ANY) is None
    assert any(leak.secret is Secret.SUMMAND for leak in clear.leaks_by_design)


def test_two_clients_know_each_other_s_model() -> None:
    """Of two clients each subtracts its own part from the mean, and the claim says so; of three none can."""
    for clients, told in ((2, True), (3, False)):
        claim = claim_of(RelayCoded(profile=Profile.SHOWN), PairwiseMasking(), clients)
        leaks = {(leak.secret, leak.role) for leak in claim.leaks_by_design if leak.circumstance is Circumstance.ANY}
        assert ((Secret.SUMMAND, Role.SILO) in leaks) is told


def test_what_picks_tell_is_declared() -> None:
    """A client that hears nothing of an edge knows that its other end has more than d neighbours elsewhere."""
    for scheme in (Plaintext(), RelayCoded(profile=Profile.SHOWN)):
        claim = claim_of(scheme, Plaintext(), 5)
        assert (Secret.DEGREE, Role.SILO) in {(leak.secret, leak.role) for leak in claim.leaks_by_design}


@pytest.mark.parametrize(
    ("silos", "schemes", "rule"),
    [
        (1, (), "silos"),
        (3, (), "k_min"),
        (5, ("secmp",), "scheme"),
        (5, ("magic",), "scheme"),
        (5, ("server=lightsecagg,server=plaintext",), "scheme"),
        (5, ("plaintext,server=plaintext[T=4]",), "parameter of plaintext"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_anything_runs(silos: int, schemes: tuple[str, ...], rule: str) -> None:
    """Each message names the argument and the rule; under secmp a client would decode every part of its sum."""
    with pytest.raises(FglSecureError, check=about(rule)):
        METHOD.plan(Data(silos=silos), schemes)


def test_a_graph_without_cross_edges_trains_in_the_clear() -> None:
    """Nobody asks anybody; there is nothing to attack, and a scheme that refuses small sums has none to compute."""
    whole = attached(60)
    inside = whole.restricted_to_silos()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fgl_secure.methods.fed2gnn.audit_target.fed2gnn_preset", lambda *_: QUICK)
        (subject,) = METHOD.plan(inside, ["plaintext"]).subjects
    result = subject.train(recording=Recording.everything(1))
    (run,) = subject.runs(result)
    for each in ON_HOP_SUMS:
        assert guess_of(each, run.transcript.views(Role.SILO), run.public, run.knowledge) is None
    with pytest.raises(FglSecureError, check=about("k_min")):
        METHOD.plan(inside, ["relay-coded"])


def test_sums_have_room_unless_a_field_was_chosen() -> None:
    """The default field holds sums of several hops; a field of the caller's own stays."""
    graph = attached()
    schemes = ("relay-coded", "relay-coded[T=2]", "relay-coded[p=524287]")
    named = [subject.name for subject in METHOD.plan(graph, schemes).subjects]
    numbers = ("p=2305843009213693951", "p=2305843009213693951,T=2", "p=524287")
    assert named == [f"relay-coded[{each},graph-shown]" for each in numbers]
