"""Rows and differences of rows read from single codes and shares.

Secret Message Passing is read from one code and mu, from T + 1 codes, or, in a small field, from T + 1 codes alone. The
first two need what HiFGL itself hands to devices. One mask for all senders, or none, leaves differences or rows open at
devices and at relays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import perm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.knowledge import (
    SECMP,
    SHARED_MASKS,
    SMALL_FEATURES,
    SMALL_FIELD,
    TRAINING,
    UNMASKED_SHARES,
)
from fgl_secure.attacks.recovery import (
    UNNAMED,
    Recovered,
    RecoveredRows,
    largest_share,
    score_recovered_rows,
    share_right,
)
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, Step, View
from fgl_secure.statistics.metrics import exact_rows_recovered
from fgl_secure.typing import Ids

CHUNK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class _HeldCodes:
    """Codes in the hands of observers who also hold the coding parameters of the receivers' silo."""

    batch: ReceivedRows  # the messages they come from
    rows: Ids  # int64 [k], which messages of the batch
    codes: NDArray[Any]  # [k, T + 1, d]
    alphas: Ids  # int64 [k, T + 1]
    betas: Ids  # int64 [k, T + 1]
    z: Ids  # int64 [k, T, width]


def _held_codes(view: View, T: int) -> Iterator[_HeldCodes]:
    """Walks through all codes whose observer holds the matching parameters, a few thousand messages at a time.

    An observer knows the silo of a receiver from who sent it the decoded sum, and recognises that silo's parameters
    by their sender; rows of other observers are never used.
    """
    silo_of_receiver = np.full(len(view.parties), -1, dtype=np.int64)
    for decoded in view.messages(Phase.DECODED):
        silo_of_receiver[decoded.receivers] = decoded.senders
    keys, parameters = _own_parameters(view)
    for batch in view.messages(Phase.CODES):
        silo = silo_of_receiver[batch.receivers]
        wanted_keys = np.where(silo >= 0, batch.observers * len(view.parties) + silo, -1)
        place = np.minimum(np.searchsorted(keys, wanted_keys), max(len(keys) - 1, 0))
        matches = np.flatnonzero(
            (keys[place] == wanted_keys) if len(keys) else np.zeros(len(wanted_keys), dtype=np.bool_)
        )
        for start in range(0, len(matches), CHUNK):
            rows = matches[start : start + CHUNK]
            mu = parameters[place[rows]].astype(np.int64)
            points, z = mu[:, : 2 * T + 2], mu[:, 2 * T + 2 :].reshape(len(rows), T, -1)
            yield _HeldCodes(batch, rows, np.asarray(batch.payload)[rows], points[:, : T + 1], points[:, T + 1 :], z)


def basis_at(field: PrimeField, nodes: Ids, x: Ids) -> Ids:
    """Lagrange basis on different nodes in every row: nodes [k, t] and points x [k] to int64 [k, t]."""
    above, below = np.ones(nodes.shape, dtype=np.int64), np.ones(nodes.shape, dtype=np.int64)
    for j in range(nodes.shape[1]):
        for other in range(nodes.shape[1]):
            if other != j:
                above[:, j] = field.multiply(above[:, j], field.subtract(x, nodes[:, other]))
                below[:, j] = field.multiply(below[:, j], field.subtract(nodes[:, j], nodes[:, other]))
    return field.multiply(above, field.inverse(below)).astype(np.int64)


def weighted_rows(
    field: PrimeField, weights: NDArray[np.int64], codes: NDArray[np.signedinteger]
) -> NDArray[np.signedinteger]:
    """Combines the codes of each message with its own weights: [k, t] and [k, t, d] to [k, d]."""
    total = np.zeros((codes.shape[0], codes.shape[2]), dtype=np.int64)
    for t in range(codes.shape[1]):
        total = (total + weights[:, t, None] * codes[:, t].astype(np.int64)) % field.modulus
    return total.astype(field.dtype)


def _own_parameters(view: View) -> tuple[Ids, NDArray[Any]]:
    """Sorted keys observer * parties + silo, and the parameters that each stands for."""
    batches = view.messages(Phase.PARAMETERS, round=0)
    if not batches:
        return np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int64)
    keys = np.concatenate([batch.observers * len(view.parties) + batch.senders for batch in batches])
    payload = np.concatenate([np.asarray(batch.payload) for batch in batches])
    unique, first = np.unique(keys, return_index=True)
    return unique, payload[first]


LARGEST_BRUTE_FORCE = 100_000
"""Most choices of points that brute force walks through; they collapse to far fewer decoders."""

PROBED = 64
"""Columns on which brute force compares decoders; a wrong one passes one column with probability 2 / modulus."""


class RowReader(Attack[Recovered, MessageTruth]):
    """An attack that says what rows were sent, and by which devices."""

    def score(self, guess: Recovered, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


class _CodeReader(RowReader):
    """What all attacks do with codes whose parameters the observer holds."""

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:
        if public.modulus is None or public.T is None:
            return None
        field = PrimeField(public.modulus)
        result = [
            RecoveredRows(code.batch.step, code.batch.senders[code.rows], self._read(field, code))
            for code in _held_codes(view, public.T)
        ]
        return tuple(result) or None

    @abstractmethod
    def _read(self, field: PrimeField, held_codes: _HeldCodes) -> NDArray[Any]:
        """The rows [k, d] behind some codes."""


class _OneCodeAndMu(_CodeReader):
    """A target that holds its silo's mu subtracts the masks from a single code.

    h_v = (s - sum_j z_j L_j(alpha_1)) / L_1(alpha_1). Devices get mu as sources for neighbours in their own silo, or
    because the target forwards it.
    """

    card = Card(
        "one-code-and-mu",
        "a device that holds mu subtracts the masks from one code of a neighbour",
        "against HiFGL 5.1 and Lemma 5.1: z is known to every source and target of the silo",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip

    def _read(self, field: PrimeField, held_codes: _HeldCodes) -> NDArray[Any]:
        weights = basis_at(field, held_codes.betas, held_codes.alphas[:, 0])
        h = held_codes.codes[:, 0].astype(np.int64)
        for j in range(held_codes.z.shape[1]):
            h = field.subtract(h, field.multiply(weights[:, 1 + j, None], held_codes.z[:, j, : h.shape[1]]))
        return field.multiply(h, field.inverse(weights[:, :1]))


class _AllCodesOfOneSender(_CodeReader):
    """A target interpolates the T + 1 codes of one sender at beta_1: no mask is needed, only the points."""

    card = Card(
        "all-codes",
        "a device interpolates the T + 1 codes of one neighbour, without any mask",
        "against HiFGL 4.2.2: all T + 1 codes of a source go to one device",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip

    def _read(self, field: PrimeField, held_codes: _HeldCodes) -> NDArray[Any]:
        return weighted_rows(field, basis_at(field, held_codes.alphas, held_codes.betas[:, 0]), held_codes.codes)


class _SmallFieldBruteForce(RowReader):
    """Tries every decoder of a small field and keeps the row that looks most like 0/1 features.

    Nothing but the codes is needed: a wrong decoder leaves a multiple of the masks, whose entries are spread over the
    whole field. Of rows with equally many entries outside {0, 1} the sparser is kept.

    The value at beta_1 is a combination of the T + 1 codes whose coefficients depend on differences of points only
    and sum to 1: over 11 elements and T = 1 the 7,920 choices of points leave 9 decoders.
    """

    card = Card(
        "small-field",
        "a device tries all decoders of a small field on a neighbour's codes; 0/1 features give the right one away",
        "against HiFGL 4.1.2, footnote 2: a field of 11 elements",
        Role.DEVICE, Secret.EMBEDDING, SMALL_FEATURES, SMALL_FIELD, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:
        """Decodes every message with every decoder; None where the field is too large for that."""
        if public.modulus is None or public.T is None or perm(public.modulus - 1, public.T + 1) > LARGEST_BRUTE_FORCE:
            return None
        field = PrimeField(public.modulus)
        weights = decoders(field, public.T)
        result = [RecoveredRows(b.step, b.senders, _most_binary(field, weights, b)) for b in view.messages(Phase.CODES)]
        return tuple(result) or None


def decoders(field: PrimeField, T: int) -> NDArray[np.int64]:
    """All coefficient vectors that some choice of points gives: int64 [count, T + 1], beta_1 shifted to 0."""
    result = {
        tuple(lagrange_matrix(field, alphas, (0,))[0].tolist())
        for alphas in permutations(range(1, field.modulus), T + 1)
    }
    return np.array(sorted(result), dtype=np.int64)


def _most_binary(field: PrimeField, weights: NDArray[np.int64], batch: ReceivedRows) -> NDArray[np.signedinteger]:
    """Picks the decoder of each message on a few columns and decodes all columns with it."""
    codes = np.asarray(batch.payload)
    rows = np.empty((len(codes), codes.shape[2]), dtype=field.dtype)
    for start in range(0, len(codes), CHUNK):
        part = codes[start : start + CHUNK]
        probe, width = part[..., :PROBED], min(PROBED, codes.shape[2])
        least, best = np.full(len(part), np.inf), np.zeros(len(part), dtype=np.int64)
        for index, decoder in enumerate(weights):
            candidate = weighted_rows(field, np.broadcast_to(decoder, (len(part), len(decoder))), probe)
            oddity = np.count_nonzero(candidate > 1, axis=1) + np.count_nonzero(candidate, axis=1) / (2 * width)
            best = np.where(oddity < least, index, best)
            least = np.minimum(oddity, least)
        rows[start : start + len(part)] = weighted_rows(field, weights[best], part)
    return rows


DIFFERENCES = {Direction.FORWARD: "exact differences", Direction.BACKWARD: "exact gradient differences"}


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    """Differences of two devices' embeddings."""

    step: Step  # when both were sent
    first: Ids  # int64 [k], party identifiers; UNNAMED for all of them if the observer cannot name senders
    second: Ids  # int64 [k], the same
    values: NDArray[np.signedinteger]  # elements [k, d], the first's embedding less the second's
    modulus: int  # size of the field


class _DifferenceReader(Attack[tuple[_Differences, ...], MessageTruth]):
    """What attacks that subtract have in common."""

    def score(self, guess: tuple[_Differences, ...], truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of differences that are exact, embeddings and gradients apart; zero differences are left out.

        Where senders have no name, a difference is exact if any two devices' rows differ by it, or if it is a row
        itself, as covers are zero; of each step 1,000 are looked at, and the prior is 0.
        """
        measured = []
        for direction, metric in DIFFERENCES.items():
            same = tuple(item for item in guess if item.step.direction is direction)
            figure = _score_one_way(metric, same, truth)
            measured += [figure] if figure is not None else []
        return tuple(measured)


class _SharedMask(_DifferenceReader):
    """A device subtracts the first codes of two neighbours: the masks drop out.

    s_v - s_w = (h_v - h_w) L_1(alpha_1), for every T, since z is the same for all senders. The device needs the
    points and no mask; a party that knows one of the two embeddings, its own or that of one neighbour, has the other,
    and so all of them. The support of the difference shows even without the points.
    """

    card = Card(
        "shared-mask",
        "a device subtracts single codes of two neighbours: the masks, the same for all, drop out",
        "against HiFGL 5.1 and Lemma 5.1: Algorithm 1, line 1 draws z once for all senders",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> tuple[_Differences, ...] | None:
        if public.modulus is None or public.T is None:
            return None
        field = PrimeField(public.modulus)
        result = [_differences(field, code) for code in _held_codes(view, public.T)]
        return tuple(item for item in result if len(item.first)) or None


def _differences(field: PrimeField, held_codes: _HeldCodes) -> _Differences:
    receivers = held_codes.batch.receivers[held_codes.rows]
    pairs = np.flatnonzero(receivers[1:] == receivers[:-1])  # a view is sorted by receiver
    weights = basis_at(field, held_codes.betas[pairs], held_codes.alphas[pairs, 0])
    codes = held_codes.codes[:, 0]
    values = field.multiply(field.subtract(codes[pairs], codes[pairs + 1]), field.inverse(weights[:, :1]))
    senders = held_codes.batch.senders[held_codes.rows]
    return _Differences(held_codes.batch.step, senders[pairs], senders[pairs + 1], values, field.modulus)


def _score_one_way(metric: str, batches: tuple[_Differences, ...], truth: MessageTruth) -> Measurement | None:
    hits, owners, most_frequent, total = [], [], 0.0, 0
    for batch in batches:
        if (batch.first == UNNAMED).all():
            sample = _evenly(batch.values[batch.values.any(axis=1)])
            hits.append(_are_differences(sample, truth.embeddings[batch.step], PrimeField(batch.modulus)))
            owners.append(np.arange(len(sample)))
            total += len(sample)
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
    text = "differences of two senders' rows are read exactly, by a common receiver alone."
    return share_right(metric, hit, np.concatenate(owners), text, prior=most_frequent / total)


_MOST_UNNAMED = 1000


def _evenly(rows: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    """At most 1,000 of the rows, at even distances."""
    return rows[np.unique(np.linspace(0, max(len(rows) - 1, 0), _MOST_UNNAMED).astype(np.int64))] if len(rows) else rows


def _are_differences(values: NDArray[np.signedinteger], rows: NDArray[Any], field: PrimeField) -> NDArray[np.bool_]:
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
    known, expected = ([field.dot(field.elements(item), form) for form in forms] for item in (reduced, values))
    pairs = np.sort(_as_one(known[0], known[1], field))
    differences = np.zeros(len(values), dtype=np.bool_)
    for chunk in np.array_split(np.arange(len(values)), 1 + len(values) * len(pairs) // 2**18):
        first, second = (field.add(ours, theory[chunk, None]) for ours, theory in zip(known, expected, strict=True))
        sums = _as_one(first, second, field)
        index = np.minimum(np.searchsorted(pairs, sums), len(pairs) - 1)
        differences[chunk] = (pairs[index] == sums).any(axis=1)
    return differences


def _as_one(first: NDArray[Any], second: NDArray[Any], field: PrimeField) -> Ids:
    """Two elements as one number, modulo 2^64."""
    return np.asarray(first, dtype=np.int64) * field.modulus + np.asarray(second, dtype=np.int64)


OPENED_SHARES = "opened shares"
"""Name of what relays unmask of rows that silos carry."""

Unscaled = tuple[Step, Ids, Ids, NDArray[np.signedinteger]]
"""Of shares at relays: the step, relays, senders or UNNAMED, and the shares over the weight of the secret."""


class _SingleShares(RowReader):
    """A relay takes each share for the sender's row, scaled by the public weight of its point: right without masks.

    Where silos forward messages the relay says what rows there are and not whose.
    """

    card = Card(
        "single-shares",
        "a relay takes each share that it is sent for the row behind it: right where masks are missing",
        "Shamir 1979: one share of degree T tells nothing, unless its masks are known",
        Role.RELAY, Secret.EMBEDDING, TRAINING, UNMASKED_SHARES, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:
        result = [RecoveredRows(step, senders, rows) for step, _, senders, rows in _divide_by_weight(view, public)]
        return tuple(result) or None


class _ShareDifferences(_DifferenceReader):
    """A relay subtracts the shares of two senders: right where both used the same masks."""

    card = Card(
        "share-differences",
        "a relay subtracts shares of two senders: right where senders share masks",
        "what breaks HiFGL's z, tried on shares",
        Role.RELAY, Secret.EMBEDDING, TRAINING, SHARED_MASKS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> tuple[_Differences, ...] | None:
        if public.modulus is None:
            return None
        field, result = PrimeField(public.modulus), []
        for step, relays, senders, rows in _divide_by_weight(view, public):
            others = (senders[1:] != senders[:-1]) | (senders[1:] == UNNAMED)
            pairs = np.flatnonzero((relays[1:] == relays[:-1]) & others)
            if len(pairs):
                values = field.subtract(rows[pairs], rows[pairs + 1])
                result.append(_Differences(step, senders[pairs], senders[pairs + 1], values, field.modulus))
        return tuple(result) or None


def _divide_by_weight(view: View, public: PublicParameters) -> Iterator[Unscaled]:
    """Shares of rows, divided by the weight of the secret at the relay's point."""
    if public.modulus is None or public.T is None:
        return
    field, shown = PrimeField(public.modulus), view.messages(Phase.SHARES)
    plain = [batch for batch in shown if batch["share"].dtype != np.uint32]  # others are masked once more
    seen = [(batch.step, batch.receivers, _sender_ids(batch, view), np.asarray(batch["share"])) for batch in plain]
    seen += [
        (batch.step, batch.owners, np.full(len(batch.owners), UNNAMED), batch.values)
        for batch in view.own(OPENED_SHARES)
    ]
    for step, relays, senders, shares in seen:
        points = view.parties.index_of(relays, Role.RELAY) + 1
        if not len(points) or points.min() <= public.T:
            continue  # what the first T relays hold of a message are its masks
        known, place = np.unique(points, return_inverse=True)
        weights = lagrange_matrix(field, tuple(range(public.T + 1)), tuple(known.tolist()))[:, 0]
        factors = field.inverse(weights)[place]
        yield step, relays, senders, field.multiply(shares, factors[:, None])


def _sender_ids(batch: ReceivedRows, view: View) -> Ids:
    """Whose shares these are: silos forward the messages of devices that they do not name."""
    of_devices = bool(np.isin(batch.senders, view.parties.ids(Role.DEVICE)).all())
    return batch.senders if of_devices else np.full(len(batch.senders), UNNAMED)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _SharedMask(),
    _OneCodeAndMu(),
    _AllCodesOfOneSender(),
    _SmallFieldBruteForce(),
    _SingleShares(),
    _ShareDifferences(),
)
