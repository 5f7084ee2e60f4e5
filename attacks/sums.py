"""The sums that observers end up with, whichever scheme computed them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.attacks.coding_parameters import basis_at, weighted_rows
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Step, View

Ids = NDArray[np.int64]

UNKNOWN = -1
"""Number of rows in a sum where the observer cannot tell."""

CHECKED = 8
"""Coordinates on which a silo checks how many masks a sum carries."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenSums:
    """Sums of one step in the hands of their observers.

    Attributes:
        step: when the rows were sent.
        targets: int64 [k], party identifiers of the devices whose sums they are, ascending.
        terms: int64 [k], how many rows are in each; UNKNOWN where the observer cannot tell.
        values: [k, d], elements of a field as integers, or real numbers.
    """

    step: Step
    targets: Ids
    terms: Ids
    values: NDArray[Any]


def seen_sums(view: View, public: PublicParameters, role: Role) -> tuple[SeenSums, ...]:
    """The sums that every party of a role has: devices get theirs, silos decode those of their devices.

    Args:
        view: of parties of that role.
        public: parameters of the scheme.
        role: DEVICE or SILO.

    Returns:
        One entry a step, of the layers' forward passes in training alone, in order.
    """
    found = _at_devices(view, public) if role is Role.DEVICE else _at_silos(view, public)
    return tuple(_sorted(sums) for sums in found)


def _at_devices(view: View, public: PublicParameters) -> Iterator[SeenSums]:
    """Decoded by a silo, interpolated from what relays send, or added up by the device itself."""
    for batch in _forward(view, Phase.DECODED):
        codes = [rows for rows in view.messages(Phase.CODES) if rows.step == batch.step]
        yield SeenSums(batch.step, batch.receivers, _received(view, codes, batch.receivers), np.asarray(batch.payload))
    for batch in _forward(view, Phase.SUMS):
        terms = np.full(len(batch.receivers), UNKNOWN)
        yield SeenSums(batch.step, batch.receivers, terms, np.asarray(batch.payload))
    for batch in _forward(view, Phase.VALUES):
        starts = np.flatnonzero(np.diff(batch.receivers, prepend=-1))
        totals = np.add.reduceat(np.asarray(batch.payload), starts, axis=0)
        targets = batch.receivers[starts]
        yield SeenSums(batch.step, targets, _received(view, [batch], targets), totals)
    for step in dict.fromkeys(batch.step for batch in _forward(view, Phase.SHARE_SUMS)):
        if public.modulus is not None and public.T is not None:
            yield _interpolated(view, step, PrimeField(public.modulus), public.T)


def _at_silos(view: View, public: PublicParameters) -> Iterator[SeenSums]:
    """Aggregates of codes: their value at beta_1 is the sum, that at beta_2 is the first mask as often as rows."""
    points, masks = view.own("alphas and betas"), view.own("z")
    if public.modulus is None or public.T is None or not points or not masks:
        return
    field, T = PrimeField(public.modulus), public.T
    alphas, betas = points[0].values[:, : T + 1], points[0].values[:, T + 1 :]
    to_sum, to_mask = (basis_at(field, alphas, betas[:, j]) for j in (0, 1))
    mask = masks[0].values[:, 0, :CHECKED].astype(np.int64)
    inverse = field.inverse(np.where(mask != 0, mask, 1))
    for batch in _forward(view, Phase.AGGREGATE):
        own = np.searchsorted(points[0].owners, batch.receivers)
        codes = np.asarray(batch.payload)
        probe = codes[..., : mask.shape[1]]
        carried = weighted_rows(field, to_mask[own], probe)
        width = carried.shape[1]
        terms = _times(field.multiply(carried, inverse[own, :width]).astype(np.int64), mask[own, :width] != 0)
        yield SeenSums(batch.step, batch.senders, terms, weighted_rows(field, to_sum[own], codes))


def _times(counts: Ids, usable: NDArray[np.bool_]) -> Ids:
    """How often each row carries its mask by each coordinate, [k, c]; UNKNOWN where usable coordinates disagree."""
    most = np.where(usable, counts, -1).max(axis=1)
    alike = (np.where(usable, counts, most[:, None]) == most[:, None]).all(axis=1)
    return np.where(alike & usable.any(axis=1), most, UNKNOWN)


def _interpolated(view: View, step: Step, field: PrimeField, T: int) -> SeenSums:
    """The polynomial of each target at 0, from the first T + 1 relays that answered; relay i holds its value at i."""
    answers = [batch for batch in _forward(view, Phase.SHARE_SUMS) if batch.step == step]
    counts = [batch for batch in _forward(view, Phase.COUNTS) if batch.step == step]
    senders, receivers, shares = (np.concatenate(columns) for columns in _columns(answers))
    order = np.lexsort((senders, receivers))
    senders, receivers, shares = senders[order], receivers[order], shares[order]
    targets, first, heard = np.unique(receivers, return_index=True, return_counts=True)
    terms = _told(counts, targets)
    usable = np.flatnonzero((heard > T) & (terms > 0))
    rows = first[usable, None] + np.arange(T + 1)
    alphas = view.parties.index_of(senders[rows], Role.RELAY) + 1
    weights = basis_at(field, alphas, np.zeros(len(rows), dtype=np.int64))
    return SeenSums(step, targets[usable], terms[usable], weighted_rows(field, weights, shares[rows]))


def _columns(batches: Iterable[ReceivedRows]) -> tuple[list[Ids], list[Ids], list[NDArray[Any]]]:
    listed = list(batches)
    payloads = [batch["sum"] for batch in listed]
    return [batch.senders for batch in listed], [batch.receivers for batch in listed], payloads


def _told(counts: list[ReceivedRows], targets: Ids) -> Ids:
    """What relays say about the number of rows in each target's sum: 0 where they say nothing."""
    told = np.zeros(len(targets), dtype=np.int64)
    for batch in counts:
        place = np.minimum(np.searchsorted(targets, batch.receivers), max(len(targets) - 1, 0))
        known = np.flatnonzero(targets[place] == batch.receivers) if len(targets) else np.empty(0, dtype=np.int64)
        told[place[known]] = batch["count"][known]
    return told


def _received(view: View, batches: Iterable[ReceivedRows], targets: Ids) -> Ids:
    """How many messages of some batches each target received."""
    counts = np.zeros(len(view.parties), dtype=np.int64)
    for batch in batches:
        counts += np.bincount(batch.receivers, minlength=len(counts))
    return counts[targets]


def _forward(view: View, phase: Phase) -> tuple[ReceivedRows, ...]:
    batches = view.messages(phase, direction=Direction.FORWARD)
    steps = [batch for batch in batches if batch.step.layer >= 0 and not batch.step.evaluation]
    return tuple(batch for batch in steps if len(batch.receivers))


def _sorted(sums: SeenSums) -> SeenSums:
    order = np.argsort(sums.targets, kind="stable")
    return SeenSums(sums.step, sums.targets[order], sums.terms[order], sums.values[order])
