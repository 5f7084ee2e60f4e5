"""The safe recipe: exact within the stated error, under any scheme, or a typed error."""

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fgl_secure
from fgl_secure import SecureAggregator
from fgl_secure.aggregation.client_round import Place
from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.aggregation.layout import reals_of
from fgl_secure.aggregation.sums import SumKind
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, PrecisionWarning, TooFewClientsError, UnknownNameError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.schemes import names
from tests.aggregation.trees import exact, exact_mean, leaves, plans, trees
from tests.error_codes import about

FINDS_RANGES = sorted(name for name in names("server") if name != "ckks-shared-key")


def states(count: int, seed: int = 0) -> list[dict[str, torch.Tensor]]:
    """State dicts of a small model: weights, biases that are still zero, a counter."""
    draw = torch.Generator().manual_seed(seed)
    return [
        {"w": torch.randn(5, 3, generator=draw), "b": torch.zeros(3), "steps": torch.tensor(12)} for _ in range(count)
    ]


def aggregator_of(scheme: str, clients: int, **more: Any) -> SecureAggregator:
    bound = {"bound": 16.0} if scheme == "ckks-shared-key" else {}
    return SecureAggregator.for_clients(clients, scheme, coins=SimulationCoins(5), **{**bound, **more})


def check_mean(aggregator: SecureAggregator, mean: Any, mappings: list[Any], weights: list[float]) -> None:
    """Every entry is within the stated error of the exact mean, and kinds, types and names are those of the first."""
    record = aggregator.last_round
    assert record is not None
    found, first = dict(leaves(mean)), dict(leaves(mappings[0]))
    assert list(found) == list(first)
    for name, value in found.items():
        assert (type(value), value.dtype, tuple(value.shape)) == (
            type(first[name]),
            first[name].dtype,
            tuple(first[name].shape),
        )
        truth = exact_mean([dict(leaves(mapping))[name] for mapping in mappings], weights)
        off = [abs(a - b) for a, b in zip(exact(value), truth, strict=True)]
        assert max(off, default=Fraction(0)) <= Fraction(record.error_bound[name])


@pytest.mark.filterwarnings("ignore::fgl_secure.errors.PrecisionWarning")  # random numbers are of all sizes
@settings(max_examples=30)
@given(st.data(), plans(), st.integers(2, 5))
def test_means_of_random_trees_are_within_the_stated_error(data: st.DataObject, plan: Any, clients: int) -> None:
    """Any tree of any types, any weights, ranges given or found: the mean is the exact one within the stated error."""
    bound = 2.0 ** data.draw(st.integers(-10, 14))
    mappings = [data.draw(trees(plan, bound)) for _ in range(clients)]
    weights = [float(data.draw(st.integers(0, 10**6))) for _ in range(clients - 1)] + [3.0]
    given_bound = data.draw(st.sampled_from([None, bound]))
    aggregator = aggregator_of("plaintext", clients, bound=given_bound, integers=IntegerRule.ROUND)
    check_mean(aggregator, aggregator.mean(mappings, weights), mappings, weights)


@pytest.mark.filterwarnings("ignore::fgl_secure.errors.PrecisionWarning")  # random numbers are of all sizes
@settings(max_examples=6)
@given(st.data(), plans())
@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_every_scheme_gives_the_mean(scheme: str, data: st.DataObject, plan: Any) -> None:
    """Under every scheme, with one of four clients gone, the mean over the others is exact within the stated error."""
    mappings = [data.draw(trees(plan, 16.0)) for _ in range(4)]
    weights = [2.0, 50.0, 1.0, 7.0]
    aggregator = aggregator_of(scheme, 4, integers=IntegerRule.ROUND, threshold=3)
    mean = aggregator.mean(mappings, weights, dropped={1})
    check_mean(aggregator, mean, [m for i, m in enumerate(mappings) if i != 1], [2.0, 1.0, 7.0])


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_rounds_follow_each_other(scheme: str) -> None:
    """Several rounds with changing drop-outs, clients that never came among them, are each right."""
    aggregator = aggregator_of(scheme, 5, threshold=3)
    for round_, (dropped, absent) in enumerate([((), ()), ((0,), ()), ((1,), (4,)), ((), (2, 3))]):
        mappings: list[Any] = states(5, round_)
        gone = {*dropped, *absent}
        given_ = [None if i in absent else m for i, m in enumerate(mappings)]
        mean = aggregator.mean(given_, [1, 2, 3, 4, 5], dropped=dropped)
        left = [i for i in range(5) if i not in gone]
        check_mean(aggregator, mean, [mappings[i] for i in left], [i + 1.0 for i in left])
        record = aggregator.last_round
        assert record is not None
        assert (record.number, record.included) == (round_, tuple(left))
        assert record.dropped == tuple(sorted(gone))
        assert record.total_weight == sum(i + 1 for i in left)


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_below_the_threshold_nothing_comes_out(scheme: str) -> None:
    """With one client fewer than the threshold the round stops with the numbers, and the next one is fine."""
    aggregator, mappings = aggregator_of(scheme, 4, threshold=3), states(4)
    aggregator.mean(mappings)
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 3 of 4 clients")):
        aggregator.mean(mappings, dropped={0, 2})
    record = aggregator.last_round
    assert record is not None
    assert record.number == 0  # the last that was finished
    check_mean(aggregator, aggregator.mean(mappings), mappings, [1.0] * 4)


@pytest.mark.parametrize("scheme", FINDS_RANGES)
def test_ranges_are_found_again_when_a_number_outgrows_them(scheme: str) -> None:
    """However fast numbers grow, at whichever client, each round has its mean; ranges stay while they do."""
    aggregator, bounds = aggregator_of(scheme, 3), []
    for round_, growth in enumerate((1.0, 2.0, 1e3, 1e3, 1e6)):
        mappings = states(3, round_)
        mappings[round_ % 3]["w"] *= growth
        check_mean(aggregator, aggregator.mean(mappings), mappings, [1.0] * 3)
        assert aggregator.bounds is not None
        bounds.append(aggregator.bounds["w"])
    assert bounds[0] == bounds[1] < bounds[2] == bounds[3] < bounds[4]


def test_a_round_in_which_nothing_grew_tells_nothing_but_that() -> None:
    """The sum that watches ranges is all zeros as long as numbers stay within them, whatever they are."""
    aggregator = aggregator_of("plaintext", 3)
    for round_ in range(3):
        aggregator.mean(states(3, round_))
        record = aggregator.last_round
        assert record is not None
        watched = [
            value
            for batch in record.transcript.messages
            if batch.step.part == SumKind.RANGES and batch.fields is not None
            for value in batch.fields.values()
        ]
        assert watched
        assert any(value.any() for value in watched) == (round_ == 0)  # the control: in the first round it tells


@pytest.mark.parametrize("scheme", FINDS_RANGES)
def test_ranges_are_found_once_and_kept_where_nobody_watches(scheme: str) -> None:
    """The first round has a sum for the ranges, the second has none; numbers beyond them are an error until told."""
    aggregator, mappings = aggregator_of(scheme, 3, watched=False), states(3)
    for expected in ({SumKind.RANGES, SumKind.VALUES}, {SumKind.VALUES}):
        aggregator.mean(mappings)
        record = aggregator.last_round
        assert record is not None
        assert record.purposes == expected
    larger = [{**m, "w": m["w"] * 1000} for m in mappings]
    with pytest.raises(FieldRangeError, check=about("numbers under 'w'")):
        aggregator.mean(larger)
    aggregator.forget_ranges()
    check_mean(aggregator, aggregator.mean(larger), larger, [1.0] * 3)
    assert aggregator.bounds is not None
    assert aggregator.bounds["b"] == 16.0  # zero at all clients says nothing, so there is room for untrained biases


def test_overflow_is_never_silent() -> None:
    """With a bound given, a number beyond it stops the round and names client and key."""
    aggregator, mappings = aggregator_of("plaintext", 3, bound=4.0), states(3)
    mappings[2]["w"][1, 1] = 4.01
    with pytest.raises(FieldRangeError, check=about("numbers under 'w'")):
        aggregator.mean(mappings)


def test_numbers_are_clipped_where_the_user_says_so() -> None:
    """With `clip` numbers beyond the bound count as the bound; what is no number stays an error."""
    aggregator, mappings = aggregator_of("plaintext", 3, bound=4.0, clip=True), states(3)
    mappings[2]["w"][1, 1] = -1e9
    clipped = [{**each, "w": each["w"].clamp(-4, 4)} for each in mappings]
    check_mean(aggregator, aggregator.mean(mappings), clipped, [1.0] * 3)
    mappings[2]["w"][1, 1] = float("inf")
    with pytest.raises(InputError, check=about("numbers under 'w'")):
        aggregator.mean(mappings)


def test_a_client_that_swamps_the_others_is_named_with_its_size() -> None:
    """The mean goes on, and a warning says whose numbers are how large, and what to do; ordinary rounds have none."""
    aggregator, mappings = aggregator_of("pairwise-masking", 3), states(3)
    aggregator.mean(mappings)
    mappings[1]["w"][0, 0] = 2.0**40
    with pytest.warns(PrecisionWarning, match=r"range of 'w' .*2 of 3 clients .*of client 1, reach 2\^40: leave that"):
        mean = aggregator.mean(mappings)
    assert torch.allclose(mean["w"][0, 0], torch.tensor(2.0**40 / 3))
    aggregator.forget_ranges()
    aggregator.mean(states(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 3, "clip": True}, "bound"),
        ({"clients": 1}, "clients"),
        ({"clients": 4, "threshold": 2}, "threshold"),
        ({"clients": 4, "threshold": 5}, "threshold"),
        ({"clients": 4, "scheme": "ckks-shared-key"}, "bound"),
        ({"clients": 4, "bound": -1.0}, "bound"),
        ({"clients": 4, "bound": float("inf")}, "bound"),
        ({"clients": 4, "weight_bound": 0}, "weight_bound * 2^weight_fraction_bits"),
        ({"clients": 4, "scheme": Plaintext(), "threshold": 3}, "threshold"),
        ({"clients": 4, "bound": 8.0, "fraction_bits": -100_000}, "fraction_bits"),
        ({"clients": 4, "integers": "up"}, "integers"),
        ({"clients": 4, "scheme": 5}, "scheme"),
    ],
)
def test_settings_that_break_the_rules_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Too few clients, thresholds that privacy forbids and missing bounds are refused at set-up."""
    with pytest.raises(InputError, check=about(message)):
        SecureAggregator.for_clients(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, bytes(16), 0), "index"),
        ((0.5, bytes(16), 0), "index"),
        ((0, bytes(15), 0), "session"),
        ((0, "a" * 16, 0), "session"),
        ((0, bytes(16), 2**32), "number"),
    ],
)
def test_clients_of_no_round_are_refused(arguments: tuple[Any, Any, Any], message: str) -> None:
    """Index, session and number are checked before a client takes part, and the right ones still serve."""
    aggregator = aggregator_of("plaintext", 4)
    with pytest.raises(InputError, check=about(message)):
        aggregator.client_round(*arguments)
    assert aggregator.client_round(0, bytes(16), 0).place == Place(bytes(16), 0, 0)


def test_unknown_schemes_are_named() -> None:
    """A scheme that is not there is refused with the list of those that are."""
    with pytest.raises(UnknownNameError, check=about("scheme")):
        SecureAggregator.for_clients(3, "magic")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mappings": states(2)}, "mappings"),
        ({"mappings": 3}, "mappings"),
        ({"weights": [1, 10**400, 1]}, "weight"),
        ({"dropped": 1}, "dropped"),
        ({"dropped": {"1"}}, "dropped"),
        ({"mappings": [None] * 3}, "mappings"),
        ({"weights": [1, 2]}, "weights"),
        ({"weights": [1, 2, 0.5]}, "weight"),
        ({"dropped": [1, 1]}, "dropped"),
        ({"dropped": {3}}, "dropped"),
        ({"mappings": [*states(2), {**states(1)[0], "w": torch.zeros(3, 5)}]}, "'w'"),
        ({"mappings": [*states(2), {**states(1)[0], "b": torch.tensor([1, float("nan"), 1])}]}, "numbers under 'b'"),
    ],
)
def test_bad_input_is_refused_and_the_next_round_is_fine(arguments: dict[str, Any], message: str) -> None:
    """Bad input names client and key, and the aggregator goes on with the next round."""
    aggregator = aggregator_of("plaintext", 3)
    with pytest.raises(InputError, check=about(message)):
        aggregator.mean(**{"mappings": states(3), **arguments})
    good = states(3)
    check_mean(aggregator, aggregator.mean(good), good, [1.0] * 3)


def test_inputs_stay_as_they_are_and_results_are_apart() -> None:
    """The mean shares no memory with a client's tensors, and changes none of them."""
    mappings = states(3)
    before = [{name: value.clone() for name, value in mapping.items()} for mapping in mappings]
    mean = aggregator_of("plaintext", 3).mean(mappings)
    mean["w"].zero_()
    assert all(torch.equal(a[name], b[name]) for a, b in zip(before, mappings, strict=True) for name in a)


def test_each_mean_looks_like_the_first_mapping_of_its_own_round() -> None:
    """Rounds of equal layouts share how vectors are written, and neither order nor kind of what is built of them."""
    aggregator = SecureAggregator.for_clients(2, bound=4.0, coins=SimulationCoins(5))
    one = {"a": np.ones(2, dtype=np.float32), "b": np.zeros(1, dtype=np.float32)}
    other = {"b": torch.zeros(1), "a": torch.ones(2)}
    for first, second in ((one, other), (other, one)):
        mean = aggregator.mean([first, second])
        assert [(name, type(value)) for name, value in mean.items()] == [(k, type(v)) for k, v in first.items()]


def test_bits_of_any_float_type_are_read_exactly() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        values = torch.tensor([1.0, -2.5, 2.0**-14, 0.333], dtype=dtype)
        negative = torch.complex(values.float(), values.float()).conj().imag  # lazily negated
        assert reals_of(values).tolist() == values.tolist()
        assert reals_of(negative).tolist() == negative.tolist()


CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_the_mean_lies_where_the_first_mapping_does(device: str) -> None:
    """Clients may hold their tensors on different devices; the mean is on the first one's."""
    first, *others = states(3)
    mappings = [{name: value.to(device) for name, value in first.items()}, *others]
    mean = aggregator_of("plaintext", 3).mean(mappings)
    assert {value.device.type for value in mean.values()} == {device}
    check_mean_of(mean, mappings)


def check_mean_of(mean: dict[str, torch.Tensor], mappings: list[dict[str, torch.Tensor]]) -> None:
    """Near the mean as torch computes it."""
    for name, value in mean.items():
        plain = torch.stack([mapping[name].cpu().double() for mapping in mappings]).mean(dim=0)
        assert torch.allclose(value.cpu().double(), plain, atol=1e-6)


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_the_record_counts_what_passes(scheme: str) -> None:
    """The record has every message with its bytes, and what arrived of each client that is included."""
    aggregator = aggregator_of(scheme, 4, threshold=3)
    aggregator.mean(states(4), dropped={3})
    record = aggregator.last_round
    assert record is not None
    assert (record.included, record.dropped) == ((0, 1, 2), (3,))
    assert all(len(record.received_words(client)) >= 19 for client in record.included)
    assert record.byte_count == sum(each.bytes for each in record.traffic) >= 8 * 3 * 19
    assert record.seconds > 0


def test_importing_the_package_loads_no_torch() -> None:
    """The aggregator's name is there once the package is imported, and torch is not."""
    program = (
        "import sys, fgl_secure; assert 'SecureAggregator' in fgl_secure.__all__; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert fgl_secure.SecureAggregator is SecureAggregator
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        fgl_secure.Nothing  # noqa: B018
