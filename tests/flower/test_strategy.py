"""Whole rounds of mod and strategy, over a Grid without processes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, Krum, Strategy

from fgl_secure.errors import InputError, RoundsFailedError, TooFewClientsError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.mod import NO_PART
from fgl_secure.flower.records import KEY, AnswerRecord
from fgl_secure.flower.rounds import REFUSED
from fgl_secure.protocols.identity import Identity
from fgl_secure.protocols.secagg.terms import Stage
from tests.error_codes import about
from tests.flower.fake_federation import OFF, STAGES, WORDS, FakeGrid, Numbers, app_of, record, strategy_of, update

VALUES = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, 1.5], [-0.75, 4.0, 2.0], [5.0, -1.0, -3.0]], dtype=np.float32)
WEIGHTS = (1, 2, 3, 6)
NEAR = 1e-6


def federation(clients: int = 4, **mod: Any) -> FakeGrid:
    """Nodes of which the i-th trains to VALUES[i] with weight WEIGHTS[i]."""

    def make(index: int) -> Any:
        def train(message: Message, context: Context) -> RecordDict:
            assert KEY not in message.content
            assert context.node_id == 100 + index
            return update(VALUES[index % 4], WEIGHTS[index % 4], loss=float(index))

        return app_of(SecureAggregationMod(**mod), train)

    return FakeGrid([make(index) for index in range(clients)])


def mean(indices: Sequence[int]) -> Numbers:
    """The weighted mean of some clients' values."""
    weights = np.array([WEIGHTS[i] for i in indices])
    return np.asarray(np.average(VALUES[list(indices)], axis=0, weights=weights), dtype=np.float32)


def run(grid: FakeGrid, secure: SecureAggregationStrategy, rounds: int = 1) -> Numbers:
    """The model after some rounds that begin at zero."""
    result = secure.start(grid, record(np.zeros(3)), num_rounds=rounds, timeout=0.0)
    return np.asarray(result.arrays["w"].numpy()) if result.arrays else np.zeros(3, dtype=np.float32)


def test_mean_is_that_of_fedavg() -> None:
    """The model after a round is FedAvg's own, up to fixed point and float32, with the same type and shape."""
    grid = federation()
    found = run(grid, strategy_of())
    assert sum(len(message.content.array_records) for _node, message in grid.delivered) == 4, "the model goes out once"
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, mean([0, 1, 2, 3]), atol=NEAR)


def dead_from(grid: FakeGrid, when: Mapping[int, Stage]) -> None:
    """Nodes that hear nothing from a stage of every round on."""
    grid.before = lambda node, stage, message: (
        None if stage is not None and node in when and stage >= when[node] else message
    )


@pytest.mark.parametrize("stage", STAGES)
def test_dead_node_is_left_out(stage: Stage) -> None:
    """A node that dies before it handed in its update is not in the mean, and one that dies after it is."""
    grid, secure = federation(), strategy_of()
    dead_from(grid, {102: stage})
    stayed = [0, 1, 2, 3] if stage > Stage.VECTORS else [0, 1, 3]
    np.testing.assert_allclose(run(grid, secure), mean(stayed), atol=NEAR)
    assert set(secure.rounds[0].included) == {100 + index for index in stayed}
    assert list(secure.rounds[0].lost) == [102]
    assert WORDS[stage] in secure.rounds[0].lost[102]


@pytest.mark.parametrize("stage", [Stage.SHARES, Stage.OPENING])
def test_round_below_the_threshold_changes_nothing(stage: Stage) -> None:
    """Two nodes fewer than four are below a threshold of three: the model stays, and the next round may go well."""
    grid, secure = federation(), strategy_of()
    dead_from(grid, {101: stage, 103: stage})
    with pytest.raises(RoundsFailedError):
        secure.start(grid, record([7.0, 7.0, 7.0]), num_rounds=1, timeout=0.0)
    assert secure.rounds[0].included == ()
    grid.before = lambda _node, _stage, message: message
    np.testing.assert_allclose(run(grid, secure), mean([0, 1, 2, 3]), atol=NEAR)


def test_failed_round_may_raise() -> None:
    """With `skip_failed_rounds=False` too few clients are an error that names both numbers."""
    grid = federation()
    dead_from(grid, {101: Stage.VECTORS, 103: Stage.VECTORS})
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 3 of 4 clients")):
        run(grid, strategy_of(skip_failed_rounds=False))


@pytest.mark.parametrize(
    ("stage", "what"), [*zip(STAGES, ["replayed", "noise", "another's", "cut", "error"], strict=True)]
)
def test_garbage_counts_as_no_answer(stage: Stage, what: str) -> None:
    """A node that answers a stage with anything but an answer drops out, and the round goes on without it."""
    grid, secure = federation(), strategy_of()
    first: dict[int, bytes] = {}

    def tamper(node: int, asked: Stage | None, reply: Message) -> Message | None:
        answer = AnswerRecord.of(reply.content).message
        first.setdefault(node, answer)
        if node != 101 or asked is not stage:
            return reply
        others = next((value for other, value in first.items() if other != 101), b"x" * 99)
        wrong = {"noise": bytes(range(256)), "cut": answer[:-1], "another's": others}
        if what == "error":
            return Message(Error(2, "it broke"), reply_to=sent[node])
        garbage = wrong.get(what, first[node] if stage is not Stage.KEYS else b"FGLM")
        return AnswerRecord(garbage).to(sent[node])

    sent: dict[int, Message] = {}

    def before(node: int, _stage: Stage | None, message: Message) -> Message:
        sent[node] = message
        return message

    grid.before, grid.tamper = before, tamper
    found = run(grid, secure)
    stayed = [0, 1, 2, 3] if stage > Stage.VECTORS else [0, 2, 3]
    np.testing.assert_allclose(found, mean(stayed), atol=NEAR)
    assert list(secure.rounds[0].lost) == [101]


def test_model_that_overflows_is_left_out_and_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """A number beyond the bound is out at the client, not a wrong mean; the server hears that it takes no part."""
    grid, secure = federation(), strategy_of(bound=4.5)
    with caplog.at_level("WARNING", "flwr"):
        np.testing.assert_allclose(run(grid, secure), mean([0, 1, 2]), atol=NEAR)
    assert grid.refusals == {103: NO_PART}
    assert "must not exceed the bound 4.5" in caplog.text


def test_server_keeps_nothing_of_what_an_error_says(caplog: pytest.LogCaptureFixture) -> None:
    """The words of an error reply are neither in the report of the round nor in the server's log."""
    grid, secure = federation(), strategy_of()

    def tamper(node: int, stage: Stage | None, reply: Message) -> Message:
        said = Message(Error(77, "batch of 1234"), reply_to=sent[node])
        return said if node == 101 and stage is Stage.VECTORS else reply

    sent: dict[int, Message] = {}

    def before(node: int, _stage: Stage | None, message: Message) -> Message:
        sent[node] = message
        return message

    grid.before, grid.tamper = before, tamper
    with caplog.at_level("DEBUG", "flwr"):
        run(grid, secure)
    assert secure.rounds[0].lost == {101: f"{WORDS[Stage.VECTORS]}: {REFUSED}"}
    assert "1234" not in caplog.text


def sums_of(secure: SecureAggregationStrategy) -> list[int]:
    """How many sums each round was."""
    return [len(report.record.purposes) for report in secure.rounds if report.record is not None]


def test_ranges_are_found_anew_after_somebody_outgrew_them() -> None:
    """A client whose numbers are beyond the range of an earlier round is left out once, and is in the next round."""
    grid, secure, scale = federation(), strategy_of(bound=None), [1.0]
    grid.apps[101] = app_of(SecureAggregationMod(), lambda _m, _c: update(VALUES[1] * scale[0], WEIGHTS[1]))
    run(grid, secure)
    scale[0] = 1e6
    found = run(grid, secure, rounds=2)
    assert [len(report.included) for report in secure.rounds] == [4, 3, 4]
    assert sums_of(secure) == [2, 1, 2]
    expected = np.average([VALUES[0], VALUES[1] * 1e6, VALUES[2], VALUES[3]], axis=0, weights=WEIGHTS)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("stage", [Stage.SHARES, Stage.OPENING])
def test_node_lost_while_ranges_are_found_is_not_asked_again(stage: Stage) -> None:
    """The second sum of a round goes on with those that finished the first."""
    grid, secure = federation(), strategy_of(bound=None)
    dead_from(grid, {101: stage})
    np.testing.assert_allclose(run(grid, secure), mean([0, 2, 3]), atol=NEAR)


def test_chosen_metrics_are_averaged_and_others_stay() -> None:
    """A metric that is named is averaged inside the sum; the weight is summed; no other metric leaves a client."""
    grid, secure = federation(metrics=["loss"]), strategy_of(metrics=["loss"])
    result = secure.start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
    metrics = result.train_metrics_clientapp[1]
    assert dict(metrics) == {"loss": pytest.approx(np.average([0, 1, 2, 3], weights=WEIGHTS), abs=NEAR)}
    record_of_round = secure.rounds[0].record
    assert record_of_round is not None
    assert record_of_round.total_weight == sum(WEIGHTS)


def shown_by(grid: FakeGrid) -> set[str]:
    """What nodes replied to training beside protocol messages."""
    return {name for _node, reply in grid.answered for name in reply.content if name != KEY}


def test_replies_hold_nothing_of_the_app() -> None:
    """All that a node ever replies to training is protocol messages: no arrays, no metrics, no weight."""
    grid = federation()
    run(grid, strategy_of())
    assert len(grid.answered) == 20
    assert shown_by(grid) == set()
    told = [dict(reply.content.config_records[KEY]) for _node, reply in grid.answered]
    assert all(each | {"message": b""} == {"message": b"", "identity": b"", "configuration": b""} for each in told)


def test_replies_of_a_mod_that_forgets_to_drop_metrics_are_noticed() -> None:
    """The twin that lets the app's metrics through is told by the same check."""
    good, seen = SecureAggregationMod(), dict[int, RecordDict]()

    def forgetful(message: Message, context: Context, call: Any) -> Message:
        def watched(asked: Message, inner: Context) -> Message:
            reply: Message = call(asked, inner)
            seen[inner.node_id] = RecordDict(dict(reply.content))
            return reply

        reply = good(message, context, watched)
        for name, metrics in seen.get(context.node_id, RecordDict()).metric_records.items():
            reply.content[name] = metrics
        return reply

    grid = FakeGrid([app_of(forgetful, _plain(i)) for i in range(4)])
    run(grid, strategy_of())
    assert shown_by(grid) == {"metrics"}


def test_sampled_nodes_are_the_wrapped_strategys() -> None:
    """A strategy that samples some of the nodes has the mean of those; a share is a threshold of them."""
    inner = FedAvg(fraction_train=0.8, fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=5)
    secure = SecureAggregationStrategy(inner, threshold=0.75, bound=8.0, stage_timeout=0.0)
    grid = federation(clients=5)
    found = run(grid, secure)
    included = sorted(node - 100 for node in secure.rounds[0].included)
    assert len(included) == 4
    assert secure.rounds[0].record is not None
    assert secure.rounds[0].record.threshold == 3
    weights = [WEIGHTS[i % 4] for i in included]
    np.testing.assert_allclose(found, np.average(VALUES[[i % 4 for i in included]], axis=0, weights=weights), atol=NEAR)


def test_server_optimisers_step_from_the_mean() -> None:
    """FedAdam in secure aggregation takes the step that it takes without."""
    grid = FakeGrid([app_of(lambda message, context, call: call(message, context), _plain(i)) for i in range(4)])
    plain = FedAdam(**OFF).start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
    secure = SecureAggregationStrategy(FedAdam(**OFF), threshold=3, bound=8.0, stage_timeout=0.0)
    np.testing.assert_allclose(run(federation(), secure), plain.arrays["w"].numpy(), atol=1e-5)


def _plain(index: int) -> Any:
    return lambda _message, _context: update(VALUES[index % 4], WEIGHTS[index % 4], loss=1.0)


def test_evaluation_passes_through() -> None:
    """Evaluation is the wrapped strategy's: messages and replies are as without secure aggregation."""
    inner = FedAvg(min_train_nodes=4, min_evaluate_nodes=4, min_available_nodes=4)
    secure = SecureAggregationStrategy(inner, threshold=3, bound=8.0, stage_timeout=0.0)
    result = secure.start(federation(), record(np.zeros(3)), num_rounds=1, timeout=0.0)
    assert dict(result.evaluate_metrics_clientapp[1]) == {"node": 101.5}


@pytest.mark.parametrize("inner", [FedMedian(), Krum(), SecureAggregationStrategy(FedAvg())])
def test_strategies_that_need_each_reply_are_refused(inner: Strategy) -> None:
    """A median or a selection of clients cannot be had from their mean, and two layers of protection are none."""
    with pytest.raises(InputError, check=about("strategy")):
        SecureAggregationStrategy(inner)


def test_bare_grid_is_refused() -> None:
    """A loop that would send training past the secured Grid is stopped before anything is sent."""
    secure, grid = strategy_of(), federation()
    with pytest.raises(InputError, check=about("grid")):
        secure.configure_train(1, record(np.zeros(3)), ConfigRecord(), grid)
    message = Message(RecordDict({"arrays": record(np.zeros(3))}), 100, "train")
    with pytest.raises(InputError, check=about("messages for training")):
        secure.secure_grid(grid).push_messages([message])
    with pytest.raises(InputError, check=about("messages")):
        secure.secure_grid(grid).send_and_receive([message, message])
    assert grid.delivered == []


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"threshold": 1.5}, "threshold"),
        ({"grace": -1.0}, "grace"),
        ({"stage_timeout": -1.0}, "stage_timeout"),
        ({"metrics": ["num-examples"]}, "metrics"),
        ({"precision": 12}, "precision"),
        ({"precision": 8, "scheme": "ckks-shared-key"}, "precision"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], match: str) -> None:
    """A setting that breaks its rule is an error before the first round."""
    with pytest.raises(InputError, check=about(match)):
        strategy_of(**settings)


IDENTITIES = [Identity(bytes([i + 1] * 32)) for i in range(5)]
PUBLIC = [identity.public for identity in IDENTITIES]


def signing(*owners: int) -> FakeGrid:
    """Nodes of which the i-th signs with the identity owners[i] and trusts the first four."""

    def make(index: int, owner: int) -> Any:
        mod = SecureAggregationMod(identity=lambda _context: IDENTITIES[owner], trusted=PUBLIC[:4])
        return app_of(mod, _plain(index))

    return FakeGrid([make(index, owner) for index, owner in enumerate(owners)])


@pytest.mark.parametrize(
    ("owners", "stayed"), [((0, 1, 2, 3), [0, 1, 2, 3]), ((0, 1, 2, 4), [0, 1, 2]), ((0, 1, 2, 3, 3), [0, 1, 2])]
)
def test_strangers_are_no_part_of_a_signed_round(owners: Sequence[int], stayed: Sequence[int]) -> None:
    """A node with an unknown identity is left out, and so are two that say they are the same."""
    secure = strategy_of(identities=PUBLIC[:4])
    grid = signing(*owners[:4]) if len(owners) == 4 else signing_five()
    np.testing.assert_allclose(run(grid, secure), mean(stayed), atol=NEAR)
    assert all("IDENTITY" in reason for reason in secure.rounds[0].lost.values())


def signing_five() -> FakeGrid:
    """Five nodes, the last of which says that it is the fourth."""
    grid = signing(0, 1, 2, 3, 0)
    mod = SecureAggregationMod(identity=lambda _context: IDENTITIES[3], trusted=PUBLIC[:4])
    grid.apps[104] = app_of(mod, _plain(3))
    return grid


def test_server_that_invents_a_client_is_refused() -> None:
    """A roster with an identity that clients do not trust stops every honest client before it gives anything away."""
    secure = strategy_of(identities=PUBLIC)
    grid = signing(0, 1, 2, 4)
    with pytest.raises(RoundsFailedError):
        run(grid, secure)
    assert sum("trusted" in reason for reason in grid.refusals.values()) >= 3


def test_message_without_arrays_fails_the_round() -> None:
    """A strategy that sends no arrays, or two records of them, cannot be averaged: an error and no half round."""
    secure = strategy_of(skip_failed_rounds=False)
    bare = [Message(RecordDict({"m": MetricRecord({"x": 1.0})}), node, "train") for node in (100, 101, 102)]
    with pytest.raises(InputError, check=about("message for training")):
        secure.secure_grid(federation()).send_and_receive(bare)
    two = RecordDict({"a": ArrayRecord(), "b": record([1.0])})
    with pytest.raises(InputError, check=about("message for training")):
        secure.secure_grid(federation()).send_and_receive([Message(two, node, "train") for node in (100, 101)])
