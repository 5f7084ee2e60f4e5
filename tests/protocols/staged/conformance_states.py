"""What every staged scheme has to do when a client stops and goes on in another process."""

from __future__ import annotations

from abc import ABC

import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import MalformedMessageError
from tests.protocols.staged.conformance_sums import SumsConformance
from tests.protocols.staged.rounds import moments_of, vectors_of


class StateConformance(SumsConformance, ABC):
    """States of clients."""

    def test_a_client_goes_on_in_another_process_at_every_stage(self) -> None:
        """Every client is restored from its state before and after every answer, and the sum is exact."""
        run = self.five()
        while run.server.stage is not None:
            for client, message in run.ask():
                before = run.scheme.restored(run.terms, run.clients[client].state())
                run.server.receive(client, before.reply(message))
                run.clients[client] = run.scheme.restored(run.terms, before.state())
                assert run.clients[client].state() == before.state()
            run.server.advance()
        assert run.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_a_client_is_restored_before_it_has_a_vector(self) -> None:
        """It takes its vector afterwards."""
        run = self.five()
        fresh = run.scheme.client(run.terms, 4, SimulationCoins(5))
        run.clients[4] = run.scheme.restored(run.terms, fresh.state())
        run.clients[4].provide(vectors_of(5)[4])
        assert run.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_what_is_no_state_is_refused(self) -> None:
        """Cut, changed, of another sum or session, or something else: MalformedMessageError."""
        run = self.five()
        other = self.five(number=4)
        for moment in moments_of(self.five()):
            state = moment.states[1]
            for at in range(0, len(state), max(1, len(state) // 40)):
                changed = bytearray(state)
                changed[at] ^= 1
                for bad in (bytes(changed), state[:at], state + state[:at] + b"x"):
                    with pytest.raises(MalformedMessageError):
                        run.scheme.restored(run.terms, bad)
            with pytest.raises(MalformedMessageError):
                run.scheme.restored(other.terms, state)
            with pytest.raises(MalformedMessageError):
                run.scheme.restored(run.terms, moment.requests[1])
