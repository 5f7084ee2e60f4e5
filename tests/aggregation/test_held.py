"""Mappings that are made when they are read: the same mean, and never all clients' in memory."""

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fgl_secure import SecureAggregator
from fgl_secure.aggregation import record
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.runtime import simulate
from fgl_secure.schemes import names
from tests.error_codes import about

CLIENTS = 6
Maker = Callable[[], Any]


def mapping_of(client: int, *, scale: float = 1.0) -> dict[str, np.ndarray[Any, Any]]:
    drawn = np.random.default_rng(client)
    return {"w": scale * drawn.standard_normal(40).astype(np.float32), "steps": np.array([7 + client])}


def aggregator_of(scheme: str, **more: Any) -> SecureAggregator:
    bound = {"bound": 16.0} if scheme == "ckks-shared-key" else {}
    return SecureAggregator.for_clients(CLIENTS, scheme, coins=SimulationCoins(5), **{**bound, **more})


def sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are so large that contents of messages are not kept, and vectors are made one at a time."""
    monkeypatch.setattr(record, "KEPT_BYTES", 0)


ROUNDS: list[tuple[str, dict[str, Any]]] = [
    *((scheme, {}) for scheme in sorted(names("server"))),
    ("pairwise-masking", {"watched": True}),
    ("pairwise-masking", {"k_min": 2, "threshold": 5}),
    ("pairwise-masking", {"precision": 16}),
    ("lightsecagg", {"precision": 16}),
    ("pairwise-masking", {"bound": 16.0}),
]


@pytest.mark.parametrize(("scheme", "more"), ROUNDS)
def test_what_is_made_later_has_the_same_mean(
    scheme: str, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rounds, in which a client drops out and one never comes; the second has a client that outgrew its range."""
    means = []
    for made in (False, True):
        if made:
            sizes_alone(monkeypatch)
        aggregator = aggregator_of(scheme, **more)
        for scale in (1.0, 6.0 if "watched" in more else 1.5):
            makers = [partial(mapping_of, client, scale=scale if client == 3 else 1.0) for client in range(CLIENTS)]
            held = [*(makers if made else (make() for make in makers))]
            gone = {} if more.get("k_min") else {"dropped": {2}}
            if not gone:
                held[4] = None
            means.append(aggregator.mean(held, weights=[1, 2, 3, 1, 2, 3], **gone))
    for before, later in zip(means[:2], means[2:], strict=True):
        for name, value in before.items():
            np.testing.assert_array_equal(later[name], value)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_one_vector_at_a_time_is_in_memory(scheme: str, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> None:
    """In large rounds each vector is made once more when it is handed in, and no two mappings are there at once.

    In small ones, and where a scheme can't read them so, no mapping is made after the first message.
    """
    if large:
        sizes_alone(monkeypatch)
    gc.freeze()  # what was there before is nothing to look at
    alive: weakref.WeakValueDictionary[int, np.ndarray[Any, Any]] = weakref.WeakValueDictionary()
    most, calls, sending = 0, 0, list[int]()

    def make(client: int) -> dict[str, Any]:
        nonlocal most, calls
        gc.collect()
        made = mapping_of(client)
        calls += 1
        alive[calls] = made["w"]
        most = max(most, len(alive))
        return made

    def simulated(*ends: Any) -> None:
        before = calls
        simulate(*ends)
        sending.append(calls - before)

    monkeypatch.setattr("fgl_secure.protocols.collective.simulate", simulated)
    aggregator_of(scheme, bound=16.0).mean([partial(make, client) for client in range(CLIENTS)])
    gc.unfreeze()
    assert sending == [CLIENTS if large and scheme != "plaintext" else 0]
    assert most <= 2  # the one that is made and, at most, the one before it


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"w": np.full(40, np.nan, dtype=np.float32), "steps": np.array([1])}, InputError, "numbers under 'w'"),
        ({"w": np.full(40, 99, dtype=np.float32), "steps": np.array([1])}, FieldRangeError, "numbers under 'w'"),
        (None, InputError, "mapping"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(
    bad: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    """As for mappings that are in memory; the next round is fine."""
    if large:
        sizes_alone(monkeypatch)
    aggregator = aggregator_of("pairwise-masking", bound=16.0)
    makers: list[Maker] = [partial(mapping_of, client) for client in range(CLIENTS)]
    sent = []
    monkeypatch.setattr("fgl_secure.protocols.collective.simulate", lambda *ends: sent.append(ends))
    with pytest.raises(error, check=about(message)):
        aggregator.mean([*makers[:4], lambda: bad, makers[5]])
    monkeypatch.undo()
    assert not sent
    aggregator.mean(makers)


def test_a_mapping_that_changes_is_refused_when_it_is_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits when it is looked at, and not when it is sent: nothing is clipped, and nothing wraps."""
    sizes_alone(monkeypatch)
    calls = 0

    def make() -> dict[str, Any]:
        nonlocal calls
        calls += 1
        return mapping_of(1, scale=1.0 if calls == 1 else 1e3)

    makers: list[Maker] = [partial(mapping_of, client) for client in range(CLIENTS)]
    with pytest.raises(FieldRangeError, check=about("numbers under 'w'")):
        aggregator_of("pairwise-masking", bound=16.0).mean([makers[0], make, *makers[2:]])
