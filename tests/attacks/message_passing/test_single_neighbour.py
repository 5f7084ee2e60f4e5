from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.sums import (
    SingleNeighbourAtDevice,
    SingleNeighbourAtSilo,
)
from fgl_secure.attacks.recovery import ClaimedTerms
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery
from fgl_secure.protocols.secmp.claim import PUBLISHED_CLAIM
from fgl_secure.runtime import Guarantee, Phase, Role, View
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.recorded import Run, both_ways, federated, random_graph, record, secmp, star_and_path, whole_numbers


class SingleNeighbour(AttackConformance):
    """What both observers of sums over one neighbour keep."""

    def claims(self, guess: ClaimedTerms) -> Claims:
        return Counter(
            (int(target), tuple(value.tolist())) for target, value in zip(guess.targets, guess.values, strict=True)
        )

    @pytest.mark.parametrize("modulus", [101, MERSENNE_31])
    @pytest.mark.parametrize("T", [1, 2, 4])
    @pytest.mark.parametrize("delivery", MuDelivery)
    def test_reads_leaves_and_path_ends(self, modulus: int, T: int, delivery: MuDelivery) -> None:
        """On a star and a path the four leaves show the centre's row, the two ends the middle's, and nobody else."""
        rows = np.array([[10.0 + node, -1.0 - node, 7.0] for node in range(9)])
        run = record(star_and_path(), secmp(modulus, T, delivery), rows)
        devices = run.transcript.parties.ids(Role.DEVICE)
        centre, middle = (10, modulus - 1, 7), (16, modulus - 7, 7)
        neighbour = {1: centre, 2: centre, 3: centre, 4: centre, 5: middle, 7: middle}
        assert self.read(run) == Counter((int(devices[node]), row) for node, row in neighbour.items())

    def test_exposes_six_of_nine_devices(self) -> None:
        """Four leaves and two path ends of nine devices have one neighbour: 6/9 is reachable, and found."""
        run = record(star_and_path(), secmp(MERSENNE_31), whole_numbers(9, 8, 1000))
        guess = self.attack.infer(run.transcript.views(self.attack.card.observer), run.public)
        assert guess is not None
        exact, share = self.attack.score(guess, run.truth)
        assert (exact.value, exact.n, exact.context) == (1, 6, False)
        assert share.value == pytest.approx(6 / 9)
        assert share.reachable == pytest.approx(6 / 9)
        assert (share.n, share.context) == (9, True)
        assert share.finding.endswith("6 of 9 devices are exposed so.")

    @pytest.mark.parametrize("seed", range(5))
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

    def test_leaves_other_schemes_alone(self) -> None:
        """Where no codes are sent there is no guess."""
        run = record(star_and_path(), Plaintext(), whole_numbers(9, 3, 9))
        assert self.attack.infer(run.transcript.views(self.attack.card.observer), run.public) is None

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
    attack: Attack[ClaimedTerms, Any] = SingleNeighbourAtDevice()
    rests_on = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}))

    def test_contradicts_nothing(self) -> None:
        """The paper declares this leak, so finding it breaks no promise."""
        assert _broken_by(self.attack) is None


class TestSingleNeighbourAtSilo(SingleNeighbour):
    attack: Attack[ClaimedTerms, Any] = SingleNeighbourAtSilo()
    rests_on = (frozenset({Phase.AGGREGATE}),)

    def test_contradicts_what_silos_are_promised_not_to_see(self) -> None:
        """The paper promises that silos see sums only, so reading a single embedding breaks that promise."""
        broken = _broken_by(self.attack)
        assert broken is not None
        assert "silo" in broken.statement

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
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        exact, share = self.attack.score(guess, run.truth)
        assert len(guess.targets) == 1
        assert (exact.value, share.value) == (0, 0)
        assert exact.finding.startswith("0 of 1 sums")


def _star() -> Run:
    return record(star_and_path(), secmp(MERSENNE_31), whole_numbers(9, 8, 1000))


def _broken_by(attack: Attack[ClaimedTerms, Any]) -> Guarantee | None:
    card = attack.card
    return PUBLISHED_CLAIM.broken_by(card.secret, card.coalition, card.circumstance)
