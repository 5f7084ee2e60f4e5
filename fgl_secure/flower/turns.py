"""What the mailbox and a silo's node write into each other's messages."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

from fgl_secure.errors import MalformedMessageError
from fgl_secure.methods.silos.sealing import Post
from fgl_secure.runtime.messages import SESSION_BYTES

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
