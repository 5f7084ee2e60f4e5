"""Fresh-mask sharing and its mutations: one protocol whose flaws are parameters.

Devices share their secrets to relays by polynomials of degree T (Shamir), once for each step and target. What a mask
is drawn from, the relays' points, the degree and who gets which share are the places where a protocol goes wrong.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31, PrimeField
from fgl_secure.crypto.streams import FieldStream
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.testing import Protocol

Ints = NDArray[np.int64]
Inputs = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a run is.

    Attributes:
        p: size of the field.
        T: relays that may collude.
        senders: devices that share.
        targets: shares for how many targets each sends in one step.
        rounds: training rounds.
        layers: layers in each round.
        width: elements of one secret.
    """

    p: int = MERSENNE_31
    T: int = 1
    senders: int = 1
    targets: int = 1
    rounds: int = 1
    layers: int = 1
    width: int = 1

    @property
    def steps(self) -> tuple[Step, ...]:
        """Rounds and layers in order."""
        return tuple(Step(r, layer) for r in range(self.rounds) for layer in range(self.layers))

    @property
    def masks(self) -> tuple[int, ...]:
        """Shape of all masks of a run: [senders, rounds, layers, targets, T, width]."""
        return (self.senders, self.rounds, self.layers, self.targets, self.T, self.width)

    @property
    def parties(self) -> Directory:
        """Devices that send, and T + 1 relays (silos)."""
        return Directory({Role.DEVICE: self.senders, Role.SILO: self.T + 1})

    @property
    def colluders(self) -> tuple[Party, ...]:
        """The first T relays."""
        return tuple(Party(Role.SILO, relay) for relay in range(self.T))

    def inputs(self, *secrets: int) -> Ints:
        """Secrets of all senders, steps and targets in order, padded with zeros."""
        out = np.zeros((self.senders, self.rounds, self.layers, self.targets, self.width), dtype=np.int64)
        out.reshape(-1)[: len(secrets)] = secrets
        return out


Masks = Callable[[Channel, Shape], Ints]
"""Draws all masks of a run, [*batch, *shape.masks]."""


def fresh(channel: Channel, shape: Shape) -> Ints:
    """As it should be: a mask of its own for everything."""
    return channel.draw("masks", np.arange(shape.senders), shape.p, shape.masks[1:])


def shared_across(axis: int) -> Masks:
    """One mask for all senders (0), rounds (1), layers (2) or targets (3)."""

    def masks(channel: Channel, shape: Shape) -> Ints:
        size = tuple(1 if number == axis else count for number, count in enumerate(shape.masks))
        drawn = channel.coins.uniform(shape.p, size)
        return np.broadcast_to(drawn, (*channel.batch_shape, *shape.masks))

    return masks


def short_range(channel: Channel, shape: Shape) -> Ints:
    """The first of the T masks misses the largest element."""
    first = channel.coins.uniform(shape.p - 1, (*shape.masks[:4], 1, shape.width))
    others = channel.coins.uniform(shape.p, (*shape.masks[:4], shape.T - 1, shape.width))
    return np.concatenate([first, others], axis=-2)


def remainder_of(bits: int) -> Masks:
    """Words of some bits modulo p."""

    def masks(channel: Channel, shape: Shape) -> Ints:
        return channel.coins.uniform(2**bits, shape.masks) % shape.p

    return masks


def from_context(*named: int) -> Masks:
    """An ideal generator whose seed names these of sender (0), round (1), layer (2) and target tag (3), no others."""

    def masks(channel: Channel, shape: Shape) -> Ints:
        contexts = np.stack([np.indices(shape.masks[:4])[axis].reshape(-1) for axis in named], axis=1)
        seeds, seed = np.unique(contexts, axis=0, return_inverse=True)
        table = channel.coins.uniform(shape.p, (len(seeds), *shape.masks[4:]))
        drawn = np.take(table, seed, axis=len(channel.batch_shape))
        return drawn.reshape(*channel.batch_shape, *shape.masks)

    return masks


def expanded(seeds: int) -> Masks:
    """A stream cipher whose seed is one of few: a key folded to 32 bits, scaled down with the field."""

    def masks(channel: Channel, shape: Shape) -> Ints:
        count = int(np.prod(shape.masks))
        keys = [hashlib.sha256(b"seed %d" % seed).digest() for seed in range(seeds)]
        table = np.stack([FieldStream(key).uniform(shape.p, count) for key in keys])
        seed = channel.coins.uniform(seeds, ())
        return table[seed].reshape(*channel.batch_shape, *shape.masks)

    return masks


def guessable(channel: Channel, shape: Shape) -> Ints:
    """A generator that is no cipher, seeded by what everybody knows: the number of the session."""
    drawn = np.random.default_rng(1).integers(0, shape.p, shape.masks)
    return np.broadcast_to(drawn, (*channel.batch_shape, *shape.masks))


@dataclass(frozen=True, slots=True)
class Sharing:
    """Fresh-mask sharing, or a mutation of it.

    Attributes:
        shape: how large.
        masks: where masks come from.
        degree: of the polynomials; T unless mutated.
        first_alpha: point of the first relay; 0 is beta_1, where the secret lies.
        extra_share: whether the first relay gets the last relay's share as well.
        extra_mask: whether the first relay is told the masks, as holders of mu are.
    """

    shape: Shape
    masks: Masks = fresh
    lower_degree: bool = False
    first_alpha: int = 1
    extra_share: bool = False
    extra_mask: bool = False
    name: str = field(default="sharing", compare=False)

    @property
    def protocol(self) -> Protocol:
        """As the kit takes it."""
        owners = np.arange(self.shape.senders)
        return Protocol(self.run, self.shape.parties, self.shape.p, owners, name=self.name)

    def run(self, inputs: Inputs, channel: Channel) -> None:
        """Every sender sends one share of each secret to each relay."""
        masks = self.masks(channel, self.shape)
        shares = self.shares(inputs, masks[..., :-1, :] if self.lower_degree else masks)
        relays = channel.parties.ids(Role.SILO)
        for number, step in enumerate(self.shape.steps):
            at = divmod(number, self.shape.layers)
            for relay, receiver in enumerate(relays):
                self._send(channel, step, receiver, shares[relay][..., at[0], at[1], :, :])
            if self.extra_share:
                self._send(channel, step, relays[0], shares[-1][..., at[0], at[1], :, :])
            if self.extra_mask:
                self._send(channel, step, relays[0], masks[..., at[0], at[1], :, 0, :])

    def shares(self, secrets: Inputs, masks: Ints) -> list[Ints]:
        """One array [*batch, senders, rounds, layers, targets, width] a relay: h + z_1 alpha + z_2 alpha^2 + ..."""
        field, shares = PrimeField(self.shape.p), []
        for alpha in (self.first_alpha, *range(2, self.shape.T + 2)):
            share = np.broadcast_to(secrets, masks.shape[:-2] + masks.shape[-1:]).astype(field.dtype)
            for j in range(masks.shape[-2]):
                power = pow(alpha, j + 1, self.shape.p)
                share = field.add(share, field.multiply(masks[..., j, :], power))
            shares.append(share)
        return shares

    def _send(self, channel: Channel, step: Step, receiver: int, payload: Ints) -> None:
        senders = channel.parties.ids(Role.DEVICE)
        channel.send(Phase.CODES, step, senders, np.full(len(senders), receiver), payload)


def mutated(shape: Shape, name: str, **changes: Any) -> Sharing:
    """The sharing of that shape with a flaw."""
    return replace(Sharing(shape), name=name, **changes)
