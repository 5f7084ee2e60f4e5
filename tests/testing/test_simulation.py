"""Simulation: a view that the allowed leakage explains passes, and one that holds more does not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_31, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.statistical import SampleTooSmallError
from fgl_secure.testing import NotSimulatableError, Protocol, VacuousTestError, assert_simulatable
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about

PARTIES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
SERVER = [Party(Role.SERVER, 0)]
INPUTS = [3, 4, 0]


def masked_sum(inputs: Inputs, channel: Channel, *, p: int, masked: bool = True) -> None:
    """Two devices send their values under masks that cancel: the server learns the sum."""
    devices, field = channel.parties.ids(Role.DEVICE), PrimeField(p)
    mask = channel.coins.uniform(p if masked else 1, (1,))
    masks = np.concatenate([mask, field.subtract(0, mask)], axis=-1)
    server = np.repeat(channel.parties.ids(Role.SERVER), 2)
    channel.send(Phase.VALUES, Step(0), devices, server, field.add(inputs[:2], masks))


def sum_of(inputs: Inputs) -> int:
    """What the server may know."""
    return int(inputs[:2].sum())


def simulate(total: int, channel: Channel, *, p: int) -> None:
    """Two elements that are uniform but for their sum."""
    devices, field = channel.parties.ids(Role.DEVICE), PrimeField(p)
    first = channel.coins.uniform(p, (1,))
    server = np.repeat(channel.parties.ids(Role.SERVER), 2)
    values = np.concatenate([first, field.subtract(total, first)], axis=-1).astype(field.dtype)
    channel.send(Phase.VALUES, Step(0), devices, server, values)


def ends(p: int) -> tuple[Protocol, Protocol]:
    """The protocol over a field and its twin without masks."""
    good, bad = partial(masked_sum, p=p), partial(masked_sum, p=p, masked=False)
    return Protocol(good, PARTIES, p), Protocol(bad, PARTIES, p, name="no masks")


@pytest.mark.parametrize(("p", "how"), [(11, "exact"), (MERSENNE_31, "statistical")])
def test_a_view_that_the_sum_explains_is_simulatable(p: int, how: str) -> None:
    """Small fields are compared on all tapes, large ones on samples."""
    good, twin = ends(p)
    simulator = partial(simulate, p=p)
    found = assert_simulatable(
        good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, advantage=0.05, seed=1
    )
    assert found.check == f"simulation, {how}"


@pytest.mark.parametrize("p", [11, MERSENNE_31])
def test_a_view_that_holds_more_is_rejected(p: int) -> None:
    """Values in the clear cannot be made up from their sum."""
    good, twin = ends(p)
    simulator = partial(simulate, p=p)
    with pytest.raises(NotSimulatableError, match="no masks shows a coalition more than the allowed leakage") as caught:
        assert_simulatable(twin, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, advantage=0.05, seed=1)
    assert "coalition: server 0" in str(caught.value)
    with pytest.raises(VacuousTestError):
        assert_simulatable(good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=good, advantage=0.05, seed=1)


def test_a_simulator_that_gets_too_little_fails() -> None:
    """Without the sum nobody can make up two elements that add up to it."""
    good, twin = ends(11)
    with pytest.raises(NotSimulatableError, match=r"total variation 1 "):
        assert_simulatable(good, INPUTS, SERVER, partial(simulate, p=11), leakage=lambda _: 0, broken_twin=twin)


def test_samples_too_small_and_empty_coalitions_are_refused() -> None:
    """The statistical comparison obeys the rule on samples, and somebody must look."""
    good, twin = ends(MERSENNE_31)
    simulator = partial(simulate, p=MERSENNE_31)
    with pytest.raises(SampleTooSmallError):
        assert_simulatable(good, INPUTS, SERVER, simulator, leakage=sum_of, broken_twin=twin, samples=100)
    with pytest.raises(InputError, check=about("coalition")):
        assert_simulatable(good, INPUTS, [], simulator, leakage=sum_of, broken_twin=twin)
