"""Breaks of Secret Message Passing that read single messages from their codes.

Breaks of Secret Message Passing that read single messages: one code and mu, T + 1 codes, T + 1 codes alone.

The first two need what HiFGL itself hands to devices; the third needs nothing but a small field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import perm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.knowledge import SECMP, SMALL_FEATURES, SMALL_FIELD, TRAINING
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import RecoveredRows, score_recovered_rows
from fgl_secure.runtime import Phase, PublicParameters, ReceivedRows, Role, Secret, View

Ids = NDArray[np.int64]

CHUNK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class HeldCodes:
    """Codes in the hands of observers who also hold the coding parameters of the receivers' silo.

    Attributes:
        batch: the messages they come from.
        rows: int64 [k], which messages of the batch.
        codes: [k, T + 1, d].
        alphas: int64 [k, T + 1].
        betas: int64 [k, T + 1].
        z: int64 [k, T, width].
    """

    batch: ReceivedRows
    rows: Ids
    codes: NDArray[Any]
    alphas: Ids
    betas: Ids
    z: Ids


def held_codes(view: View, T: int) -> Iterator[HeldCodes]:
    """Walks through all codes whose observer holds the matching parameters, a few thousand messages at a time.

    An observer knows the silo of a receiver from who sent it the decoded sum, and recognises that silo's parameters
    by their sender; rows of other observers are never used.
    """
    silo_of_receiver = _decoding_silo(view)
    keys, parameters = _own_parameters(view)
    for batch in view.messages(Phase.CODES):
        silo = silo_of_receiver[batch.receivers]
        wanted = np.where(silo >= 0, batch.observers * len(view.parties) + silo, -1)
        place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        held = np.flatnonzero((keys[place] == wanted) if len(keys) else np.zeros(len(wanted), dtype=np.bool_))
        for start in range(0, len(held), CHUNK):
            rows = held[start : start + CHUNK]
            mu = parameters[place[rows]].astype(np.int64)
            points, z = mu[:, : 2 * T + 2], mu[:, 2 * T + 2 :].reshape(len(rows), T, -1)
            yield HeldCodes(batch, rows, np.asarray(batch.payload)[rows], points[:, : T + 1], points[:, T + 1 :], z)


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


def _decoding_silo(view: View) -> Ids:
    silo_of_receiver = np.full(len(view.parties), -1, dtype=np.int64)
    for batch in view.messages(Phase.DECODED):
        silo_of_receiver[batch.receivers] = batch.senders
    return silo_of_receiver


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

Recovered = tuple[RecoveredRows, ...]


class OneCodeAndMu(Attack[Recovered, MessageTruth]):
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

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:
        """Reads one code of every message whose observer holds the matching mu."""
        if public.modulus is None or public.T is None:
            return None
        field, found = PrimeField(public.modulus), []
        for held in held_codes(view, public.T):
            weights = basis_at(field, held.betas, held.alphas[:, 0])
            h = held.codes[:, 0].astype(np.int64)
            for j in range(public.T):
                masks = field.multiply(weights[:, 1 + j, None], held.z[:, j, : h.shape[1]])
                h = field.subtract(h, masks)
            recovered = field.multiply(h, field.inverse(weights[:, :1]))
            found.append(RecoveredRows(held.batch.step, held.batch.senders[held.rows], recovered))
        return tuple(found) or None

    def score(self, guess: Recovered, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


class AllCodesOfOneSender(Attack[Recovered, MessageTruth]):
    """A target interpolates the T + 1 codes of one sender at beta_1: no mask is needed, only the points."""

    card = Card(
        "all-codes",
        "a device interpolates the T + 1 codes of one neighbour, without any mask",
        "against HiFGL 4.2.2: all T + 1 codes of a source go to one device",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:
        """Interpolates all codes of every message whose observer holds the matching points."""
        if public.modulus is None or public.T is None:
            return None
        field, found = PrimeField(public.modulus), []
        for held in held_codes(view, public.T):
            weights = basis_at(field, held.alphas, held.betas[:, 0])
            recovered = weighted_rows(field, weights, held.codes)
            found.append(RecoveredRows(held.batch.step, held.batch.senders[held.rows], recovered))
        return tuple(found) or None

    def score(self, guess: Recovered, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


class SmallFieldBruteForce(Attack[Recovered, MessageTruth]):
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
        found = [RecoveredRows(b.step, b.senders, _most_binary(field, weights, b)) for b in view.messages(Phase.CODES)]
        return tuple(found) or None

    def score(self, guess: Recovered, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


def decoders(field: PrimeField, T: int) -> NDArray[np.int64]:
    """All coefficient vectors that some choice of points gives: int64 [count, T + 1], beta_1 shifted to 0."""
    found = {
        tuple(lagrange_matrix(field, alphas, (0,))[0].tolist())
        for alphas in permutations(range(1, field.modulus), T + 1)
    }
    return np.array(sorted(found), dtype=np.int64)


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
