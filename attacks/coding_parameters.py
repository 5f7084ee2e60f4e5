"""The coding parameters that an observer was handed, joined to the codes that it received."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.runtime import Phase, ReceivedRows, View

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
