"""The global feature-structure encoder g(omega), which sees features and structure proxies but no edges (4.2.2)."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from fgl_secure.methods.fedspray.affine import Affine
from fgl_secure.methods.fedspray.subgraph import Product


class Encoder(nn.Module):
    """An embedding of features, a classifier on embedding plus proxy, and a projector on the embedding alone.

    One layer each (section 5.1.3).

    Args:
        features: input width.
        width: of embeddings and proxies.
        classes: number of classes.
    """

    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = Affine(features, width)
        self.classifier = Affine(width, classes)
        self.projector = Affine(width, classes)

    def embed(self, features: Product) -> torch.Tensor:
        """Embeddings e = relu(X W_e + b_e), float32 [m, width]."""
        return functional.relu(features(self.embedding.weight) + self.embedding.bias)

    def classify(self, embeddings: torch.Tensor, proxies: torch.Tensor) -> torch.Tensor:
        """Logits of p_i = g_p(e_i + s_i) (Eq. 9), float32 [m, C]."""
        logits: torch.Tensor = self.classifier(embeddings + proxies)
        return logits

    def project(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Logits of q_i = g_q(e_i) (Eq. 10), float32 [m, C]."""
        logits: torch.Tensor = self.projector(embeddings)
        return logits


@torch.no_grad()
def draw_encoder(encoder: Encoder, draws: torch.Generator) -> None:
    """Draws all weights and biases uniformly within one over the root of a layer's output width."""
    for layer in (encoder.embedding, encoder.classifier, encoder.projector):
        most = 1 / math.sqrt(layer.weight.shape[1])
        for parameter in layer.parameters():
            parameter.copy_(torch.empty(parameter.shape).uniform_(-most, most, generator=draws))
