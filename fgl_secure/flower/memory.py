"""What a client keeps between the messages of a round: in Flower's context, since its process ends after each."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

from fgl_secure.errors import StaleMessageError
from fgl_secure.flower.records import KEY
from fgl_secure.flower.terms import RoundTerms

_TERMS = "terms"
_SECRETS = "secrets"
_TRAINED = "trained"


@dataclass(frozen=True, slots=True)
class Memory:
    """A client's memory of its latest round.

    Attributes:
        terms: of the round.
        secrets: the state of the client's part; empty once it is over. Never leaves the context.
        trained: whether this round's update was made: an app trains once in a round.
    """

    terms: RoundTerms
    secrets: bytes
    trained: bool

    def __repr__(self) -> str:
        return f"Memory(round={self.terms.number}, trained={self.trained}, secrets=<secret>)"

    def keep(self, state: RecordDict) -> None:
        """Writes it to a context's state, in place of what was there."""
        state[KEY] = ConfigRecord({_TERMS: self.terms.to_bytes(), _SECRETS: self.secrets, _TRAINED: self.trained})

    @classmethod
    def of(cls, state: RecordDict) -> Memory | None:
        """What a context's state has; None before the first round."""
        record = state.config_records.get(KEY)
        if record is None:
            return None
        terms, secrets = record[_TERMS], record[_SECRETS]
        assert isinstance(terms, bytes), "written by keep"
        assert isinstance(secrets, bytes), "written by keep"
        return cls(RoundTerms.from_bytes(terms), secrets, bool(record[_TRAINED]))

    @staticmethod
    def check_new(memory: Memory | None, terms: RoundTerms) -> None:
        """Raises unless a round comes after the latest one of its session.

        Raises:
            StaleMessageError: it is that round or one before it.
        """
        if memory is not None and memory.terms.session == terms.session and terms.number <= memory.terms.number:
            raise StaleMessageError(f"round must come after round {memory.terms.number}; found {terms.number}")
