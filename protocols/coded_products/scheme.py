"""Relay-coded sums of members' rows, and of products of two rows: how devices hand over gradients of a layer.

A device's gradient of a weight matrix is the outer product of its input row and of a gradient at the outputs. Instead
of the d h numbers of the matrix it shares the d + h of both rows; relays multiply what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as attribute
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra.residues import BELOW_2_8
from fgl_secure.algebra.residues import MOST_BITS as MAGNITUDE_BITS
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.coded_products.code import zero_sets
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.coded_products.encoding import (
    LEAST_BITS,
    EncodedFactors,
    FactorParts,
    ProductCode,
    check_bounds,
)
from fgl_secure.protocols.coded_products.parties import ProductDevices, ProductSilos
from fgl_secure.protocols.coded_products.plan import ProductLayout, ProductPlan
from fgl_secure.protocols.coded_products.relays import ProductRelays
from fgl_secure.protocols.relay_coded import RelayCoded, wire
from fgl_secure.protocols.scheme import Scheme, SumMachine, UniformField, select_hosted
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.protocols.topology import MEMBERS, Topology
from fgl_secure.runtime import (
    Channel,
    Circumstance,
    Claim,
    Draws,
    Guarantee,
    Leak,
    Phase,
    Role,
    Secret,
    Step,
    Strength,
    simulate,
)
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import SECRETS
from fgl_secure.typing import Ids, Integers

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
    product_cryptography: type[ProductCryptography] = attribute(default=ProductCryptography, repr=False)
    product_roles: ProductRoles = attribute(default=HONEST, repr=False)

    label: ClassVar[str] = "coded-products"
    summary: ClassVar[str] = "sums of products of members' rows over relays, beside relay-coded sums of rows"

    def __post_init__(self) -> None:
        RelayCoded.__post_init__(self)
        least = self.relays_for(self.T)
        if least > self.R:
            raise InputError(f"R must be at least 2 T + 1 = {least}, or no silo can decode products; found {self.R}")
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
        graph = ("profile", "max_degree", "small_groups", "reopen_every")
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

    def uniform_fields(self, topology: Topology) -> tuple[UniformField, ...]:
        """Shares of factors and of products as well, a field for each prime."""
        both = ((Phase.FACTOR_SHARES, wire.SHARE), (Phase.PRODUCT_SHARES, wire.SUM))
        products = (
            UniformField(phase, f"{name} {place}", prime)
            for phase, name in both
            for place, prime in enumerate(self.primes)
        )
        return (*RelayCoded.uniform_fields(self, topology), *products)

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
            session: 16 public bytes, different in every session; not used where one process hosts all parties.
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
            out.append(roles.silos(silos, terms, plan, draws))
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


Floats = NDArray[np.floating]


class ProductCollective:
    """Sums over members of products of their rows, under one scheme.

    Args:
        scheme: how they are computed.
        topology: of members.
        layout: what is multiplied.
        channel: between all parties; carries and records the messages, and gives the coins.

    Attributes:
        code: how real factors become integers; `ProductCode.of` is that of each product.
        shared: whether static factors were shared, by a step before.

    Raises:
        InputError: the scheme does not fit the parties of the channel.
        FieldRangeError: no fields hold the sums.
    """

    def __init__(self, scheme: SumsProducts, topology: Topology, layout: ProductLayout, channel: Channel) -> None:
        scheme.check_serves(topology)
        relays = channel.parties.ids(Role.RELAY)[: scheme.helpers[Role.RELAY]]
        topology = replace(topology, helpers=relays)
        self._topology, self._layout, self._channel = topology, layout, channel
        self.code: ProductCode = scheme.product_code(topology, layout)
        self._machines = scheme.product_machines(topology, layout, bytes(SESSION_BYTES), channel)
        self._static: dict[int, bytes] = {}
        self._largest: dict[int, NDArray[np.float64]] = {}
        self.shared = False

    def sum(
        self, lefts: Sequence[Floats | FactorParts | None], rights: Sequence[Floats | FactorParts], step: Step
    ) -> list[NDArray[np.float64]]:
        """Computes the sums of one step.

        Args:
            lefts: for each product float [terms, n, height], in the order of the topology's rows, whole or in parts;
                None for a static one that was shared.
            rights: for each product float [terms, n, width].
            step: when; no two sums may have the same.

        Returns:
            For each product float64 [g, height, width]; zero where a sum is not computed.

        Raises:
            InputError: a factor has another shape, or changed where it is static.
            FieldRangeError: an entry, or the product of two of one device, is beyond its bound; nothing was sent.
            ProtocolError: the step was summed before, too few relays answer, or more of them lie than can be told.
        """
        one, other = (
            [None if left is None else _in_parts(left) for left in lefts],
            [_in_parts(right) for right in rights],
        )
        static = self._check(one, other)
        rows = EncodedFactors(self.code, self._layout, one, other, static=not self.shared, shared=self._largest)
        result = self._sum(rows, step, static, rows.largest_lefts)
        sums = zip(self._layout.products, self._layout.split(result), strict=True)
        return [self.code.of(product).decode(item) for product, item in sums]

    def sum_units(self, lefts: Sequence[Integers | None], rights: Sequence[Integers], step: Step) -> Integers:
        """The same of integers [terms, n, height or width], int64 or int32: int64 [*tapes, g, entries].

        Args:
            lefts: None for a static one that was shared before.
            rights: all of them.
            step: when.

        Raises:
            InputError: a left factor is missing.
            FieldRangeError: one, or the product of two of one device, is larger than the code has any.
        """
        for n, left in enumerate(lefts):
            if left is None and n not in self._largest:
                raise InputError(f"left factors must be given until they are shared; found none in product {n}")
        # of static ones those that were shared are multiplied, whatever is given
        ones = [_largest_units(left) if left is not None and n not in self._largest else self._largest[n]
                for n, left in enumerate(lefts)]  # fmt: skip
        others = [_largest_units(right) for right in rights]
        for n, (product, one, other) in enumerate(zip(self._layout.products, ones, others, strict=True)):
            code = self.code.of(product)
            for side, quantizer, item in zip(("left", "right"), (code.left, code.right), (one, other), strict=True):
                result = int(item.max(initial=0))
                if result > quantizer.largest:
                    raise FieldRangeError(f"{side} factors must not exceed {quantizer.largest} units; found {result}")
            code.check_products(one, other, n)
        return self._sum(self._layout.rows(lefts, rights, static=not self.shared), step, {}, ones)

    def _sum(
        self,
        rows: Integers | EncodedFactors,
        step: Step,
        static: Mapping[int, bytes],
        largest: Sequence[NDArray[np.float64]],
    ) -> Integers:
        """Sums what devices share; digests and largest magnitudes of static factors are kept with what is shared."""
        if self._channel.recording.keeps(step):
            self._channel.note_inputs(SECRETS, step, self._topology.grouping.row_owner, np.asarray(rows))
        for machine in self._machines:
            if isinstance(machine, ProductDevices):
                machine.begin(step, rows)
            else:
                machine.begin(step)
        del rows
        if not self.shared:
            self._largest = {n: item for n, item in enumerate(largest) if self._layout.products[n].static}
        self.shared, self._static = True, {**self._static, **static}
        simulate(self._machines, self._channel)
        (silos,) = (machine for machine in self._machines if isinstance(machine, ProductSilos))
        assert silos.sums is not None, "it is left with sums, or without a way on"
        return silos.sums

    def _check(self, lefts: Sequence[FactorParts | None], rights: Sequence[FactorParts]) -> dict[int, bytes]:
        """Raises unless factors are as they must be; digests of static ones that are given, by product."""
        rows, digests = len(self._topology.grouping.row_owner), dict[int, bytes]()
        for n, (product, left, right) in enumerate(zip(self._layout.products, lefts, rights, strict=True)):
            for side, result, width in (("left", left, product.height), ("right", right, product.width)):
                known = result is None and product.static and self.shared
                if not known and (result is None or result.shape != (product.terms, rows, width)):
                    shape = None if result is None else list(result.shape)
                    raise InputError(
                        f"{side} factors must be {[product.terms, rows, width]}; found {shape} in product {n}"
                    )
            if product.static and left is not None:
                digests[n] = left.digest()
                if self._static.get(n, digests[n]) != digests[n]:
                    raise InputError(f"left factors of product {n} must be the same in every step; they have changed")
        return digests


def _in_parts(factor: Floats | FactorParts) -> FactorParts:
    return factor if isinstance(factor, FactorParts) else FactorParts((factor,))


def _largest_units(factor: Integers) -> NDArray[np.float64]:
    """Float64 [n], the largest magnitude of each device's integers [terms, n, d]."""
    least, most = factor.min(axis=(0, 2)), factor.max(axis=(0, 2))
    units = np.maximum(most.astype(np.float64), -least.astype(np.float64))  # the least int32 has no counterpart
    return np.asarray(units)
