"""Message passing over relays: a repair of Secret Message Passing in which nobody can read a message.

Every message is shared among R relays by Shamir's scheme of degree T; the first T shares are masks that relays expand
from keys or seeds, so that a message is as long as its row and not T + 1 times that. Relays add up the shares under a
fresh tag of the unnamed target, and the target alone interpolates the sum. What HiFGL's scheme gives away and this one
does not: masks are used once, nobody holds T + 1 shares of one message, silos decode nothing, sums over fewer than
`k_min` messages are not computed, and a tag is answered once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_61, FixedPoint, PrimeField
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.relay_claim import claim_of
from fgl_secure.protocols.relay_session import RelaySession
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Claim, Draws, Messages, PublicParameters, Role, Step

LARGEST_T = 64

LARGEST_GRADIENT = 2.0**16
"""Bound of one coordinate of a device's parameter gradient."""

EXACT_BITS = 52


class Profile(StrEnum):
    """What relays may know of who talks to whom."""

    BASE = "base"
    """Relays know who sends, but not to whom."""
    ANON = "anon"
    """Silos forward what their devices send, sealed for the relays, and everybody sends equally many messages.

    Padding without proxies would tell which tag is a sender's own, proxies without padding would leave the counts; so
    there is no way to have one of them alone.
    """


class MaskOrigin(StrEnum):
    """Where masks come from."""

    DERIVED = "derived"
    """Expanded from keys (base) or seeds (anon) by a stream cipher."""
    DRAWN = "drawn"
    """Drawn as they are and sent in full: what the stream cipher stands in for, for enumeration and simulators.

    Tags, numbers and orders are fixed then, so that masks are all that is random: values are hidden, and under `anon`
    who sends to whom is not.
    """


@dataclass(frozen=True, slots=True)
class RelayCoded(Scheme):
    """The scheme.

    Attributes:
        field: of the shares.
        T: most relays that may pool their views.
        R: relays, at least T + 1; each one more lets one relay fail, every second one more one relay lie.
        k_min: least messages of a sum that is computed.
        bound: largest magnitude of one value, in the values' own unit.
        fraction_bits: bits behind the binary point; None takes as many as the largest sum allows.
        profile: what relays may know of who talks to whom.
        padding: messages that everybody sends under `anon`; None takes the most that anybody has to send.
        resends: how often a relay asks a sender again for what another relay holds.
        masks: where masks come from.
    """

    field: PrimeField = PrimeField()
    T: int = 1
    R: int = 2
    k_min: int = 3
    bound: float = 16.0
    fraction_bits: int | None = None
    profile: Profile = Profile.BASE
    padding: int | None = None
    resends: int = 1
    masks: MaskOrigin = MaskOrigin.DERIVED

    label: ClassVar[str] = "relay-coded"
    summary: ClassVar[str] = "message passing over relays, the repair of secmp"
    keyed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.T <= LARGEST_T:
            raise InputError(f"T must lie in 1..{LARGEST_T}; found {self.T}")
        if self.R < self.T + 1:
            raise InputError(f"R must be at least T + 1 = {self.T + 1}, or nobody can decode; found {self.R}")
        if self.field.modulus <= self.R:
            raise FieldRangeError(
                f"R={self.R} relays need R + 1 distinct points; the field has {self.field.modulus} elements"
            )
        if self.k_min < 1:
            raise InputError(f"k_min must be at least 1; found {self.k_min}")
        if self.resends < 0:
            raise InputError(f"resends must be at least 0; found {self.resends}")
        if self.padding is not None and self.padding < 1:
            raise InputError(f"padding must be at least 1; found {self.padding}")
        if self.padding is not None and self.profile is Profile.BASE:
            raise InputError(
                f"padding is for profile anon: alone it would tell whose tag is whose; found {self.padding}"
            )

    @property
    def name(self) -> str:
        """`relay-coded`, with the parameters that differ from the default in brackets."""
        default = RelayCoded()
        extras = [
            f"p={self.field.modulus}" if self.field != default.field else "",
            f"T={self.T}" if self.T != default.T else "",
            f"R={self.R}" if self.T + 1 != self.R else "",
            f"k_min={self.k_min}" if self.k_min != default.k_min else "",
            str(self.profile) if self.profile is not default.profile else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"relay-coded[{named}]" if named else "relay-coded"

    @property
    def claim(self) -> Claim:
        """What it hides from whom, and what it does not."""
        unnamed = self.profile is Profile.ANON and self.masks is MaskOrigin.DERIVED
        return claim_of(self.T, self.k_min, anonymous=unnamed)

    def refuses(self, topology: Topology) -> str | None:
        """Whatever is not for devices."""
        return None if topology.name in (NEIGHBOURS, MEMBERS) else "relays add up for devices and their silos alone"

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # the same for both
        """What it hides from whom, and what it does not."""
        return self.claim

    def limit(self, terms: int) -> int:
        """Half the field, for each term."""
        return (self.field.modulus - 1) // 2 // terms * terms

    def answered(self, grouping: Grouping) -> Grouping:
        """Without the messages to groups of fewer than k_min."""
        return grouping.answered(self.k_min)

    def _for(self, topology: str, terms: int) -> RelayCoded:
        """For gradients the same scheme over 2^61 - 1, where those of a device with many neighbours have room."""
        if topology != MEMBERS:
            return self
        bits = max(EXACT_BITS - math.ceil(math.log2(terms * LARGEST_GRADIENT)), 0)
        return replace(self, field=PrimeField(MERSENNE_61), bound=LARGEST_GRADIENT, fraction_bits=bits)

    @property
    def helpers(self) -> Mapping[Role, int]:
        """R relays."""
        return {Role.RELAY: self.R}

    @property
    def public(self) -> PublicParameters:
        """Field, T and where the binary point is."""
        return PublicParameters(self.field.modulus, self.T, self.fraction_bits)

    def encoding(self, topology: Topology) -> FixedPoint:
        """As `fixed_point` says; of gradients over the larger field."""
        return self._for(topology.name, topology.terms).fixed_point(topology.terms)

    def fixed_point(self, terms: int) -> FixedPoint:
        """The map into the field for sums of up to `terms` rows.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """
        if self.fraction_bits is not None:
            return FixedPoint(self.field, self.bound, self.fraction_bits, terms)
        return FixedPoint.for_sums(self.field, bound=self.bound, terms=terms)

    def open(self, channel: Channel, grouping: Grouping, width: int) -> Collective:
        """Sums of neighbours' rows."""
        return Collective(self, Topology(NEIGHBOURS, grouping, width), channel)

    def machines(
        self,
        topology: Topology,
        session: bytes,  # noqa: ARG002  # until it has machines of its own
        draws: Draws,
        hosted: NDArray[np.int64] | None = None,  # noqa: ARG002  # the same
        *,
        names: Names | None = None,  # noqa: ARG002  # the same
    ) -> tuple[SumMachine, ...]:
        """One that hosts everybody, and talks over the channel by itself.

        Raises:
            InputError: the run has fewer relays than R, or padding does not fit the grouping.
            FieldRangeError: the field cannot hold the sums.
        """
        assert isinstance(draws, Channel), "it runs in simulations alone until it has machines of its own"
        present = draws.parties.counts.get(Role.RELAY, 0)
        if present < self.R:
            raise InputError(f"parties must include R={self.R} relays; found {present}")
        fixed, scheme = self.encoding(topology), self._for(topology.name, topology.terms)
        return (_Everybody(RelaySession(scheme, draws, topology.grouping, fixed), fixed, draws),)


class _Everybody(SumMachine):
    """All parties of a session in one process."""

    def __init__(self, session: RelaySession, fixed: FixedPoint, channel: Channel) -> None:
        super().__init__(np.arange(len(channel.parties)))
        self._session, self._fixed = session, fixed
        self._due: tuple[NDArray[Any], Step] | None = None
        self._sums: NDArray[Any] | None = None

    def begin(self, step: Step, rows: NDArray[Any] | None = None) -> None:
        self._session.check(step)
        self._due, self._sums = (np.empty((0, 1)) if rows is None else self._fixed.decode(rows), step), None

    def take(self, messages: Messages) -> None:
        """Nothing comes: the session talks by itself."""

    def turn(self) -> Iterable[Messages]:
        if self._due is not None:
            (rows, step), self._due = self._due, None
            units = np.rint(self._session.sum(rows, step) * 2.0**self._fixed.fraction_bits).astype(np.int64)
            self._sums = units % self._fixed.field.modulus
        return ()

    @property
    def sums(self) -> NDArray[Any] | None:
        return self._sums

    def state(self) -> Mapping[str, NDArray[Any]]:
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Nothing is kept."""
