"""What each client of FedStruct adds to the gradient of the whole loss, in the two ways that it can come about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.presets import Weighting

Gradients = Sequence[torch.Tensor | None]


@dataclass(frozen=True, slots=True, eq=False)
class ClientGradients:
    """The gradients of one client's part of the loss.

    Attributes:
        theta: float32 [|theta|], all model parameters one after the other.
        structure: float32 [n, d_s], of the structure features; None where these are fixed.
    """

    theta: NDArray[np.float32]
    structure: NDArray[np.float32] | None

    @classmethod
    def flattened(
        cls, parameters: Sequence[torch.Tensor], gradients: Gradients, learnt: torch.Tensor | None
    ) -> ClientGradients:
        """From one gradient a parameter, then one of the learnt features where there are any; None counts as zeros."""
        leaves = [*parameters, *([] if learnt is None else [learnt])]
        dense = [
            torch.zeros_like(leaf) if gradient is None else gradient
            for leaf, gradient in zip(leaves, gradients, strict=True)
        ]
        theta = torch.cat([gradient.reshape(-1) for gradient in dense[: len(parameters)]])
        structure = None if learnt is None else dense[-1].detach().cpu().numpy()
        return cls(theta.detach().cpu().numpy(), structure)


class GradientShares:
    """Splits the gradient of a loss over clients.

    Args:
        graph: who has what; losses come in the order of its labelled nodes.
        device: where the losses live.
    """

    def __init__(self, graph: FederatedGraph, device: torch.device) -> None:
        client_of = graph.silo_of[graph.train_mask]
        self._positions = [np.flatnonzero(client_of == client) for client in range(graph.num_silos)]
        self._members = [torch.from_numpy(graph.devices_of(client)).to(device) for client in range(graph.num_silos)]

    def by_loss(self, losses: torch.Tensor, leaves: Sequence[torch.Tensor]) -> Iterator[Gradients]:
        """One backward pass through everything for the loss of each client: it holds its rows of A-bar, and S."""
        for own in self._own(losses):
            yield torch.autograd.grad(own, leaves, retain_graph=True, allow_unused=True)

    def by_owner(
        self,
        losses: torch.Tensor,
        embeddings: torch.Tensor,
        f: Sequence[torch.Tensor],
        g: Sequence[torch.Tensor],
    ) -> Iterator[Gradients]:
        """The gradient of z goes back to the owners of the nodes it came from; each goes on from its own g(s_u).

        Args:
            losses: float [m], of the labelled nodes.
            embeddings: float [n, c], g(s_u) of all nodes.
            f: parameters of the feature model.
            g: parameters of the structure model and learnt structure features.

        Yields:
            One gradient for each of `f`, then one for each of `g`.
        """
        received = torch.autograd.grad(losses.sum(), embeddings, retain_graph=True)[0]
        for own, members in zip(self._own(losses), self._members, strict=True):
            features = torch.autograd.grad(own, f, retain_graph=True, allow_unused=True)
            nodes = embeddings[members]
            yield *features, *torch.autograd.grad(nodes, g, received[members], retain_graph=True, allow_unused=True)

    def _own(self, losses: torch.Tensor) -> list[torch.Tensor]:
        return [losses[positions].sum() for positions in self._positions]


def loss_weights(graph: FederatedGraph, weighting: Weighting) -> NDArray[np.float32]:
    """The weight of each labelled node's loss, float32 [m]; they sum to 1."""
    client_of = graph.silo_of[graph.train_mask]
    if weighting is Weighting.LABELLED:
        return np.full(len(client_of), 1 / len(client_of), dtype=np.float32)
    nodes, labelled = np.bincount(graph.silo_of), np.bincount(client_of, minlength=graph.num_silos)
    per_node: NDArray[np.float64] = nodes / graph.num_devices / np.maximum(labelled, 1)
    return per_node[client_of].astype(np.float32)
