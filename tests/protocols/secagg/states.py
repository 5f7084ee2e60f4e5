"""What every scheme for one sum has to do when a party stops and goes on in another process."""

from abc import ABC

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.runtime import OwnDraws, Step
from tests.error_codes import about
from tests.protocols.secagg.rounds import NOW, SESSION, Sent, Sum, mark, topology_of, vectors_of
from tests.protocols.secagg.sums import CoreConformance


class StateConformance(CoreConformance, ABC):
    """States of machines."""

    def test_every_party_goes_on_in_another_process_after_every_message(self) -> None:
        """Restored before and after every message and every turn, all parties come to the exact sum."""
        for split in self.splits:
            run = self.five(split=split)

            def listen(run: Sum, sent: Sent) -> None:
                run.restart(self.three, sent.receiver)

            for out in run.turns():
                for sent in out:
                    listen(run, sent)
                    run.hand(sent)
                    listen(run, sent)
                for party in run.machines:
                    before = mark(run.machines[party])
                    run.restart(self.three, party)
                    assert mark(run.machines[party]) == before
            assert run.result == vectors_of(5).sum(axis=0).tolist()
            assert run.included == [0, 1, 2, 3, 4]

    def test_states_are_arrays_and_copies(self) -> None:
        """Nothing else is in a state, and writing to one changes no machine."""
        run = self.five()
        for out in run.turns():
            for sent in out:
                state = run.machines[sent.receiver].state()
                assert all(isinstance(value, np.ndarray) for value in state.values())
                before = mark(run.machines[sent.receiver])
                for value in state.values():
                    if value.flags.writeable and value.size:
                        value[...] = 1
                assert mark(run.machines[sent.receiver]) == before
                run.hand(sent)
        assert run.result == vectors_of(5).sum(axis=0).tolist()

    def test_what_is_no_state_is_refused(self) -> None:
        """Changed, cut, of another session, party, threshold or role, or something else: MalformedMessageError."""
        run, other = self.five(), self.five(session=bytes(16))
        tried = 0
        for out in run.turns():
            for sent in out:
                run.hand(sent)
            for party, machine in run.machines.items():
                state = dict(machine.state())
                for name, value in state.items():
                    if not value.size:
                        continue
                    wrong = value.copy()
                    flat = wrong.view(np.uint8).reshape(-1) if wrong.dtype != np.bool_ else wrong.reshape(-1)
                    flat[0] = not flat[0] if wrong.dtype == np.bool_ else flat[0] ^ 1
                    for bad in ({**state, name: wrong}, {k: v for k, v in state.items() if k != name}):
                        tried += 1
                        with pytest.raises(MalformedMessageError):
                            machine.restore(bad)
                with pytest.raises(MalformedMessageError):
                    other.machines[party].restore(state)
                stranger = next(one for who, one in run.machines.items() if who != party)
                with pytest.raises(MalformedMessageError):
                    stranger.restore(state)
                assert mark(machine) == state["digest"].tobytes()
        assert tried

    def test_a_client_takes_its_row_later(self) -> None:
        """Begun without a row, and restored, it takes one before the vectors are asked for, and no second one."""
        run = self.five(vectors=None)
        topology = topology_of(5, split=self.splits[0])
        party = int(topology.senders[4])
        draws = OwnDraws(SimulationCoins(1))
        (late,) = self.three.machines(topology, SESSION, draws, np.array([party]))
        if not hasattr(late, "provide"):
            pytest.skip("rows are known from the start")
        late.begin(NOW)
        run.machines[party] = late
        asked = quiet = 0
        while quiet < 2:
            out: list[Sent] = []
            for who in run.machines:
                try:
                    out += run.spoken(who)
                except InputError:
                    asked += 1
                    assert who == party
                    run.restart(self.three, party)
                    run.machines[party].provide(vectors_of(5)[4:])  # type: ignore[attr-defined]  # as checked
                    with pytest.raises(InputError, check=about("rows")):
                        run.machines[party].provide(vectors_of(5)[4:])  # type: ignore[attr-defined]  # the same
                    out += run.spoken(who)
            quiet = 0 if out else quiet + 1
            for sent in out:
                run.hand(sent)
        assert asked == 1
        assert run.result == vectors_of(5).sum(axis=0).tolist()

    def test_a_step_that_was_given_up_leaves_nothing(self) -> None:
        """Begun anew in the middle of a sum, with another step or the same, parties come to the exact sum."""
        for step in (Step(9), NOW):
            run = self.five()
            turns = run.turns()
            for _ in range(2):
                for sent in next(turns):
                    run.hand(sent)
            run.begin(vectors_of(5) + 1, step)
            assert run.play().result == (vectors_of(5) + 1).sum(axis=0).tolist()
