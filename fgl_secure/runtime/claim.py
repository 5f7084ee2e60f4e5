"""What a scheme promises, as data that evidence can violate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self, TypeVar

from fgl_secure.runtime.machine import Role


@dataclass(frozen=True, slots=True)
class PublicParameters:
    """Parameters of a scheme that every party and every attacker knows.

    Attributes:
        modulus: size of the field, None for a scheme over real numbers.
        T: number of masks, None where there are none.
        fraction_bits: bits behind the binary point of one element, None where that depends on the run.
    """

    modulus: int | None = None
    T: int | None = None
    fraction_bits: int | None = None


class Strength(StrEnum):
    """How strong a guarantee is meant to be."""

    PERFECT = "perfect"
    COMPUTATIONAL = "computational"
    DIFFERENTIAL_PRIVACY = "differential privacy"


class SecretKind(StrEnum):
    """A secret that a scheme guarantees or an attack recovers: its description, and a short form for table columns.

    This base has no members. A scheme, method or attack with secrets of its own subclasses it.

    Examples:
        >>> class Timing(SecretKind):
        ...     LATENCY = ("how long a device takes", "latency")
        >>> str(Timing.LATENCY), Timing.LATENCY.short
        ('how long a device takes', 'latency')
    """

    short: str

    def __new__(cls, words: str, short: str) -> Self:
        """A member; see above."""
        made = str.__new__(cls, words)
        made._value_, made.short = words, short
        return made

    @classmethod
    def every(cls) -> tuple[SecretKind, ...]:
        """The members of all subclasses, those that were defined first in front."""
        return (*cls, *(item for kind in cls.__subclasses__() for item in kind.every()))


class Secret(SecretKind):
    """What sums may hide."""

    EMBEDDING = ("the embedding or gradient that one device sends", "a device's row")
    FOREIGN_NODE = ("which devices of other silos are neighbours of a silo's devices", "foreign neighbours")
    CROSS_EDGE = ("which cross-silo edges exist", "cross-silo edges")
    DEGREE = ("how many neighbours a device has", "degrees")
    PARAMETER_GRADIENT = ("one device's gradient of the model parameters", "a device's gradient")
    SUMMAND = ("one client's term of a sum over clients", "a client's vector")


class CircumstanceKind(StrEnum):
    """A condition under which a secret may be exposed. Has no members, as `SecretKind` has none."""


class Circumstance(CircumstanceKind):
    """When sums may expose a secret; ANY where there is no condition."""

    ANY = "any"
    SINGLE_NEIGHBOUR = "the target has one neighbour only"
    SPARSE_SUM = "the sum is exact and its rows are sparse"
    REPEATED_SUM = "the same rows are summed in several rounds, by different senders"
    DROP_OUT = "devices drop out in the middle of a step"
    HOSTED_DEVICES = "one process hosts all devices of a silo"
    MALICIOUS_DEVICE = "a device departs from the protocol"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One promise: a secret stays hidden from coalitions up to a size.

    Attributes:
        secret: what is hidden.
        coalition: most parties of each role that may pool their views; a role not named may not take part.
        strength: perfect, computational, or differential privacy (with its figures in the statement).
        statement: the promise in words, as its source makes it.
        source: where it is made.
    """

    secret: SecretKind
    coalition: Mapping[Role, int]
    strength: Strength
    statement: str
    source: str

    def covers(self, coalition: Mapping[Role, int]) -> bool:
        """Whether a coalition of that many parties of each role is one that the promise speaks of."""
        return all(count <= self.coalition.get(role, 0) for role, count in coalition.items())


@dataclass(frozen=True, slots=True)
class Leak:
    """An exposure that the scheme itself declares.

    Attributes:
        secret: what is exposed.
        role: to parties of which role.
        circumstance: when.
        statement: the exposure in words.
    """

    secret: SecretKind
    role: Role
    circumstance: CircumstanceKind
    statement: str


def leaks(
    role: Role, statements: Mapping[SecretKind, str], circumstance: CircumstanceKind = Circumstance.ANY
) -> tuple[Leak, ...]:
    """Return what is declared to leak to parties of a role under a circumstance, in words by secret."""
    return tuple(Leak(secret, role, circumstance, statement) for secret, statement in statements.items())


@dataclass(frozen=True, slots=True)
class Claim:
    """All that a scheme promises, admits and assumes.

    Attributes:
        guarantees: the promises; empty for a scheme that promises nothing.
        leaks_by_design: exposures that it declares.
        assumptions: what the promises rest on.
    """

    guarantees: tuple[Guarantee, ...]
    leaks_by_design: tuple[Leak, ...]
    assumptions: tuple[str, ...]

    def join(self, other: Claim) -> Claim:
        """This claim and another one, of a run that both are about; what both say is said once."""
        return Claim(
            _once(self.guarantees, other.guarantees),
            _once(self.leaks_by_design, other.leaks_by_design),
            _once(self.assumptions, other.assumptions),
        )

    def broken_by(
        self, secret: SecretKind, coalition: Mapping[Role, int], circumstance: CircumstanceKind
    ) -> Guarantee | None:
        """The first promise that a finding violates, or None; see `borne_on`."""
        return next(iter(self.borne_on(secret, coalition, circumstance)), None)

    def borne_on(
        self, secret: SecretKind, coalition: Mapping[Role, int], circumstance: CircumstanceKind
    ) -> tuple[Guarantee, ...]:
        """All promises that a finding would violate.

        Args:
            secret: what a coalition looks for.
            coalition: how many parties of each role pooled their views.
            circumstance: under which condition.
        """
        declared = any(
            leak.secret is secret
            and leak.circumstance in (Circumstance.ANY, circumstance)
            and coalition.get(leak.role, 0) > 0
            for leak in self.leaks_by_design
        )
        return () if declared else tuple(g for g in self.guarantees if g.secret is secret and g.covers(coalition))


Said = TypeVar("Said")


def _once(first: tuple[Said, ...], more: tuple[Said, ...]) -> tuple[Said, ...]:
    """All of the first, and of the others what is not among them: coalitions are mappings, which have no hash."""
    return (*first, *(item for item in more if item not in first))
