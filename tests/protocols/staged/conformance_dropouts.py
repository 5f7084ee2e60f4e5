"""What every staged scheme has to stand: clients that fall silent, at every stage, down to the threshold.

For five clients, three of whom must be left, all patterns of up to two drop-outs over all stages are run. One below
the threshold all sets of three are run with all combinations of stages, but stages ascend with the clients' numbers in
one half of the sets and descend in the other: which of the three goes first makes no other difference than theirs.
"""

from __future__ import annotations

import itertools
from abc import ABC
from collections.abc import Mapping

import pytest

from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.staged.interface import Stage, StagedScheme
from tests.protocols.staged.conformance_sums import SumsConformance
from tests.protocols.staged.rounds import Sum, picks, stages_of, terms_of, vectors_of


class DropoutConformance(SumsConformance, ABC):
    """Drop-outs.

    Attributes:
        samples: sets of drop-outs among fifty clients that are tried.
    """

    samples: int = 3

    def test_up_to_two_of_five_vanish_at_any_stages(self) -> None:
        """Whoever falls silent at whichever stages: the sum is that of exactly those whose vectors arrived."""
        for size in range(3):
            for who in itertools.combinations(range(5), size):
                for when in itertools.product(stages_of(self.three), repeat=size):
                    self._check_sum(self.five(), dict(zip(who, when, strict=True)))

    @pytest.mark.parametrize("who", list(itertools.combinations(range(5), 3)))
    def test_three_of_five_may_not(self, who: tuple[int, ...]) -> None:
        """One below the threshold the sum stops at the stage of the third, which is named with both numbers."""
        for when in itertools.combinations_with_replacement(stages_of(self.three), 3):
            order = when if sum(who) % 2 else when[::-1]
            self._check_stop(self.five(), dict(zip(who, order, strict=True)), left=2, needed=3)

    @pytest.mark.parametrize("gone", [4, 5])
    def test_fewer_still_stop_the_same_way(self, gone: int) -> None:
        """When four or all five fall silent at one stage the numbers are told just so."""
        for stage in stages_of(self.three):
            self._check_stop(self.five(), dict.fromkeys(range(gone), stage), left=5 - gone, needed=3)

    def test_as_many_of_fifty_vanish_as_may(self) -> None:
        """Of fifty clients all but the threshold fall silent, each at a stage of its own: the sum is exact."""
        scheme = type(self).make(None)
        needed, draw = scheme.threshold_for(50), picks(0)
        for _ in range(self.samples):
            gone = draw.sample(range(50), 50 - needed)
            self._check_sum(self._fifty(scheme), {u: draw.choice(stages_of(self.three)) for u in gone})

    def test_one_more_of_fifty_may_not(self) -> None:
        """One below the threshold the sum stops, wherever the drop-outs were."""
        scheme = type(self).make(None)
        needed, draw = scheme.threshold_for(50), picks(1)
        silent = {u: draw.choice(stages_of(self.three)) for u in draw.sample(range(50), 51 - needed)}
        self._check_stop(self._fifty(scheme), silent, left=needed - 1, needed=needed)

    def test_after_a_stop_the_stage_may_still_be_saved(self) -> None:
        """The server that stopped is as it was: a late answer to the stage at hand brings it to its end."""
        run = self.five()
        first = run.server.stage
        assert first is not None
        late = [(u, run.clients[u].reply(message)) for u, message in run.ask()]
        for u, reply in late[:2]:
            run.server.receive(u, reply)
        with pytest.raises(TooFewClientsError):
            run.server.advance()
        for u, reply in late[2:]:
            run.server.receive(u, reply)
        run.server.advance()
        assert run.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_a_client_that_dropped_out_is_asked_nothing_more(self) -> None:
        """Whoever misses a stage gets no further request."""
        run = self.five()
        first = run.server.stage
        assert first is not None
        run_silent = {1: first}
        while run.server.stage is not None:
            asked = [u for u, _ in run.ask()]
            assert (1 in asked) == (run.server.stage == first)
            for u, message in run.ask(run_silent):
                run.server.receive(u, run.clients[u].reply(message))
            run.server.advance()
        assert run.server.included == (0, 2, 3, 4)

    def _fifty(self, scheme: StagedScheme) -> Sum:
        return Sum.of(scheme, terms_of(scheme, 50), vectors_of(50))

    def _check_sum(self, run: Sum, silent: Mapping[int, Stage]) -> None:
        kept = [u for u in run.clients if silent.get(u, len(Stage)) > Stage.VECTORS]
        server = run.play(silent).server
        assert server.included == tuple(kept), silent
        assert server.result().tolist() == vectors_of(len(run.clients))[kept].sum(axis=0).tolist(), silent

    def _check_stop(self, run: Sum, silent: Mapping[int, Stage], *, left: int, needed: int) -> None:
        with pytest.raises(TooFewClientsError) as raised:
            run.play(silent)
        last = max(silent.values())
        assert run.server.stage == last
        for part in (last.name, str(needed), str(left)):
            assert part in str(raised.value), (silent, str(raised.value))
