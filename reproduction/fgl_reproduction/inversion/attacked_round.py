"""Invert the gradients of one round from its server's view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fgl_reproduction.inversion.options import CLEAR, SINGLE, InvertOptions
from fgl_reproduction.inversion.scores import EdgeScores, GraphScores, RowScores, edge_scores, graph_scores, row_scores
from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.attacks.gradients.inversion import likeliest_edges
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.matching import GradientMatching, InvertedGradients, aligned_with, class_means
from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import Data
from fgl_secure.host import library_settings
from fgl_secure.methods.fedavg.audit_runs import fresh_model, full_batches, recorded_round
from fgl_secure.schemes import server_scheme
from fgl_secure.threads import one_thread
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The nodes of all batches: originals, reconstructions and baselines.

    Attributes:
        devices: int64 [k].
        labels: int64 [k].
        original: [k, d].
        found: float64 [k, d], reconstructions in the order that fits the originals best.
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
        """Return scores of this run and of the two baselines."""
        guesses = {"this run": self.found, "prior": self.prior, "random": self.random}
        return {name: row_scores(rows, self.original) for name, rows in guesses.items()}


@dataclass(frozen=True, slots=True)
class StructureScores:
    """Scores of recovered edges, for gradients whose receptive fields have pairs with and without an edge.

    Attributes:
        edges: of the attack.
        prior: of the baseline that ranks pairs around the batch first.
        graphs: of all gradients.
    """

    edges: tuple[EdgeScores, ...]
    prior: tuple[EdgeScores, ...]
    graphs: tuple[GraphScores, ...]


def rows_of(guess: InvertedGradients, truth: GradientTruth, seed: int) -> Rows:
    """Return originals, reconstructions and baselines of all batches of a round."""
    aligned = aligned_with(guess, truth)
    devices = np.concatenate([item.devices[: item.batch] for item in aligned])
    features = truth.features.astype(np.float64)
    drawn = np.random.default_rng(seed).integers(len(features), size=len(devices))
    return Rows(
        devices,
        truth.labels[devices],
        features[devices],
        np.concatenate([item.rows[: item.batch] for item in aligned]),
        class_means(features, truth.labels, truth.labels[devices]),
        features[drawn],
    )


def structure_of(guess: InvertedGradients, truth: GradientTruth) -> StructureScores | None:
    """Return scores of recovered edges; None if the attack recovers none."""
    edges, prior, graphs = [], [], []
    for exhibit, result, item in zip(guess.exhibits, guess.found, aligned_with(guess, truth), strict=True):
        if result.adjacency is None:
            return None
        field = exhibit.seen.field
        weights = result.adjacency[np.ix_(item.order, item.order)]
        chosen = likeliest_edges(weights, field.pairs).astype(np.float64)
        graphs.append(graph_scores(item.rows, chosen, truth.features[item.devices], field.adjacency))
        if 0 < field.pairs < field.nodes * (field.nodes - 1) // 2:
            inside = (np.arange(field.nodes) < field.batch).astype(np.float64)
            edges.append(edge_scores(weights, field.adjacency))
            prior.append(edge_scores(np.add.outer(inside, inside), field.adjacency))
    return StructureScores(tuple(edges), tuple(prior), tuple(graphs))


ATTACKS: Mapping[str, Attack[Any, Any]] = MappingProxyType({
    "dlg": named("gradient-dlg"),
    "idlg": named("gradient-idlg"),
    "inverting": named("gradient-inverting"),
    "joint": named("gradient-joint"),
    "analytic": named("gradient-single-row"),
    "span": named("gradient-span"),
    "filter": named("gradient-filter"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttackFigure:
    """A figure of the attack, and its null control with permuted truth."""

    found: Measurement
    null: Measurement


@dataclass(frozen=True, slots=True, eq=False)
class InversionResult:
    """The result of one run.

    Attributes:
        options: the choices.
        figures: of the attack, with their null controls.
        rows: the nodes of the batches; None for attacks that find no rows.
        structure: edges; None for attacks that recover none.
        epsilon: of the noise, at the options' delta; None without noise.
        image_shape: (height, width) if rows are pictures.
        summed: whether the server receives only the sum of all gradients.
    """

    options: InvertOptions
    figures: tuple[AttackFigure, ...]
    rows: Rows | None
    structure: StructureScores | None
    epsilon: float | None
    image_shape: tuple[int, int] | None
    summed: bool


@library_settings()
@one_thread()
def invert(options: InvertOptions) -> InversionResult:
    """Run one round of small batches at a fresh model, and an attack on its server's view.

    Raises:
        FglSecureError: an option breaks a rule, or the attack does not apply to such a round.
    """
    options.check()
    run = round_of(options)
    attack = attack_of(options)
    guess = run.guess(attack)
    if guess is None:
        raise InputError(
            f"attack must apply to a round; {options.attack} recovers nothing from batches of {options.batch} nodes of "
            f"{options.dataset} under {options.scheme}: it needs smaller batches, or single clients' gradients"
        )
    nulls = {null.metric: null for null in run.score(attack, guess, options.seed + 1)}
    figures = tuple(
        AttackFigure(result, nulls[result.metric]) for result in run.score(attack, guess) if result.metric in nulls
    )
    matched, truth = isinstance(guess, InvertedGradients), run.truth(GradientTruth)
    return InversionResult(
        options,
        figures,
        rows_of(guess, truth, options.seed) if matched else None,
        structure_of(guess, truth) if matched else None,
        _epsilon(options, run),
        run.knows(GradientKnowledge).image_shape,
        options.scheme != CLEAR,
    )


def round_of(options: InvertOptions) -> RecordedRun:
    """Return the recorded round that is attacked."""
    data = Data(options.dataset, options.partition, options.silos, root=options.data_root)
    graph = data.load(options.seed)
    layers = 1 if options.attack == SINGLE else 2
    activation = Activation(options.activation)
    model = fresh_model(graph, Convolution(options.backbone), activation, seed=options.seed, layers=layers)
    scheme = server_scheme(options.scheme)
    batches = full_batches(graph, options.batch, options.seed)
    return recorded_round(graph, model, batches, scheme=scheme, noise=options.chosen_noise(), seed=options.seed)


def attack_of(options: InvertOptions) -> Attack[Any, Any]:
    """Return the attack with the chosen effort."""
    item = ATTACKS[options.attack]
    if not isinstance(item, GradientMatching):
        return item
    effort = replace(
        item.effort,
        steps=options.steps or item.effort.steps,
        restarts=options.restarts or item.effort.restarts,
        seed=options.seed,
    )
    return replace(item, effort=effort)


def _epsilon(options: InvertOptions, run: RecordedRun) -> float | None:
    noise = options.chosen_noise()
    return None if noise is None else noise.epsilon(run.knows(GradientKnowledge).model.layout.size, options.delta)
