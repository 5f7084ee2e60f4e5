"""FedVN (AAAI 2025) and the baselines of its Table 1 as one client runs them, with two sums for the server a round.

The first counts what the models of the round before get right; the second is the mean of what clients came to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.methods.fedvn.batches import GraphBatch, GraphStore, graph_sums, types_of
from fgl_secure.methods.fedvn.losses import (
    contrast_loss,
    decoupling_loss,
    descend,
    penalties,
    pulled,
    task_loss,
)
from fgl_secure.methods.fedvn.models import BatchNorm, Dropout, EdgeGenerator, GraphModel, StructuredEncoder, collecting
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore, GraphMethod, LocalScore, Shared, Statistics
from fgl_secure.runtime.packing import Array, Arrays, under
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parameters import draw_on, drawn, flat, overwrite
from fgl_secure.training.rounds import NOTHING, Figures, Rounds
from fgl_secure.training.scoring import Counts, Scores, share_of
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Silo

Ids = NDArray[np.int64]
Reals = NDArray[np.float64]

UNIT = 1024.0
"""Score vectors and losses are sent in such units: a graph's scores sum to as much as it has nodes."""
SCORED = 2**24
"""What a right prediction counts, and an absolute error of 1."""
OWN = 1
"""Tells draws for personal models from those for the common one."""
FIRST_SCORE = 0.5
"""Every entry of s_local before the first batch."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientGraphs:
    """What a client has, and what everybody knows of all graphs.

    Attributes:
        own: its graphs.
        graphs: of all clients together.
        outputs: of the model: classes, or 1 for values.
        types: of nodes; 0 where features are no types.
    """

    own: GraphSet
    graphs: int
    outputs: int
    types: int

    @staticmethod
    def share_of(sets: GraphSet, client: int) -> Silo:
        """Cuts what a client has out of a set, where somebody has all of it: for simulations and for tests."""
        own = sets.only(client)
        known = np.array([sets.num_graphs, types_of(sets)], dtype=np.int64)
        share = Silo.of(sets.union(), client)
        return replace(share, own={"graph of": own.graph_of, "targets": own.targets, "known": known})

    @classmethod
    def held_by(cls, silo: Silo) -> ClientGraphs:
        """The graphs in a client's share; nodes have the masks of their graph."""
        graph_of, targets, (graphs, types) = silo.own["graph of"], silo.own["targets"], silo.own["known"].tolist()
        starts, edges = np.arange(len(targets) + 1), silo.local(silo.edges)
        nodes = np.searchsorted(graph_of, starts)
        first, clients = nodes[:-1], np.zeros(len(targets), dtype=np.int64)
        masks = (silo.train[first], silo.validation[first], silo.test[first])
        begin = np.searchsorted(graph_of[edges[1]], starts)
        own = GraphSet(
            silo.facts.name, silo.features, edges, graph_of, targets, clients, *masks, "", types > 0, nodes, begin
        )
        return cls(own, graphs, silo.facts.classes, types)


class FedVN(Rounds):
    """One client in training: its graphs, its model, its virtual nodes, and an edge generator that never leaves it.

    Args:
        talk: the collectives of the run: sums over clients.
        held: what it has.
        method: what is trained, and which of it is shared.
        preset: how.
        seed: of initial weights, batches and dropout.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self,
        talk: Collectives,
        held: ClientGraphs,
        method: GraphMethod,
        preset: FedVNPreset,
        *,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(talk, preset.epochs, preset.selection, None)
        self._held, self._method, self._preset, place = held, method, preset, device or torch.device("cpu")
        sets, less = held.own, not held.own.num_classes
        self._scores, self._last = (Scores(preset.selection, less=less) for _ in range(2))
        self._course: list[float] = []
        self._store = GraphStore(sets, place, held.types, structured=method.structured, blind=method.blind)
        trains = sets.train | sets.validation if preset.validation_trains else sets.train
        self._training, self._test = np.flatnonzero(trains), np.flatnonzero(sets.test)
        self._validation = np.flatnonzero(sets.validation & ~trains)
        self.model = first_model(self._store.width, held.outputs, method, preset, seed).to(place)
        self.personal = deepcopy(self.model) if method.personal else None
        self._drawn_from = [seed, self.silo.silo]
        self._draws = np.random.default_rng(self._drawn_from)
        self._drop = Dropout(preset.dropout, self._draws)
        weights = torch.Generator().manual_seed(int(self._draws.integers(2**62)))
        self.generator = EdgeGenerator(self._store.width, preset, weights).to(place) if method.generated else None
        self.virtual = nn.Parameter(torch.zeros(preset.virtual_nodes, preset.hidden, device=place))
        number = preset.virtual_nodes
        self.local_score = torch.full((number,), FIRST_SCORE, device=place)
        self.global_score = torch.full((number,), 1 / number, device=place)
        self.shared = [*shared_parameters(self.model, method.shared), *((self.virtual,) if method.virtual else ())]

    def train(self, number: int) -> Figures:
        """Scores the models, trains them in two phases (Eqs. 10 to 12), and takes the mean over the clients."""
        counts, own = self._counted()
        self.train_generator()
        common = copied(self.model.parameters())
        loss = self.train_model()
        self.train_personal(common, number)
        return Figures(self._federated(loss), counts, own)

    def judge(self, number: int) -> Figures:
        """Scores the models as they are."""
        counts, own = self._counted()
        self._last.see(number, counts, own)
        return Figures(np.nan, counts, own)

    def _counted(self) -> tuple[Counts, Counts]:
        """How good predictions are, in all clients' counts and in this one's own.

        Right predictions of validation graphs are pooled; of test graphs the plain mean over clients is reported, as
        in the paper's table. Counts don't let what a sum rounds off decide between equal rounds.
        """
        (right, scored), (found, tested) = self.scores()
        mean = found / tested if tested else 0.0
        told = np.array([_units(right), scored, _units(mean), min(tested, 1)], dtype=np.int64)
        with self.talk.evaluation():
            counts = self.talk.server(NOTHING, told)[1] * _OF
        self._course.append(float(share_of(counts[2:])))
        own = np.array([_units(right), scored, _units(found), tested], dtype=np.int64) * _OF
        return counts, own

    def _federated(self, loss: float) -> float:
        """The means of models, virtual nodes, scores and losses, weighted by training graphs; of all graphs as many.

        So all that is sent is of one grid, and under every scheme it is the same.
        """
        learnt = self.generator is not None and self._preset.global_score is GlobalScore.LEARNT
        own, scores = (flat(each).astype(np.float64) for each in (self.shared, [self.local_score] * learnt))
        weight = len(self._training) / self._held.graphs
        row = weight * np.concatenate([own, scores / UNIT, [loss / UNIT, 1.0]])
        parts = [each.numel() for each in self.shared] + [len(scores)] * learnt
        sums, _ = self.talk.server(row, grid=self.talk.grid(FRACTION_BITS), parts=parts)
        mean = sums / sums[-1]
        overwrite(self.shared, mean[: len(own)].astype(np.float32))
        if learnt:
            overwrite([self.global_score], (mean[len(own) : -2] * UNIT).astype(np.float32))
        return float(mean[-2]) * UNIT

    def scores(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """How good predictions are: sums over validation and over test graphs, and how many these are.

        Of labels the right predictions are summed, of values absolute errors.
        """
        with self._evaluated():
            return self._penalties(self._validation), self._penalties(self._test)

    def embeddings(self) -> tuple[Reals, Array]:
        """Embeddings of the client's test graphs, float64 [g, hidden], and their targets [g]."""
        with self._evaluated():
            found = [self._scored.embedded(each, tied=self._tied(each)) for each in self._batches(self._test)]
            rows: Reals = torch.cat(found).cpu().double().numpy()
        return rows, self._held.own.targets[self._test]

    @contextmanager
    def _evaluated(self) -> Iterator[None]:
        """Within it, models are as they predict, and nothing is learnt."""
        models = [self._scored] if self.generator is None else [self._scored, self.generator]
        with torch.no_grad():
            if self._preset.statistics is Statistics.TRAINING:
                with collecting(*models):
                    for batch in self._batches(self._training):
                        self._outputs(batch, model=self._scored)
            for model in models:
                model.eval()
            yield
        for model in models:
            model.train()

    def _penalties(self, ids: Ids) -> tuple[float, int]:
        found = [
            penalties(self._outputs(batch, model=self._scored), batch.targets).cpu() for batch in self._batches(ids)
        ]
        return float(torch.cat(found).double().sum()) if found else 0.0, len(ids)

    def train_generator(self) -> None:
        """Phase 1, where there are edge generators: all else is fixed, and the model drops nothing."""
        generator, preset = self.generator, self._preset
        if generator is None:
            return
        weights = tuple(generator.parameters())
        for _ in range(preset.local_epochs):
            total = torch.zeros_like(self.local_score)
            for batch in self._shuffled():
                scores = generator(batch, self._drop)
                outputs = self.model.augmented(batch, self.virtual, scores)
                sums = graph_sums(scores, batch)
                contrast = contrast_loss(sums, self.local_score, self.global_score, preset.temperature)
                loss = task_loss(outputs, batch.targets) + preset.contrast * contrast
                descend(weights, torch.autograd.grad(loss, weights), preset.learning_rate)
                total += sums.detach().sum(dim=0)
                if preset.local_score is LocalScore.LAST_BATCH:
                    self.local_score = sums.detach().mean(dim=0)
            if preset.local_score is LocalScore.EPOCH:
                self.local_score = total / len(self._training)

    def train_model(self) -> float:
        """Phase 2: the generator is fixed and drops nothing.

        Returns:
            The mean loss over the training graphs in the last epoch.
        """
        preset, model = self._preset, self.model
        weights = (*model.parameters(), *((self.virtual,) if self._method.virtual else ()))
        anchors = copied(weights) if self._method.proximal else ()
        total = 0.0
        for _ in range(preset.local_epochs):
            total = 0.0
            for batch in self._shuffled():
                loss = task_loss(self._outputs(batch, self._drop), batch.targets)
                if self._method.virtual:
                    loss = loss + preset.decoupling * decoupling_loss(self.virtual, preset.floor)
                gradients = torch.autograd.grad(loss, weights)
                if anchors:
                    gradients = pulled(gradients, weights, anchors, preset.proximal)
                descend(weights, gradients, preset.learning_rate)
                total += float(loss.detach()) * batch.graphs
        return total / len(self._training)

    def train_personal(self, common: tuple[torch.Tensor, ...], number: int) -> None:
        """Ditto's own model takes its epochs near the parameters that the round began with, if there is one.

        Args:
            common: w, of the server's model.
            number: of the round; draws of batches and dropout begin anew, so that those of the common model stay.
        """
        if self.personal is None:
            return
        weights, draws = tuple(self.personal.parameters()), np.random.default_rng([*self._drawn_from, number, OWN])
        drop = Dropout(self._preset.dropout, draws)
        for _ in range(self._preset.local_epochs):
            for batch in self._batches(draws.permutation(self._training)):
                loss = task_loss(self.personal(batch, drop), batch.targets)
                gradients = pulled(torch.autograd.grad(loss, weights), weights, common, self._preset.pull)
                descend(weights, gradients, self._preset.learning_rate)

    @property
    def _scored(self) -> GraphModel:
        """What predicts."""
        return self.model if self.personal is None else self.personal

    def _outputs(self, batch: GraphBatch, drop: Dropout | None = None, model: GraphModel | None = None) -> torch.Tensor:
        tied = self._tied(batch)
        if tied is None:
            found: torch.Tensor = (model or self.model)(batch, drop)
            return found
        return self.model.augmented(batch, *tied, drop)

    def _tied(self, batch: GraphBatch) -> tuple[torch.Tensor, torch.Tensor] | None:
        return (self.virtual, self._ties(batch)) if self._method.virtual else None

    def _ties(self, batch: GraphBatch) -> torch.Tensor:
        if self.generator is None:
            return batch.features.new_ones(len(batch.features), self._preset.virtual_nodes)
        with torch.no_grad():
            found: torch.Tensor = self.generator(batch)
        return found

    def _shuffled(self) -> Iterator[GraphBatch]:
        return self._batches(self._draws.permutation(self._training))

    def _batches(self, ids: Ids) -> Iterator[GraphBatch]:
        for start in range(0, len(ids), self._preset.batch):
            yield self._store.batch(ids[start : start + self._preset.batch])

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, test figures before each round and after the last, and what the clients share then."""
        course = np.array(self._course, dtype=np.float64)
        return {**super().report, **under("last", self._last.report), "course": course, "theta": flat(self.shared)}

    @property
    def _values(self) -> list[torch.Tensor]:
        own = (part.parameters() for part in (self.generator, self.personal) if part is not None)
        return [*self.model.parameters(), *chain.from_iterable(own), self.virtual, self.local_score, self.global_score]

    def state(self) -> dict[str, Array]:
        """All that is learnt, and where the client's draws are; statistics are collected anew for each scoring."""
        course = np.array(self._course, dtype=np.float64)
        return {**super().state(), "values": flat(self._values), "draws": drawn(self._draws), "course": course}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._values, state["values"])
        draw_on(self._draws, state["draws"])
        self._course = state["course"].tolist()


def copied(parameters: Iterable[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """As they are now."""
    return tuple(parameter.detach().clone() for parameter in parameters)


_OF = np.array([1, SCORED, 1, SCORED], dtype=np.int64)


def _units(value: float) -> int:
    return round(value * SCORED)


def first_model(inputs: int, outputs: int, method: GraphMethod, preset: FedVNPreset, seed: int) -> GraphModel:
    """The model that all clients start from; arguments as for `GraphModel`."""
    draws = torch.Generator().manual_seed(seed)
    return GraphModel(inputs, outputs, preset, virtual=method.virtual, draws=draws, structured=method.structured)


def shared_parameters(model: GraphModel, shared: Shared) -> tuple[nn.Parameter, ...]:
    """The parameters of a model that the server averages; where it has the last layer, that one's bias at the end."""
    if shared is Shared.NOTHING:
        return ()
    if shared is Shared.STRUCTURE:
        assert isinstance(model.encoder, StructuredEncoder)
        return tuple(model.encoder.structure.parameters())
    own = {id(parameter) for part in model.modules() if isinstance(part, BatchNorm) for parameter in part.parameters()}
    kept = own if shared is Shared.ALL_BUT_NORMS else set()
    return tuple(parameter for parameter in model.parameters() if id(parameter) not in kept)
