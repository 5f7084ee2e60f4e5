"""Which nodes a noisy gradient was taken over: a matched filter for what each public node would add to it.

A node adds the outer product of the row that enters for it and the gradient at its outputs of the first layer. The
latter is unknown, but lies near one of few directions that the model gives: soft-max less one-hot of a class, led back
through the second weight and the units that the node switches on. The largest product of the gradient with these is
the score; unlike a span it degrades slowly under noise (differential privacy), and it needs no rank below the width.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.gradient_fields import FieldGuess, fields_of, score_fields
from fgl_secure.attacks.gradient_model import Activation, GradientModel
from fgl_secure.attacks.gradient_views import ClientGradients, client_gradients
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Floats = NDArray[np.float64]


class GradientFilter(InformedAttack[FieldGuess]):
    """The best product of a gradient with what a node of any class would add."""

    @property
    def card(self) -> Card:
        """The server alone, with gradients of single clients or with their sum."""
        return Card(
            "gradient-filter",
            "the server ranks nodes by how well a client's gradient goes with what they would add to it",
            "against noise on gradients: a matched filter (North 1943) for GRAIN's candidates (ICLR 2025)",
            Role.SERVER,
            Secret.TRAINING_NODE,
            Material.UPDATES,
            Reference.FEDAVG,
            minimum=0.55,
            auxiliary="the model, public features of all nodes, and the edges that clients average over",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> FieldGuess | None:
        """Scores every candidate against the gradient of every client."""
        seen, candidates = client_gradients(view, public, auxiliary), auxiliary.candidates
        if seen is None or candidates is None:
            return None
        entering = candidates.entering(seen.model)
        return fields_of(seen, candidates, entering, _scores(seen, entering), None)

    def score(self, guess: FieldGuess, truth: Truth) -> tuple[Measurement, ...]:
        """Areas under the curve: `score_fields`."""
        return score_fields(guess, truth)


def _scores(seen: ClientGradients, entering: dict[str, Floats]) -> Floats:
    length = np.sqrt(sum((rows * rows).sum(axis=1) for rows in entering.values()))[:, None]
    units = {name: rows / np.where(length > 0, length, 1) for name, rows in entering.items()}
    clients = range(len(seen.clients))
    projected = [sum(rows @ seen.parts[name][at] for name, rows in units.items()) for at in clients]
    scores = np.full((len(clients), len(length)), -np.inf)
    for direction in _directions(seen.model, entering):
        for at in clients:
            scores[at] = np.maximum(scores[at], (projected[at] * direction).sum(axis=1))
    return scores


def _directions(model: GradientModel, entering: dict[str, Floats]) -> Iterator[Floats]:
    """Unit gradients at the first layer's outputs for each class and way back, each [n, width]."""
    weights = model.layout.split(model.weights)
    nodes = len(next(iter(entering.values())))
    errors = 1 / model.widths[-1] - np.eye(model.widths[-1])
    if model.layers == 1:
        yield from (np.broadcast_to(row / np.linalg.norm(row), (nodes, len(row))) for row in errors)
        return
    outputs = sum(rows @ weights[name] for name, rows in entering.items()) + weights["0.bias"]
    back = [values for name, values in weights.items() if name.startswith("1.") and name.endswith("weight")]
    slopes = _slope(model.activation, outputs)
    yield from (_unit(slopes * (weight @ row)) for weight in back for row in errors)


def _slope(activation: Activation, outputs: Floats) -> Floats:
    if activation is Activation.RELU:
        return (outputs > 0).astype(np.float64)
    chance = 1 / (1 + np.exp(-outputs))
    return np.asarray(chance if activation is Activation.SOFTPLUS else chance * (1 - chance))


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1))
