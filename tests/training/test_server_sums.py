"""Sums for the server: exact on their grid, alike in the clear and secured, and told to nobody but as a sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.runtime import Channel, Directory, Recording, Step
from fgl_secure.schemes import names, server_scheme
from fgl_secure.training.server_sums import BOUND, FRACTION_BITS, ServerSums
from tests.error_codes import about

SECURED = tuple(name for name in names("server") if name != "plaintext")
CLIENTS = 4


def opened(name: str | None, clients: int = CLIENTS) -> tuple[ServerSums, Channel]:
    """Sums under a scheme, or in the clear, and the channel that keeps everything."""
    channel = Channel(Directory.hierarchy(clients, clients), SimulationCoins(0), Recording.everything())
    return ServerSums(server_scheme(name or "plaintext"), channel), channel


def drawn(seed: int, clients: int = CLIENTS, width: int = 7) -> np.ndarray:
    """Vectors of clients."""
    return np.random.default_rng(seed).uniform(-BOUND, BOUND, size=(clients, width))


@pytest.mark.parametrize("name", SECURED)
def test_a_secured_sum_is_the_sum_in_the_clear(name: str) -> None:
    """At equal bits behind the point the two sums are equal bit for bit, in every round."""
    (clear, _), (secured, _) = opened(None), opened(name)
    for number in range(3):
        rows, step = drawn(number), Step(number)
        assert np.array_equal(clear(rows, step), secured(rows, step))


@given(st.lists(st.lists(st.floats(-BOUND, BOUND), min_size=3, max_size=3), min_size=2, max_size=5))
@settings(max_examples=50, deadline=None)
def test_a_sum_is_off_by_no_more_than_it_says(rows: list[list[float]]) -> None:
    """Every entry is off by K 2^-(f + 1) at most, here with the rounding of float64 added."""
    values = np.array(rows)
    sums, _ = opened(None, len(values))
    off = np.abs(sums(values, Step(0)) - values.sum(axis=0))
    assert float(off.max()) <= len(values) * (2.0 ** -(FRACTION_BITS + 1) + 2.0**-40)


@pytest.mark.parametrize(
    ("name", "entry"),
    [(None, np.nan), ("pairwise-masking", np.inf), ("lightsecagg", BOUND * 1.001), ("ckks-shared-key", -2 * BOUND)],
)
def test_what_does_not_fit_is_refused_before_anything_is_sent(name: str | None, entry: float) -> None:
    """An entry that is not finite or too large stops the round, with the rule and what to do, without the value."""
    sums, channel = opened(name)
    before = len(channel.transcript.messages)
    rows = drawn(0)
    rows[1, 2] = entry
    with pytest.raises(InputError, check=about("summands")):
        sums(rows, Step(0))
    assert len(channel.transcript.messages) == before


@pytest.mark.parametrize("name", SECURED)
def test_a_step_is_summed_once(name: str) -> None:
    """Messages of two sums of one step could be taken for each other: the second is refused, and nothing is sent."""
    sums, channel = opened(name)
    sums(drawn(0), Step(3))
    sent = channel.transcript.message_count
    with pytest.raises(ProtocolError, check=about("a step")):
        sums(drawn(1), Step(3))
    assert channel.transcript.message_count == sent
    assert np.isfinite(sums(drawn(1), Step(4))).all()
