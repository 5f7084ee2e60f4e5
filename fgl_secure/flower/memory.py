"""What a client keeps between the messages of a round: in Flower's context, since its process ends after each."""

from __future__ import annotations

from dataclasses import dataclass

from flwr.app import ConfigRecord, RecordDict

from fgl_secure.errors import ProtocolError, StaleMessageError
from fgl_secure.flower.records import KEY
from fgl_secure.flower.terms import RoundTerms

_TERMS = "terms"
_SECRETS = "secrets"
_TRAINED = "trained"
_FAILURES = "failures"


@dataclass(frozen=True, slots=True)
class Memory:
    """A client's memory of its latest round.

    Attributes:
        terms: of the round.
        secrets: the state of the client's part; empty once it is over. Never leaves the context.
        trained: whether this round's update was made: an app trains once in a round.
        failures: rounds so far in which this client did not hand in what it had.
    """

    terms: RoundTerms
    secrets: bytes
    trained: bool
    failures: int = 0

    def __repr__(self) -> str:
        return f"Memory(round={self.terms.number}, trained={self.trained}, secrets=<secret>)"

    def keep(self, state: RecordDict) -> None:
        """Writes it to a context's state, in place of what was there."""
        record = ConfigRecord({_TERMS: self.terms.to_bytes(), _SECRETS: self.secrets})
        record[_TRAINED], record[_FAILURES] = self.trained, self.failures
        state[KEY] = record

    @classmethod
    def of(cls, state: RecordDict) -> Memory | None:
        """What a context's state has; None before the first round."""
        record = state.config_records.get(KEY)
        if record is None:
            return None
        terms, secrets, failures = record[_TERMS], record[_SECRETS], record[_FAILURES]
        assert isinstance(terms, bytes), "written by keep"
        assert isinstance(secrets, bytes), "written by keep"
        assert isinstance(failures, int), "written by keep"
        return cls(RoundTerms.from_bytes(terms), secrets, bool(record[_TRAINED]), failures)

    @staticmethod
    def check_new(memory: Memory | None, terms: RoundTerms) -> None:
        """Raises unless a round comes after the latest one of its session, on the same conditions.

        The conditions hold for all sessions of a run: a server that lowered its bound from round to round, or asked
        for more fraction bits, would see at which of them this client is out.

        Raises:
            StaleMessageError: it is that round or one before it.
            ProtocolError: bounds, fraction bits or names are not those of the rounds before.
        """
        if memory is None:
            return
        if memory.terms.session == terms.session and terms.number <= memory.terms.number:
            raise StaleMessageError(f"round must come after round {memory.terms.number}; found {terms.number}")
        if memory.terms.conditions != terms.conditions:
            raise ProtocolError("conditions must be those of this run's rounds before; bounds, bits or names are not")
