"""Differential privacy of the mean: every client clips, puts its update on a grid, and adds its share of the noise.

What rounds cost of a privacy budget is counted once each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np

from fgl_secure.aggregation.arguments import integer_of, number_of
from fgl_secure.aggregation.encoding import field_name
from fgl_secure.aggregation.layout import TensorLayout, Tree
from fgl_secure.algebra.checks import check_finite
from fgl_secure.coins import Coins
from fgl_secure.dp import (
    Budget,
    DiscreteGaussian,
    Perturbation,
    PrivacyTarget,
    Relation,
    Skellam,
    TabulatedNoise,
    Unit,
    epsilon_spent,
    rounded_at_random,
    rounded_norm,
)
from fgl_secure.dp.perturbation import RESERVED
from fgl_secure.errors import InputError, ProtocolError, UnknownNameError
from fgl_secure.typing import Integers


class NoiseKind(StrEnum):
    """How the shares of the noise are distributed, and which theorem says what their sum costs.

    Examples:
        >>> str(NoiseKind.SKELLAM)
        'skellam'
    """

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    """Sums of discrete Gaussians are no discrete Gaussian; the difference is accounted for by Theorem 1 of Kairouz,
    Liu and Steinke 2021 (ICML), per coordinate and release."""
    SKELLAM = "skellam"
    """Sums of Skellam variables are Skellam again; Theorem 3.5 of Agarwal, Kairouz and Liu 2021 (NeurIPS)."""

    @property
    def family(self) -> type[TabulatedNoise]:
        """Noise of this kind and any width."""
        return DiscreteGaussian if self is NoiseKind.DISCRETE_GAUSSIAN else Skellam


@dataclass(frozen=True, slots=True, repr=False)
class DistributedNoise:
    """What all released means together may cost, and how.

    A client's update is one vector of all its tensors. The client shortens it to the L2 norm `clip`, rounds it to a
    grid at random (`rounded_at_random`), anew where that would lengthen it beyond a limit that is accounted for, and
    adds integer noise of variance sigma^2 / (threshold - colluding). A sum has at least `threshold` vectors, of whose
    noise `colluding` clients know their own: what is left has variance sigma^2 or more.

    Neighbouring inputs differ in one client's update, present or all zero; who takes part is public. For an update that
    is another one the same noise has a larger epsilon (`Perturbation.replacing_epsilon`). Clipping is part
    of the mechanism and moves the mean where updates are longer than the clip: average differences from the last model
    rather than models. Weights would make one client count for several, so there are none.

    Attributes:
        clip: C, the L2 norm of an update, in its own unit.
        epsilon: of all rounds together.
        delta: of all rounds together.
        rounds: how many means are released at most.
        kind: of the noise.
        colluding: clients that may tell the server their share of the noise.

    Examples:
        noise = DistributedNoise(clip=1.0, epsilon=4.0, delta=1e-5, rounds=50, kind=NoiseKind.SKELLAM)
    """

    clip: float
    epsilon: float
    delta: float
    rounds: int
    kind: NoiseKind = NoiseKind.DISCRETE_GAUSSIAN
    colluding: int = 0

    def __post_init__(self) -> None:
        for name in ("clip", "epsilon", "delta"):
            object.__setattr__(self, name, number_of(getattr(self, name), name))
        for name in ("rounds", "colluding"):
            object.__setattr__(self, name, integer_of(getattr(self, name), name))
        if self.kind not in tuple(NoiseKind):
            raise UnknownNameError("kind", str(self.kind), tuple(NoiseKind))
        object.__setattr__(self, "kind", NoiseKind(self.kind))
        if not (math.isfinite(self.clip) and self.clip > 0):
            raise InputError(f"clip must be a positive number; found {self.clip}")
        if self.colluding < 0:
            raise InputError(f"colluding must not be negative; found {self.colluding}")
        _ = self.target

    def __repr__(self) -> str:
        of = f"clip={self.clip:g}, kind={self.kind}, colluding={self.colluding}"
        return f"DistributedNoise({self.target}; {of})"

    @classmethod
    def of_multiplier(
        cls,
        noise_multiplier: float,
        *,
        clip: float,
        delta: float,
        rounds: int,
        kind: NoiseKind = NoiseKind.DISCRETE_GAUSSIAN,
        colluding: int = 0,
    ) -> DistributedNoise:
        """With the epsilon that Gaussian noise of sigma = noise_multiplier * norm costs over these rounds at delta.

        The norm is that of a rounded update, a little beyond the clip.

        Skellam noise gets what it needs for the same epsilon, which is a little more.
        """
        epsilon = epsilon_spent(noise_multiplier, rounds, delta * (1 - RESERVED))
        return cls(clip, epsilon, delta, rounds, kind, colluding)

    @property
    def target(self) -> PrivacyTarget:
        """What the rounds may cost."""
        return PrivacyTarget(self.epsilon, self.delta, Relation(Unit.CLIENT), self.rounds)

    def perturbation(self, width: int, threshold: int) -> Perturbation:
        """Grid, sensitivity and noise of one share, for vectors [width] of which a sum has at least `threshold`.

        Its `clip` is the norm of rounded updates, which depends on the grid, as the grid does on it: they are found in
        turns, from the clip before rounding on. Each turn makes the norm larger and the grid coarser, or ends.

        Raises:
            InputError: all clients that a sum must have may collude, or no grid holds the noise that is needed.
        """
        honest = threshold - self.colluding
        if honest < 1:
            raise InputError(f"colluding must be below the threshold {threshold}; found {self.colluding}")
        norm, bits = self.clip, -1
        while True:
            result = Perturbation.calibrate(self.target, clip=norm, width=width, honest=honest, family=self.kind.family)
            if result.fraction_bits == bits:
                return result
            bits = result.fraction_bits
            norm = rounded_norm(self.clip, width, bits) * 2.0**-bits


@dataclass(frozen=True, slots=True)
class NoisyEncoding:
    """Clipped updates on a grid with a share of the noise, and a 1 for every client, since who takes part is public.

    Attributes:
        layout: of the mappings; floats only.
        noise: what was asked for.
        perturbation: grid, norm of rounded updates, and noise.
        coins: of the client, for its noise; None where vectors are only decoded.
    """

    layout: TensorLayout
    noise: DistributedNoise
    perturbation: Perturbation
    coins: Coins | None = None

    def __post_init__(self) -> None:
        other = next((entry for entry in self.layout.entries if not entry.is_float), None)
        if other is not None:
            raise InputError(
                f"tensors must be of floats under privacy, for noise makes no integers; found {other.dtype} under "
                f"{other.name!r}: leave the key out, or make it a float tensor"
            )

    @property
    def bounds(self) -> Mapping[str, float]:
        """None: the clip bounds an update, and not each number."""
        return {}

    @property
    def units(self) -> Mapping[str, float]:
        """That of the grid."""
        unit = math.ldexp(1.0, -self.perturbation.fraction_bits)
        return dict.fromkeys((entry.name for entry in self.layout.entries), unit)

    @property
    def width(self) -> int:
        """P + 1."""
        return self.layout.size + 1

    def weight(self, total: Integers) -> int:
        """How many clients are in the sum."""
        return int(total[-1])

    @property
    def bound(self) -> int:
        """Largest magnitude of an entry: the clip's and the noise's."""
        return self.perturbation.grid_clip + self.perturbation.noise.largest

    def encode(self, mapping: Tree, weight: float = 1) -> Integers:
        """The noisy vector of a mapping, int64 [P + 1], the last entry 1; with fresh noise each time.

        Raises:
            InputError: another layout, NaN or infinity (names the key), or a weight other than 1.
        """
        if weight != 1:
            raise InputError("weights must all be 1 under privacy, or one client counts for several; one is not")
        if self.coins is None:
            raise InputError("coins must be given where noise is added; found none")
        reals = self.layout.flatten(mapping)
        for entry, place in self.layout.places():
            check_finite(reals[place], field_name(entry))
        perturbation = self.perturbation
        units = rounded_at_random(
            reals, self.noise.clip, perturbation.grid_clip, perturbation.fraction_bits, self.coins
        )
        noise = perturbation.noise.sample(self.coins, units.shape)
        return np.append(units + noise, 1)

    def decode(self, total: Integers) -> Any:
        """The noisy mean over the clients that are in the sum."""
        clients = int(total[-1])
        if clients < 1:
            raise ProtocolError(f"sum must be over at least one client; found {clients}")
        return self.layout.unflatten(np.ldexp(total[:-1] / clients, -self.perturbation.fraction_bits))

    def errors(self, total: Integers, clients: int) -> dict[str, float]:  # noqa: ARG002  # noise has no bound
        """Infinite: noise has no bound. `deviation` has its width."""
        return {entry.name: math.inf for entry in self.layout.entries}

    def deviation(self, clients: int) -> float:
        """Standard deviation of the noise of an entry of the mean over so many clients, in the updates' unit."""
        return self.perturbation.sigma * math.sqrt(clients / self.perturbation.honest) / clients


@lru_cache(maxsize=16)
def perturbation_for(noise: DistributedNoise, width: int, threshold: int) -> Perturbation:
    """See `DistributedNoise.perturbation`; each client of a round asks for it."""
    return noise.perturbation(width, threshold)


class EpsilonLedger:
    """Counts each round once, for the server and one client in this process.

    Two clients of a round that have the same data shift its sum twice as far as the noise was made for. So a second
    client is refused: clients with data of their own have ledgers of their own.

    Args:
        noise: and what all rounds may cost; None without privacy, where no round is spent.
        threshold: least clients of a sum.
    """

    def __init__(self, noise: DistributedNoise | None, threshold: int) -> None:
        self._noise, self._threshold = noise, threshold
        self._budget: Budget | None = None
        self._size: int | None = None
        self._earlier = 0
        self._rounds: dict[tuple[bytes, int], int | None] = {}

    @property
    def rounds(self) -> int:
        """Rounds counted, those of a life before included."""
        return self._earlier if self._budget is None else self._budget.spent_releases

    @property
    def epsilon(self) -> float | None:
        """What they cost at the target's delta; None without privacy."""
        if self._noise is None:
            return None
        if self._budget is None and self._earlier:
            raise InputError("spent must be asked for after the first round of a resumed process, which tells the size")
        return 0.0 if self._budget is None else self._budget.epsilon_spent

    def resume(self, rounds: int) -> None:
        """Counts the rounds that an earlier process took part in; wanted before the first round of this one."""
        if rounds < 0 or self._rounds or self._earlier:
            raise InputError(f"rounds must be resumed once, before the first, and be at least 0; found {rounds}")
        self._earlier = rounds

    def spend(self, layout: TensorLayout, session: bytes, number: int, client: int | None = None) -> None:
        """Counts a round under privacy that is about to be made.

        Args:
            layout: of the mappings.
            session: of the round.
            number: of the round.
            client: who takes part in it; None for the server, and where all clients are simulated at once.

        Raises:
            BudgetExhaustedError: it does not fit; then nothing may be released.
            InputError: mappings have another size than before, for which the noise was not made, or another client has
                taken part in this round.
        """
        assert self._noise is not None, "rounds without privacy cost nothing"
        now = session, number
        other = self._rounds.get(now)
        if client is not None and other not in (None, client):
            raise InputError(
                f"clients of a round under privacy must each have an aggregator of their own; found client {client} "
                f"beside client {other}"
            )
        if now in self._rounds:
            self._rounds[now] = other if client is None else client
            return
        if self._size not in (None, layout.size):
            raise InputError(f"mappings must keep their size under privacy, {self._size}; found {layout.size}")
        if self._budget is None:
            budget = perturbation_for(self._noise, layout.size, self._threshold).open_budget()
            budget.spend(self._earlier)
            self._budget, self._size = budget, layout.size
        self._budget.spend()
        self._rounds[now] = client
