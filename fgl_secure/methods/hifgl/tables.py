"""The tables of HiFGL (KDD 2024, section 6) and its Figure 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from fgl_secure.graph import FederatedGraph, Graph, load, random_partition, random_split
from fgl_secure.methods.fedpub.preset import fedpub_preset
from fgl_secure.methods.fedpub.training import clients_of as fedpub_clients
from fgl_secure.methods.fedsage.preset import fedsage_preset
from fgl_secure.methods.fedsage.training import clients_of as fedsage_clients
from fgl_secure.methods.hifgl.baselines import (
    FEDAVG,
    FEDPER,
    FEDPROX,
    GLOBAL,
    HIFGL,
    LOCAL,
    LOCAL_MLP,
    Framework,
    train_framework,
)
from fgl_secure.schemes import parse
from fgl_secure.tables.alone import run_alone
from fgl_secure.tables.table import Case, Choices, Derived, Metric, PaperTable
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
            device=choices.place,
            scheme=parse(choices.scheme, ("neighbours",))[1] if secured else None,
        )
        assert result.accuracy.test is not None
        return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}

    def _shaped(self, training: Preset) -> Preset:
        layers, hidden = self.layers or training.layers, self.hidden or training.hidden
        return replace(training, layers=layers, hidden=hidden)


def run_fedsage(data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
    """One run of FedSage+ in the clear with its own settings, for the paper prints none: accuracy, seconds a round."""
    graph, preset = federated(data, SILOS, seed), fedsage_preset(choices.preset).with_epochs(choices.epochs)
    result = fedsage_clients(graph, {}, preset, seed=seed, device=choices.place).train()
    assert result.accuracy.test is not None
    return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}


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


GAIN = Metric("gain (%)", 2)
"""Graph information gain (6.1): (acc - acc of Local-MLP) / (acc of Global - acc of Local-MLP), of mean accuracies."""

DATASETS = ("Cora", "CiteSeer", "PubMed")
BACKBONES = {"GCN": "gcn", "GraphSage": "sage"}
NOT_IMPLEMENTED = ("FedPerGNN",)


@dataclass(frozen=True, slots=True)
class FedPubRun:
    """One run of FED-PUB with its own settings, for the paper prints none, as a measure.

    Attributes:
        silos: silos of equal size that nodes are assigned to at random.
    """

    silos: int = SILOS

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in the clear."""
        training = fedpub_preset(choices.preset).with_epochs(choices.epochs)
        result = fedpub_clients(
            federated(data, self.silos, seed), {}, training, seed=seed, device=choices.place
        ).train()
        assert result.accuracy.test is not None
        return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}


def _cases(frameworks: tuple[Framework, ...]) -> tuple[Case, ...]:
    return tuple(
        Case(f"silos {1 if framework is GLOBAL else SILOS}", f"{framework.name}-{name}", Training(framework, backbone))
        for name, backbone in BACKBONES.items()
        for framework in frameworks
    )


def _gains(accuracy: Mapping[Case, float]) -> Mapping[Case, float | None]:
    by_method = {case.method: value for case, value in accuracy.items()}
    lowest = by_method[LOCAL_MLP.name]
    gains: dict[Case, float | None] = {}
    for case, value in accuracy.items():
        backbone = case.method.rpartition("-")[2]
        span = by_method.get(f"{GLOBAL.name}-{backbone}", lowest) - lowest
        gains[case] = 100 * (value - lowest) / span if span else None
    gains[next(case for case in accuracy if case.method == LOCAL_MLP.name)] = 0.0
    return gains


FRAMEWORKS = PaperTable(
    name="hifgl-table3",
    title="HiFGL (KDD 2024), Table 3: accuracy and graph information gain of frameworks",
    datasets=DATASETS,
    cases=(
        Case(f"silos {SILOS}", LOCAL_MLP.name, Training(LOCAL_MLP, "gcn")),
        *_cases((LOCAL, FEDAVG, HIFGL, GLOBAL)),
    ),
    metrics=(ACCURACY,),
    derived=(Derived(GAIN, ACCURACY, _gains),),
    printed="hifgl_table3.csv",
    notes=(
        "The graph information gain is computed from mean accuracies, as in the paper, and has no deviation.",
        "One round is reported for all silos, by pooled accuracy, also where silos train alone.",
    ),
)

ALGORITHMS = PaperTable(
    name="hifgl-table4",
    title="HiFGL (KDD 2024), Table 4: accuracy of federated algorithms",
    datasets=DATASETS,
    cases=(
        *_cases((FEDAVG, FEDPROX, FEDPER)),
        Case(f"silos {SILOS}", "FedSage+", run_fedsage),
        *(Case(f"silos {SILOS}", name, None) for name in NOT_IMPLEMENTED),
        Case(f"silos {SILOS}", "FED-PUB", FedPubRun()),
        *_cases((HIFGL,)),
    ),
    metrics=(ACCURACY,),
    printed="hifgl_table4.csv",
    notes=(
        "A round is one local step, which starts at the server's model: there FedProx's term has no gradient, so "
        "FedProx is FedAvg. The paper does not say how many local steps its FedProx took, nor its mu.",
        "FedSage+ has its own settings (docs/fedsage.md), for the paper prints none.",
        "FED-PUB has its own network, rounds and rate (docs/fedpub.md), and its averages are in the clear.",
        f"Not implemented: {', '.join(NOT_IMPLEMENTED)}.",
    ),
)

_MEMORY_NOTE = (
    "Memory is the peak resident memory of a process that loads the data set and trains once, Python and its "
    "libraries included, in GB of 10^9 bytes; the paper does not say what it measured."
)
_TIME_NOTE = "Time is that of this machine under the chosen scheme; the paper's is SecMP's on a V100."

DEPTHS = PaperTable(
    name="hifgl-table5",
    title="HiFGL (KDD 2024), Table 5: number of layers",
    datasets=("CiteSeer",),
    cases=tuple(
        Case(f"layers {layers}", "HiFGL-GCN", Alone(Training(HIFGL, "gcn", layers=layers, hidden=64)))
        for layers in (1, 2, 4, 8, 16)
    ),
    metrics=(ACCURACY, SECONDS, MEMORY),
    printed="hifgl_table5.csv",
    notes=(_TIME_NOTE, _MEMORY_NOTE),
)

WIDTHS = PaperTable(
    name="hifgl-table6",
    title="HiFGL (KDD 2024), Table 6: hidden dimension",
    datasets=("PubMed",),
    cases=tuple(
        Case(f"hidden {hidden}", "HiFGL-GCN", Alone(Training(HIFGL, "gcn", layers=2, hidden=hidden)))
        for hidden in (4, 8, 16, 32, 64, 128)
    ),
    metrics=(ACCURACY, SECONDS, MEMORY),
    printed="hifgl_table6.csv",
    notes=(_TIME_NOTE, _MEMORY_NOTE, "The paper prints one memory for all dimensions."),
)

SILO_NUMBERS = PaperTable(
    name="hifgl-fig5",
    title="HiFGL (KDD 2024), Figure 5: number of silos",
    datasets=("Cora",),
    cases=tuple(
        Case(f"silos {silos}", f"{framework.name}-GraphSage", Training(framework, "sage", silos=silos))
        for framework in (HIFGL, FEDAVG, LOCAL)
        for silos in (1, 5, 10, 20, 30, 50)
    ),
    metrics=(ACCURACY, SECONDS),
    notes=(
        "The paper prints no numbers for this figure, does not name its data set, and has no Local in it.",
        _TIME_NOTE,
    ),
)

TABLES = (FRAMEWORKS, ALGORITHMS, DEPTHS, WIDTHS, SILO_NUMBERS)
