"""FedStruct trains alike under every exchange, and says only what the exchange says."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
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
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import helpers_of, hierarchy_of
from tests.graphs import two_communities

MASKS = PairwiseMasking()
EXCHANGES: dict[str, Exchange] = {
    "plaintext": RowExchange(),
    "masks to owners": RowExchange(MASKS, MASKS, delivery=GradientDelivery.OWNER),
    "ckks": RowExchange(Ckks(), MASKS),
    "queries": RowExchange(sharing=FeatureSharing.QUERIES, rule=None),
    "queries under masks": RowExchange(
        MASKS, MASKS, sharing=FeatureSharing.QUERIES, delivery=GradientDelivery.OWNER, rule=AuditRule(1.0, 1)
    ),
    "hopwise over relays": HopwiseExchange(RelayCoded(k_min=1, profile=Profile.SHOWN), MASKS),
}
GRAPH = two_communities(devices=60, silos=3)
PRESET = replace(
    fedstruct_preset("honest", "Cora"), epochs=3, hops=3, kept=None, structure_width=8, structure_hidden=(8,),
    feature_hidden=(8,), dropout=0.3, learning_rate=0.05, structure_rate=0.05,
)  # fmt: skip
WHOLE = replace(
    PRESET, betas=(1.0, -0.5, 0.0, 0.5), structure_hidden=None, stepping=Stepping.DESCENT, learning_rate=0.5
)


@cache
def trained(name: str, preset: FedStructPreset = PRESET) -> TrainingResult:
    """A run under an exchange of a name, with everything of its first round recorded."""
    return run(EXCHANGES[name], preset)


def run(exchange: Exchange, preset: FedStructPreset = PRESET, features: str = "hop2vec") -> TrainingResult:
    channel = Channel(
        hierarchy_of(GRAPH, helpers_of(exchange.schemes.values())), SimulationCoins(0), Recording.everything(1)
    )
    return clients_of(GRAPH, FedStructTask(preset, exchange, features=features)).train(channel)


@pytest.mark.parametrize("name", EXCHANGES)
def test_losses_are_those_of_the_exchange_in_the_clear(name: str) -> None:
    """With equal seeds every round's loss agrees up to fixed point, and so does the accuracy."""
    clear, other = trained("plaintext"), trained(name)
    assert np.allclose(other.losses, clear.losses, atol=2e-3)
    assert other.accuracy.test is not None
    assert clear.accuracy.test is not None
    assert abs(other.accuracy.test - clear.accuracy.test) <= 1 / 15


@pytest.mark.parametrize("name", ["ckks", "queries", "hopwise over relays"])
def test_filters_direct_features_and_descent_train_under_every_exchange(name: str) -> None:
    """Weights of all powers, Eq. 15 and gradient descent, as in the clear."""
    assert np.allclose(trained(name, WHOLE).losses, trained("plaintext", WHOLE).losses, atol=2e-3)


@pytest.mark.parametrize("change", [{"betas": None}, {"structure_hidden": (8,)}, {"stepping": Stepping.ADAM}], ids=str)
def test_each_of_them_changes_what_is_trained(change: dict[str, Any]) -> None:
    assert not np.allclose(run(RowExchange(), replace(WHOLE, **change)).losses, trained("plaintext", WHOLE).losses)


def test_an_audit_that_refuses_changes_the_run() -> None:
    """The broken twin of agreement: queries that are refused are missing from the embeddings."""
    strict = RowExchange(sharing=FeatureSharing.QUERIES, rule=AuditRule(0.3, 3))
    assert not np.allclose(run(strict).losses, trained("plaintext").losses, atol=2e-3)


@pytest.mark.parametrize("name", EXCHANGES)
def test_parties_see_what_the_exchange_shows_them(name: str) -> None:
    """Single terms, shared features, gradients at the server and rows of powers are seen where they should be only."""
    exchange, transcript = EXCHANGES[name], trained(name).transcript
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


@pytest.mark.parametrize("features", ["degree", "fedstar"])
def test_fixed_features_train_too(features: str) -> None:
    """Features that are not learnt are shared once, and no gradient of them is sent."""
    sent = run(RowExchange(), replace(PRESET, structure_width=64, epochs=1), features).transcript
    assert sum(batch.phase is Phase.STRUCTURE_FEATURES for batch in sent.messages) == 1
    assert not sent.views(Role.SERVER).own("structure gradient sum")


def test_honest_features_come_from_what_a_client_knows() -> None:
    """Degrees are those of the whole graph, which a client knows; return probabilities change with foreign edges."""
    chosen = replace(PRESET, structure_width=64)
    published = replace(chosen, name="paper")
    assert np.array_equal(client_features(GRAPH, chosen, "degree", 0), client_features(GRAPH, published, "degree", 0))
    local, whole = (client_features(GRAPH, each, "fedstar", 0) for each in (chosen, published))
    assert not np.allclose(local, whole)


@pytest.mark.parametrize("pruning", [Pruning.SHARES, Pruning.MATRIX])
def test_pruned_exchanges_train(pruning: Pruning) -> None:
    """Both ways of pruning leave something to train on, masked and in the clear alike."""
    clear, masked = (
        run(RowExchange(terms, pruning=pruning), replace(PRESET, kept=4)).accuracy.test for terms in (None, MASKS)
    )
    assert clear is not None
    assert masked is not None
    assert abs(clear - masked) <= 2 / 15
