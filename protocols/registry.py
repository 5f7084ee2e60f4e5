"""All protocols by name, and the parameters that a caller may set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fgl_secure.algebra import MERSENNE_31, Overflow, PrimeField
from fgl_secure.errors import UnknownNameError
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a caller may choose about a scheme; a scheme without the parameter ignores it.

    Attributes:
        modulus: size of the field, a prime.
        T: number of masks.
        bound: largest magnitude of one value.
        fraction_bits: bits behind the binary point; None takes as many as fit.
        overflow: whether a field that is too small is refused or wraps.
        mu_delivery: who hands the coding parameters to a source.
        relays: number of relays; None takes as few as T allows.
        k_min: least messages of a sum that is computed.
        profile: what relays may know of who talks to whom.
    """

    modulus: int = MERSENNE_31
    T: int = 1
    bound: float = 16.0
    fraction_bits: int | None = None
    overflow: Overflow = Overflow.REFUSE
    mu_delivery: MuDelivery = MuDelivery.SILO
    relays: int | None = None
    k_min: int = 3
    profile: Profile = Profile.BASE


@dataclass(frozen=True, slots=True)
class Protocol:
    """One entry of the registry."""

    name: str
    summary: str
    make: Callable[[Parameters], Scheme]


def _plaintext(_: Parameters) -> Scheme:
    return Plaintext()


def _secmp(parameters: Parameters) -> Scheme:
    return SecretMessagePassing(
        PrimeField(parameters.modulus),
        parameters.T,
        parameters.bound,
        parameters.fraction_bits,
        parameters.overflow,
        parameters.mu_delivery,
    )


def _relay_coded(parameters: Parameters) -> Scheme:
    return RelayCoded(
        PrimeField(parameters.modulus),
        parameters.T,
        parameters.T + 1 if parameters.relays is None else parameters.relays,
        parameters.k_min,
        parameters.bound,
        parameters.fraction_bits,
        parameters.profile,
    )


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType({
    "plaintext": Protocol("plaintext", "every value in the clear; the oracle of correctness", _plaintext),
    "secmp": Protocol("secmp", "Secret Message Passing as HiFGL publishes it (KDD 2024)", _secmp),
    "relay-coded": Protocol("relay-coded", "message passing over relays, the repair of secmp", _relay_coded),
})  # fmt: skip


def make_scheme(name: str, parameters: Parameters) -> Scheme:
    """The scheme of a name with the given parameters."""
    if name not in PROTOCOLS:
        raise UnknownNameError("protocol", name, tuple(PROTOCOLS))
    return PROTOCOLS[name].make(parameters)
