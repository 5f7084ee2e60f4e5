"""One round of secure aggregation over a Grid: what the server asks for, whoever drops out of them, and the mean."""

from __future__ import annotations

from collections.abc import Sequence
from logging import INFO, WARNING

from flwr.app import Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.errors import ProtocolError
from fgl_secure.flower.exchange import Patience, exchange
from fgl_secure.flower.guard import FIXED
from fgl_secure.flower.records import KEY, Answer, Request
from fgl_secure.flower.terms import RoundTerms

SILENT = "no answer in time"
"""Why a node is out that said nothing, and so nothing against the round."""
REFUSED = "an error instead of an answer; the node's own log says why"
"""Why a node is out that replied with an error. What it wrote with it is neither kept nor logged, unless it is one of
the sentences that the mod always says."""
NO_MOD = "its reply is not one of secure aggregation; does the ClientApp have SecureAggregationMod?"
"""Why a node is out whose app replied by itself."""


class GridRound:
    """Drives a `ServerRound` to its end.

    Args:
        grid: of the run.
        terms: of the round.
        server: the server's part.
        asked: the messages that the wrapped strategy wants to send for training, by client.
        lost: where nodes that drop out are noted, with the stage and the reason.
    """

    def __init__(
        self, grid: Grid, terms: RoundTerms, server: ServerRound, asked: Sequence[Message], lost: dict[int, str]
    ) -> None:
        self._grid, self._terms, self._server, self._asked = grid, terms, server, asked
        self._greeted = False
        self._trained = False
        self._lost = lost

    def run(self, training: Patience, others: Patience) -> None:
        """Runs all stages.

        Args:
            training: how long the stage waits in which clients train.
            others: how long the other stages wait.

        Raises:
            TooFewClientsError: fewer than the threshold are left.
            ProtocolError: answers contradict each other beyond repair.
        """
        while not self._server.done:
            asked, purpose = self._server.asked, self._server.purpose
            trains = self._server.opens and not self._trained
            sent = self._messages(trains)
            replies = exchange(self._grid, sent, training if trains else others)
            answered = [client for client in sent if self._received(client, asked, replies.get(client))]
            log(INFO, "secure aggregation: %s %s, %s of %s", purpose.name, asked, len(answered), len(sent))
            self._trained = self._trained or trains
            self._server.advance()

    def _messages(self, trains: bool) -> dict[int, Message]:
        """To all that are still there; whoever is lost in the sum that finds ranges is not asked in the next."""
        sent = {
            client: self._message(client, request, trains)
            for client, request in self._server.requests().items()
            if self._node(client) not in self._lost
        }
        self._greeted = True
        return sent

    def _node(self, client: int) -> int:
        return self._asked[client].metadata.dst_node_id

    def _message(self, client: int, request: bytes, trains: bool) -> Message:
        """A message of the same type as the strategy's own, with its records only where they are due."""
        asked = self._asked[client]
        terms = b"" if self._greeted else self._terms.for_client(client).to_bytes()
        content = asked.content if trains else RecordDict()
        return Message(
            Request(request, terms).added_to(content),
            self._node(client),
            asked.metadata.message_type,
            ttl=asked.metadata.ttl,
            group_id=asked.metadata.group_id,
        )

    def _received(self, client: int, asked: str, reply: Message | None) -> bool:
        """Whether a client's answer is one; why not is noted, for an answer that is none cannot be given again."""
        reason = SILENT
        if reply is not None and reply.has_error():
            reason = reply.error.reason if reply.error.reason in FIXED else REFUSED
        elif reply is not None and KEY not in reply.content:
            reason = NO_MOD
        elif reply is not None:
            try:
                self._server.receive(client, Answer.of(reply.content).message)
            except ProtocolError as error:
                reason = str(error)
            else:
                return True
        node = self._node(client)
        self._lost[node] = f"{asked}: {reason}"
        log(WARNING, "secure aggregation: node %s is out at %s: %s", node, asked, reason)
        return False
