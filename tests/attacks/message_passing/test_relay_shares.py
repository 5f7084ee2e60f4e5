from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.codes import Differences, ShareDifferences, SingleShares, are_differences
from fgl_secure.attacks.message_passing.scope import MessageTruth
from fgl_secure.attacks.recovery import UNNAMED, RecoveredRows
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import send_carelessly
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.ideal_cryptography import IdealCryptography
from fgl_secure.protocols.topology import Ids
from fgl_secure.runtime import Channel, Draws, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, random_graph, record, whole_numbers
from tests.protocols.relay_coded.twins import OneForAllSenders


def careless(
    graph: FederatedGraph,
    values: NDArray[np.float64],
    loss: Loss | None,
    recording: Recording | None,
    *,
    masked: bool,
) -> Run:
    """Shares at a relay of senders that use one mask, or none."""
    scheme = RelayCoded(R=3, k_min=1, profile=Profile.SHOWN)
    channel = Channel(
        hierarchy_of(graph, scheme.helpers), SimulationCoins(0), recording or Recording.everything(), loss
    )
    send_carelessly(channel, scheme, graph, values, masked=masked)
    return Run(graph, scheme.public, channel.transcript, MessageTruth.of(channel.transcript, graph))


class TestSingleShares(AttackConformance):
    attack: Attack[tuple[RecoveredRows, ...], Any] = SingleShares()
    rests_on = (frozenset({Phase.SHARES}),)

    def claims(self, guess: tuple[RecoveredRows, ...]) -> Claims:
        return Counter(
            (each.step, sender, tuple(row.tolist()))
            for each in guess
            for sender, row in zip(each.senders.tolist(), each.values, strict=True)
        )

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return careless(graph, values, loss, recording, masked=False)


class TestShareDifferences(AttackConformance):
    attack: Attack[tuple[Differences, ...], Any] = ShareDifferences()
    rests_on = (frozenset({Phase.SHARES}),)

    def claims(self, guess: tuple[Differences, ...]) -> Claims:
        return Counter(
            (each.step, int(first), int(second), tuple(values.tolist()))
            for each in guess
            for first, second, values in zip(each.first, each.second, each.values, strict=True)
        )

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return careless(graph, values, loss, recording, masked=True)


@pytest.mark.parametrize("each", [SingleShares(), ShareDifferences()])
@pytest.mark.parametrize("T", [1, 2])
def test_the_scheme_gives_them_nothing(each: Attack[Any, Any], T: int) -> None:
    """Under relay-coded with masks of its own for every message not one row and not one difference is right."""
    graph = random_graph(3, directed=False, pairs=30)
    run = record(
        graph, RelayCoded(T=T, R=T + 1, k_min=1, profile=Profile.SHOWN), whole_numbers(graph.num_devices, 4, largest=9)
    )
    guess = each.infer(run.transcript.views(Role.RELAY), run.public)
    assert guess is not None
    assert [found.value for found in each.score(guess, run.truth)] == [0.0]


class Unmasked(IdealCryptography):
    """Masks of zero."""

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        return [np.zeros_like(mask) for mask in super().drawn_masks(draws, step, senders, width)]


@pytest.mark.parametrize(
    ("each", "cryptography", "share"),
    [
        (SingleShares(), IdealCryptography, 0.0),
        (ShareDifferences(), IdealCryptography, 0.0),
        (SingleShares(), Unmasked, 1.0),
        (ShareDifferences(), OneForAllSenders, 1.0),
    ],
)
def test_rows_of_unnamed_senders(each: Attack[Any, Any], cryptography: type[IdealCryptography], share: float) -> None:
    """Where silos forward, a relay says what rows there are: none under the scheme, all under its broken twins."""
    graph = random_graph(3, directed=False, pairs=30)
    scheme = RelayCoded(k_min=1, max_degree=24, profile=Profile.HIDDEN, cryptography=cryptography)
    run = record(graph, scheme, whole_numbers(graph.num_devices, 4, largest=9))
    guess = each.infer(run.transcript.views(Role.RELAY), run.public)
    assert guess is not None
    names = [one.senders if isinstance(one, RecoveredRows) else one.first for one in guess]
    assert all(bool((each == UNNAMED).all()) for each in names)
    (found,) = each.score(guess, run.truth)
    sending = len(np.unique(graph.edges[0])) / graph.num_devices  # one device has no neighbour, and sends covers alone
    assert found.value == share * (sending if each.card.name == "single-shares" else 1)
    assert found.n >= graph.num_devices


@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 5), rows=st.integers(1, 12))
def test_differences_are_those_of_two_rows_or_rows(seed: int, width: int, rows: int) -> None:
    """Every difference is found, by a count of all pairs, and nothing that is none."""
    field, rng = PrimeField(2**31 - 1), np.random.default_rng(seed)
    known = rng.integers(0, 3, (rows, width))
    values = rng.integers(-2, 3, (20, width)) % field.modulus
    among = np.concatenate([known, np.zeros((1, width), dtype=np.int64)])
    every = {tuple(((a - b) % field.modulus).tolist()) for a in among for b in among}
    assert are_differences(values, known, field).tolist() == [tuple(one.tolist()) in every for one in values]
