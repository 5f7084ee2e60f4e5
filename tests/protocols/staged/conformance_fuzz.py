"""Ten thousand messages that nobody sent, to clients and servers at every stage of every staged scheme."""

from __future__ import annotations

import itertools
import random
from abc import ABC
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.staged.interface import Stage, StagedServer
from tests.protocols.staged.conformance_sums import SumsConformance
from tests.protocols.staged.mutations import MUTATIONS
from tests.protocols.staged.rounds import Moment, Sum, moments_of, picks, server_at, vectors_of

FUZZED = 10_000
FOLLOWED = 12
"""Of the changed messages of a stage that a server cannot notice, how many are played on from to the end."""


@dataclass(slots=True)
class _Tally:
    """What became of the messages, and how many that a server took at a stage were followed to the end."""

    refused: int = 0
    taken: int = 0
    followed: Counter[Stage] = field(default_factory=Counter)


class FuzzConformance(SumsConformance, ABC):
    """Fuzzed messages."""

    def test_ten_thousand_fuzzed_messages_cause_no_other_exception(self) -> None:
        """Only ProtocolError and InputError come of them, at once or later, and the good messages give the sum.

        A change that no party can notice, as in a masked entry, is taken as what that client said; the party is then
        set back to where it was, for nobody says or hears two things in one stage.
        """
        run, draw, tally = self.five(), picks(5), _Tally()
        moments = moments_of(run)
        pool = [message for moment in moments for u in range(5) for message in (moment.requests[u], moment.replies[u])]
        pool += [message for moment in moments_of(self.five(number=9)) for message in moment.requests.values()]
        each = -(-FUZZED // (len(moments) * 2 * 5))
        server = server_at(run, moments, moments[0].stage)
        for moment, u in itertools.product(moments, range(5)):
            if moment.stage != server.stage:
                _hear(server, moment_before(moments, moment))
            client = run.scheme.restored(run.terms, moment.states[u])
            for _ in range(each):
                if _taken(tally, client.reply, _fuzzed(draw, moment.requests[u], pool)):
                    client = run.scheme.restored(run.terms, moment.states[u])
                if _taken(tally, partial(server.receive, u), _fuzzed(draw, moment.replies[u], pool)):
                    _follow(run, server, moment, u, tally)
                    server = server_at(run, moments, moment.stage)
            assert client.state() == moment.states[u]
        _hear(server, moments[-1])
        assert tally.refused + tally.taken >= FUZZED
        assert tally.refused > FUZZED // 2
        assert server.result().tolist() == vectors_of(5).sum(axis=0).tolist()


def moment_before(moments: list[Moment], moment: Moment) -> Moment:
    """The stage before one."""
    return moments[moments.index(moment) - 1]


def _hear(server: StagedServer, moment: Moment) -> None:
    """The good answers of a stage, and on."""
    for u, reply in moment.replies.items():
        server.receive(u, reply)
    server.advance()


def _fuzzed(draw: random.Random, message: bytes, pool: list[bytes]) -> bytes:
    while (made := draw.choice(MUTATIONS)(draw, message, pool)) == message:
        pass
    return made


def _taken(tally: _Tally, party: Callable[[bytes], object], message: bytes) -> bool:
    """Whether a party takes a message; if not, it says so in the way it may."""
    try:
        party(message)
    except (ProtocolError, InputError):
        tally.refused += 1
        return False
    tally.taken += 1
    return True


def _follow(run: Sum, server: StagedServer, moment: Moment, u: int, tally: _Tally) -> None:
    """Plays on from what one client's message was taken for: to any sum, or to a stop for a reason that is told."""
    tally.followed[moment.stage] += 1
    if tally.followed[moment.stage] > FOLLOWED:
        return
    clients = {v: run.scheme.restored(run.terms, state) for v, state in moment.states.items()}
    for v, client in clients.items():
        client.reply(moment.requests[v])
        if v != u:
            _taken(tally, partial(server.receive, v), moment.replies[v])  # refused where it repeats the other's key
    with suppress(ProtocolError, InputError):
        server.advance()
        while server.stage is not None:
            for v, message in server.requests().items():
                with suppress(ProtocolError, InputError):
                    server.receive(v, clients[v].reply(message))
            server.advance()
