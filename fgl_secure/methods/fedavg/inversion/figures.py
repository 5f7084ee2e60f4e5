"""Reconstructions of a round next to the truth and to what can be guessed without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.gradients.matching.joint import likeliest_edges
from fgl_secure.attacks.gradients.matching.measures import (
    EdgeScores,
    GraphScores,
    Inverted,
    RowScores,
    aligned_with,
    class_means,
    edge_scores,
    graph_scores,
    row_scores,
)
from fgl_secure.attacks.gradients.truth import GradientTruth

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The nodes of all batches, as they are, as they were found, and as they can be guessed.

    Attributes:
        devices: int64 [k].
        labels: int64 [k].
        original: [k, d].
        found: float64 [k, d], in the order that fits the originals best.
        prior: float64 [k, d], the mean row of each node's class over all nodes.
        random: float64 [k, d], rows of nodes drawn at random.
    """

    devices: Ids
    labels: Ids
    original: Floats
    found: Floats
    prior: Floats
    random: Floats

    @property
    def scores(self) -> dict[str, RowScores]:
        """By what is compared with the originals: this run, and the two baselines."""
        guesses = {"this run": self.found, "prior": self.prior, "random": self.random}
        return {name: row_scores(rows, self.original) for name, rows in guesses.items()}


@dataclass(frozen=True, slots=True)
class Structure:
    """How well edges were found, averaged over gradients whose fields have edges and pairs without.

    Attributes:
        edges: as found.
        prior: pairs around the batch first.
        graphs: of each of all gradients.
    """

    edges: tuple[EdgeScores, ...]
    prior: tuple[EdgeScores, ...]
    graphs: tuple[GraphScores, ...]


def rows_of(guess: Inverted, truth: GradientTruth, seed: int) -> Rows:
    """All batches of a round."""
    aligned = aligned_with(guess, truth)
    devices = np.concatenate([each.devices[: each.batch] for each in aligned])
    features = truth.features.astype(np.float64)
    drawn = np.random.default_rng(seed).integers(len(features), size=len(devices))
    return Rows(
        devices,
        truth.labels[devices],
        features[devices],
        np.concatenate([each.rows[: each.batch] for each in aligned]),
        class_means(features, truth.labels, truth.labels[devices]),
        features[drawn],
    )


def structure_of(guess: Inverted, truth: GradientTruth) -> Structure | None:
    """What was found of edges; None where none were looked for."""
    edges, prior, graphs = [], [], []
    for exhibit, found, each in zip(guess.exhibits, guess.found, aligned_with(guess, truth), strict=True):
        if found.adjacency is None:
            return None
        field = exhibit.seen.field
        weights = found.adjacency[np.ix_(each.order, each.order)]
        chosen = likeliest_edges(weights, field.pairs).astype(np.float64)
        graphs.append(graph_scores(each.rows, chosen, truth.features[each.devices], field.adjacency))
        if 0 < field.pairs < field.nodes * (field.nodes - 1) // 2:
            inside = (np.arange(field.nodes) < field.batch).astype(np.float64)
            edges.append(edge_scores(weights, field.adjacency))
            prior.append(edge_scores(np.add.outer(inside, inside), field.adjacency))
    return Structure(tuple(edges), tuple(prior), tuple(graphs))
