from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.relays import Differences, ShareDifferences, SingleShares
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import send_carelessly
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, random_graph, record, whole_numbers


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


@pytest.mark.parametrize("each", [SingleShares(), ShareDifferences()])
def test_unnamed_senders_leave_nothing_to_say(each: Attack[Any, Any]) -> None:
    """Where silos forward, a relay cannot say whose row a share would be."""
    graph = random_graph(3, directed=False, pairs=30)
    run = record(graph, RelayCoded(k_min=1, profile=Profile.HIDDEN), whole_numbers(graph.num_devices, 4, largest=9))
    assert each.infer(run.transcript.views(Role.RELAY), run.public) is None
