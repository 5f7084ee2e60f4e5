"""The client's side on Flower: a mod around any ClientApp, so that its training leaves the node only in sums."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from flwr.app import Context, Message, MetricRecord
from flwr.clientapp.typing import ClientAppCallable

from fgl_secure.aggregation.messages import Request as RoundRequest
from fgl_secure.aggregation.roles import ClientRound
from fgl_secure.aggregation.rules import Purpose
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError, StaleMessageError
from fgl_secure.flower.digest import digest_of
from fgl_secure.flower.memory import Memory
from fgl_secure.flower.policy import LEAST_CLIENTS, LEAST_THRESHOLD, PROTECTING, WEIGHT_KEY, ClientPolicy
from fgl_secure.flower.records import Answer, Request, arrays_of, only_arrays, only_metrics, without_request
from fgl_secure.flower.terms import RoundTerms, mapping_of
from fgl_secure.protocols.staged.envelope import stage_of
from fgl_secure.protocols.staged.identity import Identities, Identity
from fgl_secure.protocols.staged.interface import Stage

TRAIN = "train"


class SecureAggregationMod:
    """Goes into `ClientApp(mods=[...])`, the first of all mods, and needs no change in the app.

    A message for training is answered only as part of a round of secure aggregation: keys, shares of them, the
    protected update, what others say of who is in, and what opens the sum. The app trains once in a round, when the
    update is due; of its reply nothing goes to the server but the arrays, the weight and the metrics that are averaged,
    all of them inside the sum. A message for training without secure aggregation is refused, and so is one that is not
    for all clients alike: the round's terms name its digest, and clients with different terms have no sum. Other
    messages (evaluate, query) go to the app as they are, and their replies back to the server in the open.

    State between messages is kept in `context.state`, secrets of the round among it, and nowhere else.

    Args:
        min_clients: least clients of a round that this client takes part in.
        min_threshold: least clients whose sum may be opened.
        schemes: names of schemes that are trusted; None takes all that protect.
        bounded: whether a public bound is asked for, so that ranges are not found out together.
        weight_key: name of the metric that is this client's weight, the strategy's `weighted_by_key`.
        identity: gives this client's Ed25519 identity from its context, e.g. from a file that the node configuration
            names; None has keys unsigned, and the server trusted not to invent clients.
        trusted: public identities of all that may take part, known from elsewhere than the server.

    Raises:
        InputError: numbers below 2, or an identity without trusted ones, or the other way round.
    """

    def __init__(
        self,
        *,
        min_clients: int = LEAST_CLIENTS,
        min_threshold: int = LEAST_THRESHOLD,
        schemes: Collection[str] | None = None,
        bounded: bool = False,
        weight_key: str = WEIGHT_KEY,
        identity: Callable[[Context], Identity] | None = None,
        trusted: Collection[bytes] = (),
    ) -> None:
        if (identity is None) != (not trusted):
            raise InputError("identity and trusted must be given together; only one is")
        self._policy = ClientPolicy(
            min_clients, min_threshold, PROTECTING if schemes is None else tuple(schemes), bounded, weight_key
        )
        self._identity = identity
        self._trusted = frozenset(trusted)

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """Answers a message; see the class.

        Raises:
            ProtocolError: the server asks for what this client does not give; its state is as before.
            InputError: the app's reply cannot be averaged.
        """
        if message.metadata.message_type.split(".")[0] != TRAIN:
            return call_next(message, context)
        request = Request.of(message.content)
        if request is None:
            raise ProtocolError("training must be asked for under secure aggregation; the message is without it")
        if request.asks_for_identity:
            return Answer(identity=self._own(context).public).to(message)
        return self._stage(request, message, context, call_next)

    def _stage(self, request: Request, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        memory = Memory.of(context.state)
        part, terms, trained = (
            self._joined(request, memory, context) if request.terms else self._resumed(memory, context)
        )
        stage = RoundRequest.from_bytes(request.message)
        if stage_of(stage.message) is Stage.VECTORS and not trained:
            reply = _trained(message, terms, context, call_next)
            if reply.has_error():
                return reply
            part.provide(*_contribution(reply, terms))
            trained = True
        answer = Answer(part.reply(request.message)).to(message)
        over = stage.purpose is Purpose.VALUES and stage_of(stage.message) is Stage.OPENING
        Memory(terms, b"" if over else part.state(), trained).keep(context.state)
        return answer

    def _joined(
        self, request: Request, memory: Memory | None, context: Context
    ) -> tuple[ClientRound, RoundTerms, bool]:
        """A round that starts, if it is one that this client takes part in."""
        terms = RoundTerms.from_bytes(request.terms)
        Memory.check_new(memory, terms)
        rules = terms.rules()
        policy = self._policy.tightened(context.node_config, context.run_config)
        policy.check(terms.scheme, terms.clients, rules.threshold, terms.bound is not None, terms.weight_key)
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
        own = self._own(context)
        if roster[terms.index] != own.public:
            raise ProtocolError(f"roster must name this client's own identity at {terms.index}; it does not")
        return own, Identities(dict(enumerate(roster)))

    def _own(self, context: Context) -> Identity:
        if self._identity is None:
            raise ProtocolError("identity must be given to this client for the server to ask for it; none is")
        return self._identity(context)


def _trained(message: Message, terms: RoundTerms, context: Context, call_next: ClientAppCallable) -> Message:
    """The app's reply to its own records of the message, which must be what everybody else is sent too.

    Raises:
        ProtocolError: they are not what the terms of the round announce to all.
    """
    if digest_of(message) != terms.training:
        raise ProtocolError("message for training must be the one that the terms announce to all clients; it is not")
    message.content = without_request(message.content)
    return call_next(message, context)


def _contribution(reply: Message, terms: RoundTerms) -> tuple[dict[str, Any], float]:
    """What goes into the sum of an app's reply, and with what weight."""
    metrics = only_metrics(reply.content, "reply of the app")
    wanted = {name: _number(metrics, name) for name in terms.metrics}
    arrays = arrays_of(only_arrays(reply.content, "reply of the app"))
    return mapping_of(arrays, wanted), _number(metrics, terms.weight_key)


def _number(metrics: MetricRecord, name: str) -> float:
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"metrics of the app must hold one number under {name!r}; they do not")
    return float(value)


secure_aggregation_mod = SecureAggregationMod()
"""With the defaults: no round of fewer than three, and the numbers that run and node configuration ask for."""
