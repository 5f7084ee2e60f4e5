"""All clients must be sent alike what they train on: otherwise a server reads one's update off the sum."""

import json
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fgl_secure.errors import InputError, RoundsFailedError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.records import KEY, RequestRecord, digest_of, digest_of_configuration
from tests.error_codes import about
from tests.flower.fake_federation import OFF, FakeGrid, app_of, record, strategy_of, update

TARGET = 102


def played(
    grid: FakeGrid, key: str = "num-examples", run_config: dict[str, Any] | None = None, start: Any = None
) -> tuple[np.ndarray[Any, Any], SecureAggregationStrategy]:
    """The model after one round that begins at zero, and the strategy."""
    secure = strategy_of(FedAvg(**OFF, weighted_by_key=key), run_config=run_config)
    try:
        result = secure.start(grid, start or record(np.zeros(3)), num_rounds=1, timeout=0.0)
    except RoundsFailedError:
        return np.zeros(3, dtype=np.float32), secure
    return np.asarray(result.arrays["w"].numpy()) if result.arrays else np.zeros(3, dtype=np.float32), secure


def obedient(**metrics: float) -> FakeGrid:
    """Four nodes that go from the model to their own number as fast as their configuration says."""

    def train(message: Message, context: Context) -> RecordDict:
        start = message.content.array_records["arrays"]["w"].numpy()
        rate = float(message.content.config_records["config"].get("rate", 1.0))  # type: ignore[arg-type]
        own = {name: value * (context.node_id == TARGET) for name, value in metrics.items()}
        return update(start + rate * (context.node_id - 99), 1, **own)

    return FakeGrid([app_of(SecureAggregationMod(), train)] * 4)


def lying(grid: FakeGrid, told: bool) -> None:
    """A server that has all nodes but the target stand still; if `told`, it announces to each what it sends it."""

    def before(node: int, _stage: object, message: Message) -> Message:
        request, content = RequestRecord.of(message.content), message.content
        assert request is not None
        rate = 1.0 if node == TARGET else 0.0
        if "config" in content:
            content["config"] = ConfigRecord({**content.config_records["config"], "rate": rate})
        elif request.terms and told:
            config = ConfigRecord({"server-round": 1, "rate": rate})
            alone = Message(
                RecordDict({"arrays": record(np.zeros(3)), "config": config}),
                node,
                "train",
                group_id=message.metadata.group_id,
            )
            terms = {**json.loads(request.terms), "training": digest_of(alone, digest_of_configuration({}))}
            content[KEY] = ConfigRecord({"message": request.message, "terms": json.dumps(terms).encode()})
        return message

    grid.before = before


def test_everybody_is_sent_the_same() -> None:
    """Without lies the model is the mean of the nodes' numbers: the control of the tests below."""
    np.testing.assert_allclose(played(obedient(), run_config={})[0], [2.5] * 3, atol=1e-6)


@pytest.mark.parametrize("told", [False, True])
def test_server_cannot_have_all_but_one_stand_still(told: bool) -> None:
    """Other configurations for other clients: refused at once, or no sum comes about."""
    grid = obedient()
    lying(grid, told)
    model, secure = played(grid)
    assert not model.any()
    assert secure.rounds[0].included == ()
    assert bool(secure.rounds[0].lost) or told
    if not told:
        assert len(grid.refusals) == 4
        assert all("announce" in reason for reason in grid.refusals.values())


def configured(rates: dict[int, float]) -> FakeGrid:
    """Four nodes that go to their own number as fast as the configuration of their run says."""

    def train(_message: Message, context: Context) -> RecordDict:
        return update(np.full(3, float(context.run_config["rate"]) * (context.node_id - 99)), 1)

    grid = FakeGrid([app_of(SecureAggregationMod(), train)] * 4)
    for node, context in grid.contexts.items():
        context.run_config = {"rate": rates.get(node, 0.0)}
    return grid


@pytest.mark.parametrize("run_config", [None, {"rate": 0.5}])
def test_configuration_of_the_run_is_asked_for_or_given(run_config: dict[str, Any] | None) -> None:
    """With one configuration for all the model is the mean, whether the strategy is told it or asks the nodes once."""
    grid = configured(dict.fromkeys((100, 101, 102, 103), 0.5))
    np.testing.assert_allclose(played(grid, run_config=run_config)[0], [1.25] * 3, atol=1e-6)
    assert len(grid.answered) == 4 * (5 + (run_config is None))


@pytest.mark.parametrize("run_config", [None, {"rate": 0.0}, {"rate": 1.0}])
def test_server_cannot_configure_the_run_of_one_node_otherwise(run_config: dict[str, Any] | None) -> None:
    """A learning rate of 0 for all but one in the run's configuration: that one takes no part, or nobody does."""
    grid = configured({TARGET: 1.0})
    model, secure = played(grid, run_config=run_config)
    assert not model.any()
    assert TARGET not in secure.rounds[0].included
    assert any("configuration of the run" in why for why in grid.refusals.values())


def test_server_cannot_announce_to_each_node_its_own_configuration() -> None:
    """Nodes that are told different digests, each the right one, agree on different keys and have no sum."""
    grid = configured({TARGET: 1.0})

    def before(node: int, _stage: object, message: Message) -> Message:
        request = RequestRecord.of(message.content)
        assert request is not None
        if request.terms:
            config = digest_of_configuration(grid.contexts[node].run_config)
            terms = {**json.loads(request.terms), "training": digest_of(message, config)}
            message.content[KEY] = ConfigRecord({"message": request.message, "terms": json.dumps(terms).encode()})
        return message

    grid.before = before
    model, secure = played(grid, run_config={"rate": 0.0})
    assert not model.any()
    assert secure.rounds[0].included == ()


def by_position(*names: str) -> ArrayRecord:
    """Arrays of one shape, in an order: ones for v, twos for w."""
    return ArrayRecord({name: Array(np.full(2, 1 + (name == "w"), dtype=np.float32)) for name in names})


@pytest.mark.parametrize("told", [False, True])
def test_server_cannot_swap_arrays_of_one_shape(told: bool) -> None:
    """An app that takes arrays by position has another model where two have changed places: no sum comes about.

    The target alone would be handed v for v, and the others w, so that the sum tells of it.
    """

    def train(message: Message, _context: Context) -> RecordDict:
        first, second = (array.numpy() for array in message.content.array_records["arrays"].values())
        trained = ArrayRecord({"v": Array(first * 2), "w": Array(second)})
        return RecordDict({"arrays": trained, "metrics": MetricRecord({"num-examples": 1})})

    grid = FakeGrid([app_of(SecureAggregationMod(), train)] * 4)

    def before(node: int, _stage: object, message: Message) -> Message:
        request, content = RequestRecord.of(message.content), message.content
        if request is not None and request.terms and node != TARGET:
            content["arrays"] = by_position("w", "v")
            if told:
                terms = {**json.loads(request.terms), "training": digest_of(message, digest_of_configuration({}))}
                content[KEY] = ConfigRecord({"message": request.message, "terms": json.dumps(terms).encode()})
        return message

    grid.before = before
    _, secure = played(grid, run_config={}, start=by_position("v", "w"))
    assert secure.rounds[0].included == ()
    grid.before = lambda _node, _stage, message: message
    _, secure = played(grid, run_config={}, start=by_position("v", "w"))
    assert len(secure.rounds[0].included) == 4


def test_clients_say_which_metric_is_their_weight() -> None:
    """A client whose weight is another metric says so."""
    apps = [
        app_of(SecureAggregationMod(weight_key="edges"), lambda _m, _c: update(np.ones(3), 0, edges=2))
        for _ in range(4)
    ]
    np.testing.assert_allclose(played(FakeGrid(apps), key="edges")[0], 1.0, atol=1e-6)


def test_strategies_that_send_nodes_different_things_are_told_so() -> None:
    """Such messages are an error at the server, before any of them is sent."""
    grid = obedient()
    secure = SecureAggregationStrategy(FedAvg(), threshold=3, bound=8.0).secure_grid(grid)
    contents = [RecordDict({"arrays": record([0.0]), "config": ConfigRecord({"rate": rate})}) for rate in (0.5, 1.0)]
    with pytest.raises(InputError, check=about("messages for training")):
        secure.send_and_receive([Message(each, 100 + i, "train") for i, each in enumerate(contents)])
    with pytest.raises(InputError, check=about("messages for training")):
        secure.send_and_receive([Message(contents[0], 100, "train"), Message(contents[0], 101, "train.other")])
    assert grid.delivered == []


def test_digest_tells_records_apart_and_their_order() -> None:
    """Any changed value, type, name, shape, order or group is another digest."""

    def of(values: Any, *kind: str, group: str = "1", **config: Any) -> str:
        content = RecordDict({"arrays": record(values), "config": ConfigRecord(config)})
        return digest_of(Message(content, 1, *(kind or ("train",)), group_id=group))

    same = of([0.0], a=1, b=[1.5])
    assert of([0.0], a=1, b=[1.5]) == same
    turned = RecordDict({"config": ConfigRecord({"a": 1, "b": [1.5]}), "arrays": record([0.0])})
    others = {
        of([0.0], b=[1.5], a=1),
        of([0.0], a=1, b=[1.5], group="2"),
        digest_of(Message(turned, 1, "train", group_id="1")),
        digest_of(Message(turned, 1, "train", group_id="1"), digest_of_configuration({})),
        of([1.0], a=1, b=[1.5]),
        of([[0.0]], a=1, b=[1.5]),
        of([0.0], a=1.0, b=[1.5]),
        of([0.0], a=True, b=[1.5]),
        of([0.0], a="1", b=[1.5]),
        of([0.0], a=b"1", b=[1.5]),
        of([0.0], a=1, b=[1.5, 1.5]),
        of([0.0], a=1, c=[1.5]),
        of([0.0], "train.other", a=1, b=[1.5]),
        same,
    }
    assert len(others) == 14


def test_configurations_are_told_apart_and_not_by_their_order() -> None:
    """Names, values and types count; Flower does not keep the order."""
    configs: list[dict[str, Any]] = [{}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"b": 1}, {"a": 1, "b": 2}]
    assert len({digest_of_configuration(config) for config in configs}) == len(configs)
    assert digest_of_configuration({"b": 2, "a": 1}) == digest_of_configuration(configs[-1])
