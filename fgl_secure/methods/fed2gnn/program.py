"""Fed2GNN (Algorithms 1 and 2) as one client runs it: sums over trees, trees from sums, and averaging of models."""

from __future__ import annotations

import numpy as np
import torch

from fgl_secure.methods.fed2gnn.completed_graph import CompletedGraph, complete, roots_of, sent_values
from fgl_secure.methods.fed2gnn.decoder import Decoder
from fgl_secure.methods.fed2gnn.grouping import OwnPairs
from fgl_secure.methods.fed2gnn.hop_sums import Heard, RowRange, exchanged
from fgl_secure.methods.fed2gnn.latent import learn_latent, mapped
from fgl_secure.methods.fed2gnn.neighbourhoods import Neighbourhoods, own_neighbourhoods
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.tree_levels import Children, DecodedChildren
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.averaging import APART, Averaged
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.node_models import NodeModel, Surroundings, backbone_of, make_model
from fgl_secure.training.silo import Facts
from fgl_secure.typing import Floats

TINY = 1e-12


class Fed2GNN(Averaged):
    """One client of Fed2GNN.

    Args:
        talk: the collectives of the run; clients add up beforehand what goes to one node.
        preset: how to train.
        backbone: "gcn", "sage" or "dagnn".
        seed: of initial weights, dropout and decoders.
        device: where model compute runs; the CPU by default.
        rows: how large rows may get; None sends them as they are.

    Attributes:
        had: what the client has after the exchange.
        heard: float64 [K, m, w], the sums as they arrived, in the process that the exchange ended in.
    """

    had: Heard
    heard: Floats

    def __init__(
        self,
        talk: Collectives,
        preset: Fed2GNNPreset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        rows: RowRange | None = None,
    ) -> None:
        model = model_of(backbone, talk.silo.facts, preset, seed)
        super().__init__(talk, preset, model, seed=seed, device=device)
        self.preset = preset
        self._kind, self._rows = backbone_of(backbone).propagation, rows

    def begin(self) -> None:
        """All that is said before the first round: the latent map, sums over trees, and decoders of all clients."""
        features, latent = self.silo.features, self.preset.latent
        if latent is not None:
            features = mapped(features, learn_latent(self.talk, latent, seed=self.seed, device=self.device))
        graph, foreign = self.silo.alone, OwnPairs.of(self.silo, self.talk.wanted).foreign
        degree = (graph.in_degree + foreign).astype(np.float64)
        values = sent_values(features.astype(np.float64), degree, self._kind)
        sums, self.heard = exchanged(self.talk, graph, values, self.preset.hops, self._rows)
        self.had = Heard(graph, values, sums, foreign)
        self.kept = under("had", self.had.state())

    def surroundings(self) -> Surroundings:
        """Hangs trees on the client's own graph; the first time they are found out."""
        if "tree/rows" not in self.kept:
            self.hang_trees()
        return CompletedGraph(**within("tree", self.kept)).surroundings(self._kind, self.device)

    def hang_trees(self) -> None:
        """Finds the trees out."""
        had, preset = self.had, self.preset
        roots = roots_of(had.graph, 0, had.values, had.sums, had.foreign)
        tree = complete(had.graph, 0, roots, self.children(), preset.decoded_levels, self._kind)
        self.kept = under("tree", tree.state())

    def children(self) -> Children:
        """Where trees come from: decoders, trained on the client's own nodes."""
        had, preset, number = self.had, self.preset, self.silo.silo
        decoders = {}
        for parts in range(preset.hops, preset.hops - preset.decoded_levels, -1):
            mu = had.sums.mu[: parts - 1]
            data = own_neighbourhoods(had.graph, 0, had.values, mu, had.neighbours, preset.neighbours, self.seed)
            decoders[parts] = self.decoder(data, self.seed + APART * (1 + number + self.silo.facts.silos * parts))
        longest = max(float(np.linalg.norm(had.values, axis=1).max()), TINY)
        return DecodedChildren(decoders, preset.neighbours, had.usual, longest)

    def decoder(self, data: Neighbourhoods, seed: int) -> Decoder:
        """A trained decoder."""
        return Decoder(data, self.preset.neighbours, self.preset.decoder, seed, self.device)

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        if "had/values" in self.kept:
            self.had = Heard.restored(self.silo.alone, within("had", self.kept))


def model_of(backbone: str, facts: Facts, preset: Fed2GNNPreset, seed: int) -> NodeModel:
    """The model that a preset trains, on features as they are or on the latent map.

    Args:
        backbone: "gcn", "sage" or "dagnn".
        facts: of the graph.
        preset: how to train.
        seed: of the initial weights.
    """
    width = facts.features if preset.latent is None else preset.latent.width
    return make_model(backbone, (width, preset.hidden, facts.classes), preset.hops, seed)
