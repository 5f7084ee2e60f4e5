"""Subtracting sums of several rounds in which not always the same neighbours took part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.recovery import RecoveredRows, score_recovered_rows
from fgl_secure.attacks.sums import SeenSums, seen_sums
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_rows_recovered, node_block_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

PARTICIPANTS = "participants"
"""Name of an observer's rows (target, sender), one for each message that took part in a sum of that step."""

DETERMINED = 1e-8
"""How far from 1 the leverage of a determined message may be, in double precision."""

Determined = tuple[RecoveredRows, Ids]
"""Rows, and int64 [k] whose sums they were read from."""


class _Differencing(Attack[Determined]):
    """What both observers do with the sums that they have."""

    def infer(self, view: View, public: PublicParameters) -> Determined | None:
        """Solves for every row that the sums of all rounds determine, taking rows to be the same in all of them."""
        taking_part = {rows.step: rows.values for rows in view.own(PARTICIPANTS)}
        sums = [each for each in seen_sums(view, public, self.card.observer) if each.step in taking_part]
        if not sums or public.modulus is None:
            return None
        return _solved(sums, [taking_part[each.step].astype(np.int64) for each in sums], public.modulus)

    def score(self, guess: Determined, truth: Truth) -> tuple[Measurement, ...]:
        """How many messages of all are read, and how many rows that are said to be determined are right."""
        rows, targets = guess
        return _share_read(rows, targets, truth), *score_recovered_rows([rows], truth)


class DifferencingAtDevice(_Differencing):
    """A device that gets a sum in every round subtracts them.

    A scheme that answers every tag once, or refuses small sums, still gives the device *one* sum a round. What helps
    is a fresh row in every round, or to sum a static layer once and keep the result.
    """

    @property
    def card(self) -> Card:
        """Every device alone."""
        return Card(
            "differencing-device",
            "a device solves the sums of several rounds, in which different neighbours took part, for single rows",
            "on HiFGL 4.2: the same layer is summed in every round",
            Role.DEVICE,
            Secret.EMBEDDING,
            Material.DROP_OUTS,
            Reference.DROP_OUTS,
            Circumstance.REPEATED_SUM,
            auxiliary="who took part in which of its sums",
        )


class DifferencingAtSilo(_Differencing):
    """A silo that decodes the sums of its devices in every round subtracts them."""

    @property
    def card(self) -> Card:
        """Break e: every silo alone."""
        return Card(
            "differencing-silo",
            "a silo solves the decoded sums of several rounds, in which different devices took part, for single rows",
            "against HiFGL 4.2.3 step 2: the silo decodes sums and cannot know the embedding of a neighbour",
            Role.SILO,
            Secret.EMBEDDING,
            Material.DROP_OUTS,
            Reference.DROP_OUTS,
            Circumstance.REPEATED_SUM,
            auxiliary="who took part in which sum of its devices",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Equations:
    """The messages of a run, numbered, and who took part when.

    Attributes:
        targets: int64 [m], ascending party identifiers.
        senders: int64 [m].
        present: bool [rounds, m].
    """

    targets: Ids
    senders: Ids
    present: NDArray[np.bool_]


def _solved(sums: list[SeenSums], taking_part: list[Ids], modulus: int) -> Determined:
    equations = _numbered(taking_part)
    owners, first, terms = np.unique(equations.targets, return_index=True, return_counts=True)
    values, known = _aligned(sums, owners, modulus)
    found: list[tuple[Ids, Floats]] = []
    for k in np.unique(terms).tolist():
        alike = np.flatnonzero(terms == k)
        messages = first[alike, None] + np.arange(k)
        matrix = equations.present[:, messages].transpose(1, 0, 2) & known[alike, :, None]
        inverse = np.linalg.pinv(matrix.astype(np.float64), rcond=DETERMINED)
        leverage = np.einsum("gkr,grk->gk", inverse, matrix.astype(np.float64))
        group, column = np.nonzero(leverage > 1 - DETERMINED)
        rows = np.einsum("cr,crd->cd", inverse[group, column], values[alike[group]])
        found.append((messages[group, column], rows))
    which = np.concatenate([message for message, _ in found])
    rows = np.concatenate([values for _, values in found])
    exact = (np.rint(rows).astype(np.int64) % modulus).astype(sums[0].values.dtype)
    return RecoveredRows(sums[0].step, equations.senders[which], exact), equations.targets[which]


def _numbered(taking_part: list[Ids]) -> _Equations:
    pairs, number = np.unique(np.concatenate(taking_part), axis=0, return_inverse=True)
    present = np.zeros((len(taking_part), len(pairs)), dtype=np.bool_)
    which = np.repeat(np.arange(len(taking_part)), [len(rows) for rows in taking_part])
    present[which, number.ravel()] = True
    return _Equations(pairs[:, 0], pairs[:, 1], present)


def _aligned(sums: list[SeenSums], owners: Ids, modulus: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Sums float64 [owners, rounds, d], elements by their representatives of least magnitude; and which are there."""
    values = np.zeros((len(owners), len(sums), sums[0].values.shape[1]))
    known = np.zeros((len(owners), len(sums)), dtype=np.bool_)
    for r, each in enumerate(sums):
        place = np.searchsorted(owners, each.targets)
        inside = np.flatnonzero(place < len(owners))
        here = inside[owners[place[inside]] == each.targets[inside]]
        got = each.values[here].astype(np.float64)
        values[place[here], r] = np.where(got > modulus // 2, got - modulus, got)
        known[place[here], r] = True
    return values, known


def _share_read(rows: RecoveredRows, targets: Ids, truth: Truth) -> Measurement:
    devices = len(truth.silo_of)
    source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (rows.senders, targets))
    secret = truth.embeddings[rows.step][source].astype(rows.values.dtype, copy=False)
    same = exact_rows_recovered(rows.values, secret)
    right = source[same] * devices + target[same]
    read = np.isin(truth.edges[0] * devices + truth.edges[1], right)
    share = node_block_proportion(read, truth.edges, devices, seed=0)
    finding = f"{int(read.sum()):,} of {len(read):,} messages are determined by the sums of all rounds, and right."
    return Measurement("messages read", share.value, share.interval, share.n, 0.0, 0.0, 1.0, True, finding)
