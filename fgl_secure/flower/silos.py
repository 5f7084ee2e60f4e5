"""Methods whose silos are SuperNodes: the app of a node, and the server that is their mailbox.

A node's process ends after each message, so a silo's program is put into the node's context after each turn, as arrays
by name, and taken up from there. The server carries what silos send each other without being able to read it, and
leads the sums that they open; it knows nothing else of what they do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from logging import ERROR

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log
from flwr.serverapp import Grid

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.flower.exchange import POLL_SECONDS, Patience, exchange
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import Array, named_from_bytes, named_to_bytes
from fgl_secure.training.processes.program_run import LEAST_SILOS
from fgl_secure.training.processes.sealing import Post, SealedParty, carried
from fgl_secure.training.processes.sum_server import SumServer

KEY = "fgl-secure.silos"
WHO = -1
"""Number of the turn in which nodes say which party they are."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message asks for or brings.

    Attributes:
        session: 16 public bytes, different in every run.
        number: of the turn, from 0; WHO asks for the number of the node's party.
        post: by the other end.
        report: what the server is told of what a program found in the end; empty until then.
    """

    session: bytes
    number: int
    post: Post
    report: bytes = b""

    def content(self) -> RecordDict:
        """As a record of a message."""
        record = ConfigRecord({"session": self.session, "number": self.number, "report": self.report})
        record["ends"], record["post"] = list(self.post), list(self.post.values())
        return RecordDict({KEY: record})

    @classmethod
    def of(cls, content: RecordDict) -> Turn:
        """Reads a message.

        Raises:
            MalformedMessageError: it has no such record.
        """
        record = content.get(KEY)
        values = [record.get(n) for n in ("session", "number", "ends", "post", "report")] if record else [None]
        match values:
            case [bytes(session), int(number), list(ends), list(post), bytes(report)] if len(session) == SESSION_BYTES:
                who, what = [end for end in ends if isinstance(end, int)], [d for d in post if isinstance(d, bytes)]
                if len(who) == len(set(who)) == len(ends) == len(what) == len(post):
                    return cls(session, number, dict(zip(who, what, strict=True)), report)
        raise MalformedMessageError(f"message must hold a turn under {KEY!r}; it does not")


MOST_TURNS = 10**6
FEWEST = 2
FAILED = "the silo failed; see the log of this node"

TOLD = ("losses", "selected round", "validation", "test")
"""What of a silo's report goes to the server: sums that it opened itself, and what follows from them. Parameters, and
structure features of nodes among them, stay in the node's context."""

MakeParty = Callable[[Context, bytes], SealedParty]
"""Makes a node's party for a session, as it is before the first turn."""


def silo_app(
    party_number: Callable[[Context], int],
    make: MakeParty,
    told: Collection[str] = TOLD,
    *,
    silos: Callable[[Context], int] | None = None,
    least: int = LEAST_SILOS,
) -> ClientApp:
    """The ClientApp of a silo or a relay.

    An error of the party is told to the server by a fixed sentence, and to the node's log in full.

    Args:
        party_number: which party a node is.
        make: makes it, from what the node holds.
        told: names of what the server is told of a report.
        silos: how many there are in the run, as `make` has it from the context; None counts all parties, which is too
            many where some of them are relays.
        least: least silos of a run that this node takes part in, whatever the run's configuration says.

    Raises:
        InputError: least is below 2.
    """
    if least < FEWEST:
        raise InputError(f"least must be at least {FEWEST}, or a sum is of one silo; found {least}")
    app = ClientApp()

    @app.query()
    def turn(message: Message, context: Context) -> Message:
        asked = Turn.of(message.content)
        try:
            if asked.number == WHO:
                return Message(Turn(asked.session, party_number(context), {}).content(), reply_to=message)
            if silos is not None:
                _check_silos(silos(context), least)
            return Message(_turned(asked, context, make, told, least).content(), reply_to=message)
        except _RefusedError:
            raise
        except Exception as error:  # whatever a method raises, with figures of the silo in it
            log(ERROR, "the silo failed", exc_info=error)
        raise ProtocolError(FAILED)

    return app


class _RefusedError(ProtocolError):
    """A turn that this node does not take; the text has nothing of the silo."""


def _check_silos(found: int, least: int) -> None:
    if found < least:
        raise _RefusedError(f"silos must number at least {least} for this node; found {found}")


def _turned(asked: Turn, context: Context, make: MakeParty, told: Collection[str], least: int) -> Turn:
    """One turn of the party whose state the context keeps; the state changes last, and only if all went well."""
    with closing(make(context, asked.session)) as party:
        return _turn_of(party, asked, context, told, least)


def _turn_of(party: SealedParty, asked: Turn, context: Context, told: Collection[str], least: int) -> Turn:
    kept = context.state.config_records.get(KEY)
    if kept is not None and kept["session"] == asked.session:
        state = kept["state"]
        assert isinstance(state, bytes), "written below"
        party.restore(named_from_bytes(state))
    if asked.number != party.turns:
        raise _RefusedError(f"turn must be the next one, {party.turns}; found {asked.number}")
    post = party.turn(asked.post)
    if asked.number == 0:
        _check_silos(len(post) + 1, least)  # a key for each of the others
    found = party.report
    report = b"" if found is None else named_to_bytes({name: found[name] for name in found if name in told})
    state = named_to_bytes(party.state())
    context.state[KEY] = ConfigRecord({"session": asked.session, "state": state})
    return Turn(asked.session, asked.number, post, report)


class SiloMailbox:
    """The server's side of a run.

    Args:
        grid: of the run.
        server: leads sums.
        parties: silos and relays together, a node each.
        timeout: seconds that a turn may take, and that is waited for nodes; None waits for ever.
    """

    def __init__(self, grid: Grid, server: SumServer, parties: int, timeout: float | None = None) -> None:
        self._grid, self._server, self._parties = grid, server, parties
        self._patience = Patience(timeout, parties, None)

    def run(self) -> dict[int, dict[str, Array]]:
        """Runs all turns; the report of every silo.

        Raises:
            InputError: there are not as many nodes as parties, or two nodes say that they are the same one.
            ProtocolError: a node fails, or does not answer in time: silos cannot do without one another.
        """
        node_of = self._nodes()
        posts: dict[int, dict[int, bytes]] = {}
        for number in range(MOST_TURNS):
            turns = self._turn(node_of, number, posts)
            found = self._reports(turns)
            if found is not None:
                return found
            posts = carried({party: turn.post for party, turn in turns.items()}, self._server)
        raise ProtocolError(f"programs must end within {MOST_TURNS:,} turns; they did not")

    def _reports(self, turns: Mapping[int, Turn]) -> dict[int, dict[str, Array]] | None:
        """Of all silos; None until every one has reported."""
        reports = {silo: turns[silo].report for silo in range(self._server.silos)}
        return {silo: named_from_bytes(data) for silo, data in reports.items()} if all(reports.values()) else None

    def _nodes(self) -> dict[int, int]:
        """The node of each party, by what nodes say of themselves."""
        nodes = dict(enumerate(self._awaited()))
        if len(nodes) != self._parties:
            raise InputError(f"nodes must be {self._parties}, one a party; found {len(nodes)}")
        told = self._turn(nodes, WHO, {})
        found = {turn.number: nodes[place] for place, turn in told.items()}
        if set(found) != set(range(self._parties)):
            raise InputError(f"nodes must be parties 0..{self._parties - 1}, one each; found {sorted(found)}")
        return found

    def _awaited(self) -> list[int]:
        """All nodes, once there are enough of them or the time is up."""
        end = None if self._patience.timeout is None else time.monotonic() + self._patience.timeout
        while len(nodes := list(self._grid.get_node_ids())) < self._parties and (end is None or time.monotonic() < end):
            time.sleep(POLL_SECONDS)
        return nodes

    def _turn(self, node_of: dict[int, int], number: int, posts: dict[int, dict[int, bytes]]) -> dict[int, Turn]:
        asked = {
            party: Message(
                content=Turn(self._server.session, number, posts.get(party, {})).content(),
                dst_node_id=node,
                message_type="query",
            )
            for party, node in node_of.items()
        }
        replies = exchange(self._grid, asked, self._patience)
        failed = sorted(party for party, reply in replies.items() if reply.has_error())
        silent = sorted(set(asked) - set(replies))
        if failed or silent:
            raise ProtocolError(
                f"all {self._parties} parties must answer turn {number}; silent: {silent}; failed, as their nodes' own "
                f"logs say: {failed}"
            )
        return {party: Turn.of(reply.content) for party, reply in replies.items()}


def fresh_session() -> bytes:
    """A name for a run that no other run has."""
    return os.urandom(SESSION_BYTES)
