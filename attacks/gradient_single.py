"""The gradient of a model of one layer at one node: the row that entered, to the last digit.

The gradient of the weight is the outer product of the row r that entered and the gradient at the logits, which is the
gradient of the bias: r is any column over the entry of the bias (Geiping et al. 2020, Prop. 3.1). Under GCN and SGC it
is the average over the neighbourhood; under GraphSAGE the node's own row is one, and its neighbours' mean another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.gradient_views import ClientGradients, client_gradients
from fgl_secure.attacks.truth import ClientBatch, Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

RANK_ONE = 1e-5
"""Up to this share of its length a gradient may differ from an outer product, and a row from the right one."""


@dataclass(frozen=True, slots=True, eq=False)
class SingleRows:
    """Rows that entered, of the clients whose gradient is of a single node.

    Attributes:
        round: of the gradients.
        clients: int64 [k], indices of silos.
        rows: by name of each first weight, float64 [k, d_in].
    """

    round: int
    clients: Ids
    rows: dict[str, Floats]


def single_rows(seen: ClientGradients) -> SingleRows | None:
    """Rows that entered; None where the model has two layers, or no gradient is of one node."""
    if seen.model.layers > 1 or seen.summed:
        return None
    delta = seen.parts[seen.model.last_bias]
    entry, which = np.abs(delta).argmax(axis=1), np.arange(len(delta))
    sizes, fits, rows = delta[which, entry], delta.any(axis=1), {}
    for name in seen.model.first_weights:
        gradient = seen.parts[name]
        rows[name] = gradient[which, :, entry] / np.where(sizes == 0, 1, sizes)[:, None]
        rest = np.linalg.norm(gradient - rows[name][:, :, None] * delta[:, None, :], axis=(1, 2))
        fits &= rest <= RANK_ONE * np.linalg.norm(gradient, axis=(1, 2))
    if not fits.any():
        return None
    kept = {name: values[fits] for name, values in rows.items()}
    return SingleRows(seen.model.round, seen.clients[fits], kept)


class GradientSingleRow(InformedAttack[SingleRows]):
    """A column of the weight's gradient over an entry of the bias's."""

    @property
    def card(self) -> Card:
        """The server alone, with gradients of single clients."""
        return Card(
            "gradient-single-row",
            "the server reads the row that entered a model of one layer off the gradient of a batch of one node",
            "Geiping et al. (NeurIPS 2020) Prop. 3.1, on averaged rows",
            Role.SERVER,
            Secret.NODE_FEATURES,
            Material.UPDATES,
            Reference.FEDAVG_SINGLE,
            auxiliary="the model",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> SingleRows | None:
        """Divides."""
        seen = client_gradients(view, public, auxiliary)
        return None if seen is None else single_rows(seen)

    def score(self, guess: SingleRows, truth: Truth) -> tuple[Measurement, ...]:
        """The share of clients whose node's row is right up to 1e-5 of its length, by every weight."""
        batches = single_batches(guess.round, truth)
        if not batches or not set(guess.rows) <= set(truth.entering):
            return ()
        right = [_matches(guess, batch, truth) for batch in batches]
        share = exact_proportion(sum(right), len(right))
        finding = f"{sum(right):,} of {len(right):,} rows that entered the gradient of a single node are read."
        return (Measurement("entering rows", share.value, share.interval, share.n, 0.0, 0.0, 1.0, True, finding),)


def single_batches(number: int, truth: Truth) -> list[ClientBatch]:
    """The batches of a round that are of one node."""
    return [batch for batch in truth.batches if batch.round == number and len(batch.nodes) == 1]


def _matches(guess: SingleRows, batch: ClientBatch, truth: Truth) -> bool:
    at = np.flatnonzero(guess.clients == batch.client)
    if not len(at):
        return False
    pairs = [(rows[at[0]], truth.entering[name][batch.nodes[0]]) for name, rows in guess.rows.items()]
    return all(bool(np.linalg.norm(read - right) <= RANK_ONE * np.linalg.norm(right)) for read, right in pairs)
