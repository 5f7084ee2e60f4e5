"""GAP and ProGAP as one silo runs them: stages of federated averaging, with noisy sums between them.

1. Stage 0 trains an encoder on each device's own features. No edge enters.
2. GAP: its embeddings are summed over neighbours, hop after hop, each sum with noise and scaled to norm 1. Stage 1
   trains a classifier on the embeddings and all sums, which are cached.
3. ProGAP: before each further stage the last stage's embeddings are summed once, and the stage trains on that sum and
   on all earlier embeddings.

The reported round is chosen on validation nodes among the rounds of all stages, those without edges included. That
choice reads noisy sums alone, so it costs no epsilon, and edges are left out where they bring nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse

from fgl_reproduction.methods.gap.hops import NoisySums, normalize_rows
from fgl_reproduction.methods.gap.models import BlockClassifier, EmbeddingModel, Encoder
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.dp import Perturbation, Unit, response_matrix
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.local_privacy import perturb_labels
from fgl_secure.training.loop import COUNTS, Figures, TrainingRounds, counts_of
from fgl_secure.training.node_models import APART, Learner, LocalSteps, Matrix, Surroundings
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import Schedule, Selection, check_fields
from fgl_secure.typing import Array, Floats, Ids

FEATURE_NORM = 4.0
"""L2 norm of a device's features at the encoder's input."""


@dataclass(frozen=True, slots=True)
class HopPreset(Schedule):
    """How GAP and ProGAP are trained.

    Attributes:
        epochs: most rounds of each stage.
        progressive: whether every hop has a stage of its own, as in ProGAP.
        hops: noisy sums of each device.
        encoder_width: of the encoder's hidden layer.
        width: of embeddings and sums.
        learning_rate: of Adam.
        weight_decay: factor of the L2 penalty.
        dropout: probability of dropping a hidden unit.
        unit: what neighbouring inputs differ in.
        edges_off: whether rounds of the encoder alone are eligible for the report.
        selection: which accuracy picks the reported round.
    """

    epochs: int = 100
    progressive: bool = False
    hops: int = 2
    encoder_width: int = 64
    width: int = 16
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    dropout: float = 0.5
    unit: Unit = Unit.EDGE
    edges_off: bool = True
    selection: Selection = Selection.VALIDATION

    def __post_init__(self) -> None:
        check_fields(self, counts=("epochs", "hops", "encoder_width", "width"), shares=("dropout",))

    @property
    def stages(self) -> int:
        """Models that are trained one after another."""
        return 1 + (self.hops if self.progressive else 1)


class NoisyHops(TrainingRounds):
    """One silo of GAP or ProGAP.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        settings: of the noise; None sums exactly.
        label_epsilon: of randomised response for each training and validation label; None keeps labels.
        relays: how many relays add a share of the noise to every sum; 0 where receivers add it.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        coins: of the noise; the operating system's entropy unless given.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: HopPreset,
        settings: Perturbation | None = None,
        label_epsilon: float | None = None,
        relays: int = 0,
        *,
        seed: int = 0,
        device: torch.device | None = None,
        coins: Coins | None = None,
    ) -> None:
        super().__init__(comm, preset.stages * preset.epochs, preset.selection, None)
        self._preset, self._seed, self._device = preset, seed, device or torch.device("cpu")
        devices, coins, self._response = len(self.silo.nodes), coins or SystemCoins(), None
        adding = comm.message_counts == 0 if relays else np.ones(devices, dtype=np.bool_)
        self._sums = NoisySums.draw(settings, adding, coins, relays or None)
        nothing = np.zeros((0, devices, preset.width))
        self.kept = {"noise": self._sums.noise, "rows": nothing, "without edges": np.zeros(COUNTS, dtype=np.int64)}
        if label_epsilon is not None:
            law = response_matrix(self.silo.facts.classes, label_epsilon).astype(np.float32)
            self._response = torch.from_numpy(law).to(self._device)
            self._hold_labels(perturb_labels(self.silo, label_epsilon, coins).labels)
        self._open(0)

    def _hold_labels(self, labels: Ids) -> None:
        """Train and choose rounds on labels as devices sent them, which are drawn once and kept."""
        self.kept["labels"] = labels
        self.silo = self.comm.silo = replace(self.comm.silo, labels=labels)

    def _open(self, stage: int) -> None:
        """Make the model of a stage and what it computes on."""
        self._stage, facts, preset = stage, self.silo.facts, self._preset
        coins, rows = torch.Generator().manual_seed(self._seed + APART * stage), self.kept["rows"]
        model: EmbeddingModel
        if stage == 0:
            widths = (facts.features, preset.encoder_width, preset.width, facts.classes)
            model, inputs = Encoder(widths, coins), FEATURE_NORM * normalize_rows(self.silo.features.astype(np.float64))
        else:
            model = BlockClassifier(len(rows), preset.width, facts.classes, coins)
            inputs = np.concatenate(list(rows), axis=1)
        empty = Matrix(sparse.csr_array((len(inputs), len(inputs)), dtype=np.float32))
        self._graph = Surroundings(Matrix(sparse.csr_array(inputs), self._device), empty)
        model.response = self._response
        self._model = model
        self._dropout = CoinDropout(preset.dropout, self._seed + APART * (1 + self.silo.silo) + stage)
        steps = LocalSteps(preset.learning_rate, preset.weight_decay)
        self.learner = Learner(self.comm, model, steps, self._dropout, self._device)

    def train(self, number: int) -> Figures:
        """Open the stage that is due, score its model, and take a step."""
        stage = number // self._preset.epochs
        if stage > self._stage:
            self._cache_sums(stage)
            self._open(stage)
        own = counts_of(self.silo, self.learner.classes(self._graph))
        return self._keep_best(self.figures(own, self.learner.step(self._graph), self.learner.training_nodes))

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Score the model as it is."""
        return self._keep_best(self.figures(counts_of(self.silo, self.learner.classes(self._graph))))

    def _keep_best(self, figures: Figures) -> Figures:
        """Keep the best figures without edges; without `edges_off` these rounds rank below all others."""
        if self._stage:
            return figures
        best, now = self.kept["without edges"], figures.counts[:COUNTS]
        if now[0] > best[0] or not (best.any() and now[1]):  # without validation nodes the last
            self.kept["without edges"] = now.copy()
        return figures if self._preset.edges_off else replace(figures, score=-1.0)

    def _cache_sums(self, stage: int) -> None:
        """Sum embeddings over neighbours, once per hop, and keep what later stages train on."""
        self._model.eval()
        with torch.no_grad():
            embedding = self._model.embed(self._graph, self._dropout).cpu().numpy().astype(np.float64)
        rows = [normalize_rows(embedding)]
        first, hops = (stage - 1, 1) if self._preset.progressive else (0, self._preset.hops)
        for hop in range(first, first + hops):
            noisy = self._sums.add(hop, rows[-1], lambda sent, hop=hop: self._sum(sent, hop))  # type: ignore[misc]
            rows.append(normalize_rows(noisy))
        earlier = self.kept["rows"][:-1] if stage > 1 else self.kept["rows"]
        self.kept["rows"] = np.concatenate([earlier, np.stack(rows)])

    def _sum(self, rows: Floats, hop: int) -> Floats:
        with torch.no_grad():
            sums: Floats = self.comm.neighbours(torch.from_numpy(rows), layer=hop)[1].numpy()
        return sums

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, the last stage's model, and the counts of the best round without edges."""
        without = self.kept["without edges"]
        return {**super().report, "theta": flat(list(self._model.parameters())), "without edges": without}

    def state(self) -> dict[str, Array]:
        """The stage, its model, and all that is cached."""
        stage = {"stage": np.array([self._stage], dtype=np.int64)}
        return {**super().state(), **stage, **under("learner", self.learner.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken: with the noise that was drawn then, and its releases spent."""
        super().restore(state)
        stage, settings = int(state["stage"][0]), self._sums.settings
        budget = None if settings is None else settings.open_budget()
        if budget is not None and stage:
            budget.spend(stage if self._preset.progressive else self._preset.hops)
        self._sums = NoisySums(settings, self.kept["noise"], budget)
        if "labels" in self.kept:
            self._hold_labels(self.kept["labels"].copy())
        self._open(stage)
        self.learner.restore(within("learner", state))


def make_job(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: HopPreset,
    settings: Perturbation | None,
    label_epsilon: float | None = None,
    relays: int = 0,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """Return the silos' programs.

    Args:
        graph: who has what.
        schemes: by topology.
        preset: how to train.
        settings: of the noise; None sums exactly.
        label_epsilon: of randomised response for each training and validation label; None keeps labels.
        relays: how many relays add a share of the noise to every sum; 0 where receivers add it.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
    """

    def make(comm: Collectives, coins: Coins) -> NoisyHops:
        return NoisyHops(comm, preset, settings, label_epsilon, relays, seed=seed, device=device, coins=coins)

    return Job(Task(make, schemes, preset.stages * preset.epochs, preset.width), graph)
