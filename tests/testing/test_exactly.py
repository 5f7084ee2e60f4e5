"""Exact privacy: what passes is private on every tape, what fails says why, and nothing passes vacuously."""

import itertools
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.algebra import LagrangeCode, PrimeField
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.testing import NotPrivateError, Protocol, VacuousTestError, assert_exactly_private
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.testing.mutations import Shape, Sharing, mutated, shared_across

SMALL = Shape(p=5, senders=2)
GOOD, BROKEN = Sharing(SMALL).protocol, mutated(SMALL, "one mask for all", masks=shared_across(0)).protocol
A, B = SMALL.inputs(0, 0), SMALL.inputs(0, 1)


def slow_distance(a: NDArray[np.int64], b: NDArray[np.int64]) -> Fraction:
    """Total variation from dictionaries and fractions."""
    left, right = Counter(map(tuple, a.tolist())), Counter(map(tuple, b.tolist()))
    return sum((abs(Fraction(left[v], len(a)) - Fraction(right[v], len(b))) for v in left | right), Fraction(0)) / 2


def views(most: int) -> st.SearchStrategy[NDArray[np.int64]]:
    """Views of a few tapes with two coordinates, large values included."""
    shape = st.tuples(st.integers(1, most), st.just(2))
    values = st.sampled_from([0, 1, 2, -1, 2**62, -(2**62)])
    return hnp.arrays(np.int64, shape, elements=values)


@given(views(6), views(6))
def test_total_variation_is_that_of_the_slow_count(a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
    """Integer counts give the distance that fractions give, and call exactly the equal distributions equal."""
    found = compare_exactly(a, b)
    assert found.total_variation == slow_distance(a, b)
    assert found.equal == (found.total_variation == 0)


def test_wide_views_are_told_apart_by_their_last_coordinate() -> None:
    """Views of more coordinates than fit into one integer code are still compared whole."""
    a = np.random.default_rng(0).integers(0, 2**31, (50, 40))
    b = a.copy()
    b[0, -1] += 1
    assert compare_exactly(a, a).equal
    assert compare_exactly(a, b).total_variation == Fraction(1, 50)


@pytest.mark.parametrize("shape", [(0, 2), (3,)])
def test_views_must_be_matrices_with_tapes(shape: tuple[int, ...]) -> None:
    """Nothing to compare is refused and not called equal."""
    with pytest.raises(InputError, check=about("a")):
        compare_exactly(np.zeros(shape, dtype=np.int64), np.zeros((1, 2), dtype=np.int64))


def share_blocks(inputs: Inputs, channel: Channel, code: LagrangeCode) -> None:
    """A dealer sends every worker its share of the blocks."""
    shares = code.encode(inputs, channel.coins)
    dealer, workers = channel.parties.ids(Role.SERVER), channel.parties.ids(Role.SILO)
    channel.send(Phase.CODES, Step(0), np.repeat(dealer, code.N), workers, np.asarray(shares))


def coded(p: int, K: int, T: int, *, fewer: int = 0) -> Protocol:
    """Lagrange coding of K blocks for as many workers as fit beside T masks, three at most, with `fewer` masks."""
    code = LagrangeCode(PrimeField(p), K=K, T=T - fewer, N=min(3, p - K - T))
    parties = Directory({Role.SERVER: 1, Role.SILO: code.N})
    return Protocol(partial(share_blocks, code=code), parties, p, np.zeros(K, dtype=np.int64))


@pytest.mark.parametrize(("p", "K"), [(5, 1), (7, 1), (11, 1), (13, 1), (7, 2), (11, 2), (13, 2)])
@pytest.mark.parametrize("T", [1, 2])
def test_lagrange_coding_hides_blocks_from_t_workers(p: int, K: int, T: int) -> None:
    """Any T workers see the same for two tuples of blocks, and with one mask less they don't."""
    a, b = [0] * K, [0] * (K - 1) + [1]
    code, twin = coded(p, K, T), coded(p, K, T, fewer=1)
    for members in itertools.combinations(range(len(code.parties) - 1), T):
        workers = [Party(Role.SILO, i) for i in members]
        assert not assert_exactly_private(code, a, b, workers, broken_twin=twin).rejected


def test_failure_names_coalition_statistic_and_detectable_advantage() -> None:
    """Who reads the message knows who saw what, how far apart it is, and an example of it."""
    with pytest.raises(NotPrivateError) as caught:
        assert_exactly_private(BROKEN, A, B, SMALL.colluders, broken_twin=BROKEN)
    message = str(caught.value)
    assert "one mask for all lets a coalition tell inputs_a from inputs_b" in message
    assert "coalition: silo 0" in message
    assert "total variation 1 (1)" in message
    assert "detectable advantage: any" in message
    assert "codes[0] (device 0 to silo 0, round 0 layer 0) = 0" in message


def test_long_views_are_cut_in_messages() -> None:
    """The example of a wide view shows its first coordinates and counts the rest."""
    wide = Shape(p=2, senders=2, width=7)
    broken = mutated(wide, "one mask for all", masks=shared_across(0)).protocol
    with pytest.raises(NotPrivateError, match=r"= [01] and 2 more coordinates$"):
        assert_exactly_private(broken, wide.inputs(), wide.inputs(1), wide.colluders, broken_twin=broken)


def test_failures_are_assertion_errors() -> None:
    """Test runners count a leak as a failed assertion."""
    with pytest.raises(AssertionError):
        assert_exactly_private(BROKEN, A, B, SMALL.colluders, broken_twin=BROKEN)


def test_a_twin_that_is_fine_makes_the_test_an_error() -> None:
    """The same private protocol as its own twin gives no pass."""
    with pytest.raises(VacuousTestError, check=about("broken_twin")) as caught:
        assert_exactly_private(GOOD, A, B, SMALL.colluders, broken_twin=GOOD)
    assert not isinstance(caught.value, AssertionError)


def test_the_twin_cannot_be_left_out() -> None:
    """There is no default for the twin, and None is none."""
    with pytest.raises(TypeError, match="broken_twin"):
        assert_exactly_private(GOOD, A, B, SMALL.colluders)  # type: ignore[call-arg]
    with pytest.raises(InputError, check=about("broken_twin")):
        assert_exactly_private(GOOD, A, B, SMALL.colluders, broken_twin=None)  # type: ignore[arg-type]


def test_unequal_own_inputs_are_refused() -> None:
    """A coalition that brings different inputs itself can tell them apart under any protocol."""
    with pytest.raises(InputError, check=about("the coalition's own inputs")):
        assert_exactly_private(GOOD, A, B, [Party(Role.DEVICE, 1)], broken_twin=BROKEN)


def test_own_inputs_and_coins_belong_to_the_view() -> None:
    """A coalition of a relay and a sender sees that sender's masks, and still not the other sender's secret."""
    a, b = SMALL.inputs(3, 0), SMALL.inputs(3, 1)
    coalition = [Party(Role.SILO, 0), Party(Role.DEVICE, 0)]
    found = assert_exactly_private(GOOD, a, b, coalition, broken_twin=BROKEN)
    assert "of 3 coordinates" in found.statistic


def test_equal_inputs_and_empty_coalitions_are_refused() -> None:
    """Questions whose answer is known beforehand are no tests."""
    with pytest.raises(InputError, check=about("inputs_a and inputs_b")):
        assert_exactly_private(GOOD, A, A, SMALL.colluders, broken_twin=BROKEN)
    with pytest.raises(InputError, check=about("coalition")):
        assert_exactly_private(GOOD, A, B, [], broken_twin=BROKEN)
    with pytest.raises(InputError, check=about("inputs_a")):
        assert_exactly_private(GOOD, A[:1], B[:1], SMALL.colluders, broken_twin=BROKEN)


def test_too_many_tapes_are_refused_with_their_number() -> None:
    """A production field is refused before anything runs, and the message says what to do."""
    large = Shape(senders=2)
    protocol = Sharing(large).protocol
    with pytest.raises(InputError, check=about("coin tapes")):
        assert_exactly_private(protocol, A, B, large.colluders, broken_twin=protocol)


def one_at_a_time(inputs: Inputs, channel: Channel, *, masked: bool) -> None:
    """A protocol for one run only: no leading axes anywhere."""
    mask = int(channel.coins.uniform(7, ())) if masked else 0
    sender, receiver = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    channel.send(Phase.VALUES, Step(0), sender, receiver, np.array([(int(inputs[0]) + mask) % 7]))


ONE_PAIR = Directory({Role.DEVICE: 1, Role.SERVER: 1})
SERVER = [Party(Role.SERVER, 0)]


def single(masked: bool, *, batched: bool = False) -> Protocol:
    """That protocol, with or without its mask."""
    return Protocol(partial(one_at_a_time, masked=masked), ONE_PAIR, 7, batched=batched)


def test_protocols_without_batches_run_tape_by_tape() -> None:
    """`batched=False` asks nothing of a protocol and gives the same verdicts."""
    assert not assert_exactly_private(single(True), [3, 0], [4, 0], SERVER, broken_twin=single(False)).rejected


def test_a_protocol_without_batches_is_told_how_to_say_so() -> None:
    """The error of a payload without leading axes names the way out."""
    with pytest.raises(InputError) as caught:
        assert_exactly_private(single(False, batched=True), [3, 0], [4, 0], SERVER, broken_twin=single(False))
    assert "batched=False" in caught.value.__notes__[0]


def coin_dependent(inputs: Inputs, channel: Channel) -> None:
    """Draws again after an even coin."""
    first = int(channel.coins.uniform(5, ()))
    if first % 2:
        channel.coins.uniform(5, ())
    one_at_a_time(inputs, channel, masked=True)


def test_draws_that_depend_on_coins_are_refused() -> None:
    """Tapes of different length are not equally likely, so counting them would prove nothing."""
    protocol = Protocol(coin_dependent, ONE_PAIR, 7, batched=False)
    with pytest.raises(InputError, check=about("draws")):
        assert_exactly_private(protocol, [3, 0], [4, 0], SERVER, broken_twin=single(False))


def longer_for_larger(inputs: Inputs, channel: Channel) -> None:
    """Sends as many uniform elements as the secret says: each is random and their number is not."""
    sender, receiver = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    noise = channel.coins.uniform(5, (1, int(inputs[0])))
    channel.send(Phase.VALUES, Step(0), sender, receiver, noise)


def test_length_of_the_view_is_part_of_the_view() -> None:
    """Views of different length are different views, even where every element of them is uniform."""
    protocol = Protocol(longer_for_larger, ONE_PAIR, 5)
    with pytest.raises(NotPrivateError, match=r"total variation 1 .*\n.*\n.*number, order, types and lengths"):
        assert_exactly_private(protocol, [1, 0], [2, 0], SERVER, broken_twin=protocol)


def send_real(inputs: Inputs, channel: Channel) -> None:
    """Sends the secret as a real number."""
    sender, receiver = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    channel.send(Phase.VALUES, Step(0), sender, receiver, np.broadcast_to(inputs[:1], (*channel.batch_shape, 1)))


def test_reals_are_compared_by_their_bits() -> None:
    """Two real numbers that differ in the last bit are different views."""
    protocol = Protocol(send_real, ONE_PAIR)
    with pytest.raises(NotPrivateError, match="total variation 1 "):
        assert_exactly_private(protocol, [1.0, 0.0], [np.nextafter(1.0, 2.0), 0.0], SERVER, broken_twin=protocol)


def sizes_only(inputs: Inputs, channel: Channel) -> None:  # noqa: ARG001
    """A message whose payload is never laid out."""
    sender, receiver = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SERVER)
    channel.send_sizes(Phase.MODEL, Step(0), sender, receiver, 8)


def test_views_with_unrecorded_payloads_are_refused() -> None:
    """A view with a hole is not called private."""
    protocol = Protocol(sizes_only, ONE_PAIR)
    with pytest.raises(InputError, check=about("payload")):
        assert_exactly_private(protocol, [1, 0], [2, 0], SERVER, broken_twin=protocol)
