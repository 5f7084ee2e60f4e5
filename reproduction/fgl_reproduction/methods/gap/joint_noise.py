"""Relay-coded sums with noise that the relays draw together, so that no party sees an exact sum.

1. Each relay adds up the shares of every group, as without noise.
2. It draws an integer share of noise for each coordinate, divides it by its Lagrange coefficient at 0, and adds it.
3. The receiver interpolates the sum at all R = T + 1 points: it gets the exact sum plus the R shares of noise.

A share has variance sigma^2 / (R - c) where c relays may reveal theirs. The others' shares have the calibrated sigma^2,
and a sum carries R / (R - c) times as much. A relay that drops out leaves no sum, so no sum has fewer shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fgl_secure.algebra import Elements, FixedPoint, lagrange_matrix
from fgl_secure.dp import Perturbation
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.perturbed import GridEncoding
from fgl_secure.protocols.relay_coded.relays import Relays, RelayState
from fgl_secure.protocols.relay_coded.scheme import RelayCoded
from fgl_secure.protocols.scheme import RowEncoding, Scheme, SumMachine
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Partnering, Topology
from fgl_secure.runtime import Claim, Draws, Guarantee, PublicParameters, Role, Secret, Step, Strength
from fgl_secure.typing import Array, Ids

_SPENT = "releases spent"
_MANY = 2**31
"""As many parties of a role as there are."""


@dataclass(frozen=True, slots=True)
class JointNoise(Scheme):
    """Relay-coded sums over neighbours to which relays add noise together.

    A session is a run: relays open a budget of their own, and refuse the sum that would exceed it.

    Attributes:
        inner: the scheme of the sums, with R = T + 1 and k_min = 1.
        settings: clip, grid and noise; a sum needs `settings.honest` = R - colluding shares.
        colluding: c, relays that may reveal their shares of noise, at most T.

    Raises:
        InputError: the inner scheme refuses small sums or goes on without a relay, or colluding exceeds T, or the noise
            was made for another number of shares.
    """

    inner: RelayCoded
    settings: Perturbation
    colluding: int = 1

    label: ClassVar[str] = "joint-noise"
    summary: ClassVar[str] = "relay-coded sums with noise that relays draw together"
    adds_noise: ClassVar[bool] = True
    uses_keys: ClassVar[bool] = False

    def __post_init__(self) -> None:
        inner = self.inner
        if inner.R != inner.T + 1:
            raise InputError(
                f"R must be T + 1 = {inner.T + 1} under joint noise, to which every relay adds; found {inner.R}"
            )
        if inner.k_min != 1:
            raise InputError(f"k_min must be 1 under joint noise, since a refused sum has none; found {inner.k_min}")
        if not 0 <= self.colluding <= inner.T:
            raise InputError(f"colluding must lie in 0..T = {inner.T}; found {self.colluding}")
        if self.settings.honest != inner.R - self.colluding:
            raise InputError(
                f"honest must be R - colluding = {inner.R - self.colluding} shares; found {self.settings.honest}"
            )

    @property
    def name(self) -> str:
        """The inner scheme's, with `+joint`."""
        return f"{self.inner.name}+joint"

    @property
    def public(self) -> PublicParameters:
        """The inner scheme's."""
        return self.inner.public

    @property
    def helpers(self) -> Mapping[Role, int]:
        """The inner scheme's."""
        return self.inner.helpers

    def refuses(self, topology: Topology) -> str | None:
        """What the inner scheme refuses; other rows than neighbours' pass through it without noise."""
        return self.inner.refuses(topology)

    def limit(self, terms: int) -> int | None:
        """The inner scheme's."""
        return self.inner.limit(terms)

    def fixed_point(self, terms: int) -> FixedPoint:
        """The map of clipped rows onto the grid of the noise, for sums of up to `terms` rows and all shares of noise.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """
        settings, limit = self.settings, self.inner.limit(terms)
        largest = terms * settings.grid_clip + self.inner.R * settings.noise.largest
        if largest > limit:
            raise FieldRangeError(
                f"field must hold a sum of {terms} rows with the noise of {self.inner.R} relays, {largest}; found "
                f"{limit}: take a larger field"
            )
        return FixedPoint(self.inner.field, settings.clip, settings.fraction_bits, terms)

    def adapt(self, topology: Topology) -> Scheme:
        """Itself for neighbours; the inner scheme for other sums, which get no noise."""
        return self if topology.name == NEIGHBOURS else self.inner.adapt(topology)

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """The inner scheme's: all."""
        return self.inner.answered_grouping(grouping)

    def partnering(self, grouping: Grouping) -> Partnering | None:
        """The inner scheme's."""
        return self.inner.partnering(grouping)

    def among(self, partners: Partnering) -> Scheme:
        """Around the inner scheme between such partners."""
        return replace(self, inner=self.inner.among(partners))

    def claim_for(self, topology: Topology) -> Claim:
        """The inner scheme's claim, and differential privacy of rows against receivers."""
        inner, settings, target = self.inner.claim_for(topology), self.settings, self.settings.target
        if topology.name != NEIGHBOURS:
            return inner
        statement = (
            f"({settings.epsilon(settings.honest):.3g}, {target.delta:g})-differential privacy of {target.relation} "
            f"over {target.releases} releases with rows of norm up to {settings.clip:g}, from sums with the noise of "
            f"{settings.honest} of {self.inner.R} relays"
        )
        coalition = {Role.RELAY: self.colluding, Role.SILO: _MANY, Role.DEVICE: _MANY, Role.SERVER: 1}
        guarantee = Guarantee(
            Secret.EMBEDDING, coalition, Strength.DIFFERENTIAL_PRIVACY, statement, settings.noise.source
        )
        assumptions = (
            f"all but {self.colluding} relays draw their noise as told and keep it to themselves",
            "a sum is computed only if all relays answer; if one drops out there is none",
            "rows of a device depend on its own data and on noisy sums alone",
        )
        return Claim((*inner.guarantees, guarantee), inner.leaks_by_design, inner.assumptions + assumptions)

    def encoding(self, topology: Topology) -> RowEncoding:
        """Neighbours' rows are clipped and put on the grid of the noise; see `fixed_point`."""
        if topology.name != NEIGHBOURS:
            return self.inner.encoding(topology)
        return GridEncoding(self.settings, self.fixed_point(topology.terms))

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `RelayCoded.machines`; relays add noise to neighbours' sums.

        Raises:
            InputError: rows are wider than the noise was made for, or a device sends more than the sensitivity counts.
        """
        inner, settings = self.inner, self.settings
        if topology.name != NEIGHBOURS:
            return inner.machines(topology, session, draws, hosted, names=names)
        if topology.width > settings.width:
            raise InputError(
                f"width must be at most the settings' {settings.width} coordinates; found {topology.width}"
            )
        for way in (topology.grouping, topology.grouping.reverse()):
            settings.target.relation.check(way.row_owner[way.source], way.target)
        kind: Any = NoisyRelays if inner.roles.relays is Relays else inner.roles.relays  # others are for tests
        relays: Any = partial(kind, settings=settings)
        return replace(inner, roles=replace(inner.roles, relays=relays)).machines(
            topology, session, draws, hosted, names=names
        )


class NoisyRelays(Relays):
    """Relays that add a share of noise to every sum of shares.

    Args:
        arguments: of `Relays`.
        settings: of the noise.
    """

    def __init__(self, *arguments: Any, settings: Perturbation) -> None:
        super().__init__(*arguments)
        self._settings, self._budget = settings, settings.open_budget()
        points = tuple(range(1, len(self._all_relays) + 1))
        field = self._scheme.field
        self._scales = field.inverse(lagrange_matrix(field, points, (0,))[0].astype(field.dtype))

    def begin(self, step: Step, rows: Array | None = None) -> None:
        """See `SumMachine.begin`.

        Raises:
            BudgetExhaustedError: the budget has no release left; no share is added up.
        """
        self._budget.check()
        super().begin(step, rows)
        self._budget.spend()

    def _sums(self, relay: RelayState) -> Elements:
        """The sums of shares with the relay's noise."""
        sums, field = super()._sums(relay), self._scheme.field
        noise = self._draw(relay, sums.shape[-2:])
        scaled = field.multiply(noise % field.modulus, int(self._scales[relay.party - self._all_relays[0]]))
        return field.add(sums, scaled.astype(field.dtype))

    def _draw(self, relay: RelayState, shape: tuple[int, ...]) -> Ids:
        """One relay's share of noise for all sums: int64 [*batch, groups, width]."""
        noise = self._settings.noise.sample(self._draws.coins, shape)
        owners = np.full(shape[0], relay.party)
        self._draws.note_coins("noise", owners, noise, self.now)
        return noise

    def _arrays(self) -> dict[str, Array]:
        return {**super()._arrays(), _SPENT: np.array([self._budget.spent_releases])}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._budget, spent = self._settings.open_budget(), int(arrays[_SPENT][0])
        if spent:
            self._budget.spend(spent)
