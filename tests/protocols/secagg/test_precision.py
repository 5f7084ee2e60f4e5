"""Schemes with a precision: sums in the least ring, which never wrap, and masks over all of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Cryptography, Elements, Mask
from fgl_secure.crypto.streams import ModularRing, add_masks
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.lightsecagg.scheme import PRIMES
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.scheme import Rounding, Scheme
from fgl_secure.runtime import Channel, MessageBatch, Party, Phase, Recording, Role, Step
from fgl_secure.schemes import server_scheme
from fgl_secure.testing import Protocol, assert_statistically_private
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.power import Array, sampled_by_entries, seeing
from tests.protocols.secagg.rounds import directory_of, topology_of

SERVER = Party(Role.SERVER, 0)
SCHEMES: list[Scheme] = [PairwiseMasking(precision=8), LightSecAgg(precision=8)]
named = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.label)


def summed(scheme: Scheme, rows: NDArray[np.int64], bound: int, recorded: bool = False) -> tuple[Any, Channel]:
    topology = topology_of(len(rows), length=rows.shape[1], bound=bound)
    kept = Recording.everything() if recorded else None
    channel = Channel(directory_of(len(rows)), SimulationCoins(3), kept)
    return Collective(scheme, topology, channel).sum(rows, Step(1))[0], channel


@named
@settings(max_examples=15)
@given(st.integers(2, 7), st.integers(1, 2**31), st.data())
def test_sums_at_the_ends_of_the_range_do_not_wrap(
    scheme: Scheme, clients: int, bound: int, data: st.DataObject
) -> None:
    """All clients at the bound, at its negative, and anywhere between: the ring holds every such sum."""
    some = [[bound, -bound, data.draw(st.integers(-bound, bound))] for _ in range(clients)]
    rows = np.array(some, dtype=np.int64)
    found, _ = summed(scheme, rows, bound)
    assert found.tolist() == rows.sum(axis=0).tolist()


@named
def test_rings_without_room_and_rows_beyond_the_bound_are_refused(scheme: Scheme) -> None:
    """Nothing wraps in silence: sums beyond what the field tells apart, and a row beyond the topology's bound."""
    with pytest.raises(FieldRangeError, check=about("bound")):
        summed(scheme, np.zeros((3, 1), dtype=np.int64), 2**60)
    with pytest.raises(InputError, check=about("rows")):
        summed(scheme, np.array([[128], [0], [0]]), 127)


@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg"])
def test_a_vector_of_16_bits_takes_less_than_3_bytes_a_number(scheme: str) -> None:
    """The masked vectors as the transcript has them: 16 bits a number, and those of the number of clients."""
    rows = np.random.default_rng(0).integers(-32767, 32768, (9, 400))
    found, channel = summed(server_scheme(f"{scheme}[precision=16]"), rows, 32767, recorded=True)
    assert found.tolist() == rows.sum(axis=0).tolist()
    vectors = [batch for batch in channel.transcript.messages if batch.phase is Phase.MASKED_VECTORS]
    bits = ModularRing.least(9 * 32767).bits
    assert (sum(len(batch.senders) for batch in vectors), bits) == (9, 16 + 4)
    assert {batch["vector"].shape[-1] for batch in vectors} == {400 * bits // 8}
    assert {batch["vector"].dtype for batch in vectors} == {np.dtype(np.uint8)}


class MasksOfFewerBits(Cryptography):
    """A broken twin: masks are uniform over half of the ring. They cancel all the same."""

    def add_masks(self, total: Elements, masks: list[Mask], signs: list[int]) -> Elements:  # type: ignore[override]
        """Of one bit less."""
        for mask, sign in zip(masks, signs, strict=True):
            half = np.zeros_like(total)
            add_masks(half, [mask], [1], self.ring.modulus // 2)  # type: ignore[list-item]  # keys
            total = (total + sign * half) % self.ring.modulus
        return total


def masked(scheme: PairwiseMasking, name: str) -> Protocol:
    """Two clients hand in bits, in a ring of 8 elements: what the server gets of them; inputs [2, 1]."""
    lengths: list[int] = []

    def run(values: Inputs, channel: Channel) -> None:
        lengths.append(values.shape[-1])
        collective = Collective(scheme, topology_of(2, length=values.shape[-1], bound=1), channel)
        collective.sum(np.ascontiguousarray(values), Step(1))

    def shown(batch: MessageBatch) -> list[Array]:
        if batch.phase is not Phase.MASKED_VECTORS:
            return []
        ring, sent = ModularRing(8, packed=True), batch["vector"]
        return [ring.read(sent, next(each for each in lengths if ring.entries(each) == sent.shape[-1]))]

    return Protocol(sampled_by_entries(run, shown), directory_of(2), 2**61 - 1, topology_of(2).senders, name=name)


GOOD = masked(PairwiseMasking(precision=8), "at 8 bits")
TWIN = masked(PairwiseMasking(precision=8, cryptography=MasksOfFewerBits), "masks of fewer bits")


@seeing
def test_masks_hide_what_is_handed_in_over_all_of_the_ring(advantage: float) -> None:
    """In a ring of 8 elements masked vectors tell nothing; with masks over half of it they do."""
    a, b = np.zeros((2, 1), dtype=np.int64), np.array([[1], [-1]])
    assert_statistically_private(GOOD, a, b, (SERVER,), broken_twin=TWIN, advantage=advantage, pairs=12)


def spread(scheme: PairwiseMasking) -> float:
    """How far a masked vector of 60,000 zeros is from uniform: chi-square over its 8 values, 7 degrees of freedom."""
    _, channel = summed(scheme, np.zeros((3, 60_000), dtype=np.int64), 1, recorded=True)
    batch = next(batch for batch in channel.transcript.messages if batch.phase is Phase.MASKED_VECTORS)
    counts = np.bincount(ModularRing(8, packed=True).read(batch["vector"], 60_000).ravel(), minlength=8)
    return float(((counts - 7500) ** 2 / 7500).sum())


def test_masks_are_uniform_over_exactly_the_ring() -> None:
    """A client's masked vector takes all values alike often; the sum of masks of fewer bits each does not."""
    assert spread(PairwiseMasking(precision=8)) < 40  # passed by 1.3e-6 of uniform ones
    twin = PairwiseMasking(precision=8, cryptography=MasksOfFewerBits)
    assert spread(twin) > 1000
    found, _ = summed(twin, np.ones((3, 5), dtype=np.int64), 1)
    assert found.tolist() == [3] * 5  # which no sum would ever show


@named
def test_parties_of_different_rings_have_no_sum_in_common(scheme: Scheme) -> None:
    """The ring is part of what parties sign and of their states, where all else is the same."""
    others = replace(scheme, precision=None)  # type: ignore[type-var]  # a dataclass
    plans = [each.plan_for(topology_of(4, bound=127), bytes(16)) for each in (scheme, others)]  # type: ignore[attr-defined]
    assert plans[0].digest != plans[1].digest


def test_primes_are_the_largest_below_powers_of_two() -> None:
    """Of 3 to 31 bits."""
    from sympy import prevprime  # half a second

    assert tuple(prevprime(2**bits) for bits in range(3, 32)) == PRIMES


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PairwiseMasking(precision=12), "precision"),
        (lambda: LightSecAgg(precision=0), "precision"),
        (lambda: PairwiseMasking(rounding=Rounding.ERROR_FEEDBACK), "precision"),
        (lambda: server_scheme("ckks-shared-key").at_precision(8), "precision"),
        (lambda: server_scheme("plaintext").at_precision(8), "precision"),
        (lambda: PairwiseMasking(precision=8).at_precision(8), "precision"),
    ],
)
def test_what_is_no_precision_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        make()


def test_a_precision_is_part_of_the_name() -> None:
    """And is read from it."""
    for text in ("pairwise-masking[precision=16]", "lightsecagg[precision=8,error-feedback]"):
        scheme = server_scheme(text)
        assert scheme.name.startswith(text.removesuffix("]"))
        assert replace(scheme) == scheme  # type: ignore[type-var]  # a dataclass
    assert server_scheme("lightsecagg[precision=8,error-feedback]").rounding is Rounding.ERROR_FEEDBACK
