"""FedStruct trains alike under every exchange, and says only what the exchange says."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import (
    AuditRule,
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    Pruning,
    RowExchange,
)
from fgl_secure.methods.fedstruct.preset import FedStructPreset, Stepping, fedstruct_preset
from fgl_secure.methods.fedstruct.program import FedStructTask, client_features, clients_of
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import helpers_of, hierarchy_of
from tests.error_codes import about
from tests.graphs import two_communities

MASKS = PairwiseMasking()
EXCHANGES: dict[str, Exchange] = {
    "plaintext": RowExchange(),
    "plaintext to owners": RowExchange(delivery=GradientDelivery.OWNER),
    "pairwise-masking": RowExchange(MASKS, MASKS),
    "masks to owners": RowExchange(MASKS, MASKS, delivery=GradientDelivery.OWNER),
    "ckks": RowExchange(Ckks(), MASKS),
    "queries": RowExchange(sharing=FeatureSharing.QUERIES, rule=None),
    "queries under masks": RowExchange(
        MASKS, MASKS, sharing=FeatureSharing.QUERIES, delivery=GradientDelivery.OWNER, rule=AuditRule(1.0, 1)
    ),
    "hopwise": HopwiseExchange(Plaintext()),
    "hopwise over relays": HopwiseExchange(RelayCoded(k_min=1, profile=Profile.SHOWN), MASKS),
}
HOPWISE = ("hopwise", "hopwise over relays")


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=60, silos=3)


@pytest.fixture(scope="module")
def preset() -> FedStructPreset:
    return replace(
        fedstruct_preset("honest", "Cora"), epochs=4, hops=3, kept=None, structure_width=8, structure_hidden=(8,),
        feature_hidden=(8,), dropout=0.3, learning_rate=0.05, structure_rate=0.05,
    )  # fmt: skip


def trained(
    graph: FederatedGraph, preset: FedStructPreset, exchange: Exchange, features: str = "hop2vec"
) -> TrainingResult:
    parties = hierarchy_of(graph, helpers_of(exchange.schemes.values()))
    channel = Channel(parties, SimulationCoins(0), Recording.everything(1))
    return clients_of(graph, FedStructTask(preset, exchange, features=features)).train(channel)


@pytest.mark.parametrize("name", EXCHANGES)
def test_losses_are_those_of_the_exchange_in_the_clear(
    graph: FederatedGraph, preset: FedStructPreset, name: str
) -> None:
    """With equal seeds every round's loss agrees up to fixed point, and so does the accuracy."""
    clear, other = trained(graph, preset, EXCHANGES["plaintext"]), trained(graph, preset, EXCHANGES[name])
    assert np.allclose(other.losses, clear.losses, atol=2e-3)
    assert other.accuracy.test is not None
    assert clear.accuracy.test is not None
    assert abs(other.accuracy.test - clear.accuracy.test) <= 1 / 15


@pytest.mark.parametrize("name", ["ckks", "queries", "hopwise over relays"])
def test_filters_direct_features_and_descent_train_under_every_exchange(
    graph: FederatedGraph, preset: FedStructPreset, name: str
) -> None:
    """Weights of all powers, Eq. 15 and gradient descent, as in the clear; each changes what is trained."""
    whole = replace(
        preset, betas=(1.0, -0.5, 0.0, 0.5), structure_hidden=None, stepping=Stepping.DESCENT, learning_rate=0.5
    )
    clear, other = trained(graph, whole, EXCHANGES["plaintext"]), trained(graph, whole, EXCHANGES[name])
    assert np.allclose(other.losses, clear.losses, atol=2e-3)
    for change in ({"betas": None}, {"structure_hidden": (8,)}, {"stepping": Stepping.ADAM}):
        assert not np.allclose(trained(graph, replace(whole, **change), EXCHANGES["plaintext"]).losses, clear.losses)


def test_an_audit_that_refuses_changes_the_run(graph: FederatedGraph, preset: FedStructPreset) -> None:
    """The broken twin of agreement: queries that are refused are missing from the embeddings."""
    strict = RowExchange(sharing=FeatureSharing.QUERIES, rule=AuditRule(0.3, 3))
    clear, other = trained(graph, preset, EXCHANGES["plaintext"]), trained(graph, preset, strict)
    assert not np.allclose(other.losses, clear.losses, atol=2e-3)


@pytest.mark.parametrize("name", EXCHANGES)
def test_parties_see_what_the_exchange_shows_them(graph: FederatedGraph, preset: FedStructPreset, name: str) -> None:
    """Single terms, shared features, gradients at the server and rows of powers are seen where they should be only."""
    exchange, transcript = EXCHANGES[name], trained(graph, preset, EXCHANGES[name]).transcript
    clients, server = transcript.views(Role.SILO), transcript.views(Role.SERVER)
    rows = isinstance(exchange, RowExchange)
    shared = isinstance(exchange, RowExchange) and exchange.sharing is FeatureSharing.SHARED
    clear = isinstance(exchange, RowExchange) and exchange.terms is None
    to_server = isinstance(exchange, RowExchange) and exchange.delivery is GradientDelivery.SERVER
    assert bool(clients.messages(Phase.HOP_ENTRIES)) == clear
    assert bool(clients.own("hop rows")) == bool(clients.own("combined rows")) == rows
    assert bool(clients.messages(Phase.STRUCTURE_FEATURES)) == bool(clients.own("shared features")) == shared
    assert bool(server.own("structure gradient sum")) == to_server
    assert bool(server.messages(Phase.VECTORS)) == (exchange.gradients is None)
    assert not {batch.phase for batch in transcript.messages} & {Phase.CORRECT, Phase.GRADIENT}


@pytest.mark.parametrize("features", ["degree", "fedstar", "graphlet", "node2vec"])
def test_fixed_features_train_too(graph: FederatedGraph, preset: FedStructPreset, features: str) -> None:
    """Features that are not learnt are shared once, and no gradient of them is sent."""
    chosen = replace(preset, structure_width=64, epochs=1)
    run = trained(graph, chosen, EXCHANGES["plaintext"], features).transcript
    assert sum(batch.phase is Phase.STRUCTURE_FEATURES for batch in run.messages) == 1
    assert not run.views(Role.SERVER).own("structure gradient sum")


def test_honest_features_come_from_what_a_client_knows(graph: FederatedGraph, preset: FedStructPreset) -> None:
    """Degrees are those of the whole graph, which a client knows; return probabilities change with foreign edges."""
    chosen = replace(preset, structure_width=64)
    published = replace(chosen, name="paper")
    assert np.array_equal(client_features(graph, chosen, "degree", 0), client_features(graph, published, "degree", 0))
    local, whole = (client_features(graph, each, "fedstar", 0) for each in (chosen, published))
    assert not np.allclose(local, whole)


@pytest.mark.parametrize("pruning", [Pruning.SHARES, Pruning.MATRIX])
def test_pruned_exchanges_train(graph: FederatedGraph, preset: FedStructPreset, pruning: Pruning) -> None:
    """Both ways of pruning leave something to train on, masked and in the clear alike."""
    chosen = replace(preset, kept=4)
    clear, masked = (
        trained(graph, chosen, RowExchange(terms, pruning=pruning)).accuracy.test for terms in (None, MASKS)
    )
    assert clear is not None
    assert masked is not None
    assert abs(clear - masked) <= 2 / 15


def test_one_client_alone_is_refused(graph: FederatedGraph, preset: FedStructPreset) -> None:
    """Without a second client there is nobody to exchange with."""
    with pytest.raises(InputError, check=about("silos")):
        trained(graph.in_one_silo(), preset, RowExchange())
