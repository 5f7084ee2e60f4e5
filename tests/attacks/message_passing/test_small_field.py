from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31, Overflow, PrimeField
from fgl_secure.attacks.message_passing.codes import SmallFieldBruteForce, decoders
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Phase, Role, View
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import claimed_rows, expected_rows, messages_of, without_steps
from tests.attacks.recorded import Run, random_graph, record, words

PAPER = PrimeField(11)


class TestSmallFieldBruteForce(AttackConformance):
    attack = SmallFieldBruteForce()
    rests_on = (frozenset({Phase.CODES}),)

    def claims(self, guess: Iterable[RecoveredRows]) -> Claims:
        return claimed_rows(guess)

    @pytest.mark.parametrize(("T", "columns"), [(1, 16), (1, 24), (1, 64), (2, 16), (2, 32), (3, 32)])
    def test_is_exact_from_sixteen_columns(self, T: int, columns: int) -> None:
        """Sparse 0/1 rows of 16 columns and more are read exactly, every one."""
        run, rows = _run(T, columns)
        assert without_steps(self.read(run)) == expected_rows(run, rows, 11, messages_of(run.graph))

    @pytest.mark.parametrize(("T", "columns"), [(1, 16), (1, 64), (2, 16)])
    def test_is_at_chance_on_permuted_truth_of_the_papers_field(self, T: int, columns: int) -> None:
        """The same guesses against permuted rows are no better than naming the most frequent row."""
        run, _ = _run(T, columns)
        guess = self.attack.infer(run.transcript.views(Role.DEVICE), run.public)
        assert guess is not None
        (null,) = self.attack.score(guess, run.truth.permuted(1))
        assert null.interval.low <= null.prior + MARGIN
        assert null.value < 0.3

    def test_needs_the_codes_alone(self) -> None:
        """Without any parameters, sums or inputs in the view it reads the same."""
        run, _ = _run(1, 16)
        view = run.transcript.views(Role.DEVICE)
        codes = View(view.name, view.parties, view.messages(Phase.CODES), ())
        assert self.read(run, codes) == self.read(run)

    def test_is_less_sure_the_fewer_the_columns(self) -> None:
        """Wrong decoders look right in few columns: rows of ones and zeros are exact at 16, not so at 2."""
        shares = []
        for columns in (16, 2):
            run, _ = _run(1, columns, share=0.5)
            guess = self.attack.infer(run.transcript.views(Role.DEVICE), run.public)
            assert guess is not None
            shares.append(self.attack.score(guess, run.truth)[0].value)
        assert shares[0] == 1
        assert 0 < shares[1] < 0.95

    @pytest.mark.parametrize("modulus", [331, 65521, MERSENNE_31])
    def test_gives_up_on_larger_fields(self, modulus: int) -> None:
        """In a field with too many decoders there is no guess."""
        graph = random_graph(1, directed=False)
        scheme = SecretMessagePassing(PrimeField(modulus), 1, 1.0, 0, Overflow.WRAP)
        run = record(graph, scheme, words(graph.num_devices, 16))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None

    def test_leaves_other_schemes_alone(self) -> None:
        """Where no codes are sent there is no guess."""
        graph = random_graph(1, directed=False)
        run = record(graph, Plaintext(), words(graph.num_devices, 16))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None


@pytest.mark.parametrize(("T", "count"), [(1, 9), (2, 48), (3, 324)])
def test_few_decoders_are_left_in_the_papers_field(T: int, count: int) -> None:
    """The choices of points in F_11 collapse to 9, 48 and 324 decoders for one, two and three masks."""
    found = decoders(PAPER, T)
    assert found.shape == (count, T + 1)
    assert len({tuple(row) for row in found.tolist()}) == count
    assert (found.sum(axis=1) % 11 == 1).all()


@pytest.mark.parametrize("modulus", [5, 7, 11])
def test_decoders_are_those_of_all_choices_of_points(modulus: int) -> None:
    """With one mask the decoders are what interpolation at every beta from every two alphas gives."""
    slow = {
        ((beta - second) * pow(first - second, -1, modulus) % modulus,
         (beta - first) * pow(second - first, -1, modulus) % modulus)
        for first, second, beta in permutations(range(modulus), 3)
    }  # fmt: skip
    assert {tuple(row) for row in decoders(PrimeField(modulus), 1).tolist()} == slow


def _run(T: int, columns: int, share: float = 0.15) -> tuple[Run, np.ndarray]:
    graph = random_graph(T + columns, directed=True, devices=40, pairs=80)
    rows = words(graph.num_devices, columns, seed=columns, share=share)
    scheme = SecretMessagePassing(PAPER, T, 1.0, 0, Overflow.WRAP)
    return record(graph, scheme, rows), rows
