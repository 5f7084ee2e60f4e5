from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.codes import Differences, SharedMask
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery
from fgl_secure.runtime import PAYLOAD, Phase, ReceivedRows, Role
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.message_passing.test_fresh_masks import fresh_masks
from tests.attacks.recorded import random_graph, record, secmp, whole_numbers


class TestSharedMask(AttackConformance):
    attack: Attack[tuple[Differences, ...], Any] = SharedMask()
    rests_on = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}), frozenset({Phase.PARAMETERS}))

    def claims(self, guess: tuple[Differences, ...]) -> Claims:
        return Counter(
            (each.step, int(first), int(second), tuple(values.tolist()))
            for each in guess
            for first, second, values in zip(each.first, each.second, each.values, strict=True)
        )

    def test_rests_on_messages(self) -> None:
        """Without codes, decoded sums or points nothing is claimed; lost parameters end the published scheme."""
        everything = self.read(self.run())
        assert everything
        view = self.run().transcript.views(Role.DEVICE)
        for (phase,) in self.rests_on:
            without = replace(view, received=tuple(rows for rows in view.received if rows.phase is not phase))
            assert not self.read(self.run(), without)

    def test_observers_attack_alone(self) -> None:
        """What devices claim side by side is what each claims alone."""
        assert self.read(self.run()) == self.read_one_by_one(self.run())

    @pytest.mark.parametrize(("modulus", "T"), [(p, T) for p in (11, 101, MERSENNE_31) for T in (1, 2, 4)])
    def test_is_exact(self, modulus: int, T: int) -> None:
        """Every device that is handed points reads the difference of each two neighbours in a row of identifiers."""
        graph = random_graph(modulus % 7 + T, directed=False)
        values = whole_numbers(graph.num_devices, 5, largest=5 if modulus == 11 else 50)
        run = record(graph, secmp(modulus, T, MuDelivery.TARGET), values)
        heard: dict[int, list[int]] = {}
        for source, target in messages_of(graph):
            heard.setdefault(target, []).append(source)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        pairs = [pair for sources in heard.values() for pair in pairwise(sorted(sources))]
        expected = Counter(
            (first + v, first + w, tuple(int(x) % modulus for x in values[v] - values[w])) for v, w in pairs
        )
        assert expected
        claimed = Counter(claim[1:] for claim in self.read(run).elements() if isinstance(claim, tuple))
        assert claimed == expected

    def test_needs_no_mask_and_no_second_code(self) -> None:
        """With masks and all codes but the first replaced by zeros the claims stay the same."""
        graph = random_graph(3, directed=False)
        run = record(graph, secmp(MERSENNE_31, 2), whole_numbers(graph.num_devices, 6, 1000))
        view = run.transcript.views(Role.DEVICE)

        def bare(rows: ReceivedRows) -> ReceivedRows:
            payload = np.asarray(rows.payload)
            if rows.phase is Phase.PARAMETERS:
                return replace(rows, fields={PAYLOAD: np.where(np.arange(payload.shape[1]) < 6, payload, 0)})
            return (
                replace(rows, fields={PAYLOAD: payload * (np.arange(3) == 0)[:, None]})
                if rows.phase is Phase.CODES
                else rows
            )

        assert self.read(run)
        assert self.read(run, replace(view, received=tuple(map(bare, view.received)))) == self.read(run)

    def test_fresh_masks_stop_it(self) -> None:
        """Codes with masks of their own give no difference away."""
        run = fresh_masks(MERSENNE_31, 1, 2, parameters=True)
        guess = self.attack.infer(run.transcript.views(Role.DEVICE), run.public)
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.n > 20
        assert found.value == 0

    def test_leaves_other_schemes_alone(self) -> None:
        """Where no codes are sent there is no guess."""
        graph = random_graph(0, directed=False)
        run = record(graph, Plaintext(), whole_numbers(graph.num_devices, 3, 9))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None
