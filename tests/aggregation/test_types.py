"""Types at the edge of the aggregation: taken with the right value, or refused with a remedy that works."""

import array
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.arguments import Limits
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.aggregation.report import LabelTest
from fgl_secure.errors import InputError
from tests.error_codes import about

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's kinds of tensors that are prototypes

NUMBERS = np.array([1.0, 2.0, 3.0])
STATE = {"w": torch.ones(2)}
LINEAR = torch.nn.Linear(2, 2)
TEXT: dict[str, Any] = {"clients": "3"}
NOISE: dict[str, Any] = {"clip": 1.0, "epsilon": 4.0, "delta": 1e-5, "rounds": 10}
SCHEMES: dict[str, dict[str, Any]] = {
    "found ranges": {},
    "clip": {"bound": 8.0, "clip": True},
    "precision": {"precision": 16},
    "k_min": {"k_min": 2},
    "lightsecagg": {"scheme": "lightsecagg"},
    "ckks": {"scheme": "ckks-shared-key", "bound": 8.0},
    "plaintext": {"scheme": "plaintext"},
}


def aggregator(**more: Any) -> SecureAggregator:
    return SecureAggregator.for_clients(3, **more)


def mean(value: Any, **more: Any) -> Any:
    """The mean over three clients that all hold one value."""
    return aggregator(**more).mean([{"w": value}] * 3)["w"]


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [*((scheme, ">f4") for scheme in SCHEMES), *(("found ranges", kind) for kind in (">f8", ">f2", ">i8", ">u2"))],
)
def test_arrays_of_any_byte_order_have_the_mean_of_their_numbers(scheme: str, kind: str) -> None:
    """As files and networks give them, also beside arrays of the byte order of this machine."""
    foreign = np.dtype(kind).newbyteorder(">")
    for orders in ((foreign,) * 3, (foreign.newbyteorder("<"), foreign, foreign)):
        found = aggregator(**SCHEMES[scheme]).mean([{"w": NUMBERS.astype(order)} for order in orders])["w"]
        assert found.dtype.isnative
        assert found.dtype.name == foreign.name
        np.testing.assert_allclose(found, NUMBERS, atol=1e-3)


def memory_map(folder: Path) -> np.memmap[Any, Any]:
    mapped = np.memmap(folder / "w", dtype=">f4", shape=(3,), mode="w+")
    mapped[:] = NUMBERS
    return mapped


def test_arrays_of_any_memory_are_taken(tmp_path: Path) -> None:
    """Views, maps of files, subclasses, arrays without axes or entries, tensors that are not laid out in order."""
    with torch.inference_mode():
        inference = torch.from_numpy(NUMBERS)
    for value in (
        np.repeat(NUMBERS, 2)[::2],
        NUMBERS[::-1],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(2.0, dtype=">f4"),
        np.float32(2),
        np.zeros(0, dtype=">f4"),
        np.broadcast_to(np.float32(1), (3,)),
        memory_map(tmp_path),
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(1).expand(3),
        torch.ones(3, requires_grad=True) * 2,
        torch.nn.Parameter(torch.ones(3)),
        inference,
    ):
        expected = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        np.testing.assert_allclose(np.asarray(mean(value)), expected, atol=1e-5)


class ArrayLike:
    """What other libraries' arrays are to numpy."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return NUMBERS


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: torch.eye(2).to_sparse(), lambda value: value.to_dense()),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), lambda value: value.dequantize()),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), lambda value: list(value.unbind())),
        (lambda: torch.ones(2, dtype=torch.complex64), lambda value: [value.real, value.imag]),
        (lambda: torch.ones(3).to(torch.float8_e4m3fn), lambda value: value.float()),
        (lambda: NUMBERS.astype(object), lambda value: value.astype("float64")),
        (lambda: NUMBERS.astype(np.longdouble), lambda value: value.astype("float64")),
        (lambda: np.array(["2020-01-01"], dtype="M8[D]"), lambda value: value.astype("float64")),
        (lambda: np.ma.array(NUMBERS, mask=[False, True, False]), lambda value: value.filled(0)),
        (lambda: scipy.sparse.csr_array(np.eye(2)), lambda value: value.toarray()),
        (lambda: LINEAR, lambda value: value.state_dict()),
        (ArrayLike, np.asarray),
        (lambda: array.array("d", [1, 2]), np.asarray),
        (lambda: 2.5, np.asarray),
        (lambda: [1.0, 2.0], np.asarray),
    ],
)
def test_values_without_a_mean_name_a_remedy(make: Callable[[], Any], remedy: Callable[[Any], Any]) -> None:
    """The error names the client, the tensor and what to call; what that gives is averaged."""
    with pytest.raises(InputError):
        mean(make())
    mean(remedy(make()))


def test_values_that_hold_no_numbers_are_refused() -> None:
    """Text, tensors without data or shape, parts that compute in a way of their own."""
    masked = pytest.importorskip("torch.masked").masked_tensor(torch.ones(2), torch.tensor([True, False]))
    for value in ("text", torch.ones(3, device="meta"), torch.nn.LazyLinear(2).weight, masked, iter([1.0]), {1.0}):
        with pytest.raises(InputError):
            mean(value)


@pytest.mark.parametrize(
    ("mappings", "named", "remedy"),
    [
        ({0: STATE, 1: STATE, 2: STATE}, "mappings", lambda found: list(found.values())),
        (STATE, "mappings", lambda found: [found] * 3),
        (LINEAR, "mappings", lambda found: [found.state_dict()] * 3),
        ([LINEAR] * 3, "mapping", lambda found: [each.state_dict() for each in found]),
        ([lambda: LINEAR] * 3, "mapping", lambda _found: [LINEAR.state_dict] * 3),
        ([lambda client: {"w": client}] * 3, "mapping", lambda _found: [lambda: STATE] * 3),
        ([torch.ones(2)] * 3, "mapping", lambda found: [{"update": each} for each in found]),
        (np.ones((3, 2)), "mapping", lambda found: [{"update": each} for each in found]),
        ([STATE.values()] * 3, "mapping", lambda found: [list(each) for each in found]),
        ([list(LINEAR.named_parameters())] * 3, "values", lambda found: [dict(each) for each in found]),
        (
            [{0: torch.ones(2)}] * 3,
            "keys",
            lambda found: [{str(key): value for key, value in each.items()} for each in found],
        ),
    ],
)
def test_updates_of_other_forms_name_a_remedy(mappings: Any, named: str, remedy: Callable[[Any], Any]) -> None:
    """A model is callable, and is not called; the remedy that is named gives a mean."""
    with pytest.raises(InputError, check=about(named)):
        aggregator().mean(mappings)
    aggregator().mean(remedy(mappings))


def test_collections_in_the_order_of_clients_are_taken() -> None:
    """Generators, views and arrays of weights count each client as it stands."""
    states = [{"w": np.full(1, float(client))} for client in range(3)]
    mappings: Any
    weights: Any
    for mappings in (tuple(states), iter(states), dict(enumerate(states)).values(), np.array(states, dtype=object)):
        assert aggregator().mean(mappings)["w"][0] == pytest.approx(1.0)
    for weights in (
        (1, 2, 5),
        iter([1, 2, 5]),
        {0: 1, 1: 2, 2: 5}.values(),
        torch.tensor([1, 2, 5]),
        np.array([[1], [2], [5]]),
        np.array([1, 2, 5], dtype=">i4"),
        [np.float16(1), Fraction(2), np.uint64(5)],
    ):
        assert aggregator().mean(states, weights)["w"][0] == pytest.approx(12 / 8)
    assert aggregator().mean(states, [True, False, True])["w"][0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "weights",
    [
        {0: 1, 1: 2, 2: 3},
        {1, 2, 3},
        "123",
        ["1", "2", "3"],
        [1, float("nan"), 2],
        [1, -1, 2],
        [0, 0, 0],
        [1, None, 2],
        [1j, 1, 1],
        [[1, 2], [2], [3]],
        torch.ones(3, 2),
        torch.ones(3, device="meta"),
        np.ma.array([1, 2, 3], mask=[False, True, False]),
        3,
    ],
)
def test_other_weights_are_refused(weights: Any) -> None:
    """Nothing is taken for a weight that is none: a dictionary's keys, a set's order, a masked entry."""
    with pytest.raises(InputError):
        aggregator().mean([STATE] * 3, weights)


@pytest.mark.parametrize("scheme", ["found ranges", "precision", "ckks"])
def test_shares_are_weights_by_the_remedy_that_is_named(scheme: str) -> None:
    """Weights of .2, .3 and .5 are refused; with what the error names they give the weighted mean."""
    states = [{"w": np.full(2, float(client))} for client in range(3)]
    settings = SCHEMES[scheme]
    with pytest.raises(InputError, check=about("weight")):
        aggregator(**settings).mean(states, [0.2, 0.3, 0.5])
    found = aggregator(**settings, weight_bound=1, weight_fraction_bits=20).mean(states, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(found["w"], 1.3, atol=0.02)


INTEGERS: tuple[Any, ...] = (np.int64(3), np.uint8(3), torch.tensor(3), np.array(3))
NO_INTEGERS: tuple[Any, ...] = (
    3.0,
    np.float64(3),
    "3",
    b"3",
    True,
    np.True_,
    [3],
    3j,
    torch.tensor(3.0),
    float("nan"),
    10**60,
)
NO_NUMBERS: tuple[Any, ...] = ("3", b"3", [3], {}, 3j, float("nan"), float("inf"), np.array([3, 3]), 10**400)


@pytest.mark.parametrize("name", ["clients", "threshold", "k_min", "fraction_bits", "weight_fraction_bits"])
def test_counts_are_integers_of_any_type(name: str) -> None:
    """Those of numpy and torch are taken; floats, text and truth values are refused by name."""
    for value in INTEGERS:
        settings: dict[str, Any] = {"clients": 3, "bound": 8.0, name: value}
        assert SecureAggregator.for_clients(**settings).mean([STATE] * 3)["w"][0] == 1
    for value in NO_INTEGERS:
        with pytest.raises(InputError, match=name):
            SecureAggregator.for_clients(**{**settings, name: value})


@pytest.mark.parametrize("name", ["bound", "weight_bound"])
def test_bounds_are_numbers_of_any_type(name: str) -> None:
    """Those of numpy, torch and the standard library are taken; text and collections are refused by name."""
    value: Any
    for value in (3, np.float32(3), torch.tensor([3.0]), np.array([3]), Fraction(3)):
        assert aggregator(**{name: value}).mean([STATE] * 3)["w"][0] == pytest.approx(1, abs=1e-3)
    for value in NO_NUMBERS:
        with pytest.raises(InputError, match=name):
            aggregator(**{name: value})


@pytest.mark.parametrize("name", ["watched", "clip", "error_feedback"])
def test_switches_are_truth_values(name: str) -> None:
    """Those of numpy too, which have no JSON; text that says "no" is not taken for yes."""
    settings: dict[str, Any] = {"bound": 8.0} if name == "clip" else {"precision": 8}
    found = aggregator(**settings, **{name: np.True_}).mean([STATE] * 3)["w"][0].item()
    assert found == pytest.approx(1, abs=0.05)
    value: Any
    for value in ("no", "", None, 3, [], np.array([1, 0])):
        with pytest.raises(InputError, match=name):
            aggregator(**settings, **{name: value})


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda _a: aggregator(coins=0), "coins"),
        (lambda _a: aggregator(limits={}), "limits"),
        (lambda _a: aggregator(privacy=1.0), "privacy"),
        (lambda _a: aggregator(integers=np.array(["exact", "round"])), "integers"),
        (lambda a: a.server_round(STATE), "layout"),
        (lambda a: a.server_round(TensorLayout.of(STATE), coins=1), "coins"),
        (lambda a: a.client_round(0, bytes(16), 0, coins=1), "coins"),
        (lambda a: a.client_round(0, bytes(16), 0, identity=1, identities={}), "identity"),
        (lambda a: a.client_round(0, bytes(16), 0, rounding_errors=b""), "rounding_errors"),
        (lambda a: a.restored_client("state"), "state"),
        (lambda a: a.client_round(0, bytes(16), 0).provide(LINEAR), "mapping"),
        (lambda a: a.client_round(0, bytes(16), 0).provide(STATE, torch.ones(2)), "weight"),
        (lambda a: a.client_round(0, bytes(16), 0).reply("message"), "message"),
        (lambda a: a.server_round(TensorLayout.of(STATE)).receive("0", b""), "client"),
        (lambda a: a.server_round(TensorLayout.of(STATE)).receive(0, None), "message"),
        (lambda a: a.mean([STATE] * 3, dropped=[False, True]), "dropped"),
        (lambda a: a.write_report(3, [STATE] * 3), "path"),
        (lambda a: a.write_report("page.html", {0: STATE, 1: STATE, 2: STATE}), "updates"),
        (lambda a: a.write_report("page.html", [STATE] * 3, "w"), "labels"),
        (lambda a: a.write_report("page.html", [STATE] * 3, LabelTest("w", STATE, [[0.5]] * 3)), "labels of a client"),
        (lambda a: a.write_report("page.html", [STATE] * 3, LabelTest("w", STATE, [[0], [9], [1]])), "labels"),
        (lambda _a: DistributedNoise(**{**NOISE, "clip": "1"}), "clip"),
        (lambda _a: DistributedNoise(**{**NOISE, "rounds": 2.5}), "rounds"),
        (lambda _a: DistributedNoise(**{**NOISE, "kind": "laplace"}), "kind"),
        (lambda _a: Limits(**TEXT), "clients"),
    ],
)
def test_arguments_of_another_class_are_refused_by_name(
    call: Callable[[SecureAggregator], Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other door: what does not fit is an error of this package, and the next round is fine."""
    monkeypatch.chdir(tmp_path)
    made = aggregator(threshold=2)
    made.mean([STATE] * 3)
    with pytest.raises(InputError, check=about(name)):
        call(made)
    assert made.mean([STATE] * 3)["w"][0] == 1
