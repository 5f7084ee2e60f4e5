"""What every scheme for one sum has to stand: clients that fall silent, at every stage, down to the threshold."""

import itertools
from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.secagg.terms import USUAL, Stage
from fgl_secure.runtime import Channel, Phase, Step
from tests.protocols.secagg.rounds import LEADER, NEVER, NOW, STAGES, Ints, Sent, picks, topology_of, vectors_of
from tests.protocols.secagg.sums import SumsConformance, channel_of


class DropoutConformance(SumsConformance, ABC):
    """Drop-outs.

    Attributes:
        stages: those that the scheme has.
    """

    stages: ClassVar[tuple[Stage, ...]] = USUAL

    def run(
        self, clients: int, silent: Mapping[int, int], *, split: bool = False, deaf: bool = False, default: bool = False
    ) -> tuple[list[int], list[int], Channel]:
        """The sum, whose it is of, and the channel, where clients fall silent, or hear nothing more (deaf)."""
        topology = topology_of(clients, split=split)
        since = {int(topology.senders[u]): stage for u, stage in silent.items()}

        def arrives(phase: Phase, _: Step, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
            stage, ends = STAGES.get(phase, Stage.KEYS), receivers if deaf else senders
            return np.array([stage < since.get(int(end), NEVER) for end in ends.tolist()], dtype=np.bool_)

        channel = channel_of(clients, arrives)
        scheme = type(self).make(None) if default else self.three
        collective = Collective(scheme, topology, channel)
        total = collective.sum(vectors_of(clients), NOW)[0].tolist()
        assert collective.contributors is not None
        return total, np.flatnonzero(np.isin(topology.senders, collective.contributors)).tolist(), channel

    def test_up_to_two_of_five_vanish_at_any_stages(self) -> None:
        """Whoever falls silent at whichever stages: the sum is that of exactly those whose vectors arrived.

        Each client alone at each stage, and each two clients at a pair of stages.
        """
        for gone, stage in itertools.product(range(5), self.stages):
            self._check_sum(5, {gone: stage})
        for who, when in zip(itertools.combinations(range(5), 2), itertools.cycle(self._pairs()), strict=False):
            self._check_sum(5, dict(zip(who, when, strict=True)))

    def test_any_two_of_five_may_vanish_where_another_receives(self) -> None:
        """The same for two clients of five, where who adds up is not who receives."""
        if True not in self.splits:
            pytest.skip("who adds up receives")
        for when in self._pairs():
            self._check_sum(5, dict(zip((1, 3), when, strict=True)), split=True)

    def test_clients_that_hear_nothing_more_drop_out(self) -> None:
        """Deaf from a stage on, they answer nothing from then on: the sum of the others is exact."""
        for when in self._pairs():
            silent = dict(zip((0, 4), when, strict=True))
            kept = [u for u in range(5) if silent.get(u, NEVER) > Stage.SHARES]
            total, included, _ = self.run(5, silent, deaf=True)
            assert included == kept, silent
            assert total == vectors_of(5)[kept].sum(axis=0).tolist()

    def test_three_of_five_may_not(self) -> None:
        """One below the threshold the sum stops at the stage of the third, which is named with both numbers."""
        whens = itertools.cycle(itertools.combinations_with_replacement(self.stages, 3))
        for who in itertools.combinations(range(5), 3):
            when = [next(whens) for _ in range(4)][-1]
            self._check_stop(5, dict(zip(who, when if sum(who) % 2 else when[::-1], strict=True)), left=2, needed=3)
        for stage in self.stages:
            self._check_stop(5, dict.fromkeys(range(4), stage), left=1, needed=3)

    def test_as_many_of_twelve_vanish_as_may(self) -> None:
        """Of twelve clients all but the threshold fall silent, each at a stage of its own; one more stops the sum."""
        needed, draw = type(self).make(None).threshold_for(12), picks(0)
        silent = {u: draw.choice(self.stages) for u in draw.sample(range(12), 13 - needed)}
        self._check_stop(12, silent, left=needed - 1, needed=needed, default=True)
        silent.popitem()
        self._check_sum(12, silent, default=True)

    def test_after_a_stop_the_stage_may_still_be_saved(self) -> None:
        """The server that stopped is as it was: late answers to the current stage bring it to its end."""
        for stop in self.stages:
            run, late, stopped = self.five(), list[Sent](), False
            places = {int(party) for party in run.topology.senders[2:]}
            turns = run.turns()
            while True:
                try:
                    out = next(turns)
                except TooFewClientsError:
                    stopped = True
                    for sent in late:
                        run.hand(sent)
                    turns = run.turns()
                    continue
                except StopIteration:
                    break
                for sent in out:
                    holds = STAGES.get(sent.phase) is stop and sent.sender in places and not stopped
                    if holds and sent.receiver == LEADER:
                        late.append(sent)
                    else:
                        run.hand(sent)
            assert stopped
            assert run.result == vectors_of(5).sum(axis=0).tolist()

    def test_a_client_that_dropped_out_is_asked_nothing_more(self) -> None:
        """Whoever misses a stage gets no further message."""
        for stage in self.stages:
            run = self.five()
            gone = int(run.topology.senders[1])
            run.play({1: stage})
            heard = [sent.phase for sent in run.log if sent.receiver == gone]
            assert len(heard) == self.stages.index(stage)

    def test_a_client_that_was_gone_may_come_back(self) -> None:
        """Who dropped out of one sum takes part in the next."""
        run = self.five().play({2: Stage.VECTORS})
        assert run.included == [0, 1, 3, 4]
        run.begin(vectors_of(5), Step(8))
        assert run.play().included == [0, 1, 2, 3, 4]
        assert run.result == vectors_of(5).sum(axis=0).tolist()

    def _pairs(self) -> list[tuple[Stage, ...]]:
        """Some pairs of stages, in which each stage is first and second."""
        return [*zip(self.stages, self.stages[::-1], strict=True), (self.stages[0],) * 2]

    def _check_sum(
        self, clients: int, silent: Mapping[int, int], *, split: bool | None = None, default: bool = False
    ) -> None:
        kept = [u for u in range(clients) if silent.get(u, NEVER) > Stage.VECTORS]
        split = self.splits[0] if split is None else split
        total, included, _ = self.run(clients, silent, split=split, default=default)
        assert included == kept, silent
        assert total == vectors_of(clients)[kept].sum(axis=0).tolist(), silent

    def _check_stop(
        self, clients: int, silent: Mapping[int, int], *, left: int, needed: int, default: bool = False
    ) -> None:
        with pytest.raises(TooFewClientsError) as raised:
            self.run(clients, silent, split=self.splits[0], default=default)
        for part in (Stage(max(silent.values())).name, str(needed), str(left)):
            assert part in str(raised.value), (silent, str(raised.value))
