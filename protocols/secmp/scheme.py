"""Secret Message Passing as HiFGL publishes it (KDD 2024, sections 4.1.2 and 4.2, Algorithm 1, A.4).

Every silo draws mu = (alphas, betas, z) once. A source encodes its embedding h on the polynomial through
(beta_1, h), (beta_2, z_2) .. (beta_(T+1), z_(T+1)) of the *target's* silo (Eq. 4) and sends all T + 1 values at the
alphas to the target device. The target adds up what it received, its silo interpolates the sum at beta_1 and sends
it back. The z are the same for every sender, target, layer and round: that is the published scheme, and
`fgl_secure.attacks.message_passing.codes` is what follows from it.

Where the paper is silent: embeddings become field elements by `FixedPoint`; z_j is a vector as wide as the widest
layer, of which narrower layers use the first coordinates; mu is fetched once a round (Algorithm 1, lines 6 and 7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fgl_secure.algebra import MERSENNE_31, FixedPoint, LagrangeCode, Overflow, PrimeField
from fgl_secure.config_fields import name_members
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.scheme import ROW_BOUND, Scheme, SumMachine, select_hosted
from fgl_secure.protocols.secmp.machines import SecMPDevices, SecMPSilos
from fgl_secure.protocols.secmp.setting import MuDelivery, Points, SecMPSetting
from fgl_secure.protocols.stepwise import CompositeMachine, SumTerms
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Topology
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Draws,
    Guarantee,
    Leak,
    Phase,
    PublicParameters,
    Role,
    Secret,
    Strength,
)
from fgl_secure.typing import Ids

PUBLISHED_CLAIM = Claim(
    guarantees=(
        Guarantee(
            Secret.EMBEDDING,
            {Role.DEVICE: 1},
            Strength.PERFECT,
            "a device cannot decode the embedding of a neighbour from the codes it receives",
            "HiFGL 5.1, node-level privacy, Eq. 5 and Lemma 5.1",
        ),
        Guarantee(
            Secret.EMBEDDING,
            {Role.SILO: 1},
            Strength.PERFECT,
            "a silo decodes sums and cannot know the raw embedding of a neighbour",
            "HiFGL 4.2.3 step 2 and 5.1",
        ),
        Guarantee(
            Secret.FOREIGN_NODE,
            {Role.SILO: 1},
            Strength.PERFECT,
            "0 % subgraph-level privacy is leaked: no silo sees a node of another silo",
            "HiFGL 5.1, subgraph-level privacy, measured by A.1, Eq. 6",
        ),
        Guarantee(
            Secret.CROSS_EDGE,
            {Role.SILO: 1},
            Strength.PERFECT,
            "cross-silo edges are known to their two devices only",
            "HiFGL 4.1.1 and 5.1",
        ),
    ),
    leaks_by_design=(
        Leak(
            Secret.EMBEDDING,
            Role.DEVICE,
            Circumstance.SINGLE_NEIGHBOUR,
            "a device with one neighbour gets that neighbour's embedding as its sum (4.2.3, last paragraph)",
        ),
    ),
    assumptions=(
        "all parties are semi-honest (3.3)",
        "z is uniform (4.1.2); that it must also be fresh and secret is not said",
        "senders are anonymous to receivers and devices run in a trusted execution environment (4.2.3)",
    ),
)


__all__ = ["MuDelivery", "SecretMessagePassing"]


LARGEST_LAYER_BYTES = 2**33
"""Most bytes of codes that one layer may hold at once, all parties being in one process."""

LARGEST_T = 64


@dataclass(frozen=True, slots=True)
class SecretMessagePassing(Scheme):
    """The published scheme.

    Attributes:
        field: the paper says 11 elements (4.1.2, footnote 2); the default is 2^31 - 1, in which sums stay exact.
        T: masks, and the number of codes less one; 2 T + 2 distinct points must fit the field.
        bound: largest magnitude of one value, in the values' own unit.
        fraction_bits: bits behind the binary point; None takes as many as the largest sum allows.
        overflow: REFUSE, or WRAP to run a field that is too small, as published.
        delivery: who hands mu to a source.
        points: interpolation points of every silo; None lets each silo draw its own.
    """

    field: PrimeField = PrimeField()
    T: int = 1
    bound: float = ROW_BOUND
    fraction_bits: int | None = None
    overflow: Overflow = Overflow.REFUSE
    delivery: MuDelivery = MuDelivery.SILO
    points: Points | None = None

    label: ClassVar[str] = "secmp"
    summary: ClassVar[str] = "Secret Message Passing as HiFGL publishes it (KDD 2024)"
    parameters: ClassVar[tuple[str, ...]] = ("field", "T", "bound", "fraction_bits", "overflow", "delivery")
    named: ClassVar[tuple[str, ...]] = ("field", "T", "delivery")
    custodian_decodes: ClassVar[bool] = True
    uses_keys: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name_members(self)
        if self.field.modulus > MERSENNE_31:
            raise FieldRangeError(
                f"field must have at most 2^31 - 1 elements, so that a product fits 64 bits; found {self.field.modulus}"
            )
        if self.T < 1:
            raise InputError(f"T must be at least 1; found {self.T}")
        needed = 2 * self.T + 2
        if needed > self.field.modulus:
            raise FieldRangeError(
                f"T={self.T} needs 2 T + 2 = {needed} distinct points; the field has {self.field.modulus} "
                f"elements, enough for T <= {(self.field.modulus - 2) // 2}"
            )
        if self.T > LARGEST_T:
            raise InputError(f"T must be at most {LARGEST_T}, a message carries T + 1 codes; found {self.T}")
        if self.points is not None:
            LagrangeCode(self.field, 1, self.T, self.T + 1, self.points.alphas, self.points.betas)

    @property
    def public(self) -> PublicParameters:
        """Field and T, as printed in the paper."""
        return PublicParameters(self.field.modulus, self.T)

    @property
    def variants(self) -> tuple[Scheme, ...]:
        """The paper's field of 11 elements, in which sums wrap, and the other reading of who hands out mu."""
        other = MuDelivery.TARGET if self.delivery is MuDelivery.SILO else MuDelivery.SILO
        small = replace(
            self,
            field=PrimeField(11),
            T=min(self.T, 4),
            bound=1.0,
            fraction_bits=0,
            points=None,
            overflow=Overflow.WRAP,
        )
        return (small, replace(self, delivery=other))

    def refuses(self, topology: Topology) -> str | None:
        """Whatever the paper does not sum."""
        if topology.name == MEMBERS:
            return "the paper holds gradients not to be private and sends them to the silo as they are (4.3)"
        if topology.name != NEIGHBOURS:
            return "the paper sums over neighbours alone"
        if topology.bound is not None:
            return "it sums real numbers, which it maps into its field by itself"
        return None

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # it serves one alone
        """The paper's own claims."""
        return PUBLISHED_CLAIM

    def limit(self, terms: int) -> None:  # whatever their number
        """None: it sums reals."""

    def fixed_point(self, terms: int) -> FixedPoint:
        """The map into the field for sums of up to `terms` embeddings.

        Raises:
            FieldRangeError: the field cannot hold such sums and wrapping was not asked for.
        """
        if self.overflow is Overflow.WRAP or self.fraction_bits is not None:
            return FixedPoint(self.field, self.bound, self.fraction_bits or 0, terms, self.overflow)
        return FixedPoint.for_sums(self.field, bound=self.bound, terms=terms)

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # there is nothing to sign
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`: devices and silos. Every silo draws its mu; nothing is sent yet.

        The paper binds nothing to a session; the states of machines are bound to it.
        """
        self.check_serves(topology)
        self.fixed_point(topology.terms)
        g = topology.grouping
        self._check_size(len(g.source), topology.width)
        setting = SecMPSetting.of(
            self.field, self.T, self.delivery, SumTerms(repr(self), topology, session, draws.batch_shape)
        )
        owners = select_hosted(hosted, g.owners)
        silos = select_hosted(hosted, setting.silos)
        devices, decoders = SecMPDevices(owners, setting), SecMPSilos(silos, setting, draws, self.points)
        if np.isin(owners, silos).any():
            return (CompositeMachine((devices, (Phase.PARAMETERS, Phase.CODES, Phase.DECODED)),
                             (decoders, (Phase.PARAMETER_REQUEST, Phase.AGGREGATE))),)  # fmt: skip
        return tuple(machine for machine in (devices, decoders) if len(machine.parties))

    def _check_size(self, messages: int, width: int) -> None:
        size = messages * (self.T + 1) * width * self.field.dtype.itemsize
        if size > LARGEST_LAYER_BYTES:
            raise InputError(
                f"T must leave the codes of a layer below {LARGEST_LAYER_BYTES:,} bytes; found T={self.T}, which needs "
                f"{size:,} for {messages:,} messages of {width} coordinates"
            )
