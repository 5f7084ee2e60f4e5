from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.sums import CHOSEN, UNKNOWN, seen_sums
from fgl_secure.attacks.recovery import ClaimedTerms, Recovered, RecoveredRows
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.programs import public_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.audit_runs import Absence, Deviation, deviating_run, sum_in_rounds
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step, View
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import claimed_rows, messages_of
from tests.attacks.recorded import (
    Run,
    both_ways,
    federated,
    random_graph,
    record,
    secmp,
    star_and_path,
    whole_numbers,
    words,
)

SCHEMES: tuple[Scheme, ...] = (
    Plaintext(),
    Plaintext(Path.SILO),
    SecretMessagePassing(T=3),
    RelayCoded(T=2, R=4, k_min=1, profile=Profile.SHOWN),
    RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=8),  # room for all neighbours that nine devices may have
)
EVERY = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda each: f"{each.name}")


def expected(run: Run) -> dict[int, tuple[int, tuple[float, ...]]]:
    """By target: how many rows its sum has, and the sum of what its neighbours put in."""
    (secret,) = run.transcript.secrets()
    first, modulus = int(run.transcript.parties.ids(Role.DEVICE)[0]), run.public.modulus
    sums = {}
    for target in np.unique(run.graph.edges[1]).tolist():
        rows = secret.values[run.graph.edges[0, run.graph.edges[1] == target]]
        total = rows.astype(np.int64).sum(axis=0) % modulus if modulus else rows.sum(axis=0)
        sums[first + target] = (len(rows), tuple(total.tolist()))
    return sums


@EVERY
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_devices_have_the_sums_of_every_scheme(scheme: Scheme, seed: int) -> None:
    """Whichever way a sum is computed, its target ends up with it, and with the number of its rows but by way of silos.

    Padding counts as rows under a hidden graph.
    """
    graph = random_graph(seed, directed=False, devices=9, pairs=10)
    run = record(graph, scheme, whole_numbers(9, 3, 9, seed))
    (sums,) = seen_sums(run.transcript.views(Role.DEVICE), run.public, Role.DEVICE)
    found = dict(zip(sums.targets.tolist(), map(tuple, sums.values.tolist()), strict=True))
    wanted = expected(run)
    assert {target: found[target] for target in wanted} == {target: total for target, (_, total) in wanted.items()}
    terms = dict(zip(sums.targets.tolist(), sums.terms.tolist(), strict=True))
    if scheme.name == "plaintext[path=silo]":
        assert set(terms.values()) == {UNKNOWN}
    elif not (isinstance(scheme, RelayCoded) and scheme.anonymous):
        assert {target: terms[target] for target in wanted} == {target: k for target, (k, _) in wanted.items()}


@pytest.mark.parametrize("T", [1, 4])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_silos_decode_and_count(T: int, seed: int) -> None:
    """Silos decode the sums of their devices, and their masks tell them how many rows are in each."""
    graph = random_graph(seed, directed=True, devices=9, pairs=14)
    run = record(graph, SecretMessagePassing(T=T), whole_numbers(9, 3, 9, seed))
    (sums,) = seen_sums(run.transcript.views(Role.SILO), run.public, Role.SILO)
    found = zip(sums.targets.tolist(), sums.terms.tolist(), map(tuple, sums.values.tolist()), strict=True)
    assert {target: (k, total) for target, k, total in found} == expected(run)


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

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        present = np.random.default_rng(1).random((4, graph.num_devices)) < 0.7
        return in_rounds(graph, SecretMessagePassing(), values, present, **network)

    @given(st.integers(0, 10_000))
    @settings(max_examples=15)
    def test_reads_what_the_row_space_determines(self, seed: int) -> None:
        graph = random_graph(seed, directed=True, devices=9, pairs=20)
        present = np.random.default_rng(seed).random((3, 9)) < 0.6
        run = in_rounds(graph, SecretMessagePassing(), whole_numbers(9, 3, 9, seed), present)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        secret = run.truth.embeddings[Step(0, 0)]
        expected = Counter((first + s, first + t, tuple(secret[s].tolist())) for s, t in determined(graph, present))
        assert self.read(run) == expected


class TestDifferencingAtDevice(Differencing):
    attack: Attack[Guess, Any] = named("differencing-device")
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

    def test_what_a_loss_shows_where_the_graph_is_hidden(self) -> None:
        """Circuits are opened again without a silent device: the same target subtracts, as the page on limits says."""
        graph = federated(both_ways([(0, 1), (0, 2), (0, 3), (0, 4)]), np.arange(5) % 2)
        present = np.ones((2, 5), dtype=np.bool_)
        present[1, 2] = False
        run = in_rounds(graph, RelayCoded(k_min=1, max_degree=4), whole_numbers(5, 3, 9), present)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        secret = run.truth.embeddings[Step(0, 0)]
        assert self.read(run)[(first + 2, first, tuple(secret[2].tolist()))] == 1


class TestDifferencingAtSilo(Differencing):
    attack: Attack[Guess, Any] = named("differencing-silo")
    rests_on = (frozenset({Phase.AGGREGATE}),)


class SingleNeighbour(AttackConformance):
    """What both observers of sums over one neighbour keep."""

    def claims(self, guess: ClaimedTerms) -> Claims:
        return Counter(
            (int(target), tuple(value.tolist())) for target, value in zip(guess.targets, guess.values, strict=True)
        )

    @pytest.mark.parametrize(
        ("modulus", "T", "delivery"), [(101, 4, MuDelivery.SILO), (MERSENNE_31, 2, MuDelivery.TARGET)]
    )
    def test_reads_leaves_and_path_ends(self, modulus: int, T: int, delivery: MuDelivery) -> None:
        """On a star and a path the four leaves show the centre's row, the two ends the middle's, and nobody else."""
        rows = np.array([[10.0 + node, -1.0 - node, 7.0] for node in range(9)])
        run = record(star_and_path(), secmp(modulus, T, delivery), rows)
        devices = run.transcript.parties.ids(Role.DEVICE)
        centre, middle = (10, modulus - 1, 7), (16, modulus - 7, 7)
        neighbour = {1: centre, 2: centre, 3: centre, 4: centre, 5: middle, 7: middle}
        assert self.read(run) == Counter((int(devices[node]), row) for node, row in neighbour.items())

    @pytest.mark.parametrize("seed", range(2))
    def test_matches_a_count_of_messages_on_directed_graphs(self, seed: int) -> None:
        """The devices that are read are those that receive one message, and the row is its sender's."""
        graph = random_graph(seed, directed=True)
        rows = whole_numbers(graph.num_devices, 8, 1000, seed)
        run = record(graph, secmp(MERSENNE_31), rows)
        devices = run.transcript.parties.ids(Role.DEVICE)
        heard: dict[int, list[int]] = {}
        for source, target in messages_of(graph):
            heard.setdefault(target, []).append(source)
        expected = Counter(
            (int(devices[target]), tuple(int(value) % MERSENNE_31 for value in rows[sources[0]]))
            for target, sources in heard.items()
            if len(sources) == 1
        )
        assert expected
        assert self.read(run) == expected

    def test_finds_nobody_on_a_ring(self) -> None:
        """Where every device has two neighbours nothing is claimed and nothing is reachable."""
        ring = np.arange(8)
        graph = federated(both_ways(np.stack([ring, (ring + 1) % 8], axis=1)), ring % 2)
        run = record(graph, secmp(MERSENNE_31), whole_numbers(8, 4, 50))
        guess = self.attack.infer(run.transcript.views(self.attack.card.observer), run.public)
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert not self.claims(guess)
        assert (found.value, found.reachable, found.interval.low) == (0, 0, 0)


class TestSingleNeighbourAtDevice(SingleNeighbour):
    attack: Attack[ClaimedTerms, Any] = named("single-neighbour-device")
    rests_on = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}))


class TestSingleNeighbourAtSilo(SingleNeighbour):
    attack: Attack[ClaimedTerms, Any] = named("single-neighbour-silo")
    rests_on = (frozenset({Phase.AGGREGATE}),)

    def test_needs_its_own_masks(self) -> None:
        """A silo that had not drawn the masks itself could not tell one code from a sum of several."""
        run = _star()
        view = run.transcript.views(Role.SILO)
        bare = View(view.name, view.parties, view.received, tuple(rows for rows in view.private if rows.name != "z"))
        assert self.read(run)
        assert self.attack.infer(bare, run.public) is None

    def test_twelve_codes_look_like_one_in_the_papers_field(self) -> None:
        """In F_11 a sum of twelve codes carries the mask once: the silo claims it, and the score calls it wrong."""
        graph = federated(np.stack([np.arange(1, 13), np.zeros(12, dtype=np.int64)]), np.arange(13) % 2)
        run = record(graph, secmp(11), whole_numbers(13, 16, 5))
        guess = self.guess(run)
        exact, share = self.attack.score(guess, run.truth)
        assert len(guess.targets) == 1
        assert (exact.value, share.value) == (0, 0)
        assert exact.finding.startswith("0 of 1 sums")


def _star() -> Run:
    return record(star_and_path(), secmp(MERSENNE_31), whole_numbers(9, 8, 1000))


class TestMaliciousSingleNeighbour(AttackConformance):
    attack: Attack[Recovered, Any] = named("malicious-single-neighbour")
    rests_on = (frozenset({Phase.DECODED}),)

    def claims(self, guess: Recovered) -> Claims:
        return claimed_rows(guess)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        scheme, deviation = SecretMessagePassing(), Deviation()
        kept = network.get("recording") or Recording.everything()
        channel = Channel(hierarchy_of(graph), SimulationCoins(0), kept, network.get("loss"), deviation)
        exchange(graph, scheme, channel, values)
        if len(deviation.devices):
            channel.note_inputs(CHOSEN, Step(0, 0), deviation.devices, deviation.chosen)
        truth = MessageTruth.of(channel.transcript, graph)
        return Run(graph, public_of(scheme, graph), channel.transcript, truth)

    def test_reads_one_neighbour_of_every_device_with_several(self) -> None:
        graph = random_graph(5, directed=True)
        run = self.exchange(graph, words(24, 16))
        heard: dict[int, list[int]] = {}
        for source, target in messages_of(graph):
            heard.setdefault(target, []).append(source)
        first, secret = int(run.transcript.parties.ids(Role.DEVICE)[0]), run.truth.embeddings[Step(0, 0)]
        chosen = [min(sources) for sources in heard.values() if len(sources) > 1]
        assert self.read(run) == Counter((Step(0, 0), first + s, tuple(secret[s].tolist())) for s in chosen)

    def test_devices_that_keep_to_the_protocol_read_nothing(self) -> None:
        """In a run without deviation there is no guess."""
        run = record(star_and_path(), SecretMessagePassing(), words(9, 4))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)])
def test_nobody_deviates_where_silos_decode_nothing(scheme: Plaintext | RelayCoded) -> None:
    """The deviating run exists for schemes in which a device hands something over to be decoded."""
    assert deviating_run(scheme, star_and_path(), 0) is None
