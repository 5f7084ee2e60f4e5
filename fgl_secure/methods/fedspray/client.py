"""What one client of FedSpray does in a round (Algorithm 1, LocalUpdate)."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.methods.fedspray.networks import Encoder, Network
from fgl_secure.methods.fedspray.preset import FedSprayPreset
from fgl_secure.methods.fedspray.subgraph import Subgraph


def divergence(targets: torch.Tensor, learner: torch.Tensor) -> torch.Tensor:
    """Mean Kullback-Leibler divergence KL(target || learner) over nodes.

    Args:
        targets: float32 [m, C], logarithms of the distributions to come close to.
        learner: float32 [m, C], logits of those that come closer.
    """
    return functional.kl_div(functional.log_softmax(learner, dim=1), targets, log_target=True, reduction="batchmean")


def network_loss(
    scores: torch.Tensor,
    labelled: torch.Tensor,
    labels: torch.Tensor,
    targets: torch.Tensor,
    taught: torch.Tensor | None,
    teaching: float,
) -> torch.Tensor:
    """L_G = L_G_CE + lambda_1 L_G_KD of a client's network (Eq. 7).

    Args:
        scores: float32 [m, C], the network's, of all nodes.
        labelled: int64 [t], places of labelled nodes.
        labels: int64 [t], their labels.
        targets: float32 [m, C], logarithms of the encoder's soft targets p of all nodes.
        taught: int64 [k], places of the nodes in the second term; None takes all, as Eq. 6 does.
        teaching: lambda_1.
    """
    truth = functional.cross_entropy(scores[labelled], labels)
    if taught is None:
        return truth + teaching * divergence(targets, scores)
    return truth + teaching * divergence(targets[taught], scores[taught])


def encoder_loss(
    classified: torch.Tensor, projected: torch.Tensor, labels: torch.Tensor, predicted: torch.Tensor, learning: float
) -> torch.Tensor:
    """L_F = L_F_CE + lambda_2 L_F_KD of encoder and proxies (Eq. 11), over a client's labelled nodes.

    Args:
        classified: float32 [t, C], logits of p.
        projected: float32 [t, C], logits of q.
        labels: int64 [t].
        predicted: float32 [t, C], logarithms of the network's predictions.
        learning: lambda_2.
    """
    return functional.cross_entropy(projected, labels) + learning * divergence(predicted, classified)


class Client:
    """A network of its own, a copy of the encoder, and a structure proxy for each labelled node.

    Args:
        subgraph: what it holds.
        network: its own, never shared.
        encoder: the server's; copied.
        preset: how to train.
    """

    def __init__(self, subgraph: Subgraph, network: Network, encoder: Encoder, preset: FedSprayPreset) -> None:
        self.subgraph, self.network, self._preset = subgraph, network, preset
        self.encoder = copy.deepcopy(encoder)
        t, device = len(subgraph.labelled), subgraph.labels.device
        first = preset.first_node_proxy if preset.proxies else 0.0
        self.proxies = nn.Parameter(torch.full((t, preset.width), first, device=device), requires_grad=preset.proxies)
        self._steps = adam(network, preset.learning_rate)
        self._encoder_steps = adam(self.encoder, preset.learning_rate)
        self._proxy_steps = torch.optim.Adam([self.proxies], lr=preset.proxy_rate, fused=True)
        self.predictions = torch.empty(0)
        """Scores of all nodes by the network of the last round, float32 [m, C]."""

    def round(self, encoder: Encoder, class_proxies: torch.Tensor) -> float:
        """Both phases.

        Args:
            encoder: the server's.
            class_proxies: float32 [C, width], S as the server sent it.

        Returns:
            The loss of the network before its last step.
        """
        targets, taught = self._soft_targets(encoder, class_proxies)
        loss = self._train_network(targets, taught)
        with torch.no_grad():
            self.predictions = self.network.scores(self.subgraph)
        self._load(encoder)
        self._train_encoder(functional.log_softmax(self.predictions[self.subgraph.labelled], dim=1))
        return loss

    @torch.no_grad()
    def local_class_proxies(self) -> torch.Tensor:
        """The mean proxy of the labelled nodes of each class, float32 [C, width]; zeros for a class without any."""
        subgraph = self.subgraph
        sums = torch.zeros((len(subgraph.counts), self._preset.width), device=self.proxies.device)
        sums.index_add_(0, subgraph.labelled_labels, self.proxies.detach())
        counts = torch.bincount(subgraph.labelled_labels, minlength=len(subgraph.counts))
        return sums / counts.clamp(min=1)[:, None]

    @torch.no_grad()
    def _soft_targets(self, encoder: Encoder, class_proxies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Lines 2 to 5: logarithms of p of all nodes [m, C], and the places of those that teach; None for all."""
        subgraph, preset = self.subgraph, self._preset
        embeddings = encoder.embed(subgraph.features)
        soft = functional.softmax(encoder.project(embeddings), dim=1)
        if preset.proxies and not preset.own_proxies:
            self.proxies.copy_(class_proxies[subgraph.labelled_labels])
        proxies = soft @ class_proxies
        proxies[subgraph.labelled] = self.proxies
        targets = functional.log_softmax(encoder.classify(embeddings, proxies), dim=1)
        if preset.confidence is None:
            return targets, None
        sure = soft.max(dim=1).values > preset.confidence
        sure[subgraph.labelled] = True
        return targets, torch.nonzero(sure)[:, 0]

    def _train_network(self, targets: torch.Tensor, taught: torch.Tensor | None) -> float:
        """Lines 6 to 11."""
        subgraph, labels = self.subgraph, self.subgraph.labelled_labels
        loss = torch.empty(0)
        for _ in range(self._preset.local_epochs):
            self._steps.zero_grad()
            scores = self.network.scores(subgraph)
            loss = network_loss(scores, subgraph.labelled, labels, targets, taught, self._preset.teaching)
            loss.backward()  # type: ignore[no-untyped-call]
            self._steps.step()
        return loss.item()

    def _train_encoder(self, predicted: torch.Tensor) -> None:
        """Lines 15 to 22."""
        encoder, labels, features = self.encoder, self.subgraph.labelled_labels, self.subgraph.labelled_features
        for _ in range(self._preset.local_epochs):
            self._encoder_steps.zero_grad()
            self._proxy_steps.zero_grad()
            embeddings = encoder.embed(features)
            classified, projected = encoder.classify(embeddings, self.proxies), encoder.project(embeddings)
            loss = encoder_loss(classified, projected, labels, predicted, self._preset.learning)
            loss.backward()  # type: ignore[no-untyped-call]
            self._encoder_steps.step()
            self._proxy_steps.step()

    @torch.no_grad()
    def _load(self, encoder: Encoder) -> None:
        """Takes over the server's encoder; the state of the optimiser stays."""
        put_flat(self.encoder, flat(encoder))
        if self._preset.classifier_projects:
            self.encoder.projector.weight.copy_(encoder.classifier.weight)
            self.encoder.projector.bias.copy_(encoder.classifier.bias)


def adam(module: nn.Module, rate: float) -> torch.optim.Adam:
    """Adam on all parameters, without weight decay."""
    return torch.optim.Adam(module.parameters(), lr=rate, fused=True)


def flat(module: nn.Module) -> torch.Tensor:
    """All parameters, float32 [P]."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])


@torch.no_grad()
def put_flat(module: nn.Module, values: torch.Tensor) -> None:
    """Sets all parameters from float [P]."""
    parameters = list(module.parameters())
    parts = torch.split(values, [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.reshape(parameter.shape))


def as_reals(values: torch.Tensor) -> NDArray[np.float64]:
    """Float64 on the CPU."""
    found: NDArray[np.float64] = values.detach().cpu().numpy().astype(np.float64)
    return found
