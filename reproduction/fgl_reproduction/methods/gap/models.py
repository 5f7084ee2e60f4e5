"""Perceptrons of GAP and ProGAP: an encoder of features, and a classifier of cached rows."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.local_privacy import correct_scores
from fgl_secure.training.node_models import NodeModel, Surroundings


def _linear(d_in: int, d_out: int, coins: torch.Generator) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(d_in, d_out), generator=coins))


class EmbeddingModel(NodeModel):
    """Scores of nodes from an embedding that the model computes on the way.

    Attributes:
        response: law of labels under randomised response, float [classes, classes], whose labels the model trains on;
            None for labels as they are.
    """

    response: torch.Tensor | None = None

    def forward(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """Return the scores, float [n, classes]: of labels as they are sent in training, of true ones otherwise."""
        scores = self.score(graph, dropout)
        return correct_scores(scores, self.response) if self.training and self.response is not None else scores

    def score(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """Return the scores of true labels, float [n, classes]."""
        raise NotImplementedError

    def embed(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """Return the embedding, float [n, width], that goes to neighbours next."""
        raise NotImplementedError


class Encoder(EmbeddingModel):
    """Three linear layers with SELU and dropout between them; edges do not enter.

    Args:
        widths: of the features, the hidden layer, the embedding and the classes.
        coins: draw the initial weights.
    """

    def __init__(self, widths: tuple[int, int, int, int], coins: torch.Generator) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.weights = nn.ParameterList(_linear(d_in, d_out, coins) for d_in, d_out in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d_out)) for _, d_out in pairs)

    def embed(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """See `EmbeddingModel.embed`."""
        hidden = functional.selu(graph.rows @ self.weights[0] + self.biases[0])
        second: torch.Tensor = dropout(hidden, training=self.training) @ self.weights[1] + self.biases[1]
        return functional.selu(second)

    def score(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """See `EmbeddingModel.score`."""
        hidden = dropout(self.embed(graph, dropout), training=self.training)
        scores: torch.Tensor = hidden @ self.weights[2] + self.biases[2]
        return scores


class BlockClassifier(EmbeddingModel):
    """A linear layer with SELU for each block of columns, and one linear layer on all of them together.

    Args:
        blocks: how many blocks the rows have, side by side.
        width: of a block, and of what becomes of it.
        classes: number of scores.
        coins: draw the initial weights.
    """

    def __init__(self, blocks: int, width: int, classes: int, coins: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList(_linear(width, width, coins) for _ in range(blocks))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(blocks))
        self.head, self.head_bias = _linear(blocks * width, classes, coins), nn.Parameter(torch.zeros(classes))
        self._width = width

    def _hidden(self, graph: Surroundings) -> torch.Tensor:
        weights = torch.block_diag(*self.weights)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return functional.selu(graph.rows @ weights + torch.cat(list(self.biases)))

    def embed(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:  # noqa: ARG002  # as the encoder's
        """See `EmbeddingModel.embed`: of the last block."""
        return self._hidden(graph)[:, -self._width :]

    def score(self, graph: Surroundings, dropout: CoinDropout) -> torch.Tensor:
        """See `EmbeddingModel.score`."""
        return dropout(self._hidden(graph), training=self.training) @ self.head + self.head_bias
