"""Round after round of secure aggregation: who is in it, what bounds hold, and what the wrapped strategy gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from logging import INFO, WARNING

from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.serverapp import Grid

from fgl_secure.aggregation.layout import Layout
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import FglSecureError, RoundsFailedError, TooFewClientsError
from fgl_secure.flower.exchange import Patience, common_configuration, introductions, known_nodes
from fgl_secure.flower.records import (
    ARRAYS,
    METRICS,
    arrays_of,
    digest_of,
    digest_of_configuration,
    only_arrays,
    typed_record,
    types_of,
)
from fgl_secure.flower.server_round import SILENT, GridRound
from fgl_secure.flower.settings import RoundReport, Settings
from fgl_secure.flower.terms import RoundTerms, mapping_of
from fgl_secure.runtime import Recording
from fgl_secure.runtime.messages import SESSION_BYTES

FEWEST = 2


class Rounds:
    """The rounds of one session.

    Args:
        settings: of all of them.
        coins: of the server; None takes secret ones.
    """

    def __init__(self, settings: Settings, coins: Coins | None = None) -> None:
        self._settings = settings
        self._coins = SystemCoins() if coins is None else coins
        self._session = bytes(self._coins.uniform(256, (SESSION_BYTES,)).tolist())
        self._bounds: Mapping[str, float] | None = None
        self._number = -1
        given = settings.run_config
        self._given = self._configuration = None if given is None else digest_of_configuration(given)
        self.reports: list[RoundReport] = []

    def run(self, grid: Grid, asked: Sequence[Message], timeout: float | None) -> list[Message]:
        """One round.

        Args:
            grid: of the run.
            asked: what the wrapped strategy wants to send for training, one message for each node.
            timeout: seconds that the stage waits in which clients train; None waits for all.

        Returns:
            One reply with the mean, unless the round failed, and an error for each node that is not in the mean.

        Raises:
            FglSecureError: the round failed, and failed rounds are not skipped.
        """
        self._number += 1
        lost: dict[int, str] = {}
        try:
            mean, report = self._round(grid, asked, timeout, lost)
        except FglSecureError as error:
            self._bounds, self._configuration = None, self._given
            if not self._settings.skip_failed_rounds:
                raise
            log(WARNING, "secure aggregation: round %s failed and changes nothing: %s", self._number, error)
            mean, report = [], RoundReport(self._number, len(asked), (), lost, None, _failure(error, lost))
        self.reports.append(report)
        return mean + _errors(asked, report)

    def _round(
        self, grid: Grid, asked: Sequence[Message], timeout: float | None, lost: dict[int, str]
    ) -> tuple[list[Message], RoundReport]:
        training = Patience(timeout, len(asked), self._settings.grace)
        others = training if self._settings.stage_timeout is None else training.until(self._settings.stage_timeout)
        asked, roster = self._introduced(grid, asked, others, lost)
        if len(asked) < FEWEST:
            raise TooFewClientsError(f"clients must number at least {FEWEST} for a round; found {len(asked)}")
        assert self._configuration is not None, "given, or just asked for"
        terms = self._settings.terms(
            self._session, self._number, len(asked), roster, digest_of(asked[0], self._configuration)
        )
        server = self._server(terms, asked)
        enough = terms.rules().threshold
        GridRound(grid, terms, server, asked, lost).run(training.with_enough(enough), others.with_enough(enough))
        reply, record = _mean_reply(server, asked, self._settings), server.record
        refused = any(not reason.endswith(SILENT) for reason in lost.values())
        self._bounds = None if refused else server.bounds  # a number may be beyond the range that was found
        included = tuple(asked[client].metadata.dst_node_id for client in server.included)
        log(INFO, "secure aggregation: mean of %s of %s clients", len(included), len(asked))
        return [reply], RoundReport(self._number, len(asked), included, lost, record)

    def _introduced(
        self, grid: Grid, asked: Sequence[Message], patience: Patience, lost: dict[int, str]
    ) -> tuple[Sequence[Message], tuple[str, ...]]:
        """The messages to nodes that may take part, and their identities; asks nodes where something is open."""
        identities = self._settings.identities
        if not identities and self._configuration is not None:
            return asked, ()
        soon = patience if identities else replace(patience, enough=len(asked) // 2 + 1, grace=0.0)
        introduced = introductions(grid, asked, soon)
        if self._configuration is None:
            self._configuration = common_configuration(introduced)
        return known_nodes(asked, introduced, identities, lost) if identities else (asked, ())

    def _server(self, terms: RoundTerms, asked: Sequence[Message]) -> ServerRound:
        """The layout is that of the arrays that go out, and of the metrics that are averaged with them."""
        arrays = arrays_of(only_arrays(asked[0].content, "message for training"))
        layout = Layout.of(mapping_of(arrays, dict.fromkeys(terms.metrics, 0.0)))
        return ServerRound(terms.rules(), layout, self._session, self._number, self._coins, self._bounds, Recording())


def check_rounds(reports: Sequence[RoundReport]) -> None:
    """Raises if all rounds of a run failed; if some did, the log says how many.

    Raises:
        RoundsFailedError: names the cause of the first failure.
    """
    failed = [report for report in reports if report.failure]
    if not failed:
        return
    first = f"the first, round {failed[0].number}, because {failed[0].failure}"
    if len(failed) == len(reports):
        raise RoundsFailedError(f"a run must have a round that gives a mean; all {len(failed)} failed, {first}")
    log(WARNING, "secure aggregation: %s of %s rounds failed, %s", len(failed), len(reports), first)


def _failure(error: FglSecureError, lost: Mapping[int, str]) -> str:
    """Why a round failed: the error, and the first node that was out, which mostly is its cause."""
    causes = [node for node, reason in lost.items() if not reason.endswith(SILENT)] or list(lost)
    said = f" (first out, of {len(lost)}: node {causes[0]}, {lost[causes[0]]})" if causes else ""
    return f"{error}{said}"


def _mean_reply(server: ServerRound, asked: Sequence[Message], settings: Settings) -> Message:
    """The reply that stands for all clients: the mean, as if one client with all the weight had answered.

    Its arrays have the types of those that went out.
    """
    mean, first = server.result, asked[server.included[0]]
    weight = server.record.total_weight
    metrics = {name: float(value) for name, value in mean.get(METRICS, {}).items()}
    key, sent = next(iter(first.content.array_records.items()))
    total = int(weight) if weight.is_integer() else weight
    content = RecordDict({key: typed_record(mean[ARRAYS], types_of(sent))})
    content[METRICS] = MetricRecord({settings.weight_key: total, **metrics})
    return Message(content, reply_to=first)


def _errors(asked: Sequence[Message], report: RoundReport) -> list[Message]:
    """An error reply for each node that is not in the mean."""
    code = ErrorCode.REPLY_MESSAGE_UNAVAILABLE
    return [
        Message(Error(code, report.lost.get(message.metadata.dst_node_id, "round failed")), reply_to=message)
        for message in asked
        if message.metadata.dst_node_id not in report.included
    ]
