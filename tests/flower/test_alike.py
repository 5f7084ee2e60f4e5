"""All clients must be sent alike what they train on: otherwise a server reads one's update off the sum."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

from fgl_secure.errors import InputError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.records import KEY, Request, digest_of
from tests.flower.fake_federation import FakeGrid, app_of, record, update

TARGET = 102


def played(grid: FakeGrid, key: str = "num-examples") -> tuple[np.ndarray[Any, Any], SecureAggregationStrategy]:
    """The model after one round that begins at zero, and the strategy."""
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1, weighted_by_key=key)
    secure = SecureAggregationStrategy(inner, threshold=3, bound=8.0, stage_timeout=0.0)
    result = secure.start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
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
        request, content = Request.of(message.content), message.content
        assert request is not None
        rate = 1.0 if node == TARGET else 0.0
        if "config" in content:
            content["config"] = ConfigRecord({**content.config_records["config"], "rate": rate})
        elif request.terms and told:
            config = ConfigRecord({"server-round": 1, "rate": rate})
            alone = Message(RecordDict({"arrays": record(np.zeros(3)), "config": config}), node, "train")
            terms = {**json.loads(request.terms), "training": digest_of(alone)}
            content[KEY] = ConfigRecord({"message": request.message, "terms": json.dumps(terms).encode()})
        return message

    grid.before = before


def test_everybody_is_sent_the_same() -> None:
    """Without lies the model is the mean of the nodes' numbers: the control of the tests below."""
    np.testing.assert_allclose(played(obedient())[0], [2.5] * 3, atol=1e-6)


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


def test_server_cannot_name_a_weight_that_only_one_has() -> None:
    """A weight that is 0 at all clients but one would make the mean that one's update."""
    grid = obedient(first=1.0)
    model, _ = played(grid, key="first")
    assert not model.any()
    assert len(grid.refusals) == 4
    assert all("'num-examples' for this client; found 'first'" in why for why in grid.refusals.values())


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
    secure = SecureAggregationStrategy(FedAvg(), threshold=3, bound=8.0).secured(grid)
    contents = [RecordDict({"arrays": record([0.0]), "config": ConfigRecord({"rate": rate})}) for rate in (0.5, 1.0)]
    with pytest.raises(InputError, match="alike"):
        secure.send_and_receive([Message(each, 100 + i, "train") for i, each in enumerate(contents)])
    with pytest.raises(InputError, match="alike"):
        secure.send_and_receive([Message(contents[0], 100, "train"), Message(contents[0], 101, "train.other")])
    assert grid.delivered == []


def test_digest_tells_records_apart_and_not_their_order() -> None:
    """Any changed value, type, name or shape is another digest; the order of names is not."""

    def of(values: Any, *kind: str, **config: Any) -> str:
        content = RecordDict({"arrays": record(values), "config": ConfigRecord(config)})
        return digest_of(Message(content, 1, *(kind or ("train",))))

    same = of([0.0], a=1, b=[1.5])
    assert of([0.0], b=[1.5], a=1) == same
    others = {
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
    assert len(others) == 10
