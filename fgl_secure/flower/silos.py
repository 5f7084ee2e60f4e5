"""Methods whose silos are SuperNodes: the app of a node.

A node's process ends after each message, so a silo's program is kept after each turn, as arrays by name, and taken up
from there: in the file that `state` of its configuration names, with which a SuperNode that was killed goes on, or in
one of the user's. What it answered is kept with it, and given again where the same turn is asked for once more. A file
belongs to one session: a server that opened a second one could ask for sums with other silos in them, and subtract.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from logging import ERROR, WARNING
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.flower.kept import KEY, StateStore, state_file
from fgl_secure.flower.records import digest_of_configuration
from fgl_secure.host import library_settings
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import Arrays, named_to_bytes, under, within
from fgl_secure.threads import one_thread
from fgl_secure.training.processes.process import Post, SealedParty
from fgl_secure.training.processes.program_run import LEAST_SILOS
from fgl_secure.typing import Array

WHO = -1
"""Number of the turn in which nodes say which party they are."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one message asks for or brings.

    Attributes:
        session: 16 public bytes, different in every run.
        number: of the turn, from 0; WHO asks for the number of the node's party.
        post: by the other end.
        report: what the server is told of what a program has found, where a round has ended; empty otherwise.
        over: whether the program has ended.
        due: the collective that the party waits for, in words; empty where there is none.
    """

    session: bytes
    number: int
    post: Post
    report: bytes = b""
    over: bool = False
    due: str = ""

    def content(self) -> RecordDict:
        """As a record of a message."""
        record = ConfigRecord({"session": self.session, "number": self.number, "report": self.report})
        record["ends"], record["post"] = list(self.post), list(self.post.values())
        record["over"], record["due"] = self.over, self.due
        return RecordDict({KEY: record})

    @classmethod
    def of(cls, content: RecordDict) -> Turn:
        """Reads a message.

        Raises:
            MalformedMessageError: it has no such record.
        """
        record = content.get(KEY)
        values = [record.get(name) for name in _FIELDS] if record else [None]
        match values:
            case [bytes(session), int(number), list(ends), list(post), bytes(report), bool(over), str(due)] if (
                len(session) == SESSION_BYTES and len(due) <= _MOST_DUE and (not due or due.isprintable())
            ):
                senders, what = [end for end in ends if isinstance(end, int)], [d for d in post if isinstance(d, bytes)]
                if len(senders) == len(set(senders)) == len(ends) == len(what) == len(post):
                    return cls(session, number, dict(zip(senders, what, strict=True)), report, over, due)
        raise MalformedMessageError(f"message must hold a turn under {KEY!r}; it does not")

    @property
    def arrays(self) -> dict[str, Array]:
        """All but the session, as a state keeps it."""
        texts = {"report": self.report, "due": self.due.encode()}
        return {
            "number": np.asarray(self.number, dtype=np.int64),
            "over": np.asarray(self.over, dtype=np.bool_),
            "ends": np.array(list(self.post), dtype=np.int64),
            **{name: np.frombuffer(text, np.uint8) for name, text in texts.items()},
            **{f"post/{end}": np.frombuffer(data, np.uint8) for end, data in self.post.items()},
        }

    @classmethod
    def from_arrays(cls, session: bytes, arrays: Arrays) -> Turn:
        """A turn that was kept."""
        post = {end: arrays[f"post/{end}"].tobytes() for end in arrays["ends"].tolist()}
        report, due = arrays["report"].tobytes(), arrays["due"].tobytes().decode()
        return cls(session, int(arrays["number"]), post, report, bool(arrays["over"]), due)


_MOST_DUE = 100
"""Letters of what names a collective."""
_FIELDS = ("session", "number", "ends", "post", "report", "over", "due")
_FEWEST = 2
# Whether a turn fails depends on the silo's numbers. Of messages that a server makes up for one turn, the first that
# fail are the only ones that a silo tries.
FAILED_POST = "failed post"
_FAILED = "the silo failed; see the log of this node"
_UNSIGNED = (
    "keys are unsigned: a server in the middle could read messages between silos; name files in `identity` and "
    "`identities` of the node's configuration to sign them"
)

TOLD = ("losses", "selected round", "validation", "test")
"""What of a silo's report goes to the server: sums that it opened itself, and what follows from them. Parameters, and
structure features of nodes among them, stay in the node's context."""

MakeParty = Callable[[Context, bytes], SealedParty]
"""Makes a node's party for a session, as it is before the first turn."""


def load_identities(context: Context) -> tuple[Identity | None, Identities | None]:
    """What `identity` and `identities` of a node's configuration name, for `ProgramRun.party`; None for none.

    The first is the file of the party's own secret identity, the second that of the public ones of all parties.

    Raises:
        InputError: a file holds something else.
    """
    identity_path, public = (str(context.node_config.get(name, "")) for name in ("identity", "identities"))
    return Identity.load(Path(identity_path)) if identity_path else None, Identities.load(
        Path(public)
    ) if public else None


def silo_app(
    party_number: Callable[[Context], int],
    make: MakeParty,
    told: Collection[str] = TOLD,
    *,
    silos: Callable[[Context], int] | None = None,
    least: int = LEAST_SILOS,
    keep: Callable[[Context], Path | None] = state_file,
) -> ClientApp:
    """The ClientApp of a silo or a relay.

    An error of the party is told to the server by a fixed sentence, and to the node's log in full. The node takes part
    in one session for each state file, or context where it has none, and under one configuration of the run: messages
    of parties that were sent another one do not open.

    Args:
        party_number: which party a node is.
        make: makes it, from what the node holds.
        told: names of what the server is told of a report.
        silos: how many there are in the run, as `make` has it from the context; None counts all parties, which is too
            many where some of them are relays.
        least: least silos of a run that this node takes part in, whatever the run's configuration says.
        keep: gives the file in which the node keeps its party between messages; None for one of the run and node.

    Raises:
        InputError: least is below 2.
    """
    if least < _FEWEST:
        raise InputError(f"least must be at least {_FEWEST}, or a sum is of one silo; found {least}")
    app = ClientApp()

    @app.query()
    def turn(message: Message, context: Context) -> Message:
        turn_request = Turn.of(message.content)
        try:
            if turn_request.number == WHO:
                return Message(Turn(turn_request.session, party_number(context), {}).content(), reply_to=message)
            if silos is not None:
                _check_silos(silos(context), least)
            # no decorators of this function: Flower's simulation pickles it, and they can't be
            with library_settings(), one_thread(), StateStore(context, keep(context)) as keeper:
                answer = _run_turn(turn_request, party_number(context), context, keeper, make, told, least)
            return Message(answer.content(), reply_to=message)
        except _RefusedError:
            raise
        except Exception as error:  # whatever a method raises, with figures of the silo in it
            log(ERROR, "the silo failed", exc_info=error)
        raise ProtocolError(_FAILED)

    return app


class _RefusedError(ProtocolError):
    """A turn that this node does not take; the text has nothing of the silo."""


def _check_silos(result: int, least: int) -> None:
    if result < least:
        raise _RefusedError(f"silos must number at least {least} for this node; found {result}")


def _run_turn(
    turn: Turn,
    number: int,
    context: Context,
    keeper: StateStore,
    make: MakeParty,
    public_names: Collection[str],
    least: int,
) -> Turn:
    """One turn of the party that the node keeps; its state changes last, and only if all went well.

    After a turn that failed, the state has a digest of that turn's messages in addition, and other messages for it are
    refused.
    """
    stored = keeper.load(turn.session)
    if stored is None and keeper.session is not None:
        raise _RefusedError(
            f"session must be the one that {keeper} belongs to; found another one, and a new run needs another file in "
            "`state` of the node's configuration"
        )
    if stored is not None and int(stored["number"]) != number:
        raise _RefusedError(
            f"{keeper} must be of one party; found party {int(stored['number'])} in it, and {number} here: give each "
            "node a `state` of its own"
        )
    if stored is not None and int(stored["reply/number"]) == turn.number:
        return Turn.from_arrays(turn.session, within("reply", stored))
    incoming = _digest_of_post(turn.post)
    if stored is not None and FAILED_POST in stored and not np.array_equal(stored[FAILED_POST], incoming):
        raise _RefusedError("a turn that failed must be repeated with the same messages; found others")
    party = make(context, turn.session)
    with closing(party.program):
        party.agreed = digest_of_configuration(context.run_config)
        if stored is not None:
            party.restore(within("party", stored))
        elif not party.is_signed:
            log(WARNING, _UNSIGNED)
        try:
            answer = _turn_of(party, turn, public_names, least)
        except _RefusedError:
            raise
        except Exception:
            if stored is not None:
                keeper.store(turn.session, {**stored, FAILED_POST: incoming})
            raise
        state = {**under("party", party.state()), **under("reply", answer.arrays)}
        keeper.store(turn.session, {"number": np.asarray(number, dtype=np.int64), **state})
    return answer


def _digest_of_post(post: Post) -> Array:
    """uint8 [32]: SHA-256 over who sent what, in the order of parties."""
    digest = sha256()
    for end in sorted(post):
        digest.update(b"%d %d " % (end, len(post[end])) + post[end])
    return np.frombuffer(digest.digest(), np.uint8)


def _turn_of(party: SealedParty, turn: Turn, public_names: Collection[str], least: int) -> Turn:
    if turn.number != party.turns:
        raise _RefusedError(f"turn must be the next one, {party.turns}; found {turn.number}")
    post = party.turn(turn.post)
    if turn.number == 0:
        _check_silos(len(post) + 1, least)  # a key for each of the others
    result = party.program.round_report
    report = b"" if result is None else named_to_bytes({name: result[name] for name in result if name in public_names})
    return Turn(turn.session, turn.number, post, report, party.program.report is not None, party.due)
