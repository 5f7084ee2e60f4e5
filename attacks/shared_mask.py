"""One mask for all senders: the difference of two codes is the difference of two embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.coding_parameters import HeldCodes, basis_at, held_codes
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Direction, PublicParameters, Role, Secret, Step, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_rows_recovered

Ids = NDArray[np.int64]

DIFFERENCES = {Direction.FORWARD: "exact differences", Direction.BACKWARD: "exact gradient differences"}


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Differences of two devices' embeddings.

    Attributes:
        step: when both were sent.
        first: int64 [k], party identifiers.
        second: int64 [k], party identifiers.
        values: elements [k, d], the first's embedding less the second's.
        modulus: size of the field.
    """

    step: Step
    first: Ids
    second: Ids
    values: NDArray[np.signedinteger]
    modulus: int


class SharedMask(Attack[tuple[Differences, ...]]):
    """A device subtracts the first codes of two neighbours: the masks drop out.

    s_v - s_w = (h_v - h_w) L_1(alpha_1), for every T, since z is the same for all senders. The device needs the
    points and no mask; whoever knows one of the two embeddings, its own or that of one neighbour, has the other, and
    so all of them. The support of the difference shows even without the points.
    """

    @property
    def card(self) -> Card:
        """Break a: every device alone."""
        return Card(
            "shared-mask",
            "a device subtracts single codes of two neighbours: the masks, the same for all, drop out",
            "against HiFGL 5.1 and Lemma 5.1: Algorithm 1, line 1 draws z once for all senders",
            Role.DEVICE,
            Secret.EMBEDDING,
            Material.TRAINING,
            Reference.SECMP,
        )

    def infer(self, view: View, public: PublicParameters) -> tuple[Differences, ...] | None:
        """Takes each neighbour's first code from that of the neighbour before it at the same device."""
        if public.modulus is None or public.T is None:
            return None
        field = PrimeField(public.modulus)
        found = [_differences(field, held) for held in held_codes(view, public.T)]
        return tuple(each for each in found if len(each.first)) or None

    def score(self, guess: tuple[Differences, ...], truth: Truth) -> tuple[Measurement, ...]:
        """The share of differences that are exact, see `score_differences`."""
        return score_differences(guess, truth)


def score_differences(guess: tuple[Differences, ...], truth: Truth) -> tuple[Measurement, ...]:
    """The share of differences that are exact, embeddings and gradients apart; zero differences are left out."""
    measured = []
    for direction, metric in DIFFERENCES.items():
        same = tuple(each for each in guess if each.step.direction is direction)
        figure = _score_one_way(metric, same, truth)
        measured += [figure] if figure is not None else []
    return tuple(measured)


def _differences(field: PrimeField, held: HeldCodes) -> Differences:
    receivers = held.batch.receivers[held.rows]
    pairs = np.flatnonzero(receivers[1:] == receivers[:-1])  # a view is sorted by receiver
    weights = basis_at(field, held.betas[pairs], held.alphas[pairs, 0])
    codes = held.codes[:, 0]
    values = field.multiply(field.subtract(codes[pairs], codes[pairs + 1]), field.inverse(weights[:, :1]))
    senders = held.batch.senders[held.rows]
    return Differences(held.batch.step, senders[pairs], senders[pairs + 1], values, field.modulus)


def _score_one_way(metric: str, batches: tuple[Differences, ...], truth: Truth) -> Measurement | None:
    hits, owners, most_frequent, total = [], [], 0.0, 0
    for batch in batches:
        first, second = (truth.parties.index_of(ids, Role.DEVICE) for ids in (batch.first, batch.second))
        secret = truth.embeddings[batch.step].astype(np.int64)
        actual = ((secret[first] - secret[second]) % batch.modulus).astype(batch.values.dtype)
        telling = actual.any(axis=1)
        hits.append(exact_rows_recovered(batch.values[telling], actual[telling]))
        owners.append(first[telling])
        most_frequent += largest_share(actual[telling]) * int(telling.sum())
        total += int(telling.sum())
    if not total:
        return None
    hit = np.concatenate(hits)
    share = clustered_proportion(hit, np.concatenate(owners), seed=0)
    finding = (
        f"{int(hit.sum()):,} of {total:,} differences of two senders' rows are read exactly, by a common "
        "receiver alone."
    )
    prior = most_frequent / total
    return Measurement(metric, share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding)
