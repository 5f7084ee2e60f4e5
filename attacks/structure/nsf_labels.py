"""Labels of foreign nodes from learnt structure features, and which of them the training used.

Hop2Vec's features are minimised on the training loss and nothing else (FedStruct, ICLR 2025, 5.5): where the embedding
is the identity they are a table of logits that has memorised the labels, and every client holds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.areas import ranking_of_nodes, share_of_labels
from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, STRUCTURE, EmbeddingModel
from fgl_secure.attacks.structure.nsf_views import MODEL, MODEL_ALONE, embedded, foreign_features
from fgl_secure.attacks.structure.truth import StructureTruth
from fgl_secure.runtime import PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SOURCE = "on FedStruct (ICLR 2025) 5.5 and App. G.1: guess the labels of the identified nodes"


@dataclass(frozen=True, slots=True, eq=False)
class ReadLabels:
    """Labels that clients read: observers int64 [k] party identifiers, nodes int64 [k] indices, labels int64 [k]."""

    observers: Ids
    nodes: Ids
    labels: Ids


@dataclass(frozen=True, slots=True, eq=False)
class ScoredNodes:
    """How much clients take nodes for training nodes.

    Attributes:
        observers: int64 [k], party identifiers.
        nodes: int64 [k], device indices.
        scores: float64 [k].
    """

    observers: Ids
    nodes: Ids
    scores: Floats


class _Labels(InformedAttack[ReadLabels, EmbeddingModel, StructureTruth]):
    """Reading a label off a node's logits."""

    def infer_with(self, view: View, public: PublicParameters, known: EmbeddingModel) -> ReadLabels | None:  # noqa: ARG002  # needs no parameter
        """Takes the class of the largest logit of every foreign node, at every client alone."""
        found = [
            (np.full(len(held.nodes), client), held.nodes, embedded(held, known).argmax(axis=1))
            for client, held in foreign_features(view).items()
        ]
        return ReadLabels(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else None


class NsfLabels(_Labels):
    """The labels of all foreign nodes, those that no training used included."""

    card = Card(
        "nsf-labels",
        "a client reads the label of any foreign node off its learnt structure features",
        SOURCE,
        Role.SILO, Secret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, auxiliary=MODEL, truth=StructureTruth,
        knowledge=EmbeddingModel, tells_nothing=MODEL_ALONE,
    )  # fmt: skip

    def score(self, guess: ReadLabels, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of labels that are right over all foreign nodes."""
        return (share_of_labels("labels of foreign nodes", guess.labels, guess.nodes, truth),)


class NsfTrainingLabels(_Labels):
    """The labels that other clients trained on."""

    card = Card(
        "nsf-training-labels",
        "a client reads the labels that others train on off their nodes' learnt structure features",
        SOURCE,
        Role.SILO, Secret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.9, auxiliary=MODEL, truth=StructureTruth,
        knowledge=EmbeddingModel, tells_nothing=MODEL_ALONE,
    )  # fmt: skip

    def score(self, guess: ReadLabels, truth: StructureTruth) -> tuple[Measurement, ...]:
        """The share of labels that are right over foreign training nodes."""
        training = truth.labelled[guess.nodes]
        if not training.any():
            return ()
        return (
            share_of_labels("labels of foreign training nodes", guess.labels[training], guess.nodes[training], truth),
        )


class NsfMembership(Attack[ScoredNodes, StructureTruth]):
    """Which foreign nodes carry a label: training pushes their own features farthest from the start."""

    card = Card(
        "nsf-membership",
        "a client tells which foreign nodes train the model by the length of their learnt structure features",
        "on FedStruct (ICLR 2025) 5.5, as Duddu et al. (2020) for node embeddings",
        Role.SILO, Secret.LABEL, STRUCTURE, FEDSTRUCT, minimum=0.55, truth=StructureTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ScoredNodes | None:  # noqa: ARG002  # needs no parameter
        """Scores every foreign node by the length of its features, at every client alone."""
        found = [
            (np.full(len(held.nodes), client), held.nodes, np.linalg.norm(held.values, axis=1))
            for client, held in foreign_features(view).items()
        ]
        return ScoredNodes(*(np.concatenate(column) for column in zip(*found, strict=True))) if found else None

    def score(self, guess: ScoredNodes, truth: StructureTruth) -> tuple[Measurement, ...]:
        """Twice the area under the curve less one: 0 without a view."""
        training = truth.labelled[guess.nodes]
        if training.all() or not training.any():
            return ()
        what = "Foreign nodes that train the model and those that don't"
        return (ranking_of_nodes("training nodes", guess.scores, training, guess.nodes, what),)
