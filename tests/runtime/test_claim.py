"""Claims as data: which findings violate them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fgl_secure.runtime import (
    Circumstance,
    CircumstanceKind,
    Claim,
    Guarantee,
    Leak,
    Role,
    Secret,
    SecretKind,
    Strength,
)


def promise(secret: SecretKind, coalition: Mapping[Role, int]) -> Guarantee:
    return Guarantee(secret, coalition, Strength.PERFECT, "hidden", "a paper")


BY_DEVICE = promise(Secret.EMBEDDING, {Role.DEVICE: 2})
BY_SILO = promise(Secret.EMBEDDING, {Role.SILO: 1})
OF_EDGES = promise(Secret.CROSS_EDGE, {Role.DEVICE: 1, Role.SILO: 1})
CLAIM = Claim(
    guarantees=(BY_DEVICE, BY_SILO, OF_EDGES),
    leaks_by_design=(Leak(Secret.EMBEDDING, Role.DEVICE, Circumstance.SINGLE_NEIGHBOUR, "its only neighbour"),),
    assumptions=(),
)


@pytest.mark.parametrize(
    ("secret", "coalition", "circumstance", "broken"),
    [
        (Secret.EMBEDDING, {Role.DEVICE: 1}, Circumstance.ANY, BY_DEVICE),
        (Secret.EMBEDDING, {Role.DEVICE: 2}, Circumstance.ANY, BY_DEVICE),
        (Secret.EMBEDDING, {Role.DEVICE: 3}, Circumstance.ANY, None),  # more than promised
        (Secret.EMBEDDING, {Role.SILO: 1}, Circumstance.ANY, BY_SILO),
        (Secret.EMBEDDING, {Role.SERVER: 1}, Circumstance.ANY, None),  # a role without a promise
        (Secret.EMBEDDING, {Role.DEVICE: 1, Role.SILO: 1}, Circumstance.ANY, None),  # never together
        (Secret.CROSS_EDGE, {Role.DEVICE: 1, Role.SILO: 1}, Circumstance.ANY, OF_EDGES),
        (Secret.FOREIGN_NODE, {Role.SILO: 1}, Circumstance.ANY, None),  # another secret
        (Secret.EMBEDDING, {Role.DEVICE: 1}, Circumstance.SINGLE_NEIGHBOUR, None),  # declared
        (Secret.EMBEDDING, {Role.SILO: 1}, Circumstance.SINGLE_NEIGHBOUR, BY_SILO),  # declared for devices only
        (Secret.EMBEDDING, {Role.DEVICE: 0, Role.SILO: 1}, Circumstance.SINGLE_NEIGHBOUR, BY_SILO),
        (Secret.CROSS_EDGE, {Role.DEVICE: 1}, Circumstance.SINGLE_NEIGHBOUR, OF_EDGES),  # another secret declared
    ],
)
def test_finding_contradicts_the_promise_that_covers_it(
    secret: SecretKind, coalition: Mapping[Role, int], circumstance: CircumstanceKind, broken: Guarantee | None
) -> None:
    """A finding breaks the first promise of that secret to so small a coalition, unless the claim declares the leak."""
    assert CLAIM.broken_by(secret, coalition, circumstance) is broken


def test_leak_under_any_circumstance_covers_narrower_ones() -> None:
    """A leak that is declared without a condition is declared under every condition."""
    claim = Claim((BY_DEVICE,), (Leak(Secret.EMBEDDING, Role.DEVICE, Circumstance.ANY, "always"),), ())
    assert claim.broken_by(Secret.EMBEDDING, {Role.DEVICE: 1}, Circumstance.SINGLE_NEIGHBOUR) is None


def test_two_claims_of_one_run_say_once_what_both_say() -> None:
    """Promises, leaks and assumptions of both, in order, the second's where they are its alone."""
    leak = Leak(Secret.SUMMAND, Role.SILO, Circumstance.ANY, "a sum")
    other = Claim((OF_EDGES, promise(Secret.SUMMAND, {})), (leak, *CLAIM.leaks_by_design), ("keys are authentic",))
    both = replace(CLAIM, assumptions=("no two pool",)).join(other)
    assert both.guarantees == (*CLAIM.guarantees, other.guarantees[1])
    assert both.leaks_by_design == (*CLAIM.leaks_by_design, leak)
    assert both.assumptions == ("no two pool", "keys are authentic")
