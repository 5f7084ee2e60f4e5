"""Means at few bits: within the stated error, right on average, small on the wire, and rounded by secret coins."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.encoding import RoundedEncoding, RoundingErrors
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.aggregation.rules import RangeCircumstance
from fgl_secure.aggregation.sums import Opening
from fgl_secure.algebra import quantization
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError
from tests.aggregation.test_aggregator import check_mean
from tests.error_codes import about

Reals = NDArray[np.float64]
ONES = {"w": np.ones(4)}


def aggregator_of(clients: int, precision: int = 8, scheme: str = "pairwise-masking", **more: Any) -> SecureAggregator:
    return SecureAggregator.for_clients(clients, scheme, precision=precision, coins=SimulationCoins(1), **more)


def trees(clients: int, seed: int = 0) -> list[dict[str, Any]]:
    """Floats of several sizes and types, zeros, a counter and a truth value."""
    rng = np.random.default_rng(seed)
    return [
        {
            "w": torch.from_numpy(rng.normal(size=(5, 3))).float(),
            "small": rng.normal(size=7) * 1e-6,
            "zero": np.zeros(3),
            "half": torch.randn(4, generator=torch.Generator().manual_seed(i)).half(),
            "count": torch.tensor(1000 + i),
            "flag": np.array([True]),
        }
        for i in range(clients)
    ]


@pytest.mark.parametrize(
    ("scheme", "precision"),
    [("pairwise-masking", 8), ("pairwise-masking", 16), ("lightsecagg", 16), ("pairwise-masking", 32)],
)
@settings(max_examples=3)
@given(data=st.data())
def test_means_are_within_the_stated_error(scheme: str, precision: int, data: st.DataObject) -> None:
    """With weights, integers, a client that vanishes, and ranges found; every round anew."""
    mappings, weights = trees(4, data.draw(st.integers(0, 99))), [2.0, 50.0, 0.0, 7.0]
    aggregator = aggregator_of(4, precision, scheme, threshold=3)
    for dropped in (set(), {1}):
        kept = [i for i in range(4) if i not in dropped]
        mean = aggregator.mean(mappings, weights, dropped=dropped)
        check_mean(aggregator, mean, [mappings[i] for i in kept], [weights[i] for i in kept])
        mappings = [{**each, "w": each["w"] * 1000} for each in mappings]  # ranges are found anew


def test_given_bounds_weights_and_clipping() -> None:
    """A bound is one of numbers; times the weight bound it is that of what is handed in."""
    mappings = [{"w": np.array([value, -4.0])} for value in (4.0, -4.0, 3.0)]
    for weights, heaviest in ((None, None), ([1.0, 10.0, 3.0], 10.0)):
        aggregator = aggregator_of(3, 16, bound=4.0, weight_bound=heaviest)
        mean = aggregator.mean(mappings, weights)
        check_mean(aggregator, mean, mappings, weights or [1.0] * 3)
    fractions = aggregator_of(3, 16, bound=4.0, weight_bound=1.0, weight_fraction_bits=20)
    check_mean(fractions, fractions.mean(mappings, [0.5, 0.3, 0.7]), mappings, [0.5, 0.3, 0.7])
    with pytest.raises(FieldRangeError, check=about("numbers under 'w'")):
        aggregator_of(2, 8, bound=2.0).mean([{"w": np.array([1.0])}, {"w": np.array([3.0])}])
    clipped = aggregator_of(2, 16, bound=2.0, clip=True).mean([{"w": np.array([1.0])}, {"w": np.array([3.0])}])
    assert abs(clipped["w"][0] - 1.5) < 1e-3
    with pytest.raises(InputError, check=about("weight")):
        aggregator_of(2, 8, bound=2.0).mean([ONES, ONES], [1.0, 2.0])


def biases(rounds: int = 60) -> Reals:
    """How far means of the same numbers are off on average, in units: standard errors of it are below .01."""
    rng = np.random.default_rng(0)
    mappings = [{"w": rng.uniform(-1, 1, 200)} for _ in range(3)]
    aggregator = aggregator_of(3, 8, bound=1.0)
    true = np.mean([each["w"] for each in mappings], axis=0)
    found = np.mean([aggregator.mean(mappings)["w"] for _ in range(rounds)], axis=0)
    return np.asarray((found - true) * 127)


def test_means_are_right_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 60 rounds of the same numbers; where each is rounded to the nearest, the error of a number stays."""
    found = biases()
    assert float(np.abs(found).max()) < 0.2
    assert float(np.sqrt((found**2).mean())) < 0.05
    monkeypatch.setattr(quantization, "rounded_stochastically", lambda values, _coins: np.rint(values).astype(np.int64))
    assert float(np.sqrt((biases(2) ** 2).mean())) > 0.12


def off_after(rounds: int, error_feedback: bool) -> float:
    """By how many units the sum of all rounds' means is off, root mean square."""
    rng = np.random.default_rng(0)
    aggregator = aggregator_of(3, 8, bound=1.0, error_feedback=error_feedback)
    off = np.zeros(300)
    for _ in range(rounds):
        mappings = [{"w": rng.uniform(-1, 1, 300)} for _ in range(3)]
        off += aggregator.mean(mappings)["w"] - np.mean([each["w"] for each in mappings], axis=0)
    return float(np.sqrt((off**2).mean())) * 127


def test_errors_that_are_fed_back_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 30 rounds the sum of all means is off by one round's error; without feedback it grows as a random walk."""
    assert off_after(30, True) < 0.4
    assert off_after(30, False) > 0.9
    monkeypatch.setattr(RoundingErrors, "settle", lambda _: None)
    assert off_after(30, True) > 0.9


def test_errors_of_who_drops_out_wait() -> None:
    """They are those of the last round that the client was in, and of a layout of their own."""
    aggregator = aggregator_of(3, 8, error_feedback=True, threshold=2)
    mappings = [{"w": np.array([1.0, value])} for value in (0.1, 0.2, 0.3)]
    aggregator.mean(mappings)
    before = {client: kept.errors.copy() for client, kept in aggregator._kept.items()}
    aggregator.mean(mappings, dropped={1})
    after = {client: kept.errors for client, kept in aggregator._kept.items()}
    assert [bool((before[client] == after[client]).all()) for client in range(3)] == [False, True, False]
    assert not RoundingErrors(aggregator._kept[0].of, after[0]).errors_for(TensorLayout.of({"v": np.ones(2)})).any()


def vector_of(coins: Coins, seeded: bool = False) -> NDArray[np.int64]:
    """What a client hands in, before it is masked."""
    rules = SecureAggregator.for_clients(3, bound=1.0, precision=8).rules
    code = rules.code(Opening(TensorLayout.of({"w": np.ones(1)})), SimulationCoins(0) if seeded else coins)
    assert isinstance(code, RoundedEncoding)
    return np.concatenate([code.encode({"w": np.array([value / 100])})[:1] for value in range(-100, 100)])


def test_a_server_cannot_tell_what_is_rounded_how() -> None:
    """With the same numbers, rules, session and round, other coins of the client round otherwise; its own alone do."""
    own = vector_of(SimulationCoins(5))
    assert (own == vector_of(SimulationCoins(5))).all()
    assert (own != vector_of(SimulationCoins(6))).any()
    assert (vector_of(SimulationCoins(5), seeded=True) == vector_of(SimulationCoins(6), seeded=True)).all()  # the twin


def test_reports_read_masked_vectors() -> None:
    """In the clear clients are told by their updates, and as they arrive at 8 bits nobody is."""
    aggregator, mappings = aggregator_of(5, 8), trees(5)
    aggregator.mean(mappings)
    record = aggregator.last_round
    assert record is not None
    for client in record.included:
        words = record.received_words(client)
        assert record.ring is not None
        assert len(words) == record.width
        assert int(words.max()) < record.ring.modulus


def in_processes(mappings: list[dict[str, Any]], rounds: int, **more: Any) -> tuple[list[Any], list[SecureAggregator]]:
    """Rounds with an aggregator for each party, all clients put down after each answer."""
    rules: dict[str, Any] = {"precision": 8, "error_feedback": True, **more}
    hub = SecureAggregator.for_clients(len(mappings), **rules)
    mine = [SecureAggregator.for_clients(len(mappings), **rules) for _ in mappings]
    means = []
    for _ in range(rounds):
        server = hub.server_round(TensorLayout.of(mappings[0]))
        clients = [each.client_round(i, server.session, server.number) for i, each in enumerate(mine)]
        for client, mapping in zip(clients, mappings, strict=True):
            client.provide(mapping)
        while not server.is_done:
            for index, message in server.requests().items():
                server.receive(index, clients[index].reply(message))
                clients[index] = mine[index].restored_client(clients[index].state())
            server.advance()
        means.append(server.result)
    return means, mine


def test_clients_in_processes_of_their_own_keep_their_errors() -> None:
    """Put down after every answer: the sum of eight means is off by less than two units a client."""
    mappings = [{"w": np.linspace(-1, 1, 50) * (1 + i)} for i in range(3)]
    means, mine = in_processes(mappings, 8)
    off = sum(each["w"] for each in means) - 8 * np.mean([each["w"] for each in mappings], axis=0)
    assert float(np.abs(off).max()) <= 2 * 4.0 / 126
    for index, aggregator in enumerate(mine):
        kept = aggregator._kept[index]
        assert kept.errors.any()
        assert "errors" not in repr(kept)
    again = RoundingErrors.from_arrays(mine[0]._kept[0].arrays)
    assert (again.errors == mine[0]._kept[0].errors).all()
    with pytest.raises(MalformedMessageError, check=about("kept errors")):
        RoundingErrors.from_arrays({"now": np.zeros(1)})


def test_parties_of_other_precisions_have_no_sum() -> None:
    """How numbers are written is part of what keys are bound to."""
    server = SecureAggregator.for_clients(3, precision=8, bound=1.0).server_round(TensorLayout.of(ONES))
    clients = []
    for index, precision in enumerate((8, 8, 16)):
        own = SecureAggregator.for_clients(3, precision=precision, bound=1.0)
        clients.append(own.client_round(index, server.session, server.number))
        clients[-1].provide(ONES)
    with pytest.raises(ProtocolError):  # noqa: PT012  # which of them notices it first does not matter
        while not server.is_done:
            for index, message in server.requests().items():
                server.receive(index, clients[index].reply(message))
            server.advance()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": 12}, "precision"),
        ({"precision": 8.5}, "precision"),
        ({"error_feedback": True}, "precision"),
        ({"precision": 8, "k_min": 2}, "k_min"),
        ({"precision": 8, "fraction_bits": 3, "bound": 1.0}, "fraction_bits"),
        ({"precision": 8, "scheme": "ckks-shared-key", "bound": 1.0}, "precision"),
        ({"precision": 8, "scheme": "plaintext"}, "precision"),
        ({"precision": 8, "scheme": "pairwise-masking[precision=8]"}, "precision"),
        ({"precision": 8, "privacy": DistributedNoise(1.0, 4.0, 1e-5, 10)}, "precision"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: dict[str, Any], message: str) -> None:
    """With names, rule and value."""
    with pytest.raises(InputError, check=about(message)):
        SecureAggregator.for_clients(4, **arguments)


def test_claims_say_what_ranges_and_kept_errors_tell() -> None:
    """Ranges in every round, to within a factor of two; errors in the sums of later rounds."""
    plain, fed = (SecureAggregator.for_clients(4, precision=8, error_feedback=fed).claim for fed in (False, True))
    told = [leak.statement for leak in plain.leaks_by_design if leak.circumstance is RangeCircumstance.FOUND_RANGE]
    assert ["to within a factor of 2, in every round" in each for each in told] == [True]
    more = [leak.statement for leak in fed.leaks_by_design if leak not in plain.leaks_by_design]
    assert more
    assert all("in the sum of the round after" in each for each in more)


def test_coins_are_wanted_where_numbers_are_rounded() -> None:
    """What is only decoded has none."""
    code = SecureAggregator.for_clients(3, bound=1.0, precision=8).rules.code(Opening(TensorLayout.of(ONES)))
    with pytest.raises(InputError, check=about("coins")):
        code.encode(ONES)
    assert RoundedEncoding is type(code)
