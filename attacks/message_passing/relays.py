"""What careless masks leave open: one mask for all senders, or none, at devices and at relays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.codes import HeldCodes, basis_at, held_codes
from fgl_secure.attacks.message_passing.knowledge import SECMP, SHARED_MASKS, TRAINING, UNMASKED_SHARES
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import UNNAMED, RecoveredRows, largest_share, score_recovered_rows
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, Step, View
from fgl_secure.statistics.metrics import clustered_proportion, exact_rows_recovered

Ids = NDArray[np.int64]

DIFFERENCES = {Direction.FORWARD: "exact differences", Direction.BACKWARD: "exact gradient differences"}


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Differences of two devices' embeddings.

    Attributes:
        step: when both were sent.
        first: int64 [k], party identifiers; UNNAMED for all of them if the observer cannot name senders.
        second: int64 [k], the same.
        values: elements [k, d], the first's embedding less the second's.
        modulus: size of the field.
    """

    step: Step
    first: Ids
    second: Ids
    values: NDArray[np.signedinteger]
    modulus: int


class SharedMask(Attack[tuple[Differences, ...], MessageTruth]):
    """A device subtracts the first codes of two neighbours: the masks drop out.

    s_v - s_w = (h_v - h_w) L_1(alpha_1), for every T, since z is the same for all senders. The device needs the
    points and no mask; whoever knows one of the two embeddings, its own or that of one neighbour, has the other, and
    so all of them. The support of the difference shows even without the points.
    """

    card = Card(
        "shared-mask",
        "a device subtracts single codes of two neighbours: the masks, the same for all, drop out",
        "against HiFGL 5.1 and Lemma 5.1: Algorithm 1, line 1 draws z once for all senders",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> tuple[Differences, ...] | None:
        """Takes each neighbour's first code from that of the neighbour before it at the same device."""
        if public.modulus is None or public.T is None:
            return None
        field = PrimeField(public.modulus)
        found = [_differences(field, held) for held in held_codes(view, public.T)]
        return tuple(each for each in found if len(each.first)) or None

    def score(self, guess: tuple[Differences, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of differences that are exact, see `score_differences`."""
        return score_differences(guess, truth)


def score_differences(guess: tuple[Differences, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
    """The share of differences that are exact, embeddings and gradients apart; zero differences are left out.

    Where senders have no name, a difference is exact if any two devices' rows differ by it, or if it is a row itself,
    as covers are zero; of each step 1,000 are looked at, and the prior is 0.
    """
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


def _score_one_way(metric: str, batches: tuple[Differences, ...], truth: MessageTruth) -> Measurement | None:
    hits, owners, most_frequent, total = [], [], 0.0, 0
    for batch in batches:
        if (batch.first == UNNAMED).all():
            some = _evenly(batch.values[batch.values.any(axis=1)])
            hits.append(are_differences(some, truth.embeddings[batch.step], PrimeField(batch.modulus)))
            owners.append(np.arange(len(some)))
            total += len(some)
            continue
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
    return Measurement.of_share(metric, share, finding, prior=prior)


_MOST_UNNAMED = 1000


def _evenly(rows: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    """At most 1,000 of the rows, at even distances."""
    return rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), _MOST_UNNAMED).astype(np.int64))] if len(rows) else rows


def are_differences(values: NDArray[np.signedinteger], rows: NDArray[Any], field: PrimeField) -> NDArray[np.bool_]:
    """Whether each of some vectors is the difference of two of the rows, or of a row and zero.

    Vectors are compared by two public linear forms, so that n rows take n sums for each of them and not n^2 pairs; one
    that is none is taken for one with a chance of n^2 / modulus^2.

    Args:
        values: elements [k, d].
        rows: integers [n, d], reduced here.
        field: of the elements.

    Returns:
        bool [k].
    """
    rng = np.random.default_rng(0)
    forms = [rng.integers(1, field.modulus, rows.shape[1]) for _ in range(2)]
    reduced = np.concatenate([rows.astype(np.int64) % field.modulus, np.zeros((1, rows.shape[1]), dtype=np.int64)])
    known, wanted = ([field.dot(field.elements(each), form) for form in forms] for each in (reduced, values))
    pairs = np.sort(_as_one(known[0], known[1], field))
    found = np.zeros(len(values), dtype=np.bool_)
    for k, (first, second) in enumerate(zip(*wanted, strict=True)):
        sums = _as_one(field.add(known[0], first), field.add(known[1], second), field)
        at = np.searchsorted(pairs, sums)
        found[k] = bool((pairs[np.minimum(at, len(pairs) - 1)] == sums).any())
    return found


def _as_one(first: NDArray[Any], second: NDArray[Any], field: PrimeField) -> Ids:
    """Two elements as one number, modulo 2^64."""
    return np.asarray(first, dtype=np.int64) * field.modulus + np.asarray(second, dtype=np.int64)


Unscaled = tuple[ReceivedRows, NDArray[np.signedinteger]]


class SingleShares(Attack[tuple[RecoveredRows, ...], MessageTruth]):
    """A relay takes each share for the sender's row, scaled by the public weight of its point: right without masks.

    Where silos forward messages the relay says what rows there are and not whose.
    """

    card = Card(
        "single-shares",
        "a relay takes each share that it is sent for the row behind it: right where masks are missing",
        "Shamir 1979: one share of degree T tells nothing, unless its masks are known",
        Role.RELAY, Secret.EMBEDDING, TRAINING, UNMASKED_SHARES, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> tuple[RecoveredRows, ...] | None:
        """Divides every share by the weight of the secret at the relay's point."""
        found = [RecoveredRows(batch.step, _named(batch, view), rows) for batch, rows in _unscaled(view, public)]
        return tuple(found) or None

    def score(self, guess: tuple[RecoveredRows, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


class ShareDifferences(Attack[tuple[Differences, ...], MessageTruth]):
    """A relay subtracts the shares of two senders: right where both used the same masks."""

    card = Card(
        "share-differences",
        "a relay subtracts shares of two senders: right where senders share masks",
        "what breaks HiFGL's z, tried on shares",
        Role.RELAY, Secret.EMBEDDING, TRAINING, SHARED_MASKS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> tuple[Differences, ...] | None:
        """Takes each message's share from that of the message before it at the same relay."""
        if public.modulus is None:
            return None
        field, found = PrimeField(public.modulus), []
        for batch, rows in _unscaled(view, public):
            senders = _named(batch, view)
            others = (senders[1:] != senders[:-1]) | (senders[1:] == UNNAMED)
            pairs = np.flatnonzero((batch.receivers[1:] == batch.receivers[:-1]) & others)
            if len(pairs):
                values = field.subtract(rows[pairs], rows[pairs + 1])
                found.append(Differences(batch.step, senders[pairs], senders[pairs + 1], values, field.modulus))
        return tuple(found) or None

    def score(self, guess: tuple[Differences, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of differences that are exact, see `score_differences`."""
        return score_differences(guess, truth)


def _unscaled(view: View, public: PublicParameters) -> Iterator[Unscaled]:
    """Shares of rows, divided by the weight of the secret at the relay's point."""
    if public.modulus is None or public.T is None:
        return
    field = PrimeField(public.modulus)
    for batch in view.messages(Phase.SHARES):
        points = view.parties.index_of(batch.receivers, Role.RELAY) + 1
        if not len(points) or points.min() <= public.T:
            continue  # what the first T relays hold of a message are its masks
        known, place = np.unique(points, return_inverse=True)
        weights = lagrange_matrix(field, tuple(range(public.T + 1)), tuple(known.tolist()))[:, 0]
        factors = field.inverse(weights)[place]
        yield batch, field.multiply(batch["share"], factors[:, None])


def _named(batch: ReceivedRows, view: View) -> Ids:
    """Whose shares these are: silos forward the messages of devices that they do not name."""
    of_devices = bool(np.isin(batch.senders, view.parties.ids(Role.DEVICE)).all())
    return batch.senders if of_devices else np.full(len(batch.senders), UNNAMED)
