"""Fed2GNN on the command line: choices, claims, audits."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from fgl_secure.attacks.base import Attack, guess_of
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import TreeTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import FglSecureError
from fgl_secure.graph import Data, FederatedGraph, Graph, SplitMasks
from fgl_secure.methods import Fed2GNN
from fgl_secure.methods.fed2gnn.audit_runs import along_communities, trained_hops
from fgl_secure.methods.fed2gnn.audit_target import claim_of
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


def test_the_reference_follows_communities() -> None:
    """Of the reference, as its name says; most of its edges stay at home."""
    graph = along_communities(nx.random_regular_graph(3, 90, seed=0), 2)
    assert graph.partition == "louvain"
    assert graph.crosses_silos.mean() < 0.4


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


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of both demonstrated protocols on a small graph of the caller's own, over few rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fgl_secure.methods.fed2gnn.audit_target.fed2gnn_preset", lambda *_: QUICK)
        return audit(METHOD, attached(), device="cpu", command="fgl-secure audit fed2gnn")


def _figures(report: Report, protocol: str) -> dict[tuple[str, str], float]:
    chosen = [record for record in report.records if record.protocol.startswith(protocol)]
    return {(record.attack, record.metric): record.value for record in chosen}


def test_both_protocols_are_demonstrated(report: Report) -> None:
    """A protocol in the clear and one that hides messages, in that order."""
    assert [name.split("[")[0] for name in report.claims] == list(Fed2GNN.demonstrated)


def test_single_neighbours_are_read_in_the_clear_and_not_under_the_scheme(report: Report) -> None:
    """The scheme refuses sums over fewer than three clients: no sum is one node's row."""
    clear, hidden = _figures(report, "plaintext"), _figures(report, "relay-coded")
    name = ("hop-feature-single", "nodes with one at a client")
    assert clear["hop-feature-single", "exact recovery"] == 1
    assert clear[name] > 0.5
    assert hidden[name] == 0
    assert ("hop-feature-single", "exact recovery") not in hidden


def test_what_remains_under_the_scheme_is_declared(report: Report) -> None:
    """Nothing that is found contradicts a claim: what subtraction tells is named in it, and is less than before."""
    assert not report.contradictions
    name = ("hop-feature-topology", "nodes exposed")
    clear, hidden = _figures(report, "plaintext"), _figures(report, "relay-coded")
    assert hidden.get(name, 0.0) < clear[name] / 4


def test_verdicts_come_with_controls(report: Report) -> None:
    """Every measured finding has a positive and a null control that hold."""
    measured = [record for record in report.records if record.verdict is not Verdict.CONTEXT]
    assert measured
    assert all(record.controls_hold for record in measured)


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
    assert hidden.broken_by(Secret.NODE_FEATURES, client, SINGLE) is not None
    assert hidden.broken_by(Secret.NODE_FEATURES, client, SUBTRACTED) is None
    assert hidden.broken_by(Secret.FOREIGN_EDGE, client, Circumstance.ANY) is None
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
    ("choice", "rule"),
    [
        ({"hops": 0}, "hops"),
        ({"neighbours": 0}, "neighbours"),
        ({"backbone": "sgc"}, "backbone"),
        ({"preset": "magic"}, "preset"),
    ],
    ids=str,
)
def test_bad_choices_are_refused_when_they_are_made(choice: dict[str, Any], rule: str) -> None:
    with pytest.raises(FglSecureError, check=about(rule)):
        Fed2GNN(**choice)


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


def test_least_sums_are_looked_for_among_sampled_neighbours() -> None:
    """A node that asks about one neighbour has it at one client, and no sum over three."""
    graph = attached()
    with pytest.raises(FglSecureError, check=about("k_min")):
        Fed2GNN(neighbours=1).plan(graph, ["relay-coded"])
    assert Fed2GNN(neighbours=10).plan(graph, ["relay-coded"]).subjects


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


def test_models_are_masked_where_messages_are_hidden() -> None:
    """Unless a scheme is named for them; one that is named alone, for models, stands beside the usual one."""
    masked = {
        ("plaintext", "relay-coded"): [False, True],
        ("plaintext,server=lightsecagg", "relay-coded,server=plaintext"): [True, False],
        ("lightsecagg",): [True],
    }
    for schemes, expected in masked.items():
        claims = [each.claims[each.name] for each in METHOD.plan(attached(), schemes).subjects]
        assert [any(g.secret is Secret.SUMMAND for g in claim.guarantees) for claim in claims] == expected


def test_runs_are_named_after_both_schemes() -> None:
    """Where models are added up under another scheme than goes with the one for hop sums, the name has both."""
    schemes = ("plaintext", "server=lightsecagg", "plaintext,server=lightsecagg", "plaintext,server=pairwise-masking")
    relay = "relay-coded[p=2305843009213693951,graph-shown]"
    assert [each.name for each in METHOD.plan(attached(), schemes).subjects] == [
        "plaintext",
        f"neighbours={relay},server=lightsecagg",
        "neighbours=plaintext,server=lightsecagg",
        "neighbours=plaintext,server=pairwise-masking",
    ]


def test_trees_are_as_asked() -> None:
    """Depth and breadth reach the exchange."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fgl_secure.methods.fed2gnn.audit_target.fed2gnn_preset", lambda *_: QUICK)
        plan = Fed2GNN(epochs=1, hops=3, neighbours=2).plan(attached(), ["plaintext"])
    result = plan.subjects[0].train(recording=Recording.everything(1))
    run = next(iter(plan.subjects[0].runs(result)))
    assert len({rows.step.layer for rows in run.transcript.views(Role.SILO).own("hop sums")}) == 3
    asked = np.concatenate([rows.values for rows in run.transcript.views(Role.SILO).own("asked neighbours")])
    assert np.bincount(asked[:, 0]).max() == 2
