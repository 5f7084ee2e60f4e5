from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.scope import MessageTruth
from fgl_secure.attacks.message_passing.sums import DifferencingAtDevice, DifferencingAtSilo
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.auditing.programs import public_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.networks import Absence
from fgl_secure.methods.hifgl.scenarios import sum_in_rounds
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, both_ways, federated, random_graph, star_and_path, whole_numbers

Ints = NDArray[np.int64]
Guess = tuple[RecoveredRows, Ints]


def in_rounds(
    graph: FederatedGraph,
    scheme: Scheme,
    values: NDArray[np.float64],
    present: NDArray[np.bool_],
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """The same rows summed once for each row of `present` [rounds, n]."""
    absence = Absence(~present, graph.num_silos + 1)

    def arrives(phase: Phase, step: Step, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
        there = absence(phase, step, senders, receivers)
        return there if loss is None else there & loss(phase, step, senders, receivers)

    parties = hierarchy_of(graph, scheme.helpers)
    channel = Channel(parties, SimulationCoins(0), recording or Recording.everything(), arrives)
    sum_in_rounds(scheme, channel, graph, values, present)
    return Run(graph, public_of(scheme, graph), channel.transcript, MessageTruth.of(channel.transcript, graph))


def determined(graph: FederatedGraph, present: NDArray[np.bool_]) -> set[tuple[int, int]]:
    """Messages (source, target) whose unit vector is in the row space of who took part, in rational numbers."""
    found = set()
    for target in range(graph.num_devices):
        sources = graph.edges[0, graph.edges[1] == target]
        matrix = sympy.Matrix(present[:, sources].astype(int).tolist())
        reduced = matrix.rref()[0].tolist() if len(sources) else []
        for row in reduced:
            entries = [j for j, entry in enumerate(row) if Fraction(int(entry.p), int(entry.q))]
            if len(entries) == 1:
                found.add((int(sources[entries[0]]), target))
    return found


class Differencing(AttackConformance):
    """What both observers keep."""

    def claims(self, guess: Guess) -> Claims:
        rows, targets = guess
        return Counter(
            (int(sender), int(target), tuple(values.tolist()))
            for sender, target, values in zip(rows.senders, targets, rows.values, strict=True)
        )

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        present = np.random.default_rng(1).random((4, graph.num_devices)) < 0.7
        return in_rounds(graph, SecretMessagePassing(), values, present, loss, recording)

    @given(st.integers(0, 10_000))
    @settings(max_examples=15)
    def test_reads_what_the_row_space_determines(self, seed: int) -> None:
        """Exactly the messages that exact elimination determines are read, and read bit for bit."""
        graph = random_graph(seed, directed=True, devices=9, pairs=20)
        present = np.random.default_rng(seed).random((3, 9)) < 0.6
        run = in_rounds(graph, SecretMessagePassing(), whole_numbers(9, 3, 9, seed), present)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        secret = run.truth.embeddings[Step(0, 0)]
        expected = Counter((first + s, first + t, tuple(secret[s].tolist())) for s, t in determined(graph, present))
        assert self.read(run) == expected

    def test_two_rounds_by_hand(self) -> None:
        """A centre that hears four leaves, then three of them, has the fourth; without drop-outs it has none."""
        graph = star_and_path()
        values, everybody = whole_numbers(9, 3, 9), np.ones((2, 9), dtype=np.bool_)
        without = everybody.copy()
        without[1, 4] = False
        for present, leaves in ((everybody, set()), (without, {4})):
            run = in_rounds(graph, SecretMessagePassing(), values, present)
            first = int(run.transcript.parties.ids(Role.DEVICE)[0])
            at_centre = {claim[0] - first for claim in self.read(run) if claim[1] == first}  # type: ignore[index]
            assert at_centre == leaves

    def test_fresh_rows_cannot_be_subtracted(self) -> None:
        """If the rows differ from round to round, what the sums determine is nobody's row."""
        graph = star_and_path()
        present = np.ones((2, 9), dtype=np.bool_)
        present[1, 4] = False
        run = in_rounds(graph, SecretMessagePassing(), whole_numbers(9, 3, 9), present)
        other = in_rounds(graph, SecretMessagePassing(), whole_numbers(9, 3, 9, seed=5), present)
        first, second = (each.transcript for each in (run, other))
        first.messages[:] = [
            *(batch for batch in first.messages if batch.step.round == 0),
            *(batch for batch in second.messages if batch.step.round == 1),
        ]
        centre = int(first.parties.ids(Role.DEVICE)[0])
        secret = run.truth.embeddings[Step(0, 0)]
        wrong = [claim for claim in self.read(run) if claim[:2] == (centre + 4, centre)]  # type: ignore[index]
        assert wrong
        assert all(claim[2] != tuple(secret[4].tolist()) for claim in wrong)  # type: ignore[index]


class TestDifferencingAtDevice(Differencing):
    attack: Attack[Guess, Any] = DifferencingAtDevice()
    rests_on = (frozenset({Phase.DECODED}),)

    @pytest.mark.parametrize("k_min", [1, 3])
    def test_a_least_group_does_not_help(self, k_min: int) -> None:
        """A target of relays subtracts a sum over three neighbours from a sum over four."""
        graph = federated(both_ways([(0, 1), (0, 2), (0, 3), (0, 4)]), np.arange(5) % 2)
        present = np.ones((2, 5), dtype=np.bool_)
        present[1, 2] = False
        run = in_rounds(graph, RelayCoded(k_min=k_min, profile=Profile.SHOWN), whole_numbers(5, 3, 9), present)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        secret = run.truth.embeddings[Step(0, 0)]
        assert self.read(run)[(first + 2, first, tuple(secret[2].tolist()))] == 1

    def test_a_sum_that_lacks_a_message_is_nobodys_where_the_graph_is_hidden(self) -> None:
        """The same target has the sum of the round in which all were there, and nothing to subtract from it."""
        graph = federated(both_ways([(0, 1), (0, 2), (0, 3), (0, 4)]), np.arange(5) % 2)
        present = np.ones((2, 5), dtype=np.bool_)
        present[1, 2] = False
        run = in_rounds(graph, RelayCoded(k_min=1, max_degree=4), whole_numbers(5, 3, 9), present)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        pairs = {claim[:2] for claim in self.read(run)}  # type: ignore[index]
        assert pairs == {(first, first + leaf) for leaf in (1, 2, 3, 4)}


class TestDifferencingAtSilo(Differencing):
    attack: Attack[Guess, Any] = DifferencingAtSilo()
    rests_on = (frozenset({Phase.AGGREGATE}),)

    def test_silos_that_decode_nothing_have_nothing(self) -> None:
        """Where silos get no sums of devices there is no guess."""
        graph = star_and_path()
        run = in_rounds(
            graph, RelayCoded(k_min=1, profile=Profile.SHOWN), whole_numbers(9, 3, 9), np.ones((2, 9), dtype=np.bool_)
        )
        assert self.attack.infer(run.transcript.views(Role.SILO), run.public) is None
