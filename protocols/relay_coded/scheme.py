"""Message passing over relays: a repair of Secret Message Passing in which no party can read a message.

Every message is shared among R relays by Shamir's scheme of degree T; the first T shares are masks that relays expand
from keys or seeds, so that a message is as long as its row and not T + 1 times that. Relays add up the shares under a
pseudonym of the target's group, and the target alone interpolates the sum. What HiFGL's scheme gives away and this one
does not: masks are used once, no party holds T + 1 shares of one message, silos decode nothing, sums over fewer than
`k_min` messages are not computed, and a group is answered once in a step. Circuits are opened once and carry all steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from fgl_secure.algebra import MERSENNE_61, FixedPoint, PrimeField
from fgl_secure.config_fields import name_members
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.relay_coded import wire
from fgl_secure.protocols.relay_coded.claim import claim_of
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.relay_coded.devices import Devices
from fgl_secure.protocols.relay_coded.plan import Parameters
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.silos import Silos
from fgl_secure.protocols.scheme import ROW_BOUND, Scheme, SumMachine, UniformField, select_hosted
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.protocols.topology import (
    MEMBERS,
    NEIGHBOURS,
    Contributors,
    Grouping,
    Partnering,
    SmallGroups,
    Topology,
    check_mutual,
)
from fgl_secure.runtime import Claim, Draws, Phase, PublicParameters, Role
from fgl_secure.typing import Ids

LARGEST_T = 64
MOST_RELAYS = 256
"""Every message is shared among all, and every circuit opened at each."""

LARGEST_GRADIENT = 2.0**16
"""Bound of one coordinate of a device's parameter gradient."""

EXACT_BITS = 52
TIMES_MEAN = 3
"""Messages that every device sends, over the mean number of neighbours, unless a number is given."""


class Profile(StrEnum):
    """What relays may know of who talks to whom."""

    HIDDEN = "graph-hidden"
    """Every device opens equally many circuits, sealed for the relays, via its own silo and one that is drawn.

    Dummies without silos would show which group is a sender's own, silos without dummies would leave the counts; so
    neither can be had alone.
    """
    SHOWN = "graph-shown"
    """Relays see who sends to which unnamed group, and so most of the graph."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The machines of a run, one class a role; others than these are for tests, which break one of them."""

    devices: type[Devices] = Devices
    silos: type[Silos] = Silos
    relays: type[Relays] = Relays


HONEST = Roles()


@dataclass(frozen=True, slots=True)
class RelayCoded(Scheme):
    """The scheme.

    Attributes:
        field: of the shares.
        T: most relays that may pool their views.
        R: relays, T + 1 to MOST_RELAYS; each one more lets one relay fail, every second one more one relay lie.
        k_min: least messages of a sum that is computed.
        bound: largest magnitude of one value, in the values' own unit.
        fraction_bits: bits behind the binary point; None takes as many as the largest sum allows.
        profile: what relays may know of who talks to whom.
        max_degree: D, most partners of a device where the graph is hidden, and how many messages each sends; None
            takes three times the mean number of neighbours, rounded down. Neighbours agree on partners, see `partners`.
        small_groups: what becomes of a device with fewer partners than k_min where the graph is hidden.
        contributors: which messages k_min counts: all, or those of other silos than the receiver's.
        reopen_every: steps after which circuits are reopened; 0 for after a loss only.
        keys: how senders and relays agree on keys, and what seals are made with; all parties must take the same one.
        cryptography: what is cryptographic about it, real or ideal.
        roles: the machines.
    """

    field: PrimeField = PrimeField()
    T: int = 1
    R: int = 2
    k_min: int = 3
    bound: float = ROW_BOUND
    fraction_bits: int | None = None
    profile: Profile = Profile.HIDDEN
    max_degree: int | None = None
    small_groups: SmallGroups = SmallGroups.TWO_HOP
    contributors: Contributors = Contributors.ALL
    reopen_every: int = 0
    keys: KeyAgreement = attribute(default_factory=KeyAgreement.best)
    cryptography: type[Cryptography] = attribute(default=Cryptography, repr=False)
    roles: Roles = attribute(default=HONEST, repr=False)

    label: ClassVar[str] = "relay-coded"
    summary: ClassVar[str] = "message passing over relays, the repair of secmp"
    parameters: ClassVar[tuple[str, ...]] = (
        "field",
        "T",
        "bound",
        "fraction_bits",
        "R",
        "k_min",
        "profile",
        "max_degree",
        "small_groups",
        "contributors",
        "reopen_every",
        "keys",
    )
    uses_keys: ClassVar[bool] = False
    """Where one process hosts all parties, the session's name is drawn with the keys."""

    @classmethod
    def of_parameters(cls, values: Mapping[str, Any]) -> Self:
        """As many relays as T asks for, unless their number is among the values."""
        return cls(**{"R": cls.relays_for(values["T"]), **values} if "T" in values else values)

    @staticmethod
    def relays_for(T: int) -> int:
        """The fewest relays that do."""
        return T + 1

    def __post_init__(self) -> None:
        name_members(self)
        if not 1 <= self.T <= LARGEST_T:
            raise InputError(f"T must lie in 1..{LARGEST_T}; found {self.T}")
        if self.R > MOST_RELAYS:
            raise InputError(f"R must be at most {MOST_RELAYS}; found {self.R}")
        if self.R < self.T + 1:
            raise InputError(f"R must be at least T + 1 = {self.T + 1}, or no owner can decode; found {self.R}")
        if self.field.modulus <= self.R:
            raise FieldRangeError(
                f"R must be below the field's {self.field.modulus} elements, for relays have distinct points "
                f"other than 0; found {self.R}"
            )
        if self.k_min < 1:
            raise InputError(f"k_min must be at least 1; found {self.k_min}")
        self.keys.check_available()
        if self.reopen_every < 0:
            raise InputError(f"reopen_every must be at least 0; found {self.reopen_every}")
        if self.max_degree is not None and self.max_degree < self.k_min:
            raise InputError(f"max_degree must be at least k_min = {self.k_min}; found {self.max_degree}")
        if self.max_degree is not None and self.profile is Profile.SHOWN:
            raise InputError(
                f"max_degree must be left out under profile {Profile.SHOWN}, for equal counts alone would show whose "
                f"group is whose; found {self.max_degree}"
            )

    @property
    def name(self) -> str:
        """The label, with the parameters that differ from the default in brackets."""
        default = RelayCoded()
        extras = [
            f"p={self.field.modulus}" if self.field != default.field else "",
            f"T={self.T}" if self.T != default.T else "",
            f"R={self.R}" if self.relays_for(self.T) != self.R else "",
            f"k_min={self.k_min}" if self.k_min != default.k_min else "",
            str(self.profile) if self.profile is not default.profile else "",
            f"max_degree={self.max_degree}" if self.max_degree is not None else "",
            str(self.small_groups) if self.small_groups is not default.small_groups else "",
            str(self.contributors) if self.contributors is not default.contributors else "",
            f"reopen_every={self.reopen_every}" if self.reopen_every else "",
            str(self.keys) if self.keys is not KeyAgreement.HYBRID else "",
        ]
        named = ",".join(extra for extra in extras if extra)
        return f"{self.label}[{named}]" if named else self.label

    @property
    def anonymous(self) -> bool:
        """Whether senders are unnamed."""
        return self.profile is Profile.HIDDEN

    @property
    def _parameters(self) -> Parameters:
        numbers = (self.field, self.T, self.R, self.k_min)
        return Parameters(*numbers, self.anonymous, self.max_degree, self.contributors, self.reopen_every)

    def refuses(self, topology: Topology) -> str | None:
        """None for sums for devices and for silos."""
        if topology.name not in (NEIGHBOURS, MEMBERS):
            return "relays add vectors for devices and for silos alone"
        if topology.bound is not None:
            return "its rows are real numbers or elements of a field, and no bounded integers"
        return None

    def refuses_hosting(self, *, devices: bool) -> str | None:
        """None, except for a hidden graph whose degrees are not bounded, or whose silos add up; see `HostedScheme`."""
        if self.anonymous and not devices:
            return "silos add up beforehand; take profile graph-shown"
        if self.anonymous and self.max_degree is None:
            return "no process knows the mean number of neighbours; give max_degree"
        return None

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # the same for all
        """What it hides from whom, and what it does not."""
        anonymous = self.anonymous and self.cryptography.unlinkable
        return claim_of(self.T, self.k_min, self.keys, self.contributors, anonymous=anonymous)

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """Half of the field."""
        return (self.field.modulus - 1) // 2

    def adapt(self, topology: Topology) -> RelayCoded:
        """The scheme over 2^61 - 1 for members: the gradient of a device with many neighbours has room there."""
        if topology.name != MEMBERS:
            return self
        bits = max(EXACT_BITS - math.ceil(math.log2(topology.terms * LARGEST_GRADIENT)), 0)
        return replace(self, field=PrimeField(MERSENNE_61), bound=LARGEST_GRADIENT, fraction_bits=bits)

    def partnering(self, grouping: Grouping) -> Partnering | None:
        """Partners where counts must reveal nothing, of whom no device has more than all send.

        Raises:
            InputError: rows travel one way alone between two devices.
        """
        if not self.anonymous:
            return None
        check_mutual(grouping.group_owner[grouping.target], grouping.row_owner[grouping.source])
        mean = len(grouping.source) / max(len(grouping.group_owner), 1)
        max_degree = max(self.k_min, int(TIMES_MEAN * mean)) if self.max_degree is None else self.max_degree
        return Partnering(max_degree, self.k_min, self.small_groups, self.contributors)

    def among(self, partners: Partnering) -> RelayCoded:
        """The scheme in which every device sends as many messages as it may have partners."""
        return replace(self, max_degree=partners.most)

    def uniform_fields(self, topology: Topology) -> tuple[UniformField, ...]:
        """Shares, as they travel and as relays open them, their sums, and keys of circuits."""
        modulus = self.adapt(topology).field.modulus
        return (
            UniformField(Phase.SHARES, wire.SHARE, modulus),
            UniformField(Phase.SHARES, wire.SHARE, 2**32),
            UniformField("opened shares", "", modulus),
            UniformField("keys of circuits", "", 2**64),
            UniformField(Phase.SHARE_SUMS, wire.SUM, modulus),
            UniformField(Phase.SHARE_SUMS, wire.SUM, 2**32),
        )

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """Without the messages to groups of fewer than k_min, and those of too few other silos' devices."""
        return grouping.answered_grouping(self.k_min, self.contributors)

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
        return self.adapt(topology).fixed_point(topology.terms)

    def fixed_point(self, terms: int) -> FixedPoint:
        """The map into the field for sums of up to `terms` rows.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """
        if self.fraction_bits is not None:
            return FixedPoint(self.field, self.bound, self.fraction_bits, terms)
        return FixedPoint.for_sums(self.field, bound=self.bound, terms=terms)

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # relays are known to senders by the channel
    ) -> tuple[SumMachine, ...]:
        """Plans both passes; keys are exchanged with the first sum.

        Args:
            topology: with its relays; in a process that hosts some parties alone, the messages that concern these.
            session: 16 public bytes, different in every session; not used where one process hosts all parties.
            draws: coins of those parties.
            hosted: int64 [k], party identifiers; all that take part unless given.
            names: not used.

        Raises:
            InputError: the run has fewer relays than R, or max_degree does not fit the grouping, or is not given
                where a process knows no messages.
        """
        if len(topology.helpers) != self.R:
            raise InputError(f"parties must include R={self.R} relays; found {len(topology.helpers)}")
        no_messages = hosted is not None and not len(topology.grouping.source) and topology.name != MEMBERS
        if self.anonymous and self.max_degree is None and no_messages:
            raise InputError("max_degree must be given to a process that knows no messages; found None")
        terms = SumTerms(repr(self), topology, session, draws.batch_shape)
        g, name, scheme = topology.grouping, None if hosted is None else session, self._parameters
        crypto = self.cryptography(self.field, self.T, session=name, agreement=self.keys)
        owners = select_hosted(hosted, g.owners)
        silos = np.setdiff1d(select_hosted(hosted, g.row_custodian, g.group_custodian), owners)
        if scheme.mixes(topology.name) and len(np.intersect1d(g.owners, topology.custodians)):
            raise InputError(
                "profile graph-hidden needs devices whose rows silos carry; found silos that send rows of their own; "
                "take relay-coded[graph-shown]"
            )
        relays = select_hosted(hosted, topology.helpers)
        out: list[SumMachine] = []
        if len(owners):
            out.append(self.roles.devices(owners, terms, scheme, crypto, draws, alone=hosted is None))
        if len(silos):
            out.append(self.roles.silos(silos, terms, scheme, crypto, draws, alone=hosted is None))
        if len(relays):
            out.append(self.roles.relays(relays, terms, scheme, crypto, draws))
        return tuple(out)
