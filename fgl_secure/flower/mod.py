"""The client's side on Flower: a mod around any ClientApp, so that its training leaves the node only in sums."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.sums import Request as RoundRequest
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError, StaleMessageError, StateFileError
from fgl_secure.flower import guard
from fgl_secure.flower.contribution import check_ranges, contribution, training_reply
from fgl_secure.flower.kept import Keeper, state_file
from fgl_secure.flower.policy import (
    LEAST_BOUND,
    LEAST_CLIENTS,
    LEAST_THRESHOLD,
    LEAST_WEIGHT_BOUND,
    MAX_FAILURES,
    PROTECTING,
    WEIGHT_KEY,
    ClientPolicy,
)
from fgl_secure.flower.records import Answer, Request, digest_of_configuration
from fgl_secure.flower.terms import RoundTerms
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import Arrays
from fgl_secure.typing import Array

MOST_SESSIONS = 2**10
"""Sessions of a run that a client takes part in; it remembers all of them."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A client's memory of its latest round.

    Attributes:
        terms: of the round.
        secrets: the state of the client's part; empty once it is over. Never leaves the client's file.
        trained: whether this round's update was made: an app trains once in a round.
        failures: rounds so far in which this client did not hand in what it had.
        earlier: the sessions before, 16 bytes each, none of which is gone back to.
    """

    terms: RoundTerms
    secrets: bytes
    trained: bool
    failures: int = 0
    earlier: bytes = b""

    def __repr__(self) -> str:
        return f"Memory(round={self.terms.number}, trained={self.trained}, secrets=<secret>)"

    @property
    def arrays(self) -> dict[str, Array]:
        """All of it, as a file keeps it."""
        strings = {"terms": self.terms.to_bytes(), "secrets": self.secrets, "earlier": self.earlier}
        return {
            **{name: np.frombuffer(value, np.uint8) for name, value in strings.items()},
            "trained": np.asarray(self.trained, np.bool_),
            "failures": np.asarray(self.failures, np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Memory:
        """What a file has kept."""
        terms, secrets, earlier = (arrays[name].tobytes() for name in ("terms", "secrets", "earlier"))
        return cls(RoundTerms.from_bytes(terms), secrets, bool(arrays["trained"]), int(arrays["failures"]), earlier)

    def before(self, terms: RoundTerms) -> bytes:
        """The sessions before the one of some terms, which is the latest or a new one."""
        own = bytes.fromhex(self.terms.session)
        return self.earlier if terms.session == self.terms.session else self.earlier + own

    @staticmethod
    def check_new(memory: Memory | None, terms: RoundTerms) -> None:
        """Raises unless a round comes after the latest one, in its session or a new one, on the same conditions.

        The conditions hold for all sessions of a run: a server that lowered its bound from round to round, or asked
        for more fraction bits, would see at which of them this client is out.

        Raises:
            StaleMessageError: it is that round or one before it, or of a session that was left.
            ProtocolError: bounds, fraction bits or names are not those of the rounds before, or there were too many
                sessions.
        """
        if memory is None:
            return
        if memory.terms.session == terms.session and terms.number <= memory.terms.number:
            raise StaleMessageError(f"round must come after round {memory.terms.number}; found {terms.number}")
        earlier = memory.before(terms)
        if bytes.fromhex(terms.session) in (
            earlier[at : at + SESSION_BYTES] for at in range(0, len(earlier), SESSION_BYTES)
        ):
            raise StaleMessageError("session must be the latest one or a new one; found one that was left")
        if len(earlier) >= MOST_SESSIONS * SESSION_BYTES:
            raise ProtocolError(f"sessions of a run must number up to {MOST_SESSIONS} for this client; found more")
        if memory.terms.conditions != terms.conditions:
            raise ProtocolError("conditions must be those of this run's rounds before; bounds, bits or names are not")


TRAIN = "train"


class SecureAggregationMod:
    """Goes into `ClientApp(mods=[...])`, the first of all mods, and needs no change in the app.

    A message for training is answered only as part of a round of secure aggregation: keys, shares of them, the
    protected update, what others say of who is in, and what opens the sum. The app trains once in a round, before its
    first answer; of its reply nothing goes to the server but the arrays, the weight and the metrics that are averaged,
    all of them inside the sum. A message for training without secure aggregation is refused, and so is one that is not
    for all clients alike, or comes under another configuration of the run: the round's terms name the digest of both,
    and clients with different terms have no sum. Other messages (evaluate, query) go to the app as they are, and their
    replies back to the server in the open.

    What goes wrong in the app, or with what it hands in, is told to the server by a fixed sentence and to the client's
    log in full: Flower would send the text of every exception to the server.

    State between messages, secrets of the round among it, is in a file and nowhere else: the one that `state` of the
    node's configuration names, else one for run and node in the folder FGL_SECURE_STATE. It is on disk before an answer
    leaves. A message is answered by the latest state, whatever context Flower hands over, and never twice.

    Args:
        min_clients: least clients of a round that this client takes part in.
        min_threshold: least clients whose sum may be opened.
        schemes: names of schemes that are trusted; None takes `PROTECTING`, which hold against a server that lies.
        bounded: whether a public bound is asked for, so that ranges are not found out together.
        weight_key: name of the metric that is this client's weight, the strategy's `weighted_by_key`.
        least_weight_bound: least `weight_bound` of a round, above all weights that are to be hidden.
        least_bound: least `bound` of a round that names one. Ranges that clients find out together may be any.
        metrics: names of metrics that may be averaged.
        max_failures: rounds of a run that may fail at this client by what it has itself, before it refuses any more.
        max_clients: most clients of a round that this client takes part in; None for any number.
        sparse: whether each client may mask with a few neighbours where there are more than 64, which does not hold
            against a server that lies about who dropped out.
        identity: gives this client's Ed25519 identity from its context, e.g. from a file that the node configuration
            names; None has keys unsigned, and the server trusted not to invent clients.
        trusted: public identities of all that may take part, known from elsewhere than the server.

    Raises:
        InputError: a number breaks its rule, or an identity without trusted ones, or the other way round.
    """

    def __init__(
        self,
        *,
        min_clients: int = LEAST_CLIENTS,
        min_threshold: int = LEAST_THRESHOLD,
        schemes: Collection[str] | None = None,
        bounded: bool = False,
        weight_key: str = WEIGHT_KEY,
        least_weight_bound: float = LEAST_WEIGHT_BOUND,
        least_bound: float = LEAST_BOUND,
        metrics: Collection[str] = (),
        max_failures: int = MAX_FAILURES,
        max_clients: int | None = None,
        sparse: bool = False,
        identity: Callable[[Context], Identity] | None = None,
        trusted: Collection[bytes] = (),
    ) -> None:
        if (identity is None) != (not trusted):
            raise InputError("identity and trusted must be given together; only one is")
        self._policy = ClientPolicy(
            min_clients=min_clients,
            min_threshold=min_threshold,
            schemes=PROTECTING if schemes is None else tuple(schemes),
            bounded=bounded,
            weight_key=weight_key,
            least_weight_bound=least_weight_bound,
            least_bound=least_bound,
            metrics=tuple(metrics),
            max_failures=max_failures,
            max_clients=max_clients,
            sparse=sparse,
        )
        self._identity = identity
        self._trusted = frozenset(trusted)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Answers a message; see the class.

        Raises:
            ProtocolError: the server asks for what this client does not give, or the app failed; the client's state is
                as before.
            InputError: the terms of a round are none that can be.
        """
        if message.metadata.message_type.split(".")[0] != TRAIN:
            return guard.called(call_next, message, context)
        request = Request.of(message.content)
        if request is None:
            raise ProtocolError("training must be asked for under secure aggregation; the message is without it")
        if request.asks_for_introduction:
            own = b"" if self._identity is None else self._identity(context).public
            return Answer(identity=own, configuration=digest_of_configuration(context.run_config)).to(message)
        try:
            with Keeper(context, state_file(context)) as keeper:
                return self._answered(request, message, context, call_next, keeper)
        except StateFileError as error:
            return guard.takes_no_part(message, error, guard.NO_STATE)

    def _answered(
        self, request: Request, message: Message, context: Context, call_next: ClientAppCallable, keeper: Keeper
    ) -> Message:
        run = b"run %d" % context.run_id
        known = keeper.load(run)
        memory = None if known is None else Memory.from_arrays(known)
        part, terms, trained = (
            self._joined(request, memory, context) if request.terms else self._resumed(memory, context)
        )
        asked = RoundRequest.from_bytes(request.message)
        check_ranges(asked)
        part.check(request.message)  # before the app trains: what fails later is this client's own, and is counted
        failures, earlier = (0, b"") if memory is None else (memory.failures, memory.before(terms))
        trains = asked.opening is not None and not trained
        reply: Message | None = None
        try:
            reply = training_reply(message, terms, context, call_next) if trains else None
            if reply is not None:
                part.provide(*contribution(reply, terms))
            answer = part.reply(request.message)
        except guard.AppFailedError:
            keeper.store(run, Memory(terms, b"", True, failures, earlier).arrays)
            return guard.refusal(message, guard.APP_FAILED)
        except Exception as error:
            if reply is None and isinstance(error, ProtocolError):
                raise
            keeper.store(run, Memory(terms, b"", True, failures + 1, earlier).arrays)
            return guard.takes_no_part(message, error)
        secrets = b"" if part.over else part.state()
        keeper.store(run, Memory(terms, secrets, trained or trains, failures, earlier).arrays)
        return Answer(answer).to(message)

    def _joined(
        self, request: Request, memory: Memory | None, context: Context
    ) -> tuple[ClientRound, RoundTerms, bool]:
        """A round that starts, if it is one that this client takes part in."""
        terms = RoundTerms.from_bytes(request.terms)
        Memory.check_new(memory, terms)
        rules = terms.rules()
        self._policy.tightened(context.node_config, context.run_config).check(terms, rules.threshold)
        self._policy.check_failures(0 if memory is None else memory.failures)
        return ClientRound(rules, terms.place, SystemCoins(), *self._signing(terms, context)), terms, False

    def _resumed(self, memory: Memory | None, context: Context) -> tuple[ClientRound, RoundTerms, bool]:
        """The round that is under way."""
        if memory is None or not memory.secrets:
            raise StaleMessageError("a round must be under way for this message; none is")
        terms = memory.terms
        signing = self._signing(terms, context)
        return ClientRound.restored(terms.rules(), memory.secrets, SystemCoins(), *signing), terms, memory.trained

    def _signing(self, terms: RoundTerms, context: Context) -> tuple[Identity | None, Identities | None]:
        """This client's identity and the others', who must all be trusted and differ."""
        if self._identity is None:
            return None, None
        roster = [bytes.fromhex(one) for one in terms.roster]
        if len(roster) != terms.clients or len(set(roster)) != len(roster) or not self._trusted.issuperset(roster):
            raise ProtocolError("roster must name a different trusted identity for each client; it does not")
        own = self._identity(context)
        if roster[terms.index] != own.public:
            raise ProtocolError(f"roster must name this client's own identity at {terms.index}; it does not")
        return own, Identities(dict(enumerate(roster)))


secure_aggregation_mod = SecureAggregationMod()
"""With the defaults: no round of fewer than three, and the numbers that run and node configuration ask for."""
