"""Pictures that a server reconstructs from gradients, without protection and under each protection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import cast

import numpy as np

from fgl_reproduction.inversion.page import picture_svg
from fgl_reproduction.inversion.scores import RowScores, row_scores
from fgl_secure.attacks import attack
from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.matching import (
    GradientMatching,
    InvertedGradients,
    aligned_with,
    class_means,
    exhibits,
)
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks, load
from fgl_secure.host import library_settings
from fgl_secure.methods.fedavg.audit_runs import fresh_model, recorded_round
from fgl_secure.methods.fedavg.program import GradientNoise
from fgl_secure.runtime import Role
from fgl_secure.schemes import server_scheme
from fgl_secure.threads import one_thread
from fgl_secure.typing import Floats, Ids

PARTS = 20
"""Clients that the data set is cut into at random; a round has the first K of them."""
SHOWN = 4
"""Clients of which a picture is shown."""
EFFORT = Effort(steps=200)


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """One row of pictures.

    Attributes:
        caption: their protection.
        rows: float64 [shown, d].
        scores: compared with the originals.
    """

    caption: str
    rows: Floats
    scores: RowScores


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Gallery:
    """Rows of pictures of the same nodes, the originals first.

    Attributes:
        panels: the rows.
        image_shape: of the pictures.
    """

    panels: tuple[Panel, ...]
    image_shape: tuple[int, int]

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        head = "<tr><th></th>" + f"<th colspan={SHOWN}></th>" + "<th>RMSE</th><th>cosine</th><th>exact</th></tr>"
        return f"<table>{head}{''.join(self._row(panel) for panel in self.panels)}</table>"

    def __repr__(self) -> str:
        """Return the figures without the pictures."""
        lines = [f"{'':<44}rmse   cosine  exact"]
        lines += [
            f"{panel.caption:<44}{panel.scores.rmse:<7.3f}{panel.scores.cosine:<8.3f}{panel.scores.exact:.2f}"
            for panel in self.panels
        ]
        return "\n".join(lines)

    def _row(self, panel: Panel) -> str:
        drawn = "".join(f"<td>{picture_svg(row, self.image_shape, panel.caption)}</td>" for row in panel.rows)
        scores = f"<td>{panel.scores.rmse:.3f}</td><td>{panel.scores.cosine:.3f}</td><td>{panel.scores.exact:.2f}</td>"
        return f'<tr><th style="text-align:left">{escape(panel.caption)}</th>{drawn}{scores}</tr>'


@library_settings()
@one_thread()
def gallery(
    *,
    dataset: str = "digits",
    backbone: str = "sage",
    sums: Sequence[int] = (5, 10, 20),
    noises: Sequence[float] = (0.03, 0.1, 0.3, 1.0),
    batches: Sequence[int] = (4, 16),
    scheme: str = "pairwise-masking",
    seed: int = 0,
) -> Gallery:
    """Invert rounds in which the same nodes take part, one at each of four clients.

    Args:
        dataset: a data set whose features are pictures.
        backbone: "gcn", "sage" or "sgc".
        sums: numbers of clients, 4 to 20, whose gradients are summed under the scheme.
        noises: multipliers of the noise that each client adds.
        batches: sizes of the batch around each client's node.
        scheme: how gradients are summed.
        seed: of the cut into clients, of batches, weights and first guesses.

    Raises:
        InputError: features are no pictures, or a number of silos is out of range.
    """
    whole = load(dataset)
    if whole.image_shape is None:
        raise InputError(f"dataset must be of pictures; found {dataset}")
    if any(not SHOWN <= count <= PARTS for count in sums):
        raise InputError(f"sums must be over {SHOWN} to {PARTS} silos; found {list(sums)}")
    cut = _GraphParts(
        whole, np.array_split(np.random.default_rng(seed).permutation(whole.num_nodes), PARTS), backbone, seed
    )
    few = cut.of(SHOWN)
    targets = np.array([batch[0] for batch in cut.batches(few, 1)])
    original = few.features[targets].astype(np.float64)

    def panel(caption: str, rows: Floats) -> Panel:
        return Panel(caption, rows, row_scores(rows, original))

    prior = class_means(whole.features, whole.labels, few.labels[targets])
    panels = [panel("original", original), panel("mean of the class, without any gradient", prior)]
    panels.append(panel("gradients of single nodes, unprotected", cut.reconstruct(few, targets, 1)))
    for count in sums:
        rows = cut.reconstruct(cut.of(count), targets, 1, scheme=scheme)
        panels.append(panel(f"sum over {count} silos ({scheme})", rows))
    panels += [
        panel(f"gradients of {size} nodes each, unprotected", cut.reconstruct(few, targets, size)) for size in batches
    ]
    for item in noises:
        noise = GradientNoise(item)
        rows = cut.reconstruct(few, targets, 1, noise=noise)
        panels.append(panel(f"noise z = {item:g}, epsilon {cut.epsilon(few, noise):.3g} (zero-out adjacency)", rows))
    return Gallery(tuple(panels), whole.image_shape)


@dataclass(frozen=True, slots=True, eq=False)
class _GraphParts:
    """A graph cut into parts, the first of which are clients; nodes keep their numbers as more parts join."""

    whole: Graph
    parts: list[Ids]
    backbone: str
    seed: int

    def of(self, count: int) -> FederatedGraph:
        """Return the first parts, one client each, all nodes labelled."""
        members = np.concatenate(self.parts[:count])
        place = np.full(self.whole.num_nodes, -1, dtype=np.int64)
        place[members] = np.arange(len(members))
        edges = place[self.whole.edges]
        graph = Graph.from_arrays(
            self.whole.name,
            self.whole.features[members],
            self.whole.labels[members],
            edges[:, (edges >= 0).all(axis=0)],
            self.whole.image_shape,
        )
        silos = np.repeat(np.arange(count), [len(part) for part in self.parts[:count]])
        labelled = np.ones(len(members), dtype=np.bool_)
        return FederatedGraph.from_assignment(graph, silos, SplitMasks(labelled, ~labelled, ~labelled))

    def batches(self, graph: FederatedGraph, size: int) -> list[Ids]:
        """Return the first nodes of each client; parts are drawn at random."""
        return [np.flatnonzero(graph.silo_of == silo)[:size] for silo in range(graph.num_silos)]

    def epsilon(self, graph: FederatedGraph, noise: GradientNoise) -> float:
        """Return epsilon of one round, at delta = 1e-5."""
        return noise.epsilon(fresh_model(graph, Convolution(self.backbone)).layout.size, 1e-5)

    def reconstruct(
        self,
        graph: FederatedGraph,
        targets: Ids,
        size: int,
        *,
        scheme: str | None = None,
        noise: GradientNoise | None = None,
    ) -> Floats:
        """Return the server's reconstruction of some nodes [k], float64 [k, d]."""
        model = fresh_model(graph, Convolution(self.backbone), seed=self.seed)
        protection = None if scheme is None else server_scheme(scheme)
        run = recorded_round(graph, model, self.batches(graph, size), scheme=protection, noise=noise, seed=self.seed)
        return _rows_of(run, targets, replace(EFFORT, seed=self.seed))


def _rows_of(run: RecordedRun, targets: Ids, effort: Effort) -> Floats:
    shown = exhibits(run.transcript.views(Role.SERVER), run.public, run.knows(GradientKnowledge))
    inverting = cast(GradientMatching, attack("gradient-inverting"))
    guess = InvertedGradients(shown, tuple(inverting.invert(item.seen, effort) for item in shown))
    by_device = {
        int(device): row
        for item in aligned_with(guess, run.truth(GradientTruth))
        for device, row in zip(item.devices, item.rows, strict=True)
    }
    return np.stack([by_device[int(target)] for target in targets])
