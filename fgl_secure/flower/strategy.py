"""The server's side on Flower: a strategy around another, which then only ever sees means.

The `Grid` that the other strategy gets passes its training messages only as sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from logging import WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    MultiKrum,
    QFedAvg,
    Result,
    Strategy,
)

from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, RoundsFailedError
from fgl_secure.flower.recorder import GridProxy
from fgl_secure.flower.records import arrays_of, digest_of, typed_record, types_of
from fgl_secure.flower.rounds import GridRounds, RoundReport
from fgl_secure.flower.terms import RoundTerms

Layout = tuple[tuple[str, str, int], ...]
"""Record, name and length of each metric, in order; -1 for a single number."""


def averageable(replies: Iterable[Message], weight_key: str | None) -> list[Message]:
    """The replies that a strategy can average; errors are among them, for it to count.

    What is averaged outside sums is what each client says, true or not. But one client that says something of another
    form, or NaN, would end the run, or be all that is left of the mean.

    Args:
        replies: to an evaluation.
        weight_key: name of the metric by which the strategy weighs; None where it weighs by none.

    Returns:
        Errors, and replies whose metrics are finite, have the names and lengths that most replies' have, and a weight
        above 0. The log names the nodes of the others.
    """
    replies = list(replies)
    layouts = {id(reply): _layout(reply, weight_key) for reply in replies if not reply.has_error()}
    layout_counts = Counter(layout for layout in layouts.values() if layout is not None)
    usual = layout_counts.most_common(1)[0][0] if layout_counts else None
    usable = [reply for reply in replies if reply.has_error() or (usual is not None and layouts[id(reply)] == usual)]
    for reply in replies:
        if not any(reply is one for one in usable):
            log(WARNING, "evaluation: node %s is out: its metrics cannot be averaged", reply.metadata.src_node_id)
    return usable


def _layout(reply: Message, weight_key: str | None) -> Layout | None:
    """How a reply's metrics lie; None where a number is not finite, or what is to be the weight is none."""
    metrics = [
        (record, name, value) for record, named in reply.content.metric_records.items() for name, value in named.items()
    ]
    numbers = [one for *_, value in metrics for one in (value if isinstance(value, list) else [value])]
    if not all(math.isfinite(number) for number in numbers):
        return None
    if weight_key is not None:
        weights = [value for _, name, value in metrics if name == weight_key]
        if (
            len(reply.content.metric_records) != 1
            or len(weights) != 1
            or not (isinstance(weights[0], int | float) and weights[0] > 0)
        ):
            return None
    return tuple(sorted((record, name, len(v) if isinstance(v, list) else -1) for record, name, v in metrics))


_TRAIN = "train"
_EVALUATE = "evaluate"


class SecuredGrid(GridProxy):
    """Another Grid, except in training: `send_and_receive` runs a round of secure aggregation and returns one reply.

    That reply has the weighted mean for its arrays, and for metrics the sum of the weights under the weight's name
    and the means of the requested metrics. For every node that is not in the mean there is an error reply.
    A round that fails gives error replies only, which strategies take as a round without results. Replies to an
    evaluation that no mean can be made of are left out.

    Args:
        grid: of the run.
        rounds: runs them.
        weight_key: name of the metric by which evaluations are weighed; None where they are not.
    """

    def __init__(self, grid: Grid, rounds: GridRounds, weight_key: str | None = None) -> None:
        super().__init__(grid)
        self._rounds, self._weight_key = rounds, weight_key

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the other Grid's, for anything but training.

        Raises:
            InputError: a message is for training, whose replies must not be pulled one by one.
        """
        messages = list(messages)
        if any(_kind_of(message) == _TRAIN for message in messages):
            raise InputError("messages for training must go through send_and_receive under secure aggregation")
        return self._grid.push_messages(messages)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """A round of secure aggregation for messages of training, and for others what the other Grid does.

        Of replies to an evaluation those that can be averaged come back; the log names the nodes of the others.

        Args:
            messages: all for training, or none of them.
            timeout: seconds that the stage waits in which clients train.

        Raises:
            InputError: some are for training and some are not, two are for one node, or they differ.
            FglSecureError: the round failed, and failed rounds are not skipped.
        """
        messages = list(messages)
        training = [message for message in messages if _kind_of(message) == _TRAIN]
        if not training:
            replies = self._grid.send_and_receive(messages, timeout=timeout)
            return (
                averageable(replies, self._weight_key)
                if messages and all(_kind_of(message) == _EVALUATE for message in messages)
                else replies
            )
        nodes = [message.metadata.dst_node_id for message in training]
        if len(training) < len(messages) or len(set(nodes)) < len(nodes):
            raise InputError("messages must all be for training, each for another node; they are not")
        if not _alike(training):
            raise InputError(
                "messages for training must be alike for all nodes, or their sum tells of each; they differ"
            )
        return self._rounds.run(self._grid, training, timeout)


def _alike(messages: list[Message]) -> bool:
    """Whether all nodes are sent the same; strategies mostly put the same records into all messages."""
    kinds = {(id(message.content), message.metadata.message_type): message for message in messages}
    return len({digest_of(message) for message in kinds.values()}) == 1


def _kind_of(message: Message) -> str:
    return message.metadata.message_type.split(".")[0]


NEED_EACH_REPLY: tuple[type[Strategy], ...] = (
    Bulyan,
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    MultiKrum,
    QFedAvg,
)
"""Strategies that look at clients one by one: a median of one mean is no median. Krum is a MultiKrum. FedAvg,
FedProx, FedAvgM, FedAdagrad, FedAdam and FedYogi use the weighted mean and nothing else."""


def _check_rounds(reports: Sequence[RoundReport]) -> None:
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


class SecureAggregationStrategy(Strategy):
    """Wraps a strategy of the message API that uses the weighted mean of its clients' arrays and nothing else.

    Sampling, what is sent to clients, evaluation and the step that follows the mean are the wrapped strategy's. What
    comes back from training passes through `SecuredGrid`: `aggregate_train` is handed one reply, whose arrays are the
    mean over the clients that stayed and whose weight is the sum of theirs, and an error for each of the others. A
    weighted mean of one reply is that reply, so that FedAvg and those that build on it go on as ever.

    Clients must use `SecureAggregationMod`; arrays must keep names, shapes and types, or the client is out of the
    round. What the wrapped strategy makes of a mean gets the types of the model that went out: integers are rounded to
    the nearest, and truth values are true from one half on. Evaluation is in the open: its replies are the app's own,
    but for those that no mean can be made of.

    Args:
        strategy: to be wrapped.
        scheme: name of a scheme for sums at a server.
        threshold: least clients that must be left at every stage: a number, a share of those sampled, or None for the
            scheme's default.
        bound: largest magnitude of a number in arrays and metrics; None has ranges found out together.
        fraction_bits: of the fixed point; None takes as many as there is room for.
        weight_bound: largest weight of a client.
        weight_fraction_bits: of weights; 0 has them be integers.
        weighted_by_key: name of the metric that is a client's weight; None takes the wrapped strategy's.
        integers: what the mean of integers is.
        metrics: names of metrics that are averaged under the same protection. The others stay with the clients.
        sparse: whether more than 64 clients mask with a few neighbours each under `pairwise-masking`, which is cheaper
            and does not hold against a server that lies; clients must say the same. Otherwise everybody masks with
            everybody.
        precision: bits of a number on its way, 8, 16 or 32, in ranges that are found anew in each round; None for as
            many as there is room for. See `SecureAggregator.for_clients`. Errors are not fed back: nodes may forget.
        identities: public Ed25519 identities that may take part; with any, clients must have one of them, and sign.
        stage_timeout: seconds that a stage other than training waits for everybody; None waits as long as training.
        grace: seconds that the others get once as many as the threshold have answered; None gives the whole timeout.
        skip_failed_rounds: whether a round that fails leaves the model as it was, with a warning; else it raises. A run
            whose rounds all fail raises in its end.
        run_config: the configuration of the run, `context.run_config` of the ServerApp, which clients check to be that
            of all; None has nodes asked for its digest before the first round, by one message more.
        coins: of the server; None takes secret ones.

    Raises:
        InputError: the wrapped strategy looks at clients one by one, or a setting breaks its rule.

    Examples:
        strategy = SecureAggregationStrategy(FedAvg(fraction_train=0.3))
    """

    def __init__(
        self,
        strategy: Strategy,
        *,
        scheme: str = "pairwise-masking",
        threshold: int | float | None = None,
        bound: float | None = None,
        fraction_bits: int | None = None,
        weight_bound: float = 2.0**20,
        weight_fraction_bits: int = 0,
        weighted_by_key: str | None = None,
        integers: IntegerRule = IntegerRule.ROUND,
        metrics: Sequence[str] = (),
        sparse: bool = False,
        precision: int | None = None,
        identities: Collection[bytes] = (),
        stage_timeout: float | None = None,
        grace: float | None = None,
        skip_failed_rounds: bool = True,
        run_config: Mapping[str, Any] | None = None,
        coins: Coins | None = None,
    ) -> None:
        if isinstance(strategy, (*NEED_EACH_REPLY, SecureAggregationStrategy)):
            raise InputError(
                f"strategy must use the mean of its clients and nothing else; found {type(strategy).__name__}, which "
                f"needs each client's reply"
            )
        key = weighted_by_key or str(getattr(strategy, "weighted_by_key", "num-examples"))
        self._strategy = strategy
        self._aggregate = strategy.aggregate_train
        terms = RoundTerms(
            scheme=scheme,
            bound=bound,
            fraction_bits=fraction_bits,
            weight_bound=weight_bound,
            weight_fraction_bits=weight_fraction_bits,
            integers=integers,
            weight_key=key,
            metrics=tuple(metrics),
            sparse=sparse,
            precision=precision,
        )
        self._rounds = GridRounds(
            terms,
            threshold=threshold,
            identities=identities,
            stage_timeout=stage_timeout,
            grace=grace,
            skip_failed_rounds=skip_failed_rounds,
            run_config=run_config,
            coins=coins,
        )

    @property
    def rounds(self) -> Sequence[RoundReport]:
        """What came of each round so far."""
        return tuple(self._rounds.reports)

    def secure_grid(self, grid: Grid) -> SecuredGrid:
        """The Grid for loops that call the strategy's parts themselves; `start` wraps its own."""
        return SecuredGrid(grid, self._rounds, getattr(self._strategy, "weighted_by_key", None))

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the wrapped strategy's own loop, over a Grid through which training passes only in sums.

        Raises:
            RoundsFailedError: no round gave a mean; names the cause of the first failure.
        """
        before = len(self.rounds)
        self._strategy.aggregate_train = self.aggregate_train  # type: ignore[method-assign]  # its loop keeps types
        try:
            result = self._strategy.start(
                self.secure_grid(grid), initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
            )
        finally:
            self._strategy.aggregate_train = self._aggregate  # type: ignore[method-assign]
        _check_rounds(self.rounds[before:])
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the wrapped strategy's.

        Raises:
            InputError: the Grid is not `secure_grid`, so that the replies would not be either.
        """
        if not isinstance(grid, SecuredGrid):
            raise InputError(
                "grid must be the one that `secured` gives: call `start` of SecureAggregationStrategy itself, the "
                "outermost of all strategies"
            )
        return self._strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """As the wrapped strategy's, on the one reply that `secure_grid` gives; arrays keep the types of that reply."""
        replies = list(replies)
        arrays, metrics = self._aggregate(server_round, replies)
        means = [record for reply in replies if reply.has_content() for record in reply.content.array_records.values()]
        if arrays and means:
            arrays = typed_record(arrays_of(arrays), types_of(means[0]))
        return arrays, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the wrapped strategy's."""
        return self._strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """As the wrapped strategy's."""
        return self._strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """As the wrapped strategy's."""
        self._strategy.summary()
