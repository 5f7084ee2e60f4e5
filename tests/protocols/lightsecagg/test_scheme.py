"""LightSecAgg's parameters, its claim, its code and its rules for rosters."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError, TooManyErrors
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.lightsecagg.plan import MaskCode, check_roster
from fgl_secure.runtime import Draws, OwnDraws, Role
from tests.error_codes import about
from tests.protocols.secagg.rounds import SESSION, topology_of

Ints = NDArray[np.int64]


@pytest.mark.parametrize(
    ("senders", "numbers"),
    [(2, (2, 1)), (3, (3, 1)), (4, (3, 1)), (5, (4, 1)), (6, (5, 2)), (10, (7, 3)), (50, (34, 16)), (100, (67, 33))],
)
def test_defaults_withstand_a_third(senders: int, numbers: tuple[int, int]) -> None:
    """U is floor(2N/3) + 1 and T a third of N, whether the aggregator lies or not."""
    scheme = LightSecAgg()
    assert (scheme.threshold_for(senders), scheme.colluding_for(senders)) == numbers
    assert [g.coalition for g in scheme.claim_among(senders).guarantees] == [
        {Role.SERVER: 1, Role.SILO: numbers[1]}
    ] * 2


@pytest.mark.parametrize(
    ("threshold", "colluding", "lying"), [(5, 4, 4), (4, 3, 2), (4, 2, 2), (4, 1, 1), (3, 2, 0), (3, 1, 0)]
)
def test_the_claim_counts_what_two_rosters_need(threshold: int, colluding: int, lying: int) -> None:
    """Among five senders a lying aggregator needs T + 1 or 2U - 5 of them, whichever are fewer."""
    honest, liar = LightSecAgg(threshold, colluding=colluding).claim_among(5).guarantees
    assert honest.coalition == {Role.SERVER: 1, Role.SILO: colluding}
    assert liar.coalition == {Role.SERVER: 1, Role.SILO: lying}


def draws() -> Draws:
    """Coins of one process."""
    return OwnDraws(SimulationCoins(0))


@pytest.mark.parametrize("senders", range(2, 8))
def test_numbers_that_privacy_forbids_are_refused(senders: int) -> None:
    """U must be above half and T below U; the message says which may be had."""
    topology = topology_of(senders)
    for threshold, colluding in itertools.product(range(2, senders + 3), range(1, senders + 1)):
        if colluding >= threshold:
            with pytest.raises(InputError, check=about("colluding")):
                LightSecAgg(threshold, colluding=colluding)
            continue
        scheme = LightSecAgg(threshold, colluding=colluding)
        if senders // 2 < threshold <= senders:
            scheme.machines(topology, SESSION, draws())
            continue
        with pytest.raises(InputError, check=about("threshold")):
            scheme.machines(topology, SESSION, draws())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1}, "threshold"),
        ({"colluding": 0}, "colluding"),
        ({"modulus": 2}, "modulus"),
        ({"modulus": 15}, "modulus"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, check=about(message)):
        LightSecAgg(**arguments)  # type: ignore[arg-type]


def test_circles_and_fields_that_are_too_small_are_refused() -> None:
    """A T that few senders cannot have, and fewer than N + U elements."""
    with pytest.raises(InputError, check=about("colluding")):
        LightSecAgg(colluding=4).machines(topology_of(5), SESSION, draws())
    with pytest.raises(FieldRangeError, check=about("modulus")):
        MaskCode(PrimeField(3), 2, 2, 1, 1).check()
    with pytest.raises(FieldRangeError, check=about("modulus")):
        LightSecAgg(modulus=7).machines(topology_of(5, bound=None), SESSION, draws())
    LightSecAgg(modulus=5).machines(topology_of(2, bound=1), SESSION, draws())


CODE = MaskCode(PrimeField(101), 6, 5, 2, 7)
"""Three parts of three elements, the last two of them padding, and two of noise."""


def coded(seed: int) -> tuple[Ints, Ints]:
    """A mask and its coded masks."""
    coins = SimulationCoins(seed)
    mask = coins.uniform(101, (CODE.length,))
    return mask, np.asarray(CODE.encode(mask, coins.uniform(101, CODE.noise_shape)), dtype=np.int64)


@pytest.mark.parametrize("holders", [*itertools.combinations(range(6), 5), tuple(range(6)), (5, 3, 0, 1, 4)])
def test_any_sums_of_codes_decode_to_the_sum_of_masks(holders: tuple[int, ...]) -> None:
    """Whichever U clients answer, in whatever order, three masks of a length that parts do not divide come out."""
    masks, pieces = zip(*map(coded, range(3)), strict=True)
    assert CODE.width == 3
    sums = np.stack([np.asarray(CODE.add_coded(np.stack([piece[v] for piece in pieces]))) for v in holders])
    found, faulty = CODE.recover(sums, holders, SimulationCoins(9))
    assert found.tolist() == (sum(masks) % 101).tolist()
    assert faulty == ()


def test_wrong_sums_are_located_or_noticed() -> None:
    """Of N = 8 answers with U = 4 two wrong ones are left out and named; three are noticed."""
    code, coins = MaskCode(PrimeField(), 8, 4, 2, 5), SimulationCoins(1)
    mask = coins.uniform(2**31 - 1, (5,))
    pieces = np.asarray(code.encode(mask, coins.uniform(2**31 - 1, code.noise_shape)))
    wrong = pieces.copy()
    wrong[[2, 7], 1] += 1
    found, faulty = code.recover(wrong, range(8), coins)
    assert found.tolist() == mask.tolist()
    assert faulty == (2, 7)
    wrong[3, 0] += 1
    with pytest.raises(TooManyErrors, check=about("shares")):
        code.recover(wrong, range(8), coins)
    with pytest.raises(TooManyErrors):
        code.recover(wrong[:5], range(5), None)


ROSTERS = {
    "sender 1 must be on the roster": [1, 0, 1, 1],
    "whose coded masks arrived; found sender 3": [1, 1, 1, 1],
    "at least threshold = 3 senders; found 2": [1, 1, 0, 0],
}


@pytest.mark.parametrize("message", ROSTERS)
def test_a_client_refuses_what_would_open_too_much(message: str) -> None:
    """Each rule for rosters has its own refusal; the roster that keeps all of them passes."""
    told, good = np.array([True, True, True, False]), np.array([True, True, True, False])
    check_roster(good, 1, told, 3)
    with pytest.raises(ProtocolError, match=message):
        check_roster(np.array(ROSTERS[message], dtype=np.bool_), 1, told, 3)
