"""The server of methods whose silos are SuperNodes: their mailbox.

It carries what silos send each other without being able to read it, and leads the sums that they open; of the rest it
knows what they tell it, which collective is due among that. Silos take every step together, so none can be done
without. But a node is waited for: one that comes late, one whose process crashed, and one that was restarted with its
state, which goes on under the number that Flower gives it then.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from logging import INFO

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.serverapp import Grid

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower.rounds import POLL_SECONDS
from fgl_secure.flower.silos import WHO, Turn
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import named_from_bytes
from fgl_secure.training.processes.sums import SumServer, deliver_posts
from fgl_secure.typing import Array

_MOST_TURNS = 10**6
_FIRST_POLL_SECONDS = 0.02
"""Until replies of a turn are asked for a second time; each further pause is twice as long, up to POLL_SECONDS."""
LOOK_SECONDS = 1.0
"""Between two looks at which nodes there are, and before a message that got lost is sent once more."""
CRASHES = 3
"""How often a node's process may crash in one turn, and a node fail to say who it is."""

_LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
"""What Flower says of a node that it cannot reach."""

Reports = Mapping[int, Mapping[str, Array]]
"""What silos tell of what they have found, by silo."""


class RunStoppedError(ProtocolError):
    """A run that cannot go on.

    Args:
        message: which party, turn and collective.
        finished: what silos told after the last round that all of them have ended, by silo; nothing before any.
    """

    def __init__(self, message: str, finished: Reports) -> None:
        super().__init__(message)
        self.finished = finished

    def __reduce__(self) -> tuple[type[RunStoppedError], tuple[str, Reports]]:
        """Return what makes it again: an error of a worker process travels as a pickle."""
        return RunStoppedError, (str(self), self.finished)


class SiloMailbox:
    """The server's side of a run.

    Args:
        grid: of the run.
        server: leads sums.
        parties: silos and relays together, a node each.
        timeout: seconds that a turn may take, and that is waited for nodes; None waits for ever.

    Attributes:
        finished: see `RunStoppedError`.
    """

    def __init__(self, grid: Grid, server: SumServer, parties: int, timeout: float | None = None) -> None:
        self._grid, self._server, self._parties, self._timeout = grid, server, parties, timeout
        self._people = _People(grid, server.session)
        self._due, self._logged = "", (-1, False)
        self.finished: dict[int, dict[str, Array]] = {}

    def run(self) -> dict[int, dict[str, Array]]:
        """Runs all turns; the report of every silo.

        Raises:
            InputError: there are not as many nodes as parties, or two nodes say that they are the same one.
            RunStoppedError: a node fails, or does not answer in time; or what silos send is not what is due.
        """
        self._meet()
        posts: dict[int, dict[int, bytes]] = {}
        for number in range(_MOST_TURNS):
            turns = self._turn(number, posts)
            if self._take_replies(turns):
                return self.finished
            try:
                posts = deliver_posts({party: turn.post for party, turn in turns.items()}, self._server)
            except ProtocolError as error:
                raise self._stop_error(f"{error} (turn {number}, {self._due or 'nothing'} is due)") from error
        raise self._stop_error(f"programs must end within {_MOST_TURNS:,} turns; they did not")

    def _take_replies(self, turns: Mapping[int, Turn]) -> bool:
        """Takes what silos tell; whether all of them have ended."""
        silos = [turns[silo] for silo in range(self._server.silos)]
        self._due = next((turn.due for turn in silos if turn.due), "")
        if all(turn.report for turn in silos):
            self.finished = {silo: named_from_bytes(turn.report) for silo, turn in enumerate(silos)}
        in_round = (len(self.finished.get(0, {}).get("losses", ())), " in round " in self._due)
        if in_round != self._logged:
            self._logged = in_round
            log(INFO, "silos: %s%s", self._over, f"; {self._due} is due" if self._due else "")
        return all(turn.over for turn in silos)

    @property
    def _over(self) -> str:
        """How far the run is, from what the first silo told."""
        report = self.finished.get(0, {})
        rounds = len(report.get("losses", ()))
        over = f"{rounds} round{'s are' if rounds != 1 else ' is'} over"
        if not rounds or not all(name in report for name in ("selected round", "test", "validation")):
            return over
        selected_round, test, validation = (float(report[name]) for name in ("selected round", "test", "validation"))
        return (
            f"{over}; of round {selected_round:.0f}, the best so far, test {test:.4f} and validation {validation:.4f}"
        )

    def _stop_error(self, message: str) -> RunStoppedError:
        return RunStoppedError(f"{message}; {self._over}", self.finished)

    def _meet(self) -> None:
        """Waits for a node of each party.

        Raises:
            InputError: there are too few in time, or some say that they are the same party, or none.
        """
        everybody, end = set(range(self._parties)), self._end()
        while True:
            self._people.look()
            parties = list(self._people.claims.values())
            result = sorted(parties)
            if set(parties) == everybody and len(parties) == self._parties:
                return
            if len(parties) >= self._parties:
                raise InputError(f"nodes must be parties 0..{self._parties - 1}, one each; found {result}")
            if time.monotonic() >= end:
                raise InputError(
                    f"nodes must be {self._parties}, one a party; found {len(parties)}, of parties {result}"
                )
            time.sleep(POLL_SECONDS)

    def _end(self) -> float:
        return float("inf") if self._timeout is None else time.monotonic() + self._timeout

    def _turn(self, number: int, posts: Mapping[int, Mapping[int, bytes]]) -> dict[int, Turn]:
        """What all parties answer.

        Raises:
            RunStoppedError: one fails, or is silent for too long.
        """
        turns = {party: Turn(self._server.session, number, posts.get(party, {})) for party in range(self._parties)}
        asking = _Asking(self._grid, self._people, turns)
        end, pause = self._end(), _FIRST_POLL_SECONDS
        while asking.waiting and not asking.failed and time.monotonic() < end:
            asking.go_on()
            if asking.waiting and not asking.failed:
                time.sleep(pause)
                pause = min(2 * pause, POLL_SECONDS)
        if asking.failed or asking.waiting:
            silent = [] if asking.failed else asking.waiting
            due = f", in which {self._due} is due" if self._due else ""
            raise self._stop_error(
                f"all {self._parties} parties must answer turn {number}{due}; silent: {silent}; failed, as their "
                f"nodes' own logs say: {asking.failed}"
            )
        return asking.answers


class _People:
    """Which node is which party, by what nodes say of themselves.

    Attributes:
        claims: the party of each node that has answered, in the order of answers.
    """

    def __init__(self, grid: Grid, session: bytes) -> None:
        self._grid, self._session = grid, session
        self._asked: set[int] = set()
        self._open: dict[str, int] = {}
        self._failures: Counter[int] = Counter()
        self._looked = float("-inf")
        self.claims: dict[int, int] = {}

    def node_of(self, party: int) -> int:
        """The node that was the last one to say that it is a party."""
        return next(node for node, claimed_party in reversed(self.claims.items()) if claimed_party == party)

    def look(self) -> None:
        """Asks nodes that are new, hears those that were asked, and will ask again those that failed to answer."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            new = [node for node in self._grid.get_node_ids() if node not in self._asked]
            result = dict(_send_turns(self._grid, {node: Turn(self._session, WHO, {}) for node in new}))
            self._asked |= set(result.values())
            self._open |= result
        for identifier, reply in _replies(self._grid, self._open):
            node = self._open.pop(identifier)
            if reply.has_error():
                self._failures[node] += reply.error.code not in _LOST
                if self._failures[node] <= CRASHES:
                    self._asked.discard(node)
            elif reply.metadata.src_node_id == node:
                self.claims[node] = Turn.of(reply.content).number


class _Asking:
    """One turn of all parties.

    Attributes:
        answers: by party.
        failed: parties whose app failed, ascending.
    """

    def __init__(self, grid: Grid, people: _People, turns: Mapping[int, Turn]) -> None:
        self._grid, self._people, self._asked = grid, people, turns
        self._open: dict[str, int] = {}
        self._at: dict[int, int] = {}
        self._again = dict.fromkeys(turns, float("-inf"))
        self._crashes = dict.fromkeys(turns, 0)
        self.answers: dict[int, Turn] = {}
        self.failed: list[int] = []

    @property
    def waiting(self) -> list[int]:
        """Those that have not answered."""
        return [party for party in self._asked if party not in self.answers]

    def go_on(self) -> None:
        """Sends what is to be sent, and takes what has come."""
        now = time.monotonic()
        self._people.look()
        moved = [p for p in self.waiting if p in self._at and self._people.node_of(p) != self._at[p]]
        due = [party for party in self.waiting if party in moved or self._again[party] <= now]
        self._send(due)
        for identifier, reply in _replies(self._grid, self._open):
            self._hear(self._open.pop(identifier), reply)
        self.failed.sort()

    def _send(self, parties: list[int]) -> None:
        """Sends, once more after a pause where it cannot be sent."""
        self._at |= {party: self._people.node_of(party) for party in parties}
        self._again |= dict.fromkeys(parties, float("inf"))
        party_at = {self._at[party]: party for party in parties}
        result = dict(_send_turns(self._grid, {node: self._asked[party] for node, party in party_at.items()}))
        self._open |= {identifier: party_at[node] for identifier, node in result.items()}
        self._later([party for node, party in party_at.items() if node not in result.values()])

    def _later(self, parties: list[int]) -> None:
        self._again |= dict.fromkeys(parties, time.monotonic() + LOOK_SECONDS)

    def _hear(self, party: int, reply: Message) -> None:
        if party in self.answers:
            return
        if not reply.has_error():
            if reply.metadata.src_node_id == self._at[party]:
                self.answers[party] = self._fitting(party, Turn.of(reply.content))
            return
        crashed = reply.error.code == ErrorCode.CLIENT_APP_CRASHED
        self._crashes[party] += crashed
        if reply.error.code in _LOST or (crashed and self._crashes[party] <= CRASHES):
            self._later([party])
        else:
            self.failed.append(party)

    def _fitting(self, party: int, turn: Turn) -> Turn:
        turn_of_party = self._asked[party]
        if (turn.session, turn.number) != (turn_of_party.session, turn_of_party.number):
            raise ProtocolError(f"party {party} must answer the turn that it is asked for; it answers another one")
        return turn


def _send_turns(grid: Grid, turns: Mapping[int, Turn]) -> Iterator[tuple[str, int]]:
    """Sends a turn to each of some nodes; the name of each message that went off, and its node."""
    messages = [Message(turn.content(), dst_node_id=node, message_type="query") for node, turn in turns.items()]
    if messages:
        for identifier, node in zip(grid.push_messages(messages), turns, strict=False):
            if identifier:
                yield identifier, node


def _replies(grid: Grid, identifiers: Mapping[str, int]) -> Iterator[tuple[str, Message]]:
    """What has come of messages with these names, each once."""
    message_ids: set[str] = set()
    for reply in list(grid.pull_messages(list(identifiers))) if identifiers else ():
        identifier = reply.metadata.reply_to_message_id
        if identifier in identifiers and identifier not in message_ids:
            message_ids.add(identifier)
            yield identifier, reply


def fresh_session() -> bytes:
    """A name for a run that no other run has."""
    return os.urandom(SESSION_BYTES)
