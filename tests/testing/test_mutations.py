"""Every flaw that fresh-mask sharing can have, and the check that catches it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fgl_secure.algebra import PrimeField
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.statistics.exact import compare_exactly
from fgl_secure.testing import (
    NotPrivateError,
    Protocol,
    VacuousTestError,
    assert_exactly_private,
    assert_same_trace,
    assert_statistically_private,
)
from fgl_secure.testing.arms import Arm, align_views
from fgl_secure.testing.protocol import Inputs
from tests.enumeration import GRID, PRIMES
from tests.testing.mutations import (
    Shape,
    Sharing,
    expanded,
    from_context,
    guessable,
    mutated,
    remainder_of,
    shared_across,
    short_range,
)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One flaw, and the smallest run in which it shows.

    Attributes:
        name: as in the list.
        size: what the run needs more than one of.
        changes: to the sharing.
        secrets: of the second input; those of the first are all 2.
        distance: predicted total variation for a field of p elements; None where the list predicts none.
        waived: rules of the kit that the flaw itself breaks.
    """

    name: str
    size: dict[str, int]
    changes: dict[str, Any]
    secrets: tuple[int, ...] = (2, 3)
    distance: Callable[[int], Fraction] | None = lambda _: Fraction(1)
    waived: Mapping[str, str] | None = None


ONE_MORE = MappingProxyType({"trace": "the flaw is a message more"})


BROKEN_AT_ANY_SIZE = (
    Mutation("shared mask across senders", {"senders": 2}, {"masks": shared_across(0)}),
    Mutation("shared mask across targets", {"targets": 2}, {"masks": shared_across(3)}),
    Mutation("shared mask across rounds", {"rounds": 2}, {"masks": shared_across(1)}),
    Mutation("shared mask across layers", {"layers": 2}, {"masks": shared_across(2)}),
    Mutation("retry with new payload, same mask", {"rounds": 2}, {"masks": from_context(0, 2, 3)}),
    Mutation("alpha = beta_1", {}, {"first_alpha": 0}, (3,)),
    Mutation("polynomial degree T - 1", {}, {"lower_degree": True}, (3,)),
    Mutation("T + 1 shares to one party", {}, {"extra_share": True}, (3,), waived=ONE_MORE),
    Mutation("masks known to a receiver of a share", {}, {"extra_mask": True}, (3,), waived=ONE_MORE),
    Mutation("seed without sender", {"senders": 2}, {"masks": from_context(1, 2, 3)}),
    Mutation("seed without tag", {"targets": 2}, {"masks": from_context(0, 1, 2)}),
    Mutation("seed without round", {"rounds": 2}, {"masks": from_context(0, 2, 3)}),
    Mutation("seed without layer", {"layers": 2}, {"masks": from_context(0, 1, 3)}),
    Mutation("guessable seed", {}, {"masks": guessable}, (3,)),
)
ONLY_SMALL = (
    Mutation("masks on 0 .. p - 2", {}, {"masks": short_range}, (3,), lambda p: Fraction(1, p - 1)),
    Mutation("seed folded", {"width": 2}, {"masks": expanded(5)}, (2, 3), None),
)


def question_of(mutation: Mutation, p: int, T: int) -> tuple[Shape, Sharing]:
    """Its run and its broken sharing."""
    shape = Shape(p=p, T=T, **mutation.size)
    return shape, mutated(shape, mutation.name, **mutation.changes)


def distance_of(protocol: Protocol, a: Inputs, b: Inputs, coalition: tuple[Party, ...]) -> Fraction:
    """Total variation of the coalition's views over all tapes."""
    views = align_views(
        Arm(protocol, a, coalition).on_all_tapes(), Arm(protocol, b, coalition).on_all_tapes(), protocol.parties
    )
    return compare_exactly(views.a, views.b).total_variation


@pytest.mark.parametrize(("p", "T"), GRID)
@pytest.mark.parametrize("mutation", [*BROKEN_AT_ANY_SIZE, *ONLY_SMALL], ids=lambda m: m.name)
def test_enumeration_passes_the_sharing_and_rejects_the_mutation(mutation: Mutation, p: int, T: int) -> None:
    """The proof for the sharing holds because the same proof fails for the mutation, by the predicted distance."""
    shape, broken = question_of(mutation, p, T)
    a, b = shape.inputs(*(2 for _ in mutation.secrets)), shape.inputs(*mutation.secrets)
    found = assert_exactly_private(
        Sharing(shape).protocol, a, b, shape.colluders, broken_twin=broken.protocol, waived=mutation.waived
    )
    assert "total variation 0 " in found.statistic
    distance = distance_of(broken.protocol, a, b, shape.colluders)
    assert distance > 0
    if mutation.distance is not None:
        assert distance == mutation.distance(p)


@pytest.mark.parametrize("p", PRIMES)
@pytest.mark.parametrize("bits", [4, 8])
def test_remainders_are_rejected_by_their_bias(p: int, bits: int) -> None:
    """Words of a few bits modulo p favour 2^bits mod p elements by one word: .3125 for 4 bits and p = 11."""
    shape, favoured = Shape(p=p), 2**bits % p
    broken = mutated(shape, f"{bits} bits % p", masks=remainder_of(bits))
    a, b = shape.inputs(0), shape.inputs(favoured)
    assert_exactly_private(Sharing(shape).protocol, a, b, shape.colluders, broken_twin=broken.protocol)
    distance = distance_of(broken.protocol, a, b, shape.colluders)
    assert distance == Fraction(min(favoured, p - favoured), 2**bits)
    if (p, bits) == (11, 4):
        assert float(distance) == 0.3125


@pytest.mark.parametrize("T", [1, 2])
def test_seeds_that_name_the_whole_context_are_as_good_as_fresh_masks(T: int) -> None:
    """With sender, round, layer and tag in the seed the sharing passes; that is why each of them must be there."""
    shape = Shape(p=5, T=T, senders=2, targets=2) if T == 1 else Shape(p=5, T=T, targets=2)
    whole = mutated(shape, "whole context", masks=from_context(0, 1, 2, 3))
    broken = mutated(shape, "no tag", masks=from_context(0, 1, 2))
    b = shape.inputs(0, 1)
    assert_exactly_private(whole.protocol, shape.inputs(), b, shape.colluders, broken_twin=broken.protocol)


@pytest.mark.parametrize("mutation", BROKEN_AT_ANY_SIZE, ids=lambda m: m.name)
def test_statistics_find_the_mutation_at_production_size(mutation: Mutation) -> None:
    """Over 2^31 - 1 elements, where nothing can be enumerated, two-sample tests pass the sharing and not its twin."""
    shape, broken = question_of(mutation, Shape().p, T=1)
    a, b = shape.inputs(*(2 for _ in mutation.secrets)), shape.inputs(*mutation.secrets)
    sharing = Sharing(shape).protocol
    found = assert_statistically_private(
        sharing, a, b, shape.colluders, broken_twin=broken.protocol, advantage=0.05, seed=1, waived=mutation.waived
    )
    assert found.advantage <= 0.05


def test_statistics_find_a_seed_of_eight_bits() -> None:
    """256 possible masks are few enough to be seen in a sample; 2^32 would not be."""
    shape = Shape()
    broken = mutated(shape, "seed of 8 bits", masks=expanded(256))
    a, b = shape.inputs(0), shape.inputs(1 << 20)
    assert_statistically_private(
        Sharing(shape).protocol, a, b, shape.colluders, broken_twin=broken.protocol, advantage=0.05, seed=1
    )


@pytest.mark.parametrize(
    ("name", "changes", "p"),
    [
        ("masks on 0 .. p - 2", {"masks": short_range}, Shape().p),
        ("31 bits % p", {"masks": remainder_of(31)}, Shape().p),
        ("8 bits % p", {"masks": remainder_of(8)}, 11),
    ],
)
def test_small_bias_is_invisible_to_statistics(name: str, changes: dict[str, Any], p: int) -> None:
    """A bias below the detectable advantage passes, and as a twin makes the test an error: only enumeration sees it."""
    shape = Shape(p=p)
    broken = mutated(shape, name, **changes)
    with pytest.raises(VacuousTestError, match=r"detectable advantage: 0\.\d+ in one bit"):
        assert_statistically_private(
            Sharing(shape).protocol,
            shape.inputs(0),
            shape.inputs(3),
            shape.colluders,
            broken_twin=broken.protocol,
            advantage=0.03,
            seed=1,
        )


@pytest.mark.parametrize(("name", "masks"), [("4 bits % p", remainder_of(4)), ("masks on 0 .. p - 2", short_range)])
def test_large_bias_is_visible_to_statistics(name: str, masks: Any) -> None:
    """Over 11 elements the same flaws are .3125 and .1 wide, and samples show them."""
    shape = Shape(p=11)
    broken = mutated(shape, name, masks=masks)
    assert_statistically_private(
        Sharing(shape).protocol, shape.inputs(0), shape.inputs(5), shape.colluders, broken_twin=broken.protocol, seed=1
    )


RELAY_AND_DEVICES = Directory({Role.DEVICE: 2, Role.SERVER: 1})
RELAY = [Party(Role.SERVER, 0)]


def tagged(inputs: Inputs, channel: Channel) -> None:
    """In each of two rounds a device names its target to the relay by the target's tag of that round."""
    tags = channel.coins.uniform(5, (2, 2))
    _send_tags(inputs, channel, tags)


def tagged_once(inputs: Inputs, channel: Channel) -> None:
    """The same with one tag a target for all rounds."""
    tags = np.repeat(channel.coins.uniform(5, (1, 2)), 2, axis=-2)
    _send_tags(inputs, channel, tags)


def _send_tags(inputs: Inputs, channel: Channel, tags: Inputs) -> None:
    sender, relay = channel.parties.ids(Role.DEVICE)[:1], channel.parties.ids(Role.SERVER)
    for number in range(2):
        channel.send(Phase.ADDRESSES, Step(number), sender, relay, tags[..., number, inputs[0, number], None])


def test_static_tags_are_rejected() -> None:
    """A relay that sees one tag twice knows that two messages had one target; fresh tags tell nothing."""
    twin = Protocol(tagged_once, RELAY_AND_DEVICES, 5)
    same, different = [[0, 0], [0, 0], [0, 0]], [[0, 1], [0, 0], [0, 0]]
    assert_exactly_private(Protocol(tagged, RELAY_AND_DEVICES, 5), same, different, RELAY, broken_twin=twin)
    with pytest.raises(NotPrivateError, match=r"total variation 4/5 \(0\.8\)"):
        assert_exactly_private(twin, same, different, RELAY, broken_twin=twin)


def padded(inputs: Inputs, channel: Channel, *, always: bool = True) -> None:
    """A device sends its degree under a mask for each of its neighbours, and fills up to two, or doesn't."""
    sender, relay = channel.parties.ids(Role.DEVICE)[:1], channel.parties.ids(Role.SERVER)
    degree = 2 if always else int(inputs[0])
    channel.send(Phase.VALUES, Step(0), sender, relay, (channel.coins.uniform(5, (1, degree)) + inputs[0]) % 5)


def unpadded(inputs: Inputs, channel: Channel) -> None:
    """The same without the filling."""
    padded(inputs, channel, always=False)


def test_degree_dependent_lengths_are_rejected() -> None:
    """Messages as long as a device has neighbours tell its degree to everybody on the network."""
    good, twin = Protocol(padded, RELAY_AND_DEVICES), Protocol(unpadded, RELAY_AND_DEVICES)
    assert not assert_same_trace(good, [1, 0, 0], [2, 0, 0], broken_twin=twin).rejected


def test_shares_still_give_the_secret() -> None:
    """What is tested for privacy is a sharing: T + 1 shares interpolate to the secret."""
    shape = Shape(p=13, T=1, senders=2)
    masks = np.array([5, 7]).reshape(shape.masks)
    first, second = Sharing(shape).shares(shape.inputs(3, 4), masks)
    field: Any = PrimeField(13)
    assert field.subtract(field.multiply(2, first), second).reshape(-1).tolist() == [3, 4]
