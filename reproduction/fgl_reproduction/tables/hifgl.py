"""The tables of HiFGL (KDD 2024, section 6) but its first, and its Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from fgl_reproduction.methods.fedpub.program import clients_of as fedpub_clients
from fgl_reproduction.methods.fedpub.program import fedpub_preset
from fgl_reproduction.methods.fedsage.program import clients_of as fedsage_clients
from fgl_reproduction.methods.fedsage.program import fedsage_preset
from fgl_reproduction.tables.costs import run_alone
from fgl_reproduction.tables.hifgl_baselines import (
    FEDAVG,
    FEDPER,
    FEDPROX,
    GLOBAL,
    HIFGL,
    LOCAL,
    LOCAL_MLP,
    Framework,
    HiFGLUnderAveraging,
    framework_job,
    train_framework,
)
from fgl_reproduction.tables.statistics import CLIENTS, CROSSING, EDGES_EACH, NODES_EACH, GraphCounts
from fgl_reproduction.tables.table import Choices, DerivedMetric, Metric, Paper, TableCase
from fgl_secure.graph import FederatedGraph, Graph, load, random_split
from fgl_secure.graph.partition import partition
from fgl_secure.schemes import parse
from fgl_secure.training.job import Job
from fgl_secure.training.loop import COUNTS, Counts, Figures, share_of
from fgl_secure.training.presets import Preset, preset
from fgl_secure.training.program import Program
from fgl_secure.typing import Floats

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
        backbone: a name of `fgl_secure.backbones`.
        silos: silos of equal size that nodes are assigned to at random (Table 2).
        layers: number of layers; None takes the preset's.
        hidden: width of the hidden layers; None takes the preset's.
        public_rate: whether rate, its decay and (where `hidden` is None) the width are the public code's for the data.
    """

    framework: Framework
    backbone: str
    silos: int = SILOS
    layers: int | None = None
    hidden: int | None = None
    public_rate: bool = False

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once: test accuracy at the selected round, and seconds a round."""
        secured = self.framework == HIFGL
        result = train_framework(
            self.framework,
            load_graph(data, self.silos, seed),
            self._shape_preset(preset(choices.preset, data.name).with_epochs(choices.epochs), data.name),
            backbone=self.backbone,
            seed=seed,
            device=choices.place,
            scheme=parse(choices.scheme, ("neighbours",))[1] if secured else None,
        )
        assert result.accuracy.test is not None
        return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}

    def _shape_preset(self, training: Preset, dataset: str) -> Preset:
        layers, hidden = self.layers or training.layers, self.hidden or training.hidden
        # the lines name Eqs. 2 and 3 themselves, as another backbone
        layers_of = "literature" if training.layers_of == "paper" else training.layers_of
        shaped = replace(training, layers=layers, hidden=hidden, layers_of=layers_of)
        if not self.public_rate:
            return shaped
        public = preset("public-code", dataset)
        hidden = self.hidden or public.hidden
        return replace(shaped, learning_rate=public.learning_rate, decay_every=public.decay_every, hidden=hidden)


@dataclass(frozen=True, slots=True)
class HiFGLRivalRun:
    """One run of another paper's method with its own settings, for the paper prints none, as a measure.

    Attributes:
        preset: of the method, by name.
        clients: makes its clients.
    """

    preset: Callable[[str], Any]
    clients: Callable[..., Job]

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, in plaintext: accuracy, and seconds a round."""
        name = "paper" if choices.preset == "public-code" else choices.preset  # rivals' own code is their `paper`
        graph, preset = load_graph(data, SILOS, seed), self.preset(name).with_epochs(choices.epochs)
        result = self.clients(graph, {}, preset, seed=seed, device=choices.place).train()
        assert result.accuracy.test is not None
        return {ACCURACY: result.accuracy.test, SECONDS: result.seconds_per_round}


@dataclass(frozen=True, slots=True)
class IsolatedTraining:
    """A training run in a process of its own, which loads the data set itself: its memory as well."""

    training: Training

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        measured, memory = run_alone(partial(_load_and_train, self.training, data.name, choices, seed))
        return {**measured, MEMORY: memory}


def _load_and_train(training: Training, dataset: str, choices: Choices, seed: int) -> Mapping[Metric, float]:
    return training(load(dataset, choices.data_root), choices, seed)


def load_graph(data: Graph, silos: int, seed: int) -> FederatedGraph:
    """Silos of equal size at random, and a 60/20/20 split over the whole graph (6.1, Table 2); the seed repeats both.

    Every framework gets the same silos and the same split of a seed.
    """
    silo_of, masks = partition("random", data, silos, seed), random_split(data.num_nodes, seed)
    return FederatedGraph.from_assignment(data, silo_of, masks, "random")


GAIN = Metric("gain (%)", 2)
"""Graph information gain (6.1): (acc - acc of Local-MLP) / (acc of Global - acc of Local-MLP), of mean accuracies."""

PAPER = Paper("HiFGL", "KDD 2024", ("Cora", "CiteSeer", "PubMed"), (ACCURACY,))
BACKBONES = {"GCN": "gcn_without_loops", "GraphSage": "sage"}
NOT_IMPLEMENTED = ("FedPerGNN",)
ON_ALL_EDGES, OWN_ROWS, PUBLIC_RATE = "tested on all edges", "with own rows", "the public code's rate and width"


def _cases(frameworks: tuple[Framework, ...], *, own_rows: bool = False) -> tuple[TableCase, ...]:
    """A line for each backbone and framework, and one for each other reading of what the paper prints of it."""
    cases: list[TableCase] = []
    for name, backbone in BACKBONES.items():
        layers = {"": backbone, f", {OWN_ROWS}": "gcn"} if own_rows and name == "GCN" else {"": backbone}
        for framework in frameworks:
            known = (framework,) if framework in (HIFGL, GLOBAL) else (framework, framework.on_all_edges)
            line, setting = f"{framework.name}-{name}", f"silos {1 if framework is GLOBAL else SILOS}"
            for (layer, made), item in product(layers.items(), known):
                method = _measure_name(item, line + layer)
                cases.append(TableCase(setting, method, Training(item, made), beside=line if method != line else ""))
    return tuple(cases)


def _public_cases(*frameworks: Framework) -> tuple[TableCase, ...]:
    """GCN's lines at the public code's rate and width: on PubMed 0.1, times 0.9 every 8 rounds, and 128."""
    return tuple(
        TableCase(
            f"silos {SILOS}",
            f"{_measure_name(framework, f'{framework.name}-GCN')}, {PUBLIC_RATE}",
            Training(framework, BACKBONES["GCN"], public_rate=True),
            beside=f"{framework.name}-GCN",
        )
        for framework in frameworks
    )


def _measure_name(framework: Framework, name: str) -> str:
    return f"{name}, {ON_ALL_EDGES}" if framework.tested_on_all else name


def _gains(accuracy: Mapping[TableCase, float]) -> Mapping[TableCase, float | None]:
    by_method = {case.method: value for case, value in accuracy.items()}
    if LOCAL_MLP.name not in by_method:
        return {}
    lowest = by_method[LOCAL_MLP.name]
    gains: dict[TableCase, float | None] = {}
    for case, value in accuracy.items():
        backbone = case.line.rpartition("-")[2]
        span = by_method.get(f"{GLOBAL.name}-{backbone}", lowest) - lowest
        gains[case] = 100 * (value - lowest) / span if span else None
    gains[next(case for case in accuracy if case.method == LOCAL_MLP.name)] = 0.0
    return gains


_LAYER_NOTE = (
    "GCN is Eqs. 2 and 3 as printed, in which a device does not hear itself. The layer of lines "
    f"'{OWN_ROWS}' adds the device's row: Kipf and Welling's, or the public code's under `public-code`."
)
_EDGES_NOTE = (
    f"Lines '{ON_ALL_EDGES}' train on the edges within silos, and are scored on all edges by who has the whole graph; "
    "others are scored on the edges that they train on. The paper does not say which it did."
)

FRAMEWORKS = PAPER.table(
    "table3",
    "accuracy and graph information gain of frameworks",
    cases=(
        TableCase(f"silos {SILOS}", LOCAL_MLP.name, Training(LOCAL_MLP, "gcn")),
        *_cases((LOCAL, FEDAVG, HIFGL, GLOBAL), own_rows=True),
        *_public_cases(HIFGL),
    ),
    derived=(DerivedMetric(GAIN, ACCURACY, _gains),),
    notes=(
        "The graph information gain is computed from mean accuracies, as in the paper, and has no deviation.",
        "One round is reported for all silos, by pooled accuracy, also where silos train alone.",
        _EDGES_NOTE,
        _LAYER_NOTE,
    ),
)

ALGORITHMS = PAPER.table(
    "table4",
    "accuracy of federated algorithms",
    cases=(
        *_cases((FEDAVG, FEDPROX, FEDPER)),
        TableCase(f"silos {SILOS}", "FedSage+", HiFGLRivalRun(fedsage_preset, fedsage_clients)),
        *(TableCase(f"silos {SILOS}", name, None) for name in NOT_IMPLEMENTED),
        TableCase(f"silos {SILOS}", "FED-PUB", HiFGLRivalRun(fedpub_preset, fedpub_clients)),
        *_cases((HIFGL,)),
        *_public_cases(*(each.on_all_edges for each in (FEDAVG, FEDPROX, FEDPER)), HIFGL),
    ),
    notes=(
        "FedSage+ has its own settings (reproduction/docs/fedsage.md), for the paper prints none.",
        "FED-PUB has its own network, rounds and rate (reproduction/docs/fedpub.md), and plaintext averages.",
        f"FedProx averages after {FEDPROX.local_steps} local steps, with mu = .01, and takes as many steps in all as "
        "FedAvg: a first step starts at the server's model, where its term has no gradient. The paper names neither.",
        f"Not implemented: {', '.join(NOT_IMPLEMENTED)}. FedPerGNN (Wu et al. 2022) predicts ratings: a client is a "
        "user with a graph of items, and hides among items that the user never touched. The paper does not say what a "
        "client, an item and a rating are where nodes of a citation graph are classified.",
        _EDGES_NOTE,
        _LAYER_NOTE,
    ),
)

_MEMORY_NOTE = (
    "Memory is the peak resident memory of a process that loads the data set and trains once, Python and its "
    "libraries included, in GB of 10^9 bytes; the paper does not say what it measured."
)
_TIME_NOTE = "Time is that of this machine under the chosen scheme; the paper's is SecMP's on a V100."

DEPTHS = PAPER.table(
    "table5",
    "number of layers",
    datasets=("CiteSeer",),
    cases=tuple(
        TableCase(
            f"layers {layers}",
            "HiFGL-GCN",
            IsolatedTraining(Training(HIFGL, BACKBONES["GCN"], layers=layers, hidden=64)),
        )
        for layers in (1, 2, 4, 8, 16)
    ),
    metrics=(ACCURACY, SECONDS, MEMORY),
    notes=(_TIME_NOTE, _MEMORY_NOTE),
)

WIDTHS = PAPER.table(
    "table6",
    "hidden dimension",
    datasets=("PubMed",),
    cases=tuple(
        TableCase(
            f"hidden {hidden}",
            method,
            IsolatedTraining(Training(HIFGL, BACKBONES["GCN"], layers=2, hidden=hidden, public_rate=public)),
            beside=f"{HIFGL.name}-GCN" if public else "",
        )
        for method, public in ((f"{HIFGL.name}-GCN", False), (f"{HIFGL.name}-GCN, the public code's rate", True))
        for hidden in (4, 8, 16, 32, 64, 128)
    ),
    metrics=(ACCURACY, SECONDS, MEMORY),
    notes=(_TIME_NOTE, _MEMORY_NOTE, "The paper prints one memory for all dimensions."),
)

SILO_NUMBERS = PAPER.table(
    "fig5",
    "number of silos",
    datasets=("Cora",),
    cases=tuple(
        TableCase(
            f"silos {silos}",
            _measure_name(framework, f"{framework.name}-GraphSage"),
            Training(framework, "sage", silos=silos),
        )
        for framework in (HIFGL, FEDAVG, FEDAVG.on_all_edges, LOCAL)
        for silos in (1, 5, 10, 20, 30, 50)
    ),
    metrics=(ACCURACY, SECONDS),
    notes=(
        "The paper prints no numbers for this figure, does not name its data set, and has no Local in it.",
        _EDGES_NOTE,
        _TIME_NOTE,
    ),
)


class ScoredSilo(HiFGLUnderAveraging):
    """A silo's model of which every score is kept.

    Attributes:
        course: for each number of rounds, int64 [COUNTS]: right predictions and predictions of the silo's devices.
    """

    def __init__(self, *given: Any, **rest: Any) -> None:
        super().__init__(*given, **rest)
        self.course: list[Counts] = []

    def sum_figures(self, *given: Any) -> tuple[Floats, Figures]:
        """See `Rounds.told`."""
        result = super().sum_figures(*given)
        self.course.append(result[1].own)
        return result


@dataclass(frozen=True, slots=True)
class HiFGLTrainingCurve:
    """One training run of HiFGL, as a measure of each silo while it trains.

    Attributes:
        backbone: as of `Training`.
        rounds: after which silos' test devices are scored; where there are fewer, after the last.
    """

    backbone: str
    rounds: tuple[int, ...]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """A silo's accuracy after a number of rounds, for each of both."""
        return tuple(self._metric(silo, after) for silo in range(SILOS) for after in self.rounds)

    @staticmethod
    def _metric(silo: int, after: int) -> Metric:
        return Metric(f"silo {silo + 1} after {after}", 4)

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        programs: list[Program] = []
        job = framework_job(
            HIFGL,
            load_graph(data, SILOS, seed),
            preset(choices.preset, data.name).with_epochs(choices.epochs),
            backbone=self.backbone,
            seed=seed,
            device=choices.place,
            scheme=parse(choices.scheme, ("neighbours",))[1],
            kind=ScoredSilo,
        )
        replace(job, shown=lambda result: programs.__setitem__(slice(None), result)).train()
        return {
            self._metric(silo, after): float(share_of(course[min(after, len(course) - 1)][2:COUNTS]))
            for silo, course in enumerate(program.course for program in programs if isinstance(program, ScoredSilo))
            for after in self.rounds
        }


_COURSE = HiFGLTrainingCurve(BACKBONES["GCN"], (1, 5, 10, 20, 30, 40, 50))

COURSES = PAPER.table(
    "fig4",
    "accuracy of each silo's devices while HiFGL trains",
    datasets=("Cora",),
    cases=(TableCase(f"silos {SILOS}", "HiFGL-GCN", _COURSE),),
    metrics=_COURSE.metrics,
    notes=(
        "The paper prints no numbers for this figure, and names neither nodes nor backbone. These are "
        "test nodes, after so many rounds, under the model that the server has averaged.",
        _LAYER_NOTE,
    ),
)

STATISTICS = PAPER.table(
    "table2",
    "silos of the data sets, and edges inside and between them",
    cases=(
        TableCase(f"silos {SILOS}", "data", GraphCounts(lambda data, _choices, seed: load_graph(data, SILOS, seed))),
    ),
    metrics=(CLIENTS, NODES_EACH, EDGES_EACH, CROSSING),
    notes=(
        "Run s draws the silos with seed s. Clients are silos. Edges have no direction; the paper's 431 inside a silo "
        "of Cora counts both.",
    ),
)

TABLES = (STATISTICS, FRAMEWORKS, ALGORITHMS, DEPTHS, WIDTHS, COURSES, SILO_NUMBERS)
