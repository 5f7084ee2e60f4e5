from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.codes import AllCodesOfOneSender, OneCodeAndMu
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery
from fgl_secure.runtime import PAYLOAD, Party, Phase, ReceivedRows, Role, View
from tests.attacks.conformance import AttackConformance, Claims, losing_of_even
from tests.attacks.message_passing.recovered import (
    claimed_rows,
    expected_rows,
    messages_of,
    readable_with_own_parameters,
    without_steps,
)
from tests.attacks.recorded import Run, random_graph, record, secmp, whole_numbers

FIELDS = [(p, T) for p in (11, 101, MERSENNE_31) for T in (1, 2, 4)]
NEEDED = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}))


class SingleMessages(AttackConformance):
    """What both breaks of single messages keep."""

    rests_on = NEEDED

    def claims(self, guess: Iterable[RecoveredRows]) -> Claims:
        return claimed_rows(guess)

    @pytest.mark.parametrize(("modulus", "T"), FIELDS)
    @pytest.mark.parametrize("delivery", MuDelivery)
    @pytest.mark.parametrize("directed", [False, True])
    def test_is_exact(self, modulus: int, T: int, delivery: MuDelivery, directed: bool) -> None:
        """Every message that a device can attack is read exactly, in small and large fields, with one mask or four."""
        graph = random_graph(modulus % 7 + T, directed=directed)
        values = whole_numbers(graph.num_devices, 5, largest=5 if modulus == 11 else 50)
        run = record(graph, secmp(modulus, T, delivery), values)
        attacked = readable_with_own_parameters(graph) if delivery is MuDelivery.SILO else messages_of(graph)
        assert attacked
        assert without_steps(self.read(run)) == expected_rows(run, values, modulus, attacked)

    @given(st.integers(0, 10_000), st.booleans())
    def test_asking_silos_protects_targets_that_send_nothing_at_home(self, seed: int, directed: bool) -> None:
        """If sources ask the silo, a device reads all it receives or nothing: all if it sends within its own silo."""
        graph = random_graph(seed, directed=directed, devices=8, pairs=10)
        values = whole_numbers(8, 2, largest=50, seed=seed)
        run = record(graph, secmp(101), values)
        attacked = readable_with_own_parameters(graph)
        for device in range(8):
            view = run.transcript.view([Party(Role.DEVICE, device)])
            mine = [message for message in attacked if message[1] == device]
            assert without_steps(self.read(run, view)) == expected_rows(run, values, 101, mine)

    @given(st.integers(0, 10_000), st.booleans())
    def test_forwarding_targets_can_read_everything(self, seed: int, directed: bool) -> None:
        """If targets forward mu, every message is read by its receiver."""
        graph = random_graph(seed, directed=directed, devices=8, pairs=10)
        values = whole_numbers(8, 2, largest=50, seed=seed)
        run = record(graph, secmp(101, delivery=MuDelivery.TARGET), values)
        assert without_steps(self.read(run)) == expected_rows(run, values, 101, messages_of(graph))

    def test_observers_share_no_parameters_when_answers_get_lost(self) -> None:
        """With targets that forward mu and lost answers too, every observer reads what it reads alone."""
        for seed in range(10):
            graph = random_graph(seed, directed=False, devices=8, pairs=12)
            scheme = secmp(101, delivery=MuDelivery.TARGET)
            run = record(graph, scheme, whole_numbers(8, 2, 50), loss=losing_of_even(frozenset({Phase.DECODED})))
            assert self.read(run) == self.read_one_by_one(run)

    def test_leaves_other_schemes_alone(self) -> None:
        """Where no codes are sent there is no guess."""
        graph = random_graph(0, directed=False)
        run = record(graph, Plaintext(), whole_numbers(graph.num_devices, 3, 9))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None
        codes = record(graph, secmp(101), whole_numbers(graph.num_devices, 3, 9))
        assert self.attack.infer(codes.transcript.views(Role.DEVICE), Plaintext().public) is None

    def test_reads_nothing_without_parameters(self) -> None:
        """A device that was never handed mu reads nothing."""
        run = _run(T=2)
        assert not self.read(run, _without(run.transcript.views(Role.DEVICE), Phase.PARAMETERS))

    def test_score_counts_exact_rows_alone(self) -> None:
        """One wrong coordinate makes a row wrong, and the share of exact rows says so."""
        run = _run()
        guess = self.attack.infer(run.transcript.views(Role.DEVICE), run.public)
        assert guess is not None
        spoiled = tuple(replace(rows, values=_first_half_spoiled(rows.values)) for rows in guess)
        (found,) = self.attack.score(spoiled, run.truth)
        total = sum(len(rows.senders) for rows in guess)
        assert found.value == pytest.approx((total - total // 2) / total)
        assert f"of {total:,} rows" in found.finding


class TestOneCodeAndMu(SingleMessages):
    attack = OneCodeAndMu()

    def test_needs_one_code_only(self) -> None:
        """With all codes but the first replaced by zeros it reads the same."""
        run = _run(T=2)
        view = run.transcript.views(Role.DEVICE)
        assert self.read(run, _edited(view, Phase.CODES, _first_code_alone)) == self.read(run)

    def test_needs_the_masks(self) -> None:
        """With the masks replaced by zeros nothing is exact."""
        run = _run()
        assert _exact(self.attack, run, _edited(run.transcript.views(Role.DEVICE), Phase.PARAMETERS, _no_masks)) == 0


class TestAllCodesOfOneSender(SingleMessages):
    attack = AllCodesOfOneSender()

    @pytest.mark.parametrize("T", [1, 2, 4])
    def test_needs_no_mask(self, T: int) -> None:
        """With the masks replaced by zeros it reads the same, exactly."""
        run = _run(T)
        view = _edited(run.transcript.views(Role.DEVICE), Phase.PARAMETERS, lambda mu: _no_masks(mu, T))
        assert self.read(run, view) == self.read(run)
        assert _exact(self.attack, run, view) == 1

    def test_needs_every_code(self) -> None:
        """With all codes but the first replaced by zeros nothing is exact."""
        run = _run(T=2)
        assert _exact(self.attack, run, _edited(run.transcript.views(Role.DEVICE), Phase.CODES, _first_code_alone)) == 0


def _run(T: int = 1) -> Run:
    graph = random_graph(3, directed=False)
    return record(graph, secmp(MERSENNE_31, T), whole_numbers(graph.num_devices, 6, 1000))


def _exact(attack: Attack[Any, Any], run: Run, view: View) -> float:
    guess = attack.infer(view, run.public)
    assert guess is not None
    (found,) = attack.score(guess, run.truth)
    return found.value


def _edited(view: View, phase: Phase, edit: Any) -> View:
    """The view with other payloads in one phase."""

    def edited(rows: ReceivedRows) -> ReceivedRows:
        return replace(rows, fields={PAYLOAD: edit(rows.payload)}) if rows.phase is phase else rows

    assert any(rows.phase is phase for rows in view.received)
    return replace(view, received=tuple(edited(rows) for rows in view.received))


def _without(view: View, phase: Phase) -> View:
    return replace(view, received=tuple(rows for rows in view.received if rows.phase is not phase))


def _no_masks(mu: Any, T: int = 1) -> Any:
    """Parameters [m, 2 T + 2 + T * width] with zeros for the masks."""
    return np.where(np.arange(mu.shape[1]) < 2 * T + 2, mu, 0).astype(mu.dtype)


def _first_code_alone(codes: Any) -> Any:
    """Codes [m, T + 1, d] with zeros for all but the first."""
    return codes * (np.arange(codes.shape[1]) == 0)[None, :, None].astype(codes.dtype)


def _first_half_spoiled(values: Any) -> Any:
    spoiled = values.copy()
    half = len(values) // 2
    spoiled[:half, 0] = (spoiled[:half, 0] + 1) % 7
    return spoiled
