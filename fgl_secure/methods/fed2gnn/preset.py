"""How Fed2GNN is trained: with the paper's settings (Tables 5 and 6), chosen as its numbers suggest or honestly."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.presets import PRESETS, AveragedPreset, Selection, check_fields


@dataclass(frozen=True, slots=True)
class DecoderPreset:
    """How a client's decoder (4.3) is built and trained.

    Attributes:
        pool: by what the width of the U-Net shrinks from block to block.
        blocks: how often it shrinks, and grows again.
        width: of the first block; the paper does not say.
        coordinates: the most principal directions of a part of an element that the network separates neighbours in; the
            rest of a set's sum is shared out evenly. The paper does not have it.
        separator_rate: learning rate of the decoder phi (Adam).
        predictor_rate: learning rate of the degree predictor phi_d.
        epochs: passes over the client's neighbourhoods.
        batch: neighbourhoods a step; the paper does not say.
    """

    pool: int = 3
    blocks: int = 4
    width: int = 64
    coordinates: int = 16
    separator_rate: float = 1e-3
    predictor_rate: float = 1e-2
    epochs: int = 200
    batch: int = 512

    def __post_init__(self) -> None:
        check_fields(self, counts=("blocks", "width", "batch", "coordinates"), nonnegative=("epochs",))
        if self.pool < 2:
            raise InputError(f"pool must be at least 2; found {self.pool}")


@dataclass(frozen=True, slots=True)
class LatentPreset:
    """How the clients learn the map of features to a latent space (end of 4.3).

    Attributes:
        width: of the latent space; the paper does not say.
        epochs: rounds of federated averaging of a perceptron, whose first layer is the map; 0 leaves it as drawn.
        scale: root mean square of a coordinate of the mapped features over all nodes; the paper does not say.
        learning_rate: of Adam.
        weight_decay: factor of the L2 penalty.
        dropout: probability of dropping a hidden unit.
    """

    width: int = 128
    epochs: int = 20
    scale: float = 1.0
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self, counts=("width",), nonnegative=("epochs",), positive=("scale",), shares=("dropout",))


@dataclass(frozen=True, slots=True)
class Fed2GNNPreset(AveragedPreset):
    """Everything about training that is not the graph, the backbone or how sums are computed.

    There is one local step a round, and `hops` is K: layers of the model, and of the trees below their roots.

    Attributes:
        neighbours: d, most neighbours at other clients that a node asks about.
        decoded: levels of a tree that are decoded into single nodes, from 0 to K - 1. Below them a level is one node
            with the level's mean that stands for all of it. The paper decodes K - 1 levels, d^(K-1) nodes a tree.
        shared_decoder: whether one decoder, trained on all K parts, decodes every level (4.3); otherwise each level has
            one for the parts that are left.
        decoder: how decoders are trained.
        latent: the map to a latent space; None exchanges features as they are.
        row_growth: by how much rows may grow a hop.
    """

    neighbours: int = 10
    decoded: int = 1
    shared_decoder: bool = False
    decoder: DecoderPreset = DecoderPreset()  # frozen
    latent: LatentPreset | None = LatentPreset()  # frozen
    row_growth: float = 32.0

    def __post_init__(self) -> None:
        AveragedPreset.__post_init__(self)
        check_fields(self, counts=("neighbours",), nonnegative=("decoded",))

    def with_trees(self, hops: int | None, neighbours: int | None, decoder: str = "per-level") -> Fed2GNNPreset:
        """The same preset with trees of another depth K or breadth d; None changes nothing.

        Args:
            hops: K.
            neighbours: d.
            decoder: "shared" decodes K - 1 levels with one decoder, "per-level" as many as the preset says.
        """
        trees = self.with_given(hops=hops, neighbours=neighbours)
        return trees if decoder == "per-level" else replace(trees, shared_decoder=True, decoded=trees.hops - 1)

    @property
    def decoded_levels(self) -> int:
        """The levels that are decoded: never the last, whose nodes are summed."""
        return min(self.decoded, self.hops - 1)


def _decoder(pool: int, blocks: int, epochs: int) -> DecoderPreset:
    return DecoderPreset(pool=pool, blocks=blocks, epochs=epochs)


_CORA = Fed2GNNPreset("honest", decoder=_decoder(3, 4, 200))
_CS = Fed2GNNPreset("honest", learning_rate=0.1, dropout=0.0, decoder=_decoder(3, 4, 200))
_DBLP = Fed2GNNPreset("honest", hidden=32, dropout=0.75, weight_decay=1e-4, decoder=_decoder(2, 5, 200))
_DEEP_HOPS = 5
"""Layers of the DAGNN of Table 2."""
_DEEP_WIDTH = 32
"""The wider of the two hidden layers that Table 5 has."""
_DEEP_LATENT = LatentPreset(scale=0.3)
"""DAGNN's perceptron, which no degree divides, hardly learns from rows of the usual scale."""

_SETTINGS = {
    ("gcn", "Cora"): _CORA,
    ("gcn", "CS"): _CS,
    ("gcn", "DBLP"): _DBLP,
    ("sage", "Cora"): replace(_CORA, decoder=_decoder(3, 5, 50)),
    ("sage", "CS"): replace(_CS, learning_rate=0.01, decoder=_decoder(3, 5, 20)),
    ("sage", "DBLP"): replace(_DBLP, decoder=_decoder(3, 5, 100)),
    ("dagnn", "Cora"): replace(_CORA, hidden=_DEEP_WIDTH, hops=_DEEP_HOPS, latent=_DEEP_LATENT),
    ("dagnn", "CS"): replace(_CS, hidden=_DEEP_WIDTH, learning_rate=0.01, hops=_DEEP_HOPS, latent=_DEEP_LATENT),
    ("dagnn", "DBLP"): replace(_DBLP, hops=_DEEP_HOPS, latent=_DEEP_LATENT),
}
"""Table 6. It has no column for DAGNN, which takes GCN's, with the rate of the other two data sets on CS."""


def fed2gnn_preset(name: str, dataset: str, backbone: str = "gcn") -> Fed2GNNPreset:
    """The preset of a name; a data set that the authors did not use takes Cora's settings.

    Args:
        name: "honest" reports the best round on validation data, "paper" the best on test data.
        dataset: what the graph is called.
        backbone: "gcn", "sage" or "dagnn".
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    known = tuple(dict.fromkeys(kind for kind, _ in _SETTINGS))
    if backbone not in known:
        raise UnknownNameError("backbone", backbone, known)
    setting = _SETTINGS.get((backbone, dataset), _SETTINGS[backbone, "Cora"])
    return setting if name == "honest" else replace(setting, name="paper", selection=Selection.TEST)
