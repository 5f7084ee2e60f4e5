"""Differentially private sums under any scheme: every message carries its own share of integer noise.

A sender clips its row, puts it on a grid, and adds a share of noise to each message that it sends, a fresh one each
time: one noisy row for all neighbours would add up to far more than its share in the sums of a coalition. The inner
scheme then sums rows that it need not round again, and its sums hold the noise of all their senders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.dp import Perturbation, grid_rows
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.grouped_sum import Scheme, Session
from fgl_secure.protocols.topology import Grouping, Ids, Reals
from fgl_secure.runtime import Channel, Claim, Direction, Guarantee, PublicParameters, Role, Secret, Step, Strength

_MANY = 2**31
"""As many parties of a role as there are."""


@dataclass(frozen=True, slots=True)
class Perturbed(Scheme):
    """Another scheme, on rows with noise.

    A session is a run: it opens a budget of its own, and refuses the sum that would exceed it.

    Attributes:
        inner: the scheme that sums the noisy rows.
        settings: clip, grid, noise and what they are to achieve.
    """

    inner: Scheme
    settings: Perturbation

    @property
    def name(self) -> str:
        """The inner scheme's, with `+dp`."""
        return f"{self.inner.name}+dp"

    @property
    def claim(self) -> Claim:
        """The inner scheme's claim, and differential privacy of embeddings and gradients."""
        inner = self.inner.claim
        assumptions = (
            "rows of a device depend on its own data and on noisy sums alone",
            "numbers of neighbours are public: an edge or a device that is left out sends zeros instead",
            "what is not a grouped sum is not covered: models, gradients of parameters, who sends to whom",
            f"of the senders of a sum at least {self.shares} draw their noise as told and keep it to themselves",
        )
        return Claim((*inner.guarantees, self._guarantee), inner.leaks_by_design, inner.assumptions + assumptions)

    @property
    def shares(self) -> int:
        """Shares of noise in the smallest thing that anybody sees: a sum, or a message that the inner scheme shows."""
        hidden = any(promise.secret is Secret.EMBEDDING for promise in self.inner.claim.guarantees)
        return min(self.settings.honest, self.inner.minimum_group) if hidden else 1

    @property
    def public(self) -> PublicParameters:
        """The inner scheme's."""
        return self.inner.public

    @property
    def minimum_group(self) -> int:
        """The inner scheme's."""
        return self.inner.minimum_group

    def gradient_scheme(self, members: int) -> Scheme | None:
        """The inner scheme's: parameter gradients are not what the noise is made for."""
        return self.inner.gradient_scheme(members)

    def fixed_point(self, terms: int) -> FixedPoint | None:
        """The inner scheme's."""
        return self.inner.fixed_point(terms)

    @property
    def relays(self) -> int:
        """The inner scheme's."""
        return self.inner.relays

    @property
    def variants(self) -> tuple[Scheme, ...]:
        """None."""
        return ()

    def open(self, channel: Channel, grouping: Grouping, width: int) -> Session:
        """Opens the inner scheme with one row a message.

        Raises:
            InputError: rows are wider than the noise was made for, somebody sends more than the cap, or the inner
                scheme would round noisy rows again.
            FieldRangeError: a noisy row may exceed the inner scheme's bound.
        """
        if width > self.settings.width:
            raise InputError(f"width must be at most the settings' {self.settings.width} coordinates; found {width}")
        for way in (grouping, grouping.reversed()):
            self.settings.target.relation.check(way.row_owner[way.source], way.target)
        encoding = self._encoding(max(grouping.largest_group, grouping.reversed().largest_group, 1))
        inner = self.inner.open(channel, PerMessage.of(grouping), width)
        return _PerturbedSession(self.settings, channel, grouping, inner, encoding)

    def _encoding(self, terms: int) -> FixedPoint | None:
        """How the inner scheme encodes rows, checked to hold noisy ones; None where it sums real numbers."""
        fixed, settings = self.inner.fixed_point(terms), self.settings
        if fixed is None:
            return None
        if fixed.fraction_bits < settings.fraction_bits:
            raise InputError(
                f"fraction_bits of the inner scheme must be at least those of the noise, {settings.fraction_bits}; "
                f"found {fixed.fraction_bits} for sums of {terms} rows of magnitude {fixed.bound:g}"
            )
        if fixed.bound < settings.largest:
            raise FieldRangeError(
                f"bound of the inner scheme must hold a clipped row and the largest noise, {settings.largest:g}; "
                f"found {fixed.bound:g}"
            )
        return fixed

    @property
    def _guarantee(self) -> Guarantee:
        settings, target = self.settings, self.settings.target
        statement = (
            f"({settings.epsilon(self.shares):.3g}, {target.delta:g})-differential privacy of {target.relation} over "
            f"{target.releases} releases with rows of norm up to {settings.clip:g}, where what is seen holds at least "
            f"{self.shares} of {settings.honest} shares of noise"
        )
        return Guarantee(
            Secret.EMBEDDING, self._coalition, Strength.DIFFERENTIAL_PRIVACY, statement, settings.noise.source
        )

    @property
    def _coalition(self) -> Mapping[Role, int]:
        """Those from whom the inner scheme hides messages; of the senders of one sum those beyond the honest ones."""
        if self.shares == 1:
            return dict.fromkeys(Role, _MANY)
        hiding = next(promise for promise in self.inner.claim.guarantees if promise.secret is Secret.EMBEDDING)
        devices = 1 + self.inner.minimum_group - self.shares
        return {**hiding.coalition, Role.DEVICE: min(hiding.coalition.get(Role.DEVICE, 0), devices)}


@dataclass(frozen=True, slots=True, eq=False)
class PerMessage(Grouping):
    """A grouping with a row of its own for every message; turned round, the messages keep their rows' numbers.

    Attributes:
        plain: the grouping whose messages these are, in the same direction.
    """

    plain: Grouping

    @classmethod
    def of(cls, plain: Grouping) -> PerMessage:
        """Row e is what message e of the plain grouping carries."""
        return cls._carrying(plain, np.arange(len(plain.source), dtype=np.int64))

    def reversed(self) -> Grouping:
        """The same messages turned round: what a row's reader sent it for becomes a row, message by message."""
        return PerMessage._carrying(self.plain.reversed(), self.source)

    @classmethod
    def _carrying(cls, plain: Grouping, messages: Ids) -> PerMessage:
        owners, custodians = plain.row_owner[plain.source], plain.row_custodian[plain.source]
        target = plain.target[messages]
        return cls(owners, plain.group_owner, messages, target, custodians, plain.group_custodian, plain)


def source_perturb(rows: Ids, source: Ids, noise: Ids) -> Ids:
    """A sender's role, for many messages at once: its row in grid units, and the noise of each message.

    Args:
        rows: int64 [n, d], clipped rows in grid units.
        source: int64 [m], the row of each message.
        noise: int64 [m, d], one share a message.

    Returns:
        int64 [m, d].
    """
    return rows[source] + noise


class _PerturbedSession(Session):
    def __init__(
        self, settings: Perturbation, channel: Channel, grouping: Grouping, inner: Session, encoding: FixedPoint | None
    ) -> None:
        self._settings, self._channel, self._inner, self._encoding = settings, channel, inner, encoding
        self._ways = {Direction.FORWARD: grouping, Direction.BACKWARD: grouping.reversed()}
        self._budget = settings.open_budget()

    def sum(self, values: Reals, step: Step) -> NDArray[np.float64]:
        """See `Session.sum`.

        Raises:
            BudgetExhaustedError: the budget has no release left; nothing was sent.
            InputError: values have another shape, are wider than the noise was made for, or are not finite.
        """
        way, settings = self._ways[step.direction], self._settings
        self._check_values(values, way)
        rows = grid_rows(values, settings.clip, settings.fraction_bits).rows
        self._budget.spend()
        # The secret is the row without noise. It is noted first: the inner scheme notes the noisy ones after it.
        self._channel.note_inputs("values", step, way.row_owner, self._as_encoded(rows))
        noise = self._draw((len(way.source), values.shape[1]), way, step)
        return self._inner.sum(source_perturb(rows, way.source, noise) * 2.0**-settings.fraction_bits, step)

    def _check_values(self, values: Reals, way: Grouping) -> None:
        if values.ndim != 2 or len(values) != len(way.row_owner):
            raise InputError(f"values must be [{len(way.row_owner)}, d]; found {list(values.shape)}")
        if values.shape[1] > self._settings.width:
            raise InputError(
                f"values must not be wider than the {self._settings.width} coordinates that the noise was made for; "
                f"found {values.shape[1]}"
            )

    def _as_encoded(self, rows: Ids) -> NDArray[Any]:
        reals = rows * 2.0**-self._settings.fraction_bits
        return reals if self._encoding is None else self._encoding.encode(reals)

    def _draw(self, shape: tuple[int, int], way: Grouping, step: Step) -> Ids:
        noise = self._settings.noise.sample(self._channel.coins, shape)
        if self._channel.recording.keeps(step):
            self._channel.note_coins("noise", way.row_owner[way.source], noise)
        return noise
