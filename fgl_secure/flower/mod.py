"""The client's side on Flower: a mod around any ClientApp, so that its training leaves the node only in sums.

What a client reports of its own failures is that there was one. Details stay in its own log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from logging import ERROR, WARNING
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common.constant import ErrorCode
from flwr.common.logger import log

from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.sums import SumRequest as RoundRequest
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import InputError, ProtocolError, StaleMessageError, StateFileError
from fgl_secure.flower.kept import StateStore, state_file
from fgl_secure.flower.recorder import ClientRecorder
from fgl_secure.flower.records import (
    AnswerRecord,
    RequestRecord,
    arrays_of,
    digest_of,
    digest_of_configuration,
    only_arrays,
    without_request,
)
from fgl_secure.flower.terms import ClientPolicy, RoundTerms, mapping_of
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.packing import Arrays
from fgl_secure.typing import Array

APP_FAILED = "the app failed; see the log of this client"
NO_PART = (
    "this client takes no part in the round: a number, a metric or its weight is beyond a bound or not finite, or its "
    "arrays are others than it was sent; its log says which"
)
NO_STATE = "this client takes no part in the round: it cannot read or write the file of its state; its log says why"
FIXED = (APP_FAILED, NO_PART, NO_STATE)
"""All sentences that a client says of its own failures."""


class _AppFailedError(ProtocolError):
    """The app of this client failed, or answered with an error; its own log says how."""


def _call_app(call_next: ClientAppCallable, message: Message, context: Context) -> Message:
    """Call the app; what an exception of it says, such as sizes and values, stays in the log of this client."""
    try:
        return call_next(message, context)
    except Exception as error:  # an app may raise anything, and Flower sends the server its text
        log(ERROR, "the app failed", exc_info=error)
    raise _AppFailedError(APP_FAILED)


def _takes_no_part(message: Message, error: Exception, sentence: str = NO_PART) -> Message:
    """Make the reply of a client that does not hand in what it has; its own log says why."""
    log(WARNING, "this client takes no part in the round: %s", error)
    return _refusal(message, sentence)


def _refusal(message: Message, sentence: str) -> Message:
    return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, sentence), reply_to=message)


def _training_reply(message: Message, terms: RoundTerms, context: Context, call_next: ClientAppCallable) -> Message:
    """Have the app train on its own records of the message, which must be those that all other clients are sent."""
    if digest_of(message, digest_of_configuration(context.run_config)) != terms.training:
        raise ProtocolError(
            "message for training and configuration of the run must be those that the terms announce to all clients; "
            "they are not"
        )
    message.content = without_request(message.content)
    reply = _call_app(call_next, message, context)
    if reply.has_error():  # replies to training are not for the server, an error among them is not either
        log(ERROR, "the app replied with error %s: %s", reply.error.code, reply.error.reason)
        raise _AppFailedError(APP_FAILED)
    return reply


def _only_metrics(content: RecordDict, owner: str) -> MetricRecord:
    """The one record of metrics.

    Raises:
        InputError: there is none, or there are several.
    """
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise InputError(f"{owner} must have one MetricRecord; found {len(records)}")
    return records[0]


def _contribution(reply: Message, terms: RoundTerms) -> tuple[dict[str, Any], float]:
    """Return what of an app's reply goes into the sum, and with what weight."""
    metrics = _only_metrics(reply.content, "reply of the app")
    values = {name: _number(metrics, name) for name in terms.metrics}
    arrays = {
        name: value.astype(value.dtype.newbyteorder("="), copy=False)
        for name, value in arrays_of(only_arrays(reply.content, "reply of the app")).items()
    }
    return mapping_of(arrays, values), _number(metrics, terms.weight_key)


def _number(metrics: MetricRecord, name: str) -> float:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"metrics of the app must hold one number under {name!r}; they do not")
    return float(value)


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
        session = bytes.fromhex(self.terms.session)
        return self.earlier if terms.session == self.terms.session else self.earlier + session

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
            earlier[index : index + SESSION_BYTES] for index in range(0, len(earlier), SESSION_BYTES)
        ):
            raise StaleMessageError("session must be the latest one or a new one; found one that was left")
        if len(earlier) >= MOST_SESSIONS * SESSION_BYTES:
            raise ProtocolError(f"sessions of a run must number up to {MOST_SESSIONS} for this client; found more")
        if memory.terms.conditions != terms.conditions:
            raise ProtocolError("conditions must be those of this run's rounds before; bounds, bits or names are not")


_TRAIN = "train"


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
        identity: gives this client's Ed25519 identity from its context, e.g. from a file that the node configuration
            names; None has keys unsigned, and the server trusted not to invent clients.
        trusted: public identities of all that may take part, known from elsewhere than the server.
        policy: what this client asks of a round, such as `min_clients=4`: see `ClientPolicy`.

    Raises:
        InputError: a number of the policy breaks its rule, or an identity without trusted ones, or the other way round.

    Examples:
        app = ClientApp(mods=[SecureAggregationMod(min_clients=4)])
    """

    def __init__(
        self, *, identity: Callable[[Context], Identity] | None = None, trusted: Collection[bytes] = (), **policy: Any
    ) -> None:
        if (identity is None) != (not trusted):
            raise InputError("identity and trusted must be given together; only one is")
        self._policy = ClientPolicy(**policy)
        self._identity = identity
        self._trusted = frozenset(trusted)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Answers a message; see the class.

        Raises:
            ProtocolError: the server asks for what this client does not give, or the app failed; the client's state is
                as before.
            InputError: the terms of a round are none that can be, or the node's configuration asks for a test run with
                an identity, or names only a part of one.
        """
        recorder = ClientRecorder.of(context)
        if recorder is None:
            return self._reply(message, context, call_next, SystemCoins())
        if self._identity is not None:
            raise InputError("identity must not sign a test run, whose randomness is repeatable; found one")
        return recorder.send(self._reply(message, context, call_next, recorder.receive(message)))

    def _reply(self, message: Message, context: Context, call_next: ClientAppCallable, coins: Coins) -> Message:
        if message.metadata.message_type.split(".")[0] != _TRAIN:
            return _call_app(call_next, message, context)
        request = RequestRecord.of(message.content)
        if request is None:
            raise ProtocolError("training must be asked for under secure aggregation; the message is without it")
        if request.asks_for_introduction:
            public_key = b"" if self._identity is None else self._identity(context).public
            return AnswerRecord(identity=public_key, configuration=digest_of_configuration(context.run_config)).to(
                message
            )
        try:
            with StateStore(context, state_file(context)) as keeper:
                return self._answer(request, message, context, call_next, keeper, coins)
        except StateFileError as error:
            return _takes_no_part(message, error, NO_STATE)

    def _answer(
        self,
        request: RequestRecord,
        message: Message,
        context: Context,
        call_next: ClientAppCallable,
        keeper: StateStore,
        coins: Coins,
    ) -> Message:
        run = b"run %d" % context.run_id
        stored = keeper.load(run)
        memory = None if stored is None else Memory.from_arrays(stored)
        part, terms, trained = (
            self._join_round(request, memory, context, coins)
            if request.terms
            else self._resume_round(memory, context, coins)
        )
        round_request = RoundRequest.from_bytes(request.message)
        # Raise unless named ranges are powers of two, as a secure maximum finds them: others would locate a client's.
        bounds = None if round_request.opening is None else round_request.opening.bounds
        if any(math.frexp(bound)[0] != 0.5 for bound in (bounds or {}).values()):
            raise ProtocolError("ranges must be powers of two, as a secure maximum finds them; one is not")
        part.check(request.message)  # before the app trains: what fails later is this client's own, and is counted
        failures, earlier = (0, b"") if memory is None else (memory.failures, memory.before(terms))
        trains = round_request.opening is not None and not trained
        reply: Message | None = None
        try:
            reply = _training_reply(message, terms, context, call_next) if trains else None
            if reply is not None:
                part.provide(*_contribution(reply, terms))
            answer = part.reply(request.message)
        except _AppFailedError:
            keeper.store(run, Memory(terms, b"", True, failures, earlier).arrays)
            return _refusal(message, APP_FAILED)
        except Exception as error:
            if reply is None and isinstance(error, ProtocolError):
                raise
            keeper.store(run, Memory(terms, b"", True, failures + 1, earlier).arrays)
            return _takes_no_part(message, error)
        secrets = b"" if part.over else part.state()
        keeper.store(run, Memory(terms, secrets, trained or trains, failures, earlier).arrays)
        return AnswerRecord(answer).to(message)

    def _join_round(
        self, request: RequestRecord, memory: Memory | None, context: Context, coins: Coins
    ) -> tuple[ClientRound, RoundTerms, bool]:
        """A round that starts, if it is one that this client takes part in."""
        terms = RoundTerms.from_bytes(request.terms)
        Memory.check_new(memory, terms)
        rules = terms.rules()
        self._policy.tighten(context.node_config, context.run_config).check(terms, rules.threshold)
        self._policy.check_failures(0 if memory is None else memory.failures)
        return ClientRound(rules, terms.place, coins, *self._signing(terms, context)), terms, False

    def _resume_round(
        self, memory: Memory | None, context: Context, coins: Coins
    ) -> tuple[ClientRound, RoundTerms, bool]:
        """The round that is under way."""
        if memory is None or not memory.secrets:
            raise StaleMessageError("a round must be under way for this message; none is")
        terms = memory.terms
        signing = self._signing(terms, context)
        return ClientRound.restore(terms.rules(), memory.secrets, coins, *signing), terms, memory.trained

    def _signing(self, terms: RoundTerms, context: Context) -> tuple[Identity | None, Identities | None]:
        """This client's identity and the others', who must all be trusted and differ."""
        if self._identity is None:
            return None, None
        roster = [bytes.fromhex(one) for one in terms.roster]
        if len(roster) != terms.clients or len(set(roster)) != len(roster) or not self._trusted.issuperset(roster):
            raise ProtocolError("roster must name a different trusted identity for each client; it does not")
        identity = self._identity(context)
        if roster[terms.index] != identity.public:
            raise ProtocolError(f"roster must name this client's own identity at {terms.index}; it does not")
        return identity, Identities(dict(enumerate(roster)))


secure_aggregation_mod = SecureAggregationMod()
"""With the defaults: no round of fewer than three, and the numbers that run and node configuration ask for."""
