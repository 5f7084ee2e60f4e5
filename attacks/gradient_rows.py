"""The gradients of structure features that reach the server, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary
from fgl_secure.errors import InputError
from fgl_secure.runtime import Phase, Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

GRADIENT_SUM = "structure gradient sum"
"""Name of the server's rows (node, gradient of the loss in s_u) where it learns a sum over clients."""

CHUNK = 2_048
"""Rows that are solved at once."""
RANK = 1e-12
"""Squared singular values of a Jacobian up to this share of the largest count as none."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientRows:
    """Gradients in single nodes' structure features, of the first round.

    Attributes:
        clients: int64 [k], index of the client that each is from; -1 for the sum over all.
        nodes: int64 [k], device indices.
        rows: float64 [k, d]; none of them all zero.
    """

    clients: Ids
    nodes: Ids
    rows: Floats


def gradient_rows(view: View) -> GradientRows | None:
    """The rows that the server sees of the first round: of single clients, or their sum; None where it sees neither."""
    batches = view.messages(Phase.STRUCTURE_GRADIENT)
    first = min((batch.step.round for batch in batches), default=0)
    here = [batch for batch in batches if batch.step.round == first]
    if here:
        clients = np.concatenate([view.parties.index_of(batch.senders, Role.SILO) for batch in here])
        return _nonzero(clients, np.concatenate([np.asarray(batch.payload, dtype=np.float64) for batch in here]))
    sums = view.own(GRADIENT_SUM)
    if not sums:
        return None
    first = min(each.step.round for each in sums)
    table = np.concatenate([np.asarray(each.values, dtype=np.float64) for each in sums if each.step.round == first])
    return _nonzero(np.full(len(table), -1), table)


def logit_gradients(rows: GradientRows, auxiliary: Auxiliary) -> Floats:
    """Gradients in the logits, float64 [k, c]: the rows themselves, or their least-squares solution.

    A row is J^T delta with J the Jacobian [c, d] of the embedding at the node's features.
    """
    if auxiliary.embed_jacobian is None:
        return rows.rows
    parts = [np.arange(start, min(start + CHUNK, len(rows.nodes))) for start in range(0, len(rows.nodes), CHUNK)]
    solved = [_solved(auxiliary.embed_jacobian(rows.nodes[part]), rows.rows[part]) for part in parts]
    return np.concatenate(solved)


def _solved(jacobian: NDArray[Any], rows: Floats) -> Floats:
    """The delta [k, c] of least |J^T delta - row|, by the normal equations."""
    if jacobian.ndim != 3 or (len(jacobian), jacobian.shape[2]) != rows.shape:
        raise InputError(
            f"embed_jacobian must give [nodes, classes, {rows.shape[1]}] for {len(rows)} nodes; found shape "
            f"{list(jacobian.shape)}"
        )
    wide = jacobian.astype(np.float64)
    inverse = np.linalg.pinv(wide @ wide.transpose(0, 2, 1), rcond=RANK, hermitian=True)
    return np.asarray(np.einsum("kcb,kbd,kd->kc", inverse, wide, rows, optimize=True))


def _nonzero(clients: Ids, table: Floats) -> GradientRows:
    telling = table[:, 1:].any(axis=1)
    return GradientRows(clients[telling], table[telling, 0].astype(np.int64), table[telling, 1:])
