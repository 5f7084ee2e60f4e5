"""One training run of a framework as a measure, in this process or in one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from fgl_secure.graph import FederatedGraph, Graph, load, random_partition, random_split
from fgl_secure.methods.hifgl.baselines import HIFGL, Framework, train_framework
from fgl_secure.schemes import parse
from fgl_secure.tables.alone import run_alone
from fgl_secure.tables.table import Choices, Metric
from fgl_secure.training.presets import Preset, preset

ACCURACY = Metric("accuracy", 4)
"""Over the test nodes of all silos pooled, a fraction."""
SECONDS = Metric("time per epoch (s)", 3)
"""Median over a run's rounds."""
MEMORY = Metric("memory (GB)", 3)
"""Peak resident memory of a process that loads the data and trains once."""

SILOS = 5
"""Of HiFGL's Table 2."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training run, as a measure.

    Attributes:
        framework: what the model may see, and how it is federated.
        backbone: "gcn" or "sage".
        silos: silos of equal size that nodes are assigned to at random (Table 2).
        layers: number of layers; None takes the preset's.
        hidden: width of the hidden layers; None takes the preset's.
    """

    framework: Framework
    backbone: str
    silos: int = SILOS
    layers: int | None = None
    hidden: int | None = None

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once: test accuracy at the selected round, and seconds a round."""
        secured = self.framework == HIFGL
        result = train_framework(
            self.framework,
            federated(data, self.silos, seed),
            self._shaped(preset(choices.preset, data.name).with_epochs(choices.epochs)),
            backbone=self.backbone,
            seed=seed,
            scheme=parse(choices.scheme, ("neighbours",))[1] if secured else None,
        )
        assert result.accuracy.test is not None
        return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}

    def _shaped(self, training: Preset) -> Preset:
        layers, hidden = self.layers or training.layers, self.hidden or training.hidden
        return replace(training, layers=layers, hidden=hidden)


@dataclass(frozen=True, slots=True)
class Alone:
    """A training run in a process of its own, which loads the data set itself: its memory as well."""

    training: Training

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        measured, memory = run_alone(partial(_load_and_train, self.training, data.name, choices, seed))
        return {**measured, MEMORY: memory}


def _load_and_train(training: Training, dataset: str, choices: Choices, seed: int) -> Mapping[Metric, float]:
    return training(load(dataset, choices.data_root), choices, seed)


def federated(data: Graph, silos: int, seed: int) -> FederatedGraph:
    """Silos of equal size at random, and a 60/20/20 split over the whole graph (6.1, Table 2); the seed repeats both.

    Every framework gets the same silos and the same split of a seed.
    """
    silo_of, masks = random_partition(data, silos, seed), random_split(data.num_nodes, seed)
    return FederatedGraph.from_assignment(data, silo_of, masks, "random")
