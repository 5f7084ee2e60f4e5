"""Differentially private sums under any scheme: every message carries its own share of integer noise.

A sender clips its row, puts it on a grid, and adds a share of noise to each message that it sends, a fresh one each
time: one noisy row for all neighbours would add up to far more than its share in the sums of a coalition. The inner
scheme then sums rows that it need not round again, and its sums hold the noise of all their senders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint
from fgl_secure.dp import Perturbation, grid_rows
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.scheme import RowEncoding, Scheme, SumMachine, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import (
    Claim,
    Direction,
    Draws,
    Guarantee,
    Messages,
    PublicParameters,
    Role,
    Secret,
    Step,
    Strength,
)
from fgl_secure.typing import Ids

_MANY = 2**31
"""As many parties of a role as there are."""
_SPENT = "releases spent"


@dataclass(frozen=True, slots=True)
class PerturbedScheme(Scheme):
    """Another scheme, on rows with noise.

    A session is a run: it opens a budget of its own, and refuses the sum that would exceed it.

    Attributes:
        inner: the scheme that sums the noisy rows.
        settings: clip, grid, noise and what they are to achieve.
    """

    inner: Scheme
    settings: Perturbation

    label: ClassVar[str] = "dp"
    summary: ClassVar[str] = "noise on neighbours' rows, under any scheme"
    adds_noise: ClassVar[bool] = True

    @property
    def uses_keys(self) -> bool:  # type: ignore[override]  # as the inner scheme is
        """The inner scheme's."""
        return self.inner.uses_keys

    @property
    def name(self) -> str:
        """The inner scheme's, with `+dp`."""
        return f"{self.inner.name}+dp"

    @property
    def public(self) -> PublicParameters:
        """The inner scheme's."""
        return self.inner.public

    def refuses(self, topology: Topology) -> str | None:
        """What the inner scheme refuses; other rows than neighbours' pass through it without noise."""
        return self.inner.refuses(topology)

    def claim_for(self, topology: Topology) -> Claim:
        """The inner scheme's claim, and differential privacy of embeddings and gradients of neighbours."""
        inner = self.inner.claim_for(topology)
        if topology.name != NEIGHBOURS:
            return inner
        assumptions = (
            "rows of a device depend on its own data and on noisy sums alone",
            "numbers of neighbours are public: an edge or a device that is left out sends zeros instead",
            "what is not a grouped sum is not covered: models, gradients of parameters, who sends to whom",
            f"of the senders of a sum at least {self.shares} draw their noise as told and keep it to themselves",
        )
        return Claim((*inner.guarantees, self._guarantee), inner.leaks_by_design, inner.assumptions + assumptions)

    @property
    def shares(self) -> int:
        """Shares of noise in the smallest thing that a party sees: a sum, or a message of the inner scheme."""
        return min(self.settings.honest, hidden_messages(self.inner))

    def limit(self, terms: int) -> int | None:
        """The inner scheme's."""
        return self.inner.limit(terms)

    def fixed_point(self, terms: int) -> FixedPoint | None:
        """The inner scheme's."""
        return self.inner.fixed_point(terms)

    def adapt(self, topology: Topology) -> Scheme:
        """Around the inner scheme as it fits the topology; where no noise is added, that one alone."""
        inner = self.inner.adapt(topology)
        return replace(self, inner=inner) if topology.name == NEIGHBOURS else inner

    def encoding(self, topology: Topology) -> RowEncoding | None:
        """Neighbours' rows are clipped and put on the grid, and then written as the inner scheme does.

        Raises:
            InputError: the inner scheme would round noisy rows again.
            FieldRangeError: a noisy row may exceed the inner scheme's bound.
        """
        if topology.name != NEIGHBOURS:
            return self.inner.encoding(topology)
        return GridEncoding(self.settings, self._encoding(topology.terms))

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """The inner scheme's."""
        return self.inner.answered_grouping(grouping)

    def require_all(self, senders: int) -> Scheme:
        """Around the inner scheme for sums that all senders are in."""
        return replace(self, inner=self.inner.require_all(senders))

    @property
    def helpers(self) -> Mapping[Role, int]:
        """The inner scheme's."""
        return self.inner.helpers

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """The inner scheme's machines for one row a message; a party that sends rows adds noise as a step begins.

        Raises:
            InputError: rows are wider than the noise was made for, a party sends more than the cap, or the inner
                scheme would round noisy rows again.
            FieldRangeError: a noisy row may exceed the inner scheme's bound.
        """
        if topology.name != NEIGHBOURS:
            return self.adapt(topology).machines(topology, session, draws, hosted, names=names)
        plain, settings = topology.grouping, self.settings
        if topology.width > settings.width:
            raise InputError(
                f"width must be at most the settings' {settings.width} coordinates; found {topology.width}"
            )
        for way in (plain, plain.reverse()):
            settings.target.relation.check(way.row_owner[way.source], way.target)
        encoding, apart = self._encoding(topology.terms), replace(topology, grouping=_PerMessage.of(plain))
        inner = self.inner.machines(apart, session, draws, hosted, names=names)
        return tuple(Noisy(machine, settings, plain, encoding, draws) for machine in inner)

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
    def _hiding(self) -> Guarantee | None:
        return _promise(self.inner)

    @property
    def _coalition(self) -> Mapping[Role, int]:
        """Those from whom the inner scheme hides messages; of the senders of one sum those beyond the honest ones."""
        hiding = self._hiding
        if self.shares == 1 or hiding is None:
            return dict.fromkeys(Role, _MANY)
        devices = 1 + least_group(self.inner) - self.shares
        return {**hiding.coalition, Role.DEVICE: min(hiding.coalition.get(Role.DEVICE, 0), devices)}


def hidden_messages(scheme: Scheme) -> int:
    """How many messages are in the smallest thing that a scheme shows: in its smallest sum, or 1 if it shows them."""
    return 1 if _promise(scheme) is None else least_group(scheme)


def _promise(scheme: Scheme) -> Guarantee | None:
    """That single messages are hidden, if the scheme promises it."""
    promises = scheme.claim_for(Topology.example(NEIGHBOURS)).guarantees
    return next((promise for promise in promises if promise.secret is Secret.EMBEDDING), None)


@dataclass(frozen=True, slots=True)
class GridEncoding:
    """Rows clipped and rounded to the grid of the noise, then written as the inner scheme does.

    Attributes:
        settings: of the noise.
        inner: the inner scheme's encoding; None where it sums reals.
    """

    settings: Perturbation
    inner: FixedPoint | None

    @property
    def bound(self) -> float:
        """The largest norm; longer rows are shortened."""
        return self.settings.clip

    @property
    def fraction_bits(self) -> int:
        """Those of the inner scheme, or of the grid."""
        return self.settings.fraction_bits if self.inner is None else self.inner.fraction_bits

    def encode(self, values: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """Rows [n, d] without noise.

        Raises:
            InputError: they are wider than the noise was made for, or not finite.
        """
        settings = self.settings
        if values.shape[1] > settings.width:
            raise InputError(
                f"values must not be wider than the {settings.width} coordinates that the noise was made for; "
                f"found {values.shape[1]}"
            )
        reals = grid_rows(values, settings.clip, settings.fraction_bits).rows * 2.0**-settings.fraction_bits
        return reals if self.inner is None else self.inner.encode(reals)

    def decode(self, elements: NDArray[Any]) -> NDArray[np.float64]:
        """Sums, noise included."""
        return elements if self.inner is None else self.inner.decode(elements)


@dataclass(frozen=True, slots=True, eq=False)
class _PerMessage(Grouping):
    """A grouping with a row of its own for every message; turned round, the messages keep their rows' numbers.

    Attributes:
        plain: the grouping whose messages these are, in the same direction.
    """

    plain: Grouping

    @classmethod
    def of(cls, plain: Grouping) -> _PerMessage:
        """Row e is what message e of the plain grouping carries."""
        return cls._carrying(plain, np.arange(len(plain.source), dtype=np.int64))

    @property
    def owners(self) -> Ids:
        """Those of the plain grouping, also where they send nothing."""
        return self.plain.owners

    def reverse(self) -> Grouping:
        """The same messages turned round: what a row's reader sent it for becomes a row, message by message."""
        return _PerMessage._carrying(self.plain.reverse(), self.source)

    @classmethod
    def _carrying(cls, plain: Grouping, messages: Ids) -> _PerMessage:
        owners, custodians = plain.row_owner[plain.source], plain.row_custodian[plain.source]
        target = plain.target[messages]
        return cls(owners, plain.group_owner, messages, target, custodians, plain.group_custodian, plain)


class Noisy(SumMachine):
    """A machine of the inner scheme whose rows get noise as a step begins.

    Args:
        inner: the machine, for one row a message.
        settings: of the noise.
        plain: who sends what to whom in the forward pass.
        encoding: the inner scheme's; None where it sums reals.
        draws: coins of its parties.
    """

    def __init__(
        self, inner: SumMachine, settings: Perturbation, plain: Grouping, encoding: FixedPoint | None, draws: Draws
    ) -> None:
        super().__init__(inner.parties)
        self._inner, self._settings, self._encoding, self._draws = inner, settings, encoding, draws
        self._sources = {
            direction: _Sources.of(way, inner.parties)
            for direction, way in ((Direction.FORWARD, plain), (Direction.BACKWARD, plain.reverse()))
        }
        self._budget, self._spent = settings.open_budget(), 0
        self.remarks = inner.remarks

    def begin(self, step: Step, rows: NDArray[Any] | None = None) -> None:
        """See `SumMachine.begin`.

        Raises:
            BudgetExhaustedError: the budget has no release left; nothing was sent.
        """
        if rows is None:
            self._inner.begin(step)
            return
        self._budget.check()
        sources = self._sources[step.direction]
        noise = self._settings.noise.sample(self._draws.coins, (len(sources.row), rows.shape[1]))
        self._inner.begin(step, self._with_noise(rows, sources.row, noise))  # a step that it refuses costs nothing
        self._budget.spend()
        self._spent += 1
        self._draws.note_coins("noise", sources.owner, noise, step)

    def receive(self, messages: Messages) -> None:
        """See `Machine.receive`."""
        self._inner.receive(messages)

    def step(self) -> Iterable[Messages]:
        """See `Machine.turn`."""
        return self._inner.step()

    def on_idle(self) -> bool:
        """See `Machine.settle`."""
        return self._inner.on_idle()

    def state(self) -> Mapping[str, NDArray[Any]]:
        """The inner machine's, and how many releases are spent."""
        return {**self._inner.state(), _SPENT: np.array([self._spent])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """See `Machine.restore`."""
        if _SPENT not in state or state[_SPENT].shape != (1,):
            raise MalformedMessageError("state must say how much of the budget is spent; it does not")
        self._inner.restore({name: value for name, value in state.items() if name != _SPENT})
        self._budget, self._spent = self._settings.open_budget(), int(state[_SPENT][0])
        if self._spent:
            self._budget.spend(self._spent)

    @property
    def sums(self) -> NDArray[Any] | None:
        """The inner machine's."""
        return self._inner.sums

    @property
    def contributors(self) -> Ids | None:
        """The inner machine's."""
        return self._inner.contributors

    def _with_noise(self, rows: NDArray[Any], source: Ids, noise: Ids) -> NDArray[Any]:
        """One row a message, as the inner scheme sums them."""
        bits, encoding = self._settings.fraction_bits, self._encoding
        if encoding is None or encoding.field is None:
            return (np.rint(rows * 2.0**bits).astype(np.int64)[source] + noise) * 2.0**-bits
        units = rows.astype(np.int64)[source] + (noise << (encoding.fraction_bits - bits))
        return (units % encoding.field.modulus).astype(rows.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class _Sources:
    """Messages that hosted parties send in one pass: the row of each, counted among theirs, and its owner."""

    row: Ids
    owner: Ids

    @classmethod
    def of(cls, way: Grouping, parties: Ids) -> _Sources:
        held = np.flatnonzero(np.isin(way.row_owner, parties))
        sent = way.source[np.isin(way.row_owner[way.source], parties)]
        return cls(np.searchsorted(held, sent), way.row_owner[sent])
