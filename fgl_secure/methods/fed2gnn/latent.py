"""The map of features to a latent space that the clients of Fed2GNN learn together (end of 4.3).

They average a perceptron that looks at own features alone; its first layer, without bias, is the map. Being linear, it
changes places with the sums of the exchange. The server learns sums over the clients, as in every other round.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.preset import LatentPreset
from fgl_secure.training.averaging import Learner, LocalSteps
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import Dropout
from fgl_secure.training.node_models import Matrix, PerceptronModel, Surroundings
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Silo

Floats = NDArray[np.float32]


class _Together(Dropout):
    """What all clients drop is drawn from one seed, client by client, and each takes its own."""

    def __init__(self, rate: float, seed: int, silo: Silo) -> None:
        super().__init__(rate, seed)
        self._sizes, self._own = silo.facts.sizes, silo.silo

    def __call__(self, hidden: torch.Tensor, *, training: bool) -> torch.Tensor:
        if not (training and self._rate):
            return hidden
        shapes = [(size, hidden.shape[1]) for size in self._sizes]
        drawn = [torch.rand(shape, generator=self._coins) for shape in shapes]
        return hidden * (drawn[self._own].to(hidden.device) >= self._rate) / (1 - self._rate)


def mapped(features: Floats, matrix: Floats) -> Floats:
    """Rows [n, features] to float32 [n, width]."""
    found: Floats = (sparse.csr_array(features) @ matrix).astype(np.float32)
    return found


def learn_latent(talk: Collectives, preset: LatentPreset, *, seed: int, device: torch.device) -> Floats:
    """Averages the perceptron, then finds the scale from the mean square of a coordinate over all nodes.

    Args:
        talk: sums over clients; one a round, and one more.
        preset: how to train.
        seed: of initial weights and dropout.
        device: where model compute runs.

    Returns:
        float32 [features, width], what every client multiplies its features with; mapped rows have the root mean
        square of the preset over all nodes.

    Raises:
        InputError: all features are zero, so that there is nothing to map.
    """
    silo, facts = talk.silo, talk.silo.facts
    model = PerceptronModel((facts.features, preset.width, facts.classes), torch.Generator().manual_seed(seed))
    local = LocalSteps(preset.learning_rate, preset.weight_decay)
    dropout = _Together(preset.dropout, seed, silo)
    learner = Learner(talk, model, local, dropout, device)
    alone = sparse.csr_array((len(silo.nodes), len(silo.nodes)), dtype=np.float64)
    graph = Surroundings(Matrix(sparse.csr_array(silo.features), device), Matrix(alone, device))
    for _ in range(preset.epochs):
        learner.step(graph)
    matrix = model.first.detach().cpu().numpy()
    squares = (mapped(silo.features, matrix).astype(np.float64) ** 2).mean(axis=1)
    share = np.array([squares.sum() / facts.nodes])
    square = float(talk.server(share, grid=talk.grid(FRACTION_BITS))[0][0])
    if not square > 0:
        raise InputError("features must not all be mapped to zero; found nothing else")
    scaled: Floats = (matrix * (preset.scale / np.sqrt(square))).astype(np.float32)
    return scaled
