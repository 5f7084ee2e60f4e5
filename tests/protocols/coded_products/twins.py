"""Coded products with one flaw at a time: other cryptography, or another machine, given to the scheme."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fgl_secure.algebra.residues import Residues, Words, residues
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.coded_products.code import zero_sets
from fgl_secure.protocols.coded_products.cryptography import ProductCryptography
from fgl_secure.protocols.coded_products.relays import ProductRelays, RelayState
from fgl_secure.protocols.relay_coded.cryptography import Keys
from fgl_secure.runtime import Draws, Step
from fgl_secure.typing import Ids, Integers
from tests.protocols.coded_products.ideal import IdealProductCryptography

Twin = Callable[[CodedProducts], CodedProducts]
Streams = list[tuple[Integers, Words]]


def under(cryptography: type[Any]) -> Twin:
    """The scheme under another cryptography of products."""
    return lambda scheme: replace(scheme, product_cryptography=cryptography)


def with_relays(relays: type[ProductRelays]) -> Twin:
    """The scheme with other relays."""
    return lambda scheme: replace(scheme, product_roles=replace(scheme.product_roles, relays=relays))


class NoZero(ProductRelays):
    """Relays that add no share of zero to what they multiply."""

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> Streams:
        super().zeros(relay, group, digest)
        return []


class LowZero(ProductRelays):
    """Shares of zero on polynomials of degree T, where products are of degree 2 T."""

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> Streams:
        plan = self._plan
        members = plan.relays[list(zero_sets(plan.T, plan.R)[0])]
        count = plan.layout.entries
        (streams,) = self._crypto.streams(self._draws, self._set_keys[:1], [members], self.now, group, digest, count)
        return [(self.power(relay, number + 1), stream) for number, stream in enumerate(streams)]

    def power(self, relay: RelayState, degree: int) -> Integers:
        """Of the relay's point, in each field."""
        return np.array([pow(relay.place + 1, degree, field.modulus) for field in self._plan.fields])


class UniformZero(ProductRelays):
    """No flaw: shares of zero as an ideal functionality draws them, 2 T coins an entry where sets of relays draw more.

    What tests of the code prove is that to any T relays the streams of sets look like this.
    """

    _drawn: dict[Any, list[Words]]

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> Streams:  # noqa: ARG002  # all hold the same
        plan, kept, name = self._plan, self.__dict__.setdefault("_drawn", {}), (self.now, group)
        if name not in kept:
            shape, product = (plan.layout.entries,), math.prod(field.modulus for field in plan.fields)
            kept[name] = [self._draws.coins.uniform(product, shape) for _ in range(2 * plan.T)]
        points = [[pow(relay.place + 1, degree + 1, f.modulus) for f in plan.fields] for degree in range(2 * plan.T)]
        out = [(np.array(weights), stream) for weights, stream in zip(points, kept[name], strict=True)]
        for place, field in enumerate(plan.fields):
            own = sum(weights[place] * stream for weights, stream in out) % field.modulus
            self._draws.note_secrets("share of zero", self.parties[[relay.place]], own[..., None, :], self.now)
        return out


class OneMaskForBothRows(IdealProductCryptography):
    """One mask for the numbers of a device's rows."""

    def masks(
        self, draws: Draws, step: Step, devices: Ids, width: int, keys: Keys | None, *, once: bool
    ) -> list[Words]:
        found = super().masks(draws, step, devices, 1, keys, once=once)
        return [np.repeat(mask, width, axis=-1) for mask in found]


class OneMaskForAllDevices(IdealProductCryptography):
    """One mask for the rows of all devices."""

    def masks(
        self, draws: Draws, step: Step, devices: Ids, width: int, keys: Keys | None, *, once: bool
    ) -> list[Words]:
        found = super().masks(draws, step, devices[:1], width, keys, once=once)
        return [np.repeat(mask, len(devices), axis=-2) for mask in found]


class MasksKept(IdealProductCryptography):
    """Masks that are those of the first step in all later ones."""

    _kept: dict[bool, list[Words]]

    def masks(
        self, draws: Draws, step: Step, devices: Ids, width: int, keys: Keys | None, *, once: bool
    ) -> list[Words]:
        kept = self.__dict__.setdefault("_kept", {})
        if once not in kept:
            kept[once] = super().masks(draws, step, devices, width, keys, once=once)
        found: list[Words] = kept[once]
        return found


class ZeroKept(UniformZero):
    """Shares of zero that are those of the first step in all later ones."""

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> Streams:
        step, self._step = self._step, Step(0)
        try:
            return super().zeros(relay, group, digest)
        finally:
            self._step = step


class NoRoundInMasks(ProductCryptography):
    """Masks from streams whose nonce lacks the round."""

    def nonce(self, step: Step, *, once: bool) -> bytes:
        return super().nonce(replace(step, round=0), once=once)


class SmallSumsAnswered(ProductRelays):
    """Relays that answer for any number of devices."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        object.__setattr__(self, "_plan", replace(self._plan, k_min=1))


def lying(*places: int) -> type[ProductRelays]:
    """Relays of which some add one to the first entry of what they answer."""

    class Lying(ProductRelays):
        def _product(self, relay: RelayState, group: int, rows: Ids, digest: Ids) -> Residues:
            found = super()._product(relay, group, rows, digest)
            if relay.place in places:
                for field, each in zip(self._plan.fields, found, strict=True):
                    (each[..., 0],) = residues([field], each[..., 0].astype(np.int64) + 1 + relay.place)
            return found

    return Lying
