"""Relay-coded sums of members' rows, and of products of two rows: how devices hand over gradients of a layer.

A device's gradient of a weight matrix is the outer product of its input row and of a gradient at the outputs. Instead
of the d h numbers of the matrix it shares the d + h of both rows; relays multiply what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from dataclasses import field as attribute
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from fgl_secure.algebra.residues import BELOW_2_8
from fgl_secure.algebra.residues import MOST_BITS as MAGNITUDE_BITS
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError
from fgl_secure.protocols.coded_products.code import zero_sets
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography, RealProductCryptography
from fgl_secure.protocols.coded_products.encoding import LEAST_BITS, ProductCode, check_bounds
from fgl_secure.protocols.coded_products.parties import ProductDevices, ProductSilos
from fgl_secure.protocols.coded_products.plan import ProductLayout, ProductPlan
from fgl_secure.protocols.coded_products.relays import ProductRelays
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme, SumMachine, select_hosted
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.protocols.topology import MEMBERS, Topology
from fgl_secure.runtime import (
    Circumstance,
    Claim,
    Draws,
    Guarantee,
    Leak,
    Role,
    Secret,
    Strength,
)
from fgl_secure.typing import Ids

_MANY = 2**31
_OWN = "derived in docs/message_passing.md, after Yu et al. 2019 and Cramer, Damgard and Ishai 2005"


def _products_claim(T: int, R: int, k_min: int, keys: KeyAgreement) -> Claim:
    """The claim for sums of products of devices' rows, for their silos.

    Args:
        T: most relays that may pool their views.
        R: relays.
        k_min: least devices of a sum that is computed.
        keys: how they are agreed on.
    """
    coalition = {Role.RELAY: T, Role.SILO: _MANY, Role.DEVICE: _MANY, Role.SERVER: 1}
    promise = Guarantee(
        Secret.PARAMETER_GRADIENT,
        coalition,
        Strength.COMPUTATIONAL,
        f"a silo, with up to T = {T} relays and other silos and devices, learns of its devices' parameter gradients "
        f"the sum over at least {k_min} of them, and of the rows whose products they are no more",
        _OWN,
    )
    liars = (R - 2 * T - 1) // 2
    lying = (
        f"up to {liars} of R = {R} relays answer with wrong products, whom silos name"
        if liars
        else f"R = {R} relays answer with what they worked out: to name one that does not takes {2 * T + 3} relays"
    )
    known = Leak(
        Secret.PARAMETER_GRADIENT,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "the sum X^T D is exact, coded or dense: a silo that knows its devices' input rows X from elsewhere, and has "
        "no more devices than rows have entries, solves it for each device's D",
    )
    return Claim(
        (promise,),
        (known,),
        (
            f"relays share keys by sets of R - T = {R - T}, told by the first of each over a confidential channel, and "
            f"hear of each other whose shares they hold; {lying}",
            "how many bits input rows have behind the binary point, where they are few, is known to everybody like how "
            "long they are, and so is how long messages are",
            f"AES-256 in counter mode is a pseudo-random generator, {keys.words} with HKDF-SHA256 a key agreement",
        ),
    )


LARGEST_LEFT, LARGEST_RIGHT = 2.0**6, 2.0**5
"""Bounds of an entry of the row that a layer multiplies, and of a gradient at its outputs."""

LARGEST_PRODUCT = 2.0**10
"""Bound of the product of two such entries of one device; with noise on rows, products of hundreds occur."""


@dataclass(frozen=True, slots=True)
class ProductRoles:
    """The machines of sums of products, one class a role; others than these are for tests, which break one of them."""

    devices: type[ProductDevices] = ProductDevices
    relays: type[ProductRelays] = ProductRelays
    silos: type[ProductSilos] = ProductSilos


HONEST = ProductRoles()


@runtime_checkable
class SumsProducts(Protocol):
    """What a scheme for members also has that sums products of their rows; see `CodedProducts` for each."""

    @property
    def helpers(self) -> Mapping[Role, int]:
        """How many parties of which role take part beside members and silos."""

    def check_serves(self, topology: Topology) -> None:
        """Raises InputError, with the reason, where it refuses a topology."""

    def products_claim(self) -> Claim:
        """What it promises of factors."""

    def product_code(self, topology: Topology, layout: ProductLayout) -> ProductCode:
        """How real factors become integers."""

    def product_machines(
        self, topology: Topology, layout: ProductLayout, session: bytes, draws: Draws, hosted: Ids | None = None
    ) -> tuple[SumMachine, ...]:
        """The machines of sums of products."""


@dataclass(frozen=True, slots=True)
class CodedProducts(RelayCoded):
    """The scheme: that of rows, with 2 T + 1 relays or more, and products.

    Attributes:
        R: relays, at least 2 T + 1; each one more lets one fail, every second one more one lie.
        left: largest magnitude of an entry of a left factor.
        right: of a right factor.
        product: of the product of two entries of one device, of a left factor and a right one; None where no more is
            known than the bounds of both.
        primes: of the fields in which products are worked out, distinct, above R and below 2^8; the first are taken, as
            many as sums ask for.
        least_bits: behind the binary point of either factor.
        product_cryptography: what is cryptographic about products, real or ideal.
        product_roles: the machines of products.
    """

    R: int = 3
    left: float = LARGEST_LEFT
    right: float = LARGEST_RIGHT
    product: float | None = LARGEST_PRODUCT
    primes: tuple[int, ...] = BELOW_2_8
    least_bits: int = LEAST_BITS
    product_cryptography: type[ProductCryptography] = attribute(default=RealProductCryptography, repr=False)
    product_roles: ProductRoles = attribute(default=HONEST, repr=False)

    label: ClassVar[str] = "coded-products"
    summary: ClassVar[str] = "sums of products of members' rows over relays, beside relay-coded sums of rows"

    def __post_init__(self) -> None:
        RelayCoded.__post_init__(self)
        least = self.relays_for(self.T)
        if least > self.R:
            raise InputError(f"R must be at least 2 T + 1 = {least}, or nobody can decode products; found {self.R}")
        check_bounds(self.left, self.right, self.product)
        distinct = set(self.primes)
        if not 0 < len(distinct) == len(self.primes) <= len(BELOW_2_8) or max(distinct) >= 2 ** (MAGNITUDE_BITS + 1):
            raise InputError(
                f"primes must be 1 to {len(BELOW_2_8)} distinct ones below 2^{MAGNITUDE_BITS + 1}; found {self.primes}"
            )
        if min(distinct) <= self.R:
            raise InputError(
                f"R must be below {min(distinct)} for coded gradients, the smallest of their primes; found {self.R}"
            )
        zero_sets(self.T, self.R)

    @classmethod
    def over(cls, scheme: RelayCoded) -> CodedProducts:
        """A relay-coded scheme with products: the same relays, or as many as these need or can have.

        What relays may know of the graph is no matter of sums for silos.
        """
        graph = ("profile", "max_degree", "small_groups", "tags")
        known = {field.name: getattr(scheme, field.name) for field in fields(RelayCoded) if field.name not in graph}
        return cls(**{**known, "R": max(min(scheme.R, min(BELOW_2_8) - 1), cls.relays_for(scheme.T))})

    @staticmethod
    def relays_for(T: int) -> int:
        """As many as determine a polynomial of degree 2 T."""
        return 2 * T + 1

    def refuses(self, topology: Topology) -> str | None:
        """None for sums for silos."""
        if topology.name != MEMBERS:
            return "relays multiply rows for silos alone"
        return RelayCoded.refuses(self, topology)

    def products_claim(self) -> Claim:
        """What it promises of factors, beside what it promises of rows."""
        return _products_claim(self.T, self.R, self.k_min, self.keys)

    def product_code(self, topology: Topology, layout: ProductLayout) -> ProductCode:
        """How real factors become integers.

        Raises:
            FieldRangeError: no fields hold such sums.
        """
        terms = topology.terms * layout.terms
        return ProductCode.for_sums(
            left=self.left,
            right=self.right,
            terms=terms,
            product=self.product,
            primes=self.primes,
            least_bits=self.least_bits,
        )

    def product_machines(
        self, topology: Topology, layout: ProductLayout, session: bytes, draws: Draws, hosted: Ids | None = None
    ) -> tuple[SumMachine, ...]:
        """The machines of sums of products.

        Args:
            topology: with its relays; every device is in one sum at most.
            layout: what is multiplied.
            session: 16 public bytes, different in every session; not used where one process hosts everybody.
            draws: coins of the parties hosted.
            hosted: int64 [k], party identifiers; all that take part unless given.

        Raises:
            InputError: the run has fewer relays than R, or a device is in several sums.
            FieldRangeError: no fields hold such sums.
        """
        g, relays = topology.grouping, topology.helpers
        if len(relays) != self.R:
            raise InputError(f"parties must include R={self.R} relays; found {len(relays)}")
        for name, owners in (("devices", g.row_owner), ("silos", g.group_owner)):
            if not (owners[1:] > owners[:-1]).all():
                raise InputError(f"{name} must be in ascending order, each with one row or sum; they are not")
        if len(np.unique(g.source)) < len(g.source):
            raise InputError("devices must be in one sum each; at least one is in several")
        code = self.product_code(topology, layout)
        result, static = code.fields_for(layout)
        plan = ProductPlan(result, static, self.T, self.R, self.k_min, layout, g, relays)
        terms = SumTerms(repr((self, layout)), topology, session, draws.batch_shape)
        crypto = self.product_cryptography(result, self.T, None if hosted is None else session, self.keys)
        roles = self.product_roles
        out: list[SumMachine] = []
        if len(devices := select_hosted(hosted, g.row_owner)):
            out.append(roles.devices(devices, terms, plan, crypto, draws))
        if len(silos := select_hosted(hosted, g.group_owner)):
            out.append(roles.silos(silos, terms, plan, self.keys.seal_bytes, draws))
        if len(here := select_hosted(hosted, relays)):
            out.append(roles.relays(here, terms, plan, crypto, draws))
        return tuple(out)


def with_products(scheme: Scheme) -> Scheme:
    """A scheme for members with products where it is relay-coded; another one as it is.

    Subclasses may have changed what products rely on.

    Raises:
        InputError: products need more relays than there can be.
    """
    return CodedProducts.over(scheme) if type(scheme) is RelayCoded else scheme
