"""Arrays keep their types through the rounds of a wrapped strategy, and means are those of plain strategies."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

from fgl_secure.errors import InputError, RoundsFailedError
from fgl_secure.flower import SecureAggregationMod
from fgl_secure.flower.records import typed_record
from tests.error_codes import about
from tests.flower.fake_federation import OFF, FakeGrid, app_of, strategy_of

NODES, ROUNDS = 4, 2
KINDS = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
ORDERS = (*KINDS, *(f">{kind}" for kind in KINDS if np.dtype(kind).itemsize > 1))
SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 2), (2, 3))


def everything(number: int) -> ArrayRecord:
    """Arrays of every type and shape, full of one number."""
    return ArrayRecord(
        {f"{kind} {shape}": Array(np.full(shape, number).astype(kind)) for kind in ORDERS for shape in SHAPES}
    )


def types_of(record: ArrayRecord) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (array.numpy().dtype.str, array.numpy().shape) for name, array in record.items()}


def counting(seen: list[ArrayRecord]) -> FakeGrid:
    """Nodes of which each has a number of its own for all arrays, and the models that they were sent."""

    def train(message: Message, context: Context) -> RecordDict:
        seen.append(message.content.array_records["arrays"])
        own = everything(context.node_id - 100)
        return RecordDict({"arrays": own, "metrics": MetricRecord({"num-examples": 1})})

    return FakeGrid([app_of(SecureAggregationMod(), train)] * NODES)


@pytest.mark.parametrize("inner", [FedAvg, partial(FedAvgM, server_momentum=0.5), FedAdam])
def test_arrays_of_every_type_come_back_as_they_were(inner: Callable[..., FedAvg]) -> None:
    """Rounds with all clients in each; what is sent, evaluated and returned has the types of the first model."""
    seen: list[ArrayRecord] = []
    evaluated: list[ArrayRecord] = []

    def evaluate(_round: int, arrays: ArrayRecord) -> None:
        evaluated.append(arrays)

    secure, first = strategy_of(inner(**OFF), bound=64.0), everything(0)
    result = secure.start(counting(seen), first, num_rounds=ROUNDS, timeout=0.0, evaluate_fn=evaluate)
    assert [len(report.included) for report in secure.rounds] == [NODES] * ROUNDS
    assert len(seen) == NODES * ROUNDS
    assert all(types_of(record) == types_of(first) for record in (*seen, *evaluated, result.arrays))


@pytest.mark.parametrize("precision", [None, 16])
def test_means_are_rounded_to_the_nearest(precision: int | None) -> None:
    """Of 0, 1, 2 and 3 the mean is 1.5: 2 for integers, and true for truth values, of which three are true."""
    secure = strategy_of(**({"bound": None, "precision": precision} if precision else {"bound": 64.0}))
    arrays = secure.start(counting([]), everything(0), num_rounds=1, timeout=0.0).arrays
    for name, array in arrays.items():
        value = array.numpy()
        expected = {"b": True, "i": 2, "u": 2}.get(value.dtype.kind)
        if expected is None:
            np.testing.assert_allclose(value.astype(np.float64), 1.5, atol=1e-3, err_msg=name)
        else:
            assert (value == expected).all(), name


def test_a_type_without_a_mean_is_named() -> None:
    """Complex numbers: the run ends with the name of the array and its type."""
    start = ArrayRecord({"w": Array(np.zeros(2, np.complex64))})
    with pytest.raises(RoundsFailedError, check=about("a run")):
        strategy_of(bound=64.0).start(counting([]), start, num_rounds=1, timeout=0.0)


@pytest.mark.parametrize("value", [1e19, float("nan"), float("inf"), -1e19])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_a_step_that_does_not_fit_into_integers_is_refused(value: float, dtype: type) -> None:
    """It would come out as another number, of the other sign among them."""
    if (value, dtype) == (1e19, np.uint64):
        value = 1e20
    with pytest.raises(InputError, check=about("counter")):
        typed_record({"counter": np.array([1.0, value])}, {"counter": np.dtype(dtype)})
    (kept,) = typed_record({"counter": np.array([2.5, 3.4])}, {"counter": np.dtype(dtype)}).values()
    assert kept.numpy().tolist() == [3, 3]
