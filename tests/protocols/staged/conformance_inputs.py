"""What every staged scheme has to refuse of its own side: vectors and terms that break a rule."""

from __future__ import annotations

from abc import ABC
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.staged.interface import StagedScheme, SumTerms
from tests.protocols.staged.conformance_sums import SumsConformance
from tests.protocols.staged.rounds import Ints, terms_of, vectors_of


class InputConformance(SumsConformance, ABC):
    """Vectors, terms and thresholds."""

    @pytest.mark.parametrize("value", [51, -51, 2**63 - 1, -(2**63)])
    def test_a_value_beyond_the_bound_is_refused(self, value: int) -> None:
        """It raises without the value, and another vector is taken."""
        run = self.five()
        client = run.scheme.client(run.terms, 1, SimulationCoins(9))
        with pytest.raises(InputError) as raised:
            client.provide(np.array([0, value], dtype=np.int64))
        assert str(abs(value)) not in str(raised.value).replace(",", "")
        client.provide(np.array([50, -50], dtype=np.int64))

    def test_residues_beyond_the_field_are_refused(self) -> None:
        """Elements are 0 to p - 1."""
        scheme = type(self).make(None)
        if scheme.modulus is None:
            pytest.skip("sums have no modulus")
        client = scheme.client(terms_of(scheme, 3, 2, None), 0, SimulationCoins(0))
        for value in (-1, scheme.modulus):
            with pytest.raises(InputError):
                client.provide(np.array([0, value], dtype=np.int64))

    @pytest.mark.parametrize(
        "vector",
        [
            np.zeros(3, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros((1, 2), dtype=np.int64),
            np.zeros(2, dtype=np.int32), np.zeros(2), np.full(2, np.nan), np.zeros(0, dtype=np.int64),
        ],
        ids=lambda vector: f"{vector.dtype} {list(vector.shape)}",
    )  # fmt: skip
    def test_vectors_of_another_kind_are_refused(self, vector: Ints) -> None:
        """A vector is int64 of the length agreed on."""
        run = self.five()
        with pytest.raises(InputError, match="vector must be int64"):
            run.scheme.client(run.terms, 1, SimulationCoins(9)).provide(vector)

    def test_a_vector_is_provided_once_and_kept_as_it_was(self) -> None:
        """A second vector raises; writing to the array that was handed in changes nothing."""
        run, given = self.five(), np.array([1, 2], dtype=np.int64)
        with pytest.raises(InputError, match="vector"):
            run.clients[0].provide(given)
        run.clients[0] = run.scheme.client(run.terms, 0, SimulationCoins(1))
        run.clients[0].provide(given)
        given[:] = 40
        assert run.play().server.result().tolist() == (vectors_of(5)[1:].sum(axis=0) + np.array([1, 2])).tolist()

    def test_a_vector_is_wanted_when_it_is_asked_for_and_not_before(self) -> None:
        """A client without one answers until then, raises there, and goes on once it has one."""
        run = self.five()
        run.clients[2] = late = run.scheme.client(run.terms, 2, SimulationCoins(3))
        refused = 0
        while run.server.stage is not None:
            for client, message in run.ask():
                try:
                    reply = run.clients[client].reply(message)
                except InputError:
                    refused += 1
                    assert client == 2
                    late.provide(vectors_of(5)[2])
                    reply = late.reply(message)
                run.server.receive(client, reply)
            run.server.advance()
        assert refused == 1
        assert run.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_terms_that_break_a_rule_are_refused(self) -> None:
        """One client, a length or bound of 0, too large a bound, another session's size, a threshold out of range."""
        scheme = type(self).make(None)
        good = terms_of(scheme, 5)
        scheme.check(good)
        for wrong in (
            replace(good, clients=1, threshold=1), replace(good, clients=0), replace(good, length=0),
            replace(good, length=-1), replace(good, bound=0), replace(good, bound=-3), replace(good, session=b"short"),
            replace(good, context=b"short"),
            replace(good, threshold=6), replace(good, threshold=0), replace(good, number=-1),
            replace(good, bound=scheme.limit(5) // 5 + 1),
        ):  # fmt: skip
            self._refused(scheme, wrong)
        for index in (-1, 5):
            with pytest.raises(InputError):
                scheme.client(good, index, SimulationCoins(0))

    def _refused(self, scheme: StagedScheme, wrong: SumTerms) -> None:
        for use in (
            lambda: scheme.check(wrong),
            lambda: scheme.client(wrong, 0, SimulationCoins(0)),
            lambda: scheme.server(wrong, SimulationCoins(0)),
        ):
            with pytest.raises(InputError):
                use()

    def test_thresholds_out_of_range_are_refused(self) -> None:
        """More than all clients, or none at all, cannot be left."""
        for threshold, clients in ((6, 5), (0, 5), (-1, 5)):
            with pytest.raises(InputError):
                type(self).make(threshold).threshold_for(clients)
        with pytest.raises(InputError):
            type(self).make(None).threshold_for(1)
        assert type(self).make(None).threshold_for(2) == 2
