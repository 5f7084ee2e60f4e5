"""FedStruct's model (ICLR 2025, Eq. 6 to 10) as one client holds it: for its own nodes, with all structure features."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods.fedstruct.models import Dropout, FixedRows, LearntRows, feature_model
from fgl_secure.methods.fedstruct.presets import FedStructPreset, Weighting
from fgl_secure.methods.fedstruct.program import stepper, structure_model, structure_rows
from fgl_secure.methods.fedstruct.structure_sum import HeldRows
from fgl_secure.runtime import Step
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.parameters import flat, overwrite, remembered, remind, unflatten
from fgl_secure.training.scoring import Counts, counts_of
from fgl_secure.training.silo import Silo

_NO_STEP = Step(0)


class ClientModel:
    """The model of one client, in the same step everywhere.

    Args:
        share: what the silo holds.
        preset: how to train.
        rows: CSR [m, n], its rows of the combined adjacency.
        features: float32 [n, d_s], fixed structure features of all nodes; None learns them.
        seed: of initial weights, learnt structure features and dropout; the same everywhere.
        device: where it lives.
    """

    def __init__(
        self,
        share: Silo,
        preset: FedStructPreset,
        rows: sparse.csr_array,
        features: NDArray[np.float32] | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self._share, self._preset, self._device = share, preset, device
        facts = share.facts
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            f = feature_model(_alone(share), preset, device, facts.classes)
            self._rows = structure_rows(features, facts.nodes, facts.classes, preset, seed, device)
            g = structure_model(self._rows, facts.classes, preset, device)
        self._models = nn.ModuleList(model for model in (f, g) if model is not None)
        self._features, self._combine = FixedRows(share.features, device), HeldRows(rows, device)
        members = torch.tensor(share.nodes, device=device)
        self._dropout = Dropout(preset.dropout, seed, device, members, facts.nodes)
        labelled = np.flatnonzero(share.train)
        self._labelled = torch.from_numpy(labelled).to(device)
        self._labels = torch.from_numpy(share.labels[labelled]).to(device)
        self._weight = _weight(share, preset.weighting)
        self._optimiser = stepper(self.theta, self._learnt, preset)

    @property
    def theta(self) -> list[nn.Parameter]:
        """The model parameters, theta_f before theta_s."""
        return list(self._models.parameters())

    @property
    def _learnt(self) -> torch.Tensor | None:
        return self._rows.values if isinstance(self._rows, LearntRows) else None

    @property
    def _leaves(self) -> list[torch.Tensor]:
        return [*self.theta, *([] if self._learnt is None else [self._learnt])]

    @property
    def size(self) -> int:
        """Numbers of a gradient: of theta, then of the learnt structure features."""
        return sum(leaf.numel() for leaf in self._leaves)

    def gradient(self) -> tuple[NDArray[np.float32], float]:
        """The gradient of this client's part of the loss, float32 [size], and that part."""
        self._models.train()
        scores = self._scores()[self._labelled]
        scores = torch.softmax(scores, dim=1) if self._preset.double_softmax else scores
        loss = (functional.cross_entropy(scores, self._labels, reduction="none") * self._weight).sum()
        found = torch.autograd.grad(loss, self._leaves, allow_unused=True)
        pairs = zip(found, self._leaves, strict=True)
        return flat([torch.zeros_like(leaf) if g is None else g for g, leaf in pairs]), float(loss.detach())

    def step(self, total: NDArray[np.float64]) -> None:
        """Takes the step of all clients on the sum [size] of their gradients."""
        for leaf, gradient in zip(self._leaves, unflatten(total, self._leaves), strict=True):
            leaf.grad = gradient
        self._optimiser.step()

    def counts(self) -> Counts:
        """How often the model is right on own nodes."""
        self._models.eval()
        with torch.no_grad():
            return counts_of(self._share, self._scores().argmax(dim=1).cpu().numpy())

    def _scores(self) -> torch.Tensor:
        scores: torch.Tensor = self._models[0](self._features, self._dropout)
        plain = isinstance(self._rows, LearntRows) and len(self._models) == 1
        embeddings: torch.Tensor
        embeddings = self._rows.values if plain else self._models[1](self._rows, self._dropout)  # type: ignore[attr-defined]
        return scores + self._combine(embeddings, _NO_STEP)

    def parameters(self) -> dict[str, Array]:
        """Theta, and learnt structure features where there are any, float32."""
        learnt = {} if self._learnt is None else {"structure": self._learnt.detach().cpu().numpy().copy()}
        return {"theta": flat(self.theta), **learnt}

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, and where dropout's coins are."""
        values = {"values": flat(self._leaves), "coins": self._dropout.position}
        return {**values, **under("optimiser", remembered(self._optimiser))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        overwrite(self._leaves, state["values"])
        self._dropout.position = state["coins"]
        remind(self._optimiser, within("optimiser", state))


def _alone(share: Silo) -> FederatedGraph:
    """The silo's nodes and the edges between them, numbered anew."""
    both = np.logical_and(*share.inside)
    graph = Graph("own", share.features, share.labels, share.local(share.edges[:, both]))
    everyone = np.zeros(len(share.nodes), dtype=np.int64)
    return FederatedGraph(graph, everyone, share.train, share.validation, share.test, "own")


def _weight(share: Silo, weighting: Weighting) -> float:
    """Of every labelled node's loss, as float32 has it."""
    if weighting is Weighting.LABELLED:
        return float(np.float32(1 / share.facts.labelled))
    return float(np.float32(len(share.nodes) / share.facts.nodes / max(int(share.train.sum()), 1)))
