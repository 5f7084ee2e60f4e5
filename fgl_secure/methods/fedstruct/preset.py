"""How FedStruct (ICLR 2025) and what it is compared with are trained: as its authors did, or honestly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import PRESETS, Schedule, Selection, check_fields


class FeatureModelKind(StrEnum):
    """The model f of a client's own features and local edges (Eq. 6)."""

    DGCN = "dgcn"
    """Decoupled GCN: LayerNorm, perceptron, then powers of the local adjacency."""
    SAGE = "sage"
    """GraphSAGE with mean aggregation after a LayerNorm, then one linear layer."""


class Weighting(StrEnum):
    """With which weight a client's loss enters the sum that a step is taken on."""

    LABELLED = "labelled"
    """Every labelled node counts the same: the sum of all gradients over the number of labelled nodes (Eq. 5)."""
    NODES = "nodes"
    """A client's mean over its labelled nodes, times its share of all nodes, as in the public code."""


class Stepping(StrEnum):
    """What is done with a gradient."""

    ADAM = "adam"
    """Adam with weight decay added to the gradient, in lockstep everywhere, as in the public code."""
    DESCENT = "descent"
    """Gradient descent with weight decay added to the gradient (Algorithms 1 and 2)."""


class AccuracyAveraging(StrEnum):
    """How clients' test accuracies become one number."""

    CLIENTS = "clients"
    """The plain mean over clients (the public code when the tables were made)."""
    NODES = "nodes"
    """The mean with weights by clients' numbers of nodes (the public code later)."""
    POOLED = "pooled"
    """Over the test nodes of all clients together."""


def check_betas(betas: tuple[float, ...] | None, hops: int) -> None:
    """Raises unless there is a finite weight for each of the powers 0 to `hops`, and not 0 for all beyond power 0."""
    if betas is None:
        return
    if len(betas) != hops + 1:
        raise InputError(f"betas must be {hops + 1}, for the powers 0 to {hops}; found {len(betas)}")
    if not np.isfinite(betas).all() or not np.any(betas[1:]):
        raise InputError(f"betas must be finite and not 0 for all beyond power 0; found {betas}")


@dataclass(frozen=True, slots=True)
class FedStructPreset(Schedule):
    """Everything about training that is not the graph, the structure features or how sums are computed.

    Attributes:
        learning_rate: of the model parameters theta.
        structure_rate: of learnt structure features S (Hop2Vec).
        weight_decay: factor of the L2 penalty, on theta and on learnt S.
        dropout: probability of dropping a hidden unit.
        feature_model: the kind of f.
        feature_hidden: widths of the hidden layers of a decoupled GCN's or an MLP's perceptron.
        feature_hops: power of the local adjacency in a decoupled GCN (L).
        sage_widths: output widths of the GraphSAGE layers, ahead of one linear layer.
        structure_hidden: widths of the hidden layers of g; None leaves g out and learns S [n, classes] (Eq. 15).
        hops: the power L_s of the global adjacency.
        betas: weights of its powers 0 to L_s in A-bar (Eq. 2; section 5.2 begins with power 0), a filter: one that
            keeps high frequencies suits heterophilic graphs; None takes the power L_s alone.
        structure_width: number d_s of structure features of a node.
        kept: entries kept per node of every power (p); None keeps all.
        weighting: how clients' losses are weighed.
        stepping: what is done with the gradient.
        double_softmax: whether cross-entropy is applied to probabilities as if they were logits.
        forgotten_loops: whether a decoupled GCN's local adjacency lacks the loops of each client's last nodes without
            local edges, as in the public code.
        averaging: of the reported test accuracy.
        selection: which accuracy picks the reported round; None reports the model after the last.
    """

    epochs: int
    learning_rate: float
    structure_rate: float
    weight_decay: float
    dropout: float
    feature_hidden: tuple[int, ...]
    feature_hops: int
    sage_widths: tuple[int, ...]
    structure_hidden: tuple[int, ...] | None
    hops: int
    betas: tuple[float, ...] | None = None
    structure_width: int = 256
    kept: int | None = 30
    feature_model: FeatureModelKind = FeatureModelKind.DGCN
    weighting: Weighting = Weighting.LABELLED
    stepping: Stepping = Stepping.ADAM
    double_softmax: bool = False
    forgotten_loops: bool = False
    averaging: AccuracyAveraging = AccuracyAveraging.POOLED
    selection: Selection | None = Selection.VALIDATION

    def __post_init__(self) -> None:
        check_fields(self, counts=("epochs", "hops", "structure_width", "kept"), shares=("dropout",))
        check_betas(self.betas, self.hops)
        if self.feature_model is FeatureModelKind.SAGE and not self.sage_widths:
            raise InputError("sage_widths must name at least one layer; found none")


def _setting(
    epochs: int,
    rate: float,
    decay: float,
    dropout: float,
    f: tuple[tuple[int, ...], int, tuple[int, ...]],
    g: tuple[tuple[int, ...], int],
) -> FedStructPreset:
    """One column of Table 5, with what only the public code says: dropout and the widths of GraphSAGE."""
    (hidden, feature_hops, sage), (structure_hidden, hops) = f, g
    return FedStructPreset(
        "honest", epochs, rate, rate, decay, dropout, hidden, feature_hops, sage, structure_hidden, hops
    )


_SETTINGS = {
    "Cora": _setting(40, 0.002, 5e-4, 0.7, ((64,), 2, (128, 64)), ((256,), 10)),
    "CiteSeer": _setting(60, 0.002, 5e-4, 0.7, ((64,), 2, (128, 64)), ((128, 64), 20)),
    "PubMed": _setting(125, 0.008, 1e-3, 0.9, ((128,), 2, (256, 256)), ((128,), 20)),
    "Chameleon": _setting(60, 0.003, 3e-4, 0.7, ((64,), 1, (128, 64, 32)), ((256,), 1)),
    "Photo": _setting(150, 0.005, 1e-3, 0.8, ((256,), 1, (256, 128)), ((256,), 3)),
}


def _as_published(setting: FedStructPreset) -> FedStructPreset:
    return replace(
        setting,
        name="paper",
        weighting=Weighting.NODES,
        double_softmax=True,
        forgotten_loops=True,
        averaging=AccuracyAveraging.CLIENTS,
        selection=None,
    )


def fedstruct_preset(name: str, dataset: str) -> FedStructPreset:
    """The preset of a name for a data set; a data set that the authors did not use takes Cora's settings."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    setting = _SETTINGS.get(dataset, _SETTINGS["Cora"])
    return setting if name == "honest" else _as_published(setting)
