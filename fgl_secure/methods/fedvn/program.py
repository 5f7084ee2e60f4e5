"""FedVN (AAAI 2025) as one client runs it, with two sums for the server a round.

The first counts what the models of the round before get right; the second is the mean of what clients came to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from fgl_secure.coins import Coins
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.batches import GraphBatch, GraphStore, bond_types_of, graph_sums, types_of
from fgl_secure.methods.fedvn.models import (
    GeneratorDropout,
    GraphEncoder,
    GraphModel,
    Linear,
    Tied,
    active,
    collecting,
    contrast_loss,
    decoupling_loss,
    descend,
    penalties,
    task_loss,
)
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore, LocalScore, Statistics
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime.packing import Arrays, under
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import NOTHING, Counts, Figures, Scores, TrainingRounds, share_of
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import draw_on, flat, generator_state, overwrite
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Ids

UNIT = 1024.0
"""Score vectors and losses are sent in such units: a graph's scores sum to as much as it has nodes."""
SCORED = 2**24
"""What a right prediction counts, and an absolute error of 1."""
FIRST_SCORE = 0.5
"""Every entry of s_local before the first batch."""


@dataclass(frozen=True, slots=True, eq=False)
class ClientGraphs:
    """What a client has, and what every party knows of all graphs.

    Attributes:
        own: its graphs.
        graphs: of all clients together.
        outputs: of the model: classes, or 1 for values.
        types: of nodes; 0 where features are no types.
        bonds: number of edge types; 0 if edges have none.
    """

    own: GraphSet
    graphs: int
    outputs: int
    types: int
    bonds: int

    @staticmethod
    def share_of(sets: GraphSet, client: int) -> Silo:
        """Cuts what a client has out of a set, where a party has all of it: for simulations and for tests."""
        graphs = sets.only(client)
        bonds = {} if graphs.edge_types is None else {"bonds": graphs.edge_types}
        known = np.array([sets.num_graphs, types_of(sets), bond_types_of(sets)], dtype=np.int64)
        share = Silo.of(sets.union(), client)
        return replace(share, own={"graph of": graphs.graph_of, "targets": graphs.targets, "known": known, **bonds})

    @classmethod
    def of_silo(cls, silo: Silo) -> ClientGraphs:
        """The graphs in a client's share; nodes have the masks of their graph."""
        graph_of, targets = silo.own["graph of"], silo.own["targets"]
        graphs, types, bonds = silo.own["known"].tolist()
        starts, edges = np.arange(len(targets) + 1), silo.local(silo.edges)
        nodes = np.searchsorted(graph_of, starts)
        first, clients = nodes[:-1], np.zeros(len(targets), dtype=np.int64)
        masks = (silo.train[first], silo.validation[first], silo.test[first])
        begin = np.searchsorted(graph_of[edges[1]], starts)
        graph_set = GraphSet(
            silo.facts.name,
            silo.features,
            edges,
            graph_of,
            targets,
            clients,
            *masks,
            "",
            types > 0,
            nodes,
            begin,
            silo.own.get("bonds"),
        )
        return cls(graph_set, graphs, silo.facts.classes, types, bonds)


class _EdgeGenerator(nn.Module):
    """A client's own generator g of edges to virtual nodes (section 4.2); it never leaves its client.

    Args:
        inputs: features of a node, the constant one included.
        preset: widths, layers and M.
        draws: of the initial weights.
        bonds: number of edge types, as for `GraphEncoder`.
    """

    def __init__(self, inputs: int, preset: FedVNPreset, draws: torch.Generator, bonds: int = 0) -> None:
        super().__init__()
        self.encoder = GraphEncoder(inputs, preset, virtual=False, draws=draws, bonds=bonds)
        self.hidden = Linear(preset.hidden, preset.hidden, draws)
        self.output = Linear(preset.hidden, preset.virtual_nodes, draws)

    def forward(self, batch: GraphBatch, drop: GeneratorDropout | None = None) -> torch.Tensor:
        """Scores s_vm in (0, 1), float32 [n, M]."""
        return torch.sigmoid(self.output(active(self.hidden(self.encoder(batch, drop)), drop)))


class FedVNClient(TrainingRounds):
    """One client in training: its graphs, its model, its virtual nodes, and an edge generator that never leaves it.

    Args:
        comm: the collectives of the run: sums over clients.
        held: what it has.
        preset: how it is trained.
        seed: of initial weights, batches and dropout.
        device: where model compute runs; the CPU by default.

    Attributes:
        held: what it has.
        preset: how it is trained.
        store: its graphs, as batches.
        training: int64, the graphs that it trains on.
        test: int64, those that it is tested on.
        draws: of batches and dropout.
        drop: dropout in training.
        model: theta.
        generator: of edges to virtual nodes.
        virtual: Q, float32 [M, hidden].
        shared: the parameters that the server averages.
    """

    def __init__(
        self,
        comm: Collectives,
        graphs: ClientGraphs,
        preset: FedVNPreset,
        *,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(comm, preset.epochs, preset.selection, None)
        self.held, self.preset, place = graphs, preset, device or torch.device("cpu")
        sets, less = graphs.own, not graphs.own.num_classes
        self._scores, self._last = (Scores(preset.selection, less=less) for _ in range(2))
        self._course: list[float] = []
        self.store = GraphStore(sets, place, graphs.types)
        trains = sets.train | sets.validation if preset.validation_trains else sets.train
        self.training, self.test = np.flatnonzero(trains), np.flatnonzero(sets.test)
        self._validation = np.flatnonzero(sets.validation & ~trains)
        self.model = first_model(self.store.width, graphs.outputs, preset, seed, graphs.bonds).to(place)
        self.draws = np.random.default_rng([seed, self.silo.silo])
        self.drop = GeneratorDropout(preset.dropout, self.draws)
        weights = torch.Generator().manual_seed(int(self.draws.integers(2**62)))
        self.generator = _EdgeGenerator(self.store.width, preset, weights, graphs.bonds).to(place)
        number = preset.virtual_nodes
        self.virtual = nn.Parameter(torch.zeros(number, preset.hidden, device=place))
        self.local_score = torch.full((number,), FIRST_SCORE, device=place)
        self.global_score = torch.full((number,), 1 / number, device=place)
        self.shared = [*self.model.parameters(), self.virtual]

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Scores the models, trains them in two phases (Eqs. 10 to 12), and takes the mean over the clients."""
        counts, client_counts = self._count_correct()
        self.train_generator()
        return Figures(self.average(self.train_model()), counts, client_counts)

    def judge(self, number: int) -> Figures:
        """Scores the models as they are."""
        counts, client_counts = self._count_correct()
        self._last.see(number, counts, client_counts)
        return Figures(np.nan, counts, client_counts)

    def _count_correct(self) -> tuple[Counts, Counts]:
        """How good predictions are, in all clients' counts and in this one's own.

        Right predictions of validation graphs are pooled; of test graphs the plain mean over clients is reported, as
        in the paper's table. Counts don't let what a sum rounds off decide between equal rounds.
        """
        (right, scored), (result, tested) = self.scores()
        mean = result / tested if tested else 0.0
        own_counts = np.array([_units(right), scored, _units(mean), min(tested, 1)], dtype=np.int64)
        with self.comm.evaluation():
            counts = self.comm.server(NOTHING, own_counts)[1] * _OF
        self._course.append(float(share_of(counts[2:])))
        client_counts = np.array([_units(right), scored, _units(result), tested], dtype=np.int64) * _OF
        return counts, client_counts

    def average(self, loss: float) -> float:
        """The means of models, virtual nodes, scores and losses, weighted by training graphs; of all graphs as many.

        So all that is sent is of one grid, and under every scheme it is the same.
        """
        learnt = self.preset.global_score is GlobalScore.LEARNT
        parameters, scores = (flat(item).astype(np.float64) for item in (self.shared, [self.local_score] * learnt))
        weight = len(self.training) / self.held.graphs
        row = weight * np.concatenate([parameters, scores / UNIT, [loss / UNIT, 1.0]])
        parts = [item.numel() for item in self.shared] + [len(scores)] * learnt
        sums, _ = self.comm.server(row, grid=self.comm.grid(FRACTION_BITS), parts=parts)
        mean = sums / sums[-1]
        overwrite(self.shared, mean[: len(parameters)].astype(np.float32))
        if learnt:
            overwrite([self.global_score], (mean[len(parameters) : -2] * UNIT).astype(np.float32))
        return float(mean[-2]) * UNIT

    def scores(self) -> tuple[tuple[float, int], tuple[float, int]]:
        """How good predictions are: sums over validation and over test graphs, and how many these are.

        Of labels the right predictions are summed, of values absolute errors.
        """
        with self.evaluation():
            return self._penalties(self._validation), self._penalties(self.test)

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Within it, models are as they predict, and nothing is learnt."""
        with torch.no_grad():
            if self.preset.statistics is Statistics.TRAINING:
                with collecting(*self.predicting):
                    for batch in self.batches(self.training):
                        self.outputs(batch)
            for model in self.predicting:
                model.eval()
            yield
        for model in self.predicting:
            model.train()

    def _penalties(self, ids: Ids) -> tuple[float, int]:
        result = [penalties(self.outputs(batch), batch.targets).cpu() for batch in self.batches(ids)]
        return float(torch.cat(result).double().sum()) if result else 0.0, len(ids)

    @property
    def predicting(self) -> tuple[nn.Module, ...]:
        """What predictions are computed by."""
        return self.model, self.generator

    def outputs(self, batch: GraphBatch, drop: GeneratorDropout | None = None) -> torch.Tensor:
        """What is predicted of graphs, float32 [b, outputs]; the generator drops nothing."""
        result: torch.Tensor = self.model(batch, drop, self.link_nodes(batch))
        return result

    def link_nodes(self, batch: GraphBatch) -> Tied | None:
        """Virtual nodes, and how the nodes of graphs are linked to them; no gradients of the generator."""
        with torch.no_grad():
            scores: torch.Tensor = self.generator(batch)
        return self.virtual, scores

    def train_generator(self) -> None:
        """Phase 1: all else is fixed, and the model drops nothing."""
        generator, preset = self.generator, self.preset
        weights = tuple(generator.parameters())
        for _ in range(preset.local_epochs):
            total = torch.zeros_like(self.local_score)
            for batch in self.shuffle():
                scores = generator(batch, self.drop)
                outputs = self.model(batch, None, (self.virtual, scores))
                sums = graph_sums(scores, batch)
                contrast = contrast_loss(sums, self.local_score, self.global_score, preset.temperature)
                loss = task_loss(outputs, batch.targets) + preset.contrast * contrast
                descend(weights, torch.autograd.grad(loss, weights), preset.learning_rate)
                total += sums.detach().sum(dim=0)
                if preset.local_score is LocalScore.LAST_BATCH:
                    self.local_score = sums.detach().mean(dim=0)
            if preset.local_score is LocalScore.EPOCH:
                self.local_score = total / len(self.training)

    def train_model(self) -> float:
        """Phase 2: the generator is fixed and drops nothing.

        Returns:
            The mean loss over the training graphs in the last epoch.
        """
        preset, weights, total = self.preset, (*self.model.parameters(), self.virtual), 0.0
        for _ in range(preset.local_epochs):
            total = 0.0
            for batch in self.shuffle():
                loss = task_loss(self.outputs(batch, self.drop), batch.targets)
                loss = loss + preset.decoupling * decoupling_loss(self.virtual, preset.floor)
                descend(weights, torch.autograd.grad(loss, weights), preset.learning_rate)
                total += float(loss.detach()) * batch.graphs
        return total / len(self.training)

    def shuffle(self) -> Iterator[GraphBatch]:
        """All training graphs in random order."""
        return self.batches(self.draws.permutation(self.training))

    def batches(self, ids: Ids) -> Iterator[GraphBatch]:
        """The graphs of these numbers, in this order."""
        for start in range(0, len(ids), self.preset.batch):
            yield self.store.batch(ids[start : start + self.preset.batch])

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, test figures before each round and after the last, and what the clients share then."""
        course = np.array(self._course, dtype=np.float64)
        return {**super().report, **under("last", self._last.report), "course": course, "theta": flat(self.shared)}

    @property
    def values(self) -> list[torch.Tensor]:
        """All that is learnt."""
        learnt = (*self.model.parameters(), *self.generator.parameters())
        return [*learnt, self.virtual, self.local_score, self.global_score]

    def state(self) -> dict[str, Array]:
        """All that is learnt, and where the client's draws are; statistics are collected anew for each scoring."""
        course = np.array(self._course, dtype=np.float64)
        return {**super().state(), "values": flat(self.values), "draws": generator_state(self.draws), "course": course}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self.values, state["values"])
        draw_on(self.draws, state["draws"])
        self._course = state["course"].tolist()


_OF = np.array([1, SCORED, 1, SCORED], dtype=np.int64)


def _units(value: float) -> int:
    return round(value * SCORED)


def first_model(inputs: int, outputs: int, preset: FedVNPreset, seed: int, bonds: int = 0) -> GraphModel:
    """The model that all clients start from.

    Args:
        inputs: features of a node, the constant one included.
        outputs: classes, or 1 for values.
        preset: widths and layers.
        seed: of the initial weights.
        bonds: number of edge types; 0 if edges have none.
    """
    draws = torch.Generator().manual_seed(seed)
    return GraphModel(
        GraphEncoder(inputs, preset, virtual=True, draws=draws, bonds=bonds), outputs, preset.hidden, draws
    )


class _HandingOn(OneProcess):
    """Every client gets what the next one has after each round: graphs, models and all."""

    def round(self, number: int) -> bool:
        """One round of all clients, and what they have moves on by one place; whether there is another round."""
        goes_on = super().round(number)
        self.programs = (*self.programs[1:], *self.programs[:1])
        for program, comm in zip(self.programs, self._talks, strict=True):
            program.comm = comm
        return goes_on


def clients_of(
    sets: GraphSet,
    scheme: Scheme,
    preset: FedVNPreset,
    *,
    kind: Callable[..., FedVNClient] = FedVNClient,
    seed: int = 0,
    device: torch.device | None = None,
    passing: bool = False,
) -> Job:
    """The clients; models are scored before each round and after the last.

    The test accuracy is the plain mean over clients, as in the paper's table, off by 2^-24 at most; where targets are
    values, all accuracies are mean absolute errors. Under "last" reports have the figures after the last round.

    Args:
        sets: who has which graphs.
        scheme: of what clients send the server.
        preset: how to train, and what selects a round.
        kind: makes a client's program, as `FedVNClient` does.
        seed: of initial weights, batches and dropout; coins come from the channel.
        device: where model compute runs; the CPU by default.
        passing: whether clients hand all they have to the next one after each round, so that what comes from a place
            says nothing of what came from it before; for null controls.
    """

    def make(comm: Collectives, _coins: Coins) -> FedVNClient:
        return kind(comm, ClientGraphs.of_silo(comm.silo), preset, seed=seed, device=device)

    driver = _HandingOn if passing else OneProcess
    shares = tuple(ClientGraphs.share_of(sets, client) for client in range(sets.num_clients))
    return Job(Task(make, {SERVER: scheme}, preset.epochs), sets.union(), shares=shares, driver=driver)
