"""The server's rounds of secure aggregation over a Grid: messages and replies, clients that drop out, and the mean."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from typing import Any

from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.serverapp import Grid

from fgl_secure.aggregation.arguments import integer_of
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import FglSecureError, InputError, MalformedMessageError, ProtocolError, TooFewClientsError
from fgl_secure.flower.mod import FIXED
from fgl_secure.flower.records import (
    ARRAYS,
    KEY,
    METRICS,
    AnswerRecord,
    RequestRecord,
    arrays_of,
    digest_of,
    digest_of_configuration,
    only_arrays,
    typed_record,
    types_of,
)
from fgl_secure.flower.terms import RoundTerms, mapping_of
from fgl_secure.runtime import Recording
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.schemes import server_scheme

POLL_SECONDS = 0.25
_NO_INTRODUCTION = "no introduction in time; is the node there, and does the ClientApp have SecureAggregationMod?"
"""Why a node is out that has not said who it is."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a stage waits.

    Attributes:
        timeout: seconds until everybody who has not answered has dropped out; None waits for all.
        enough: answers that suffice to go on.
        grace: seconds that the others get once there are enough; None gives them until the timeout.
    """

    timeout: float | None
    enough: int
    grace: float | None


def exchange(grid: Grid, messages: Mapping[int, Message], patience: Patience) -> dict[int, Message]:
    """Sends one message to each of several clients and collects their replies, errors among them.

    A reply belongs to the client whose message it answers, and comes from that client's node: a reply that another
    node claims to give is left out. Asks for replies every quarter of a second, where Flower's own waits for three.

    Args:
        grid: of the run.
        messages: by client.
        patience: how long to wait.

    Returns:
        The replies that came in time, by client.
    """
    pending = list(messages.items())
    identifiers = list(grid.push_messages([message for _, message in pending]))
    client_of = {message.metadata.message_id: client for client, message in pending if message.metadata.message_id}
    awaited = {identifier for identifier in identifiers if identifier in client_of}
    replies: dict[int, Message] = {}
    start, enough_at = time.monotonic(), None
    while awaited:
        for reply in grid.pull_messages(list(awaited)):
            identifier = reply.metadata.reply_to_message_id
            if identifier in awaited:
                awaited.discard(identifier)
                client = client_of[identifier]
                # an error may be the link's own; an answer must come from the node that was asked
                if reply.has_error() or reply.metadata.src_node_id == messages[client].metadata.dst_node_id:
                    replies[client] = reply
        if enough_at is None and sum(not reply.has_error() for reply in replies.values()) >= patience.enough:
            enough_at = time.monotonic()
        if not awaited or _over(patience, start, enough_at):
            break
        time.sleep(POLL_SECONDS)
    return replies


def _over(patience: Patience, start: float, enough_at: float | None) -> bool:
    now = time.monotonic()
    late = patience.timeout is not None and now - start >= patience.timeout
    return late or (enough_at is not None and patience.grace is not None and now - enough_at >= patience.grace)


def _known_nodes(
    requests: Sequence[Message],
    introduced: Mapping[int, AnswerRecord],
    identities: Collection[bytes],
    failures: dict[int, str],
) -> tuple[list[Message], tuple[str, ...]]:
    """Return the messages to nodes whose identities are known, and these in hexadecimal digits; note the others.

    A node proves nothing yet: one that names another's identity cannot sign with it, and clients will refuse its keys.
    """
    identity_of = {i: introduced[i].identity if i in introduced else b"" for i in range(len(requests))}
    times = Counter(identity_of.values())
    known_nodes = [i for i, identity in identity_of.items() if identity in identities and times[identity] == 1]
    for i in sorted(set(identity_of) - set(known_nodes)):
        why = "one that is known and its own is missing" if i in introduced else _NO_INTRODUCTION
        failures[requests[i].metadata.dst_node_id] = f"IDENTITY: {why}"
    return [requests[i] for i in known_nodes], tuple(identity_of[i].hex() for i in known_nodes)


_SILENT = "no answer in time"
"""Why a node is out that said nothing, and so nothing against the round."""
REFUSED = "an error instead of an answer; the node's own log says why"
"""Why a node is out that replied with an error. What it wrote with it is neither kept nor logged, unless it is one of
the sentences that the mod always says."""
_NO_MOD = "its reply is not one of secure aggregation; does the ClientApp have SecureAggregationMod?"
"""Why a node is out whose app replied by itself."""


class _GridRound:
    """Drives a `ServerRound` to its end; notes nodes that drop out, with the stage and the reason."""

    def __init__(
        self, grid: Grid, terms: RoundTerms, server: ServerRound, requests: Sequence[Message], failures: dict[int, str]
    ) -> None:
        self._grid, self._terms, self._server, self._asked = grid, terms, server, requests
        self._greeted = False
        self._trained = False
        self._lost = failures

    def run(self, training: Patience, others: Patience) -> None:
        """Run all stages: the one in which clients train waits as the first argument says."""
        while not self._server.is_done:
            request_kind, purpose = self._server.request_kind, self._server.purpose
            trains = self._server.opens and not self._trained
            messages = self._messages(trains)
            replies = exchange(self._grid, messages, training if trains else others)
            responders = [
                client for client in messages if self._accept_reply(client, request_kind, replies.get(client))
            ]
            log(INFO, "secure aggregation: %s %s, %s of %s", purpose.name, request_kind, len(responders), len(messages))
            self._trained = self._trained or trains
            self._server.advance()

    def _messages(self, trains: bool) -> dict[int, Message]:
        """To all that are still there; whoever is lost in the sum that finds ranges is not asked in the next."""
        messages = {
            client: self._message(client, request, trains)
            for client, request in self._server.requests().items()
            if self._node(client) not in self._lost
        }
        self._greeted = True
        return messages

    def _node(self, client: int) -> int:
        return self._asked[client].metadata.dst_node_id

    def _message(self, client: int, request: bytes, trains: bool) -> Message:
        """A message of the same type as the strategy's own, with its records only where they are due."""
        flower_request = self._asked[client]
        terms = b"" if self._greeted else self._terms.for_client(client).to_bytes()
        content = flower_request.content if trains else RecordDict()
        return Message(
            RequestRecord(request, terms).added_to(content),
            self._node(client),
            flower_request.metadata.message_type,
            ttl=flower_request.metadata.ttl,
            group_id=flower_request.metadata.group_id,
        )

    def _accept_reply(self, client: int, request_kind: str, reply: Message | None) -> bool:
        """Whether a client's answer is one; why not is noted, for an answer that is none cannot be given again."""
        reason = _SILENT
        if reply is not None and reply.has_error():
            reason = reply.error.reason if reply.error.reason in FIXED else REFUSED
        elif reply is not None and KEY not in reply.content:
            reason = _NO_MOD
        elif reply is not None:
            try:
                self._server.receive(client, AnswerRecord.of(reply.content).message)
            except ProtocolError as error:
                reason = str(error)
            else:
                return True
        node = self._node(client)
        self._lost[node] = f"{request_kind}: {reason}"
        log(WARNING, "secure aggregation: node %s is out at %s: %s", node, request_kind, reason)
        return False


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What came of a round.

    Attributes:
        number: of the round in its session, from 0.
        clients: how many were asked.
        included: nodes whose updates are in the mean; empty if the round failed.
        lost: why each other node is not in it.
        record: what the server saw; None if the round failed.
        failure: why the round failed, with the first node that was out; empty if it did not.
    """

    number: int
    clients: int
    included: tuple[int, ...]
    lost: Mapping[int, str]
    record: RoundRecord | None
    failure: str = ""


class GridRounds:
    """The rounds of one session.

    Args:
        terms: what is the same in all of them; clients, their threshold and what they train on are each round's.
        threshold: least clients that must be left at every stage: a number, a share of those sampled (a float below
            1, rounded up), or None for the scheme's default.
        identities: public Ed25519 identities that may take part; with any, nodes are asked for theirs before a round.
        stage_timeout: seconds that a stage other than training waits for all; None waits as long as training.
        grace: seconds that the others get once as many as the threshold have answered; None gives the whole timeout.
        skip_failed_rounds: whether a round that fails leaves the model as it was, with a warning; else it raises.
        run_config: the configuration of the run; None has nodes asked for its digest before the first round.
        coins: of the server; None takes secret ones.

    Raises:
        InputError: a setting breaks its rule.
    """

    def __init__(
        self,
        terms: RoundTerms,
        *,
        threshold: int | float | None,
        identities: Collection[bytes],
        stage_timeout: float | None,
        grace: float | None,
        skip_failed_rounds: bool,
        run_config: Mapping[str, Any] | None,
        coins: Coins | None = None,
    ) -> None:
        if isinstance(threshold, float) and not 0 < threshold < 1:
            raise InputError(f"threshold must be an integer, or a share between 0 and 1; found {threshold}")
        for name, seconds in (("stage_timeout", stage_timeout), ("grace", grace)):
            if seconds is not None and not seconds >= 0:
                raise InputError(f"{name} must be at least 0 seconds; found {seconds}")
        if terms.precision is not None:
            server_scheme(terms.scheme).at_precision(integer_of(terms.precision, "precision"))
        if terms.weight_key in terms.metrics or len(set(terms.metrics)) < len(terms.metrics):
            raise InputError(
                f"metrics must differ from each other and from {terms.weight_key!r}; found {terms.metrics}"
            )
        self._coins = SystemCoins() if coins is None else coins
        self._session = bytes(self._coins.uniform(256, (SESSION_BYTES,)).tolist())
        self._terms, self._threshold = replace(terms, session=self._session.hex()), threshold
        self._identities, self._stage_timeout, self._grace = frozenset(identities), stage_timeout, grace
        self._skips = skip_failed_rounds
        self._bounds: Mapping[str, float] | None = None
        self._number = -1
        self._given = self._configuration = None if run_config is None else digest_of_configuration(run_config)
        self.reports: list[RoundReport] = []

    def run(self, grid: Grid, requests: Sequence[Message], timeout: float | None) -> list[Message]:
        """One round.

        Args:
            grid: of the run.
            requests: what the wrapped strategy wants to send for training, one message for each node.
            timeout: seconds that the stage waits in which clients train; None waits for all.

        Returns:
            One reply with the mean, unless the round failed, and an error for each node that is not in the mean.

        Raises:
            FglSecureError: the round failed, and failed rounds are not skipped.
        """
        self._number += 1
        failures: dict[int, str] = {}
        try:
            mean, report = self._round(grid, requests, timeout, failures)
        except FglSecureError as error:
            self._bounds, self._configuration = None, self._given
            if not self._skips:
                raise
            log(WARNING, "secure aggregation: round %s failed and changes nothing: %s", self._number, error)
            mean, report = [], RoundReport(self._number, len(requests), (), failures, None, _failure(error, failures))
        self.reports.append(report)
        return mean + _errors(requests, report)

    def _round(
        self, grid: Grid, requests: Sequence[Message], timeout: float | None, failures: dict[int, str]
    ) -> tuple[list[Message], RoundReport]:
        training = Patience(timeout, len(requests), self._grace)
        others = training if self._stage_timeout is None else replace(training, timeout=self._stage_timeout)
        requests, roster = self._introduce(grid, requests, others, failures)
        if len(requests) < 2:
            raise TooFewClientsError(f"clients must number at least 2 for a round; found {len(requests)}")
        assert self._configuration is not None, "given, or just asked for"
        clients, least = len(requests), self._threshold
        if least is not None:
            least = math.ceil(least * clients) if isinstance(least, float) else int(least)
        terms = replace(
            self._terms,
            number=self._number,
            clients=clients,
            threshold=least,
            roster=roster,
            training=digest_of(requests[0], self._configuration),
        )
        server = self._server(terms, requests)
        enough = terms.rules().threshold
        patience = [replace(item, enough=enough) for item in (training, others)]
        _GridRound(grid, terms, server, requests, failures).run(*patience)
        reply, record = _mean_reply(server, requests, terms.weight_key), server.record
        refused = any(not reason.endswith(_SILENT) for reason in failures.values())
        self._bounds = None if refused else server.bounds  # a number may be beyond the range that was found
        included = tuple(requests[client].metadata.dst_node_id for client in server.contributors)
        log(INFO, "secure aggregation: mean of %s of %s clients", len(included), len(requests))
        return [reply], RoundReport(self._number, len(requests), included, failures, record)

    def _introduce(
        self, grid: Grid, requests: Sequence[Message], patience: Patience, failures: dict[int, str]
    ) -> tuple[Sequence[Message], tuple[str, ...]]:
        """The messages to nodes that may take part, and their identities; asks nodes where something is open."""
        identities = self._identities
        if not identities and self._configuration is not None:
            return requests, ()
        soon = patience if identities else replace(patience, enough=len(requests) // 2 + 1, grace=0.0)
        # Return what nodes say in time of who they are and how their run is configured, by place in `requests`.
        questions = {
            i: Message(RequestRecord(b"").added_to(RecordDict()), item.dst_node_id, item.message_type, ttl=item.ttl)
            for i, item in enumerate(message.metadata for message in requests)
        }
        introduced: dict[int, AnswerRecord] = {}
        for i, reply in exchange(grid, questions, soon).items():
            with suppress(MalformedMessageError):
                introduced |= {} if reply.has_error() else {i: AnswerRecord.of(reply.content)}
        if self._configuration is None:
            # Return the digest of the run's configuration that most nodes name; the others will refuse the round.
            configurations = Counter(answer.configuration for answer in introduced.values() if answer.configuration)
            if not configurations:
                raise TooFewClientsError(
                    f"nodes must say in time how their run is configured; none did: {_NO_INTRODUCTION}"
                )
            self._configuration = configurations.most_common(1)[0][0]
        return _known_nodes(requests, introduced, identities, failures) if identities else (requests, ())

    def _server(self, terms: RoundTerms, requests: Sequence[Message]) -> ServerRound:
        """The layout is that of the arrays that go out, and of the metrics that are averaged with them."""
        arrays = arrays_of(only_arrays(requests[0].content, "message for training"))
        layout = TensorLayout.of(mapping_of(arrays, dict.fromkeys(terms.metrics, 0.0)))
        return ServerRound(terms.rules(), layout, self._session, self._number, self._coins, self._bounds, Recording())


def _failure(error: FglSecureError, failures: Mapping[int, str]) -> str:
    """Why a round failed: the error, and the first node that was out, which mostly is its cause."""
    causes = [node for node, reason in failures.items() if not reason.endswith(_SILENT)] or list(failures)
    first_failure = f" (first out, of {len(failures)}: node {causes[0]}, {failures[causes[0]]})" if causes else ""
    return f"{error}{first_failure}"


def _mean_reply(server: ServerRound, requests: Sequence[Message], weight_key: str) -> Message:
    """The reply that stands for all clients: the mean, as if one client with all the weight had answered.

    Its arrays have the types of those that went out.
    """
    mean, first = server.result, requests[server.contributors[0]]
    weight = server.record.total_weight
    metrics = {name: float(value) for name, value in mean.get(METRICS, {}).items()}
    key, arrays = next(iter(first.content.array_records.items()))
    total = int(weight) if weight.is_integer() else weight
    content = RecordDict({key: typed_record(mean[ARRAYS], types_of(arrays))})
    content[METRICS] = MetricRecord({weight_key: total, **metrics})
    return Message(content, reply_to=first)


def _errors(requests: Sequence[Message], report: RoundReport) -> list[Message]:
    """An error reply for each node that is not in the mean."""
    code = ErrorCode.REPLY_MESSAGE_UNAVAILABLE
    return [
        Message(Error(code, report.lost.get(message.metadata.dst_node_id, "round failed")), reply_to=message)
        for message in requests
        if message.metadata.dst_node_id not in report.included
    ]
