"""What every staged scheme has to do while all goes well: exact sums, checks of what is put in, states, sizes."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.errors import FglSecureError, InputError, ProtocolError
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.runtime import Strength
from tests.protocols.staged.rounds import SESSION, Ints, Sum, moments_of, stages_of, terms_of, vectors_of


class SumsConformance(ABC):
    """Sums, inputs, states and sizes.

    Attributes:
        make: the scheme under test from a threshold; None takes its default.
    """

    make: ClassVar[Callable[[int | None], StagedScheme]]

    @property
    def three(self) -> StagedScheme:
        """The scheme with a threshold of three: for five clients."""
        return type(self).make(3)

    def five(self, *, number: int = 3, session: bytes = SESSION, seed: int = 0, vectors: Ints | None = None) -> Sum:
        """Five clients with vectors of small numbers, of which three must be left."""
        terms = terms_of(self.three, 5, number=number, session=session)
        return Sum.of(self.three, terms, vectors_of(5) if vectors is None else vectors, seed)

    @given(st.data())
    @settings(max_examples=25)
    def test_the_sum_is_exact(self, data: st.DataObject) -> None:
        """The server gets the sum of the vectors, integer for integer, and says whose it is of."""
        n, length = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
        bound = data.draw(st.sampled_from([1, 7, 2**20]))
        vectors = data.draw(hnp.arrays(np.int64, (n, length), elements=st.integers(-bound, bound)))
        scheme = type(self).make(None)
        server = Sum.of(scheme, terms_of(scheme, n, length, bound), vectors).play().server
        assert server.result().dtype == np.int64
        assert server.result().tolist() == vectors.sum(axis=0).tolist()
        assert server.included == tuple(range(n))

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_the_largest_sum_is_exact(self, sign: int) -> None:
        """Vectors at the bound add up to what the scheme states as its limit, on both sides of zero."""
        scheme = type(self).make(None)
        bound = scheme.limit(3) // 3
        vectors = np.full((3, 2), sign * bound, dtype=np.int64)
        assert Sum.of(scheme, terms_of(scheme, 3, 2, bound), vectors).play().server.result().tolist() == [
            3 * sign * bound,
            3 * sign * bound,
        ]

    @given(st.data())
    @settings(max_examples=8)
    def test_residues_add_up_modulo_the_field(self, data: st.DataObject) -> None:
        """Without a bound any elements add up modulo the scheme's prime; without a modulus such sums are refused."""
        scheme = type(self).make(None)
        terms, p = terms_of(scheme, 4, 3, None), scheme.modulus
        if p is None:
            with pytest.raises(InputError, match="bound must"):
                scheme.check(terms)
            return
        vectors = data.draw(hnp.arrays(np.int64, (4, 3), elements=st.integers(0, p - 1)))
        expected = [sum(column) % p for column in zip(*vectors.tolist(), strict=True)]
        assert Sum.of(scheme, terms, vectors).play().server.result().tolist() == expected

    def test_sizes_do_not_depend_on_values(self) -> None:
        """Every message, by stage, direction and client, is as long whatever the vectors hold."""
        same = np.zeros((5, 2), dtype=np.int64), np.full((5, 2), 50), vectors_of(5), -vectors_of(5)
        seen = [
            [(u, len(moment.requests[u]), len(moment.replies[u])) for moment in moments_of(run) for u in range(5)]
            for run in (self.five(vectors=vectors) for vectors in same)
        ]
        assert seen[0] == seen[1] == seen[2] == seen[3]

    def test_there_is_no_result_before_the_end(self) -> None:
        """`result` raises until the sum is done; afterwards nobody is asked anything, and no message is taken."""
        run = self.five()
        while run.server.stage is not None:
            with pytest.raises(ProtocolError, match="done"):
                run.server.result()
            last = [(u, run.clients[u].reply(message)) for u, message in run.ask()]
            for u, reply in last:
                run.server.receive(u, reply)
            run.server.advance()
        assert not run.server.requests()
        for u, reply in last:
            with pytest.raises(ProtocolError):
                run.server.receive(u, reply)
        assert run.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_a_result_is_a_copy(self) -> None:
        """Writing to it changes no later one."""
        server = self.five().play().server
        server.result()[:] = 0
        assert server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_claim_and_name_are_stated(self) -> None:
        """A guarantee names its source, a coalition and a statement; the scheme has a name and stages in order."""
        scheme = type(self).make(None)
        assert scheme.name
        assert list(stages_of(self.three)) == sorted(stages_of(self.three))
        for claim in (scheme.claim, scheme.claim_for(5), scheme.claim_for(50)):
            for guarantee in claim.guarantees:
                assert guarantee.source
                assert guarantee.statement
                assert any(guarantee.coalition.values())
                assert guarantee.strength in Strength

    def test_errors_of_this_package_alone_are_raised_for_bad_names(self) -> None:
        """A client that is none is refused by the server with a ProtocolError."""
        run = self.five()
        (_, message), *_ = run.ask()
        for nobody in (-1, 5, 10**9):
            with pytest.raises(FglSecureError):
                run.server.receive(nobody, message)
