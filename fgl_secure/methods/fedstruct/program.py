"""FedStruct (ICLR 2025, section 5) as one client runs it: own features and edges, and structure that all clients share.

The prediction of a node is softmax(f(v) + z_v) with z = A-bar g(S) (Eq. 6 to 10). All clients hold the same theta =
(theta_f, theta_s), and take the same step on the same sum of gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.structure_features import LEARNT, structure_features
from fgl_secure.methods.fedstruct.client import ClientModel, first_features
from fgl_secure.methods.fedstruct.exchange import (
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    NoExchange,
    RowExchange,
)
from fgl_secure.methods.fedstruct.preset import AccuracyAveraging, FedStructPreset
from fgl_secure.methods.fedstruct.row_exchange import ClearTerms, HopExchange, SummedTerms, exchanged_owners, owners_of
from fgl_secure.methods.fedstruct.structure import (
    Answering,
    HeldRows,
    Hopwise,
    Queries,
    RowSums,
    StructureEmbedding,
    SumsByOwners,
    SumsByServer,
    ask,
)
from fgl_secure.runtime import Channel, Phase
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import COUNTS, Counts, Figures, TrainingRounds, counts_of, probabilities
from fgl_secure.training.parties import note_own_graph
from fgl_secure.training.presets import Selection
from fgl_secure.training.silo import Silo
from fgl_secure.training.sparse_products import matrix_arrays, matrix_from
from fgl_secure.typing import Array, Floats, Ids

HOP2VEC = LEARNT
SHARED_FEATURES, OWN_FEATURES = "shared features", "own features"
"""What a client holds in the end, in recordings: (node, its features) of others' and of own nodes."""
SHARE = 2**24
"""In units of its reciprocal clients add up shares of right predictions, where means over clients are reported."""

Table = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FedStructTask:
    """What is trained; the same for all clients.

    Attributes:
        preset: how; `hops` and `kept` say what is exchanged.
        exchange: how structure is exchanged.
        features: name of the structure features; "hop2vec" learns them.
        seed: of initial weights, learnt structure features, node2vec's walks and dropout.
    """

    preset: FedStructPreset
    exchange: Exchange | NoExchange
    features: str = HOP2VEC
    seed: int = 0

    @property
    def learns(self) -> bool:
        """Whether structure features are learnt."""
        return self.features == HOP2VEC

    @property
    def shares(self) -> bool:
        """Whether every client holds the features of all nodes."""
        return isinstance(self.exchange, RowExchange) and self.exchange.sharing is FeatureSharing.SHARED

    @property
    def owners_step(self) -> bool:
        """Whether owners take the steps of learnt features, and then tell all other clients."""
        to_owners = isinstance(self.exchange, RowExchange) and self.exchange.delivery is GradientDelivery.OWNER
        return self.shares and self.learns and to_owners


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulatedInputs:
    """What a client need not find out, in simulations that have the whole graph.

    Attributes:
        rows: CSR [m, n], its rows of the combined adjacency; None has them exchanged.
        features: float32 [m, d_s], fixed structure features of own nodes; None computes them from what it knows.
        known: CSR [n, n], means over the neighbours of all nodes, where the server knows the graph and g is a GraphSAGE
            on it (App. H); None has a perceptron for g.
    """

    rows: sparse.csr_array | None = None
    features: Table | None = None
    known: sparse.csr_array | None = None


class FedStructClient(TrainingRounds):
    """One client of FedStruct.

    Args:
        comm: the collectives of the run.
        task: what is trained.
        device: where model compute runs; the CPU by default.
        given: what it need not find out.

    Attributes:
        alone: whether a client's loss counts by itself, not as a part of all clients' loss.
        model: from the end of what comes before the first round.
        structure: the same; None where nothing is shared.
    """

    alone: ClassVar[bool] = False
    model: ClientModel
    structure: StructureEmbedding | None

    def __init__(
        self,
        comm: Collectives,
        task: FedStructTask,
        *,
        device: torch.device | None = None,
        given: SimulatedInputs | None = None,
    ) -> None:
        super().__init__(comm, task.preset.epochs, task.preset.selection, None)
        self._task, self._preset, self._device = task, task.preset, device or torch.device("cpu")
        self._given = given or SimulatedInputs()
        self._judged: torch.Tensor | None = None
        if not isinstance(task.exchange, NoExchange) and comm.silo.facts.silos < 2:
            raise InputError(
                f"silos must be at least 2, or there is no silo to exchange with; found {comm.silo.facts.silos}"
            )

    def begin(self) -> None:
        """The exchange of structure, and of structure features."""
        task, exchange, features = self._task, self._task.exchange, None
        if not isinstance(exchange, NoExchange):
            features = first_features(self.silo, self._preset, task.seed) if task.learns else self._own_table()
        if isinstance(exchange, RowExchange):
            rows = self._given.rows
            if rows is None:
                clear, settings = exchange.terms is None, exchange.hops(self._preset)
                most = settings.most_a_row(self.silo.facts.silos)
                terms = ClearTerms(self.comm) if clear else SummedTerms(self.comm, most)
                rows = HopExchange(self.comm, settings, terms).all_hops()
            assert features is not None, "there is an exchange"
            features = self._exchange_features(exchange, rows, features)
            self.kept |= under("rows", matrix_arrays(rows))
        self._make(features)
        if features is not None and not task.learns:
            self.kept["features"] = features

    def _exchange_features(self, exchange: RowExchange, rows: sparse.csr_array, features: Table) -> Table:
        """What the client goes on with of features, once they are exchanged or queries are asked."""
        if exchange.sharing is FeatureSharing.SHARED:
            return self._everybodys(features)
        owners = exchanged_owners(self.comm)
        width = self._preset.structure_width if self._preset.structure_hidden is not None else self.silo.facts.classes
        answering = ask(self.comm, rows, owners, exchange.rule, pooled=exchange.pooled, width=width)
        self.kept |= {"owners": owners, **under("answering", answering.state())}
        return features

    def _own_table(self) -> Table:
        if self._given.features is not None:
            return self._given.features
        if self._preset.name == "paper":
            raise InputError("features must be given under the paper preset, which has those of the whole graph")
        return _own_features(self.silo, self._task)

    def _everybodys(self, features: Table) -> Table:
        """The features of all nodes [n, d_s], from own ones, which all others are told, and theirs."""
        silo, facts, names = self.silo, self.silo.facts, dict[int, Ids]()
        received = self.comm.exchange(
            Phase.STRUCTURE_FEATURES, dict.fromkeys(silo.others, _node_rows(silo.nodes, features))
        )
        table = np.empty((facts.nodes, features.shape[1]), dtype=np.float32)
        table[silo.nodes] = features
        for other in silo.others:
            if not np.isfinite(received[other]).all():
                raise ProtocolError(f"silo {other} must send finite features of its nodes; at least one is not")
            names[other] = received[other][:, 0].astype(np.int64)
        self.kept["owners"] = owners_of(silo, names, facts.nodes)
        for other, numbers in names.items():
            table[numbers] = received[other][:, 1:]
        return table

    def _make(self, features: Table | None) -> None:
        """The model and the structure embeddings, as they are before the first round."""
        task, preset = self._task, self._preset
        self.structure = self._structure()
        self.model = ClientModel(
            self.silo,
            preset,
            features,
            learnt=task.learns and features is not None,
            seed=task.seed,
            device=self._device,
            owner=task.owners_step,
            alone=self.alone,
            known=self._given.known,
        )

    def _structure(self) -> StructureEmbedding | None:
        exchange = self._task.exchange
        if isinstance(exchange, NoExchange):
            return None
        if isinstance(exchange, HopwiseExchange):
            return Hopwise(self.comm, self._preset.hops, self._device, self._preset.betas)
        rows = self._given.rows
        if rows is None:
            rows = matrix_from(within("rows", self.kept))
        if exchange.sharing is FeatureSharing.SHARED:
            return HeldRows(rows, self._device)
        answering, owners = Answering.restore(within("answering", self.kept)), self.kept["owners"]
        return Queries(self.comm, rows, owners, answering, self._sums(exchange), self._device)

    def _sums(self, exchange: RowExchange) -> RowSums:
        if exchange.delivery is GradientDelivery.OWNER:
            return SumsByOwners(self.comm, self.kept["owners"], exchange.k_min)
        return SumsByServer(self.comm, exchange.k_min)

    def train(self, number: int) -> Figures:
        """The client's loss, the sum of all gradients, and one step of all."""
        self._send_features(number)
        counts = self._counts(number)
        self.model.train()
        self.model.forget()
        loss = self.model.loss(self.scores())
        if self.structure is None:
            torch.autograd.backward(loss)
        else:
            self.structure.backward(loss)
        theta = self.model.gradient()
        row, parts = np.append(theta, float(loss.detach())), (len(theta),)
        server_sums, sums = self.comm.server(row, counts, parts=parts)
        self.model.step(server_sums[:-1], self._structure_step())
        return Figures(float(server_sums[-1]), sums, counts, self._score(sums, number))

    def _structure_step(self) -> Array | None:
        """The gradient of the structure features that this client steps on; None where it learns none."""
        if self.model.learnt is None:
            return None
        exchange, gradient = self._task.exchange, self.model.structure_gradient()
        if not self._task.shares or not isinstance(exchange, RowExchange):
            return gradient
        sums = self._sums(exchange)
        return sums.all(gradient) if isinstance(sums, SumsByServer) else sums.own(gradient)

    def judge(self, number: int) -> Figures:
        """Scores the model as it is after the last round, and what the client then holds is taken down."""
        self._send_features(number)
        counts = self._counts(number)
        with self.comm.evaluation():
            _, sums = self.comm.server(np.empty(0), counts)
        self._note_features()
        return Figures(0.0, sums, counts, self._score(sums, number))

    def answers(self) -> Mapping[str, Floats]:
        """See `TrainingRounds.answers`."""
        return {} if self._judged is None else {"features and edges": probabilities(self._judged)}

    def scores(self) -> torch.Tensor:
        """The scores of own nodes, float [m, classes]."""
        scores = self.model.scores()
        return scores if self.structure is None else scores + self.structure.combine(self.model.embeddings())

    def _counts(self, number: int) -> Counts:
        """Right predictions after so many rounds, where they are asked for: see `_score`."""
        if not (number and self._preset.selection is not None) and number != self._preset.epochs:
            return np.zeros(COUNTS + 2, dtype=np.int64)
        self.model.train(False)
        with self.comm.evaluation():
            self._judged = self.scores()
        counts = counts_of(self.silo, self._judged.argmax(dim=1).cpu().numpy())
        right, tested = counts[2:].tolist()
        by_nodes = self._preset.averaging is AccuracyAveraging.NODES
        weight = (len(self.silo.nodes) if by_nodes else 1) if tested else 0
        return np.append(counts, [round(weight * SHARE * right / max(tested, 1)), weight])

    def _score(self, sums: Counts, number: int) -> float | None:
        """What a round is chosen by, where that is no pooled accuracy; never the untrained model."""
        if not number:
            return -1.0
        return self._mean(sums) if self._preset.selection is Selection.TEST else None

    def _mean(self, sums: Counts) -> float:
        """The test accuracy, averaged over clients as the preset says; NaN without any tested node."""
        units, weight = (sums[2:4] if self._preset.averaging is AccuracyAveraging.POOLED else sums[COUNTS:]).tolist()
        scale = 1 if self._preset.averaging is AccuracyAveraging.POOLED else SHARE
        return units / (scale * weight) if weight else float("nan")

    def _send_features(self, number: int) -> None:
        """Owners tell all other clients what they have updated, as Algorithm 2 has it."""
        if number and self._task.owners_step and self.model.own_features is not None:
            self.model.take_features(self._everybodys(self.model.own_features))

    def _note_features(self) -> None:
        table = self._full_table()
        if table is None:
            return
        own_nodes, others = self.silo.nodes, np.setdiff1d(np.arange(self.silo.facts.nodes), self.silo.nodes)
        self.comm.note(SHARED_FEATURES, lambda: _node_rows(others, table[others]), final=True)
        self.comm.note(OWN_FEATURES, lambda: _node_rows(own_nodes, table[own_nodes]), final=True)

    def _full_table(self) -> Table | None:
        """The features of all nodes, where the client holds them."""
        if not self._task.shares:
            return None
        learnt = self.model.learnt
        return self.kept["features"] if learnt is None else learnt.detach().cpu().numpy()

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, with the test accuracy averaged as told, and the parameters after the last round."""
        test = np.asarray(self._mean(self._scores.best), dtype=np.float64)
        return {**super().report, "test": test, **self.model.parameters()}

    def state(self) -> dict[str, Array]:
        """How far training is, and the model as it is."""
        return {**super().state(), **under("model", self.model.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self._make(self._as_kept())
        self.model.restore(within("model", state))

    def _as_kept(self) -> Table | None:
        """Features as they were exchanged; of learnt ones the shape alone, for the model remembers them."""
        if isinstance(self._task.exchange, NoExchange) or "features" in self.kept:
            return self.kept.get("features")
        features = first_features(self.silo, self._preset, self._task.seed)
        return np.zeros((self.silo.facts.nodes, features.shape[1]), np.float32) if self._task.shares else features


def _own_features(silo: Silo, task: FedStructTask) -> Table:
    """Fixed structure features of own nodes float32 [m, d_s], from what a client knows: these and their edges."""
    nodes = np.union1d(silo.nodes, silo.foreign[:, 0])
    blank = np.zeros((len(nodes), 1)), np.zeros(len(nodes), dtype=np.int64)
    known = Graph.from_arrays("known", *blank, np.searchsorted(nodes, silo.edges))
    features = structure_features(task.features, known, task.preset.structure_width, task.seed)
    return features[np.searchsorted(nodes, silo.nodes)]


def _node_rows(nodes: Ids, values: Table) -> Table:
    """Rows (node, its values), float32 [m, 1 + d]; numbers of nodes below 2^24 are exact."""
    return np.concatenate([nodes[:, None].astype(np.float32), values], axis=1)


Shown = Callable[[tuple[FedStructClient, ...]], None]
"""Shown the clients before the first round, and after the last."""


def clients_of(
    graph: FederatedGraph,
    task: FedStructTask,
    *,
    device: torch.device | None = None,
    given: Callable[[Silo], SimulatedInputs] | None = None,
    shown: Shown | None = None,
    kind: Callable[..., FedStructClient] = FedStructClient,
) -> Job:
    """The clients: structure is exchanged, and models are trained; a round is selected as the preset says.

    `accuracy.test` is averaged as the preset says, and `selected_round` counts the steps that the reported model has
    taken.

    Args:
        graph: who has what.
        task: what is trained.
        device: where model compute runs; the CPU by default.
        given: what clients need not find out, in one process; by default what the `paper` preset gives them.
        shown: shown the clients before the first round, and after the last.
        kind: makes a client's program, as `FedStructClient` does.

    Raises:
        InputError: rows travel hop by hop along edges that have no other direction.
    """
    hopwise, tell = isinstance(task.exchange, HopwiseExchange), given or _published_inputs
    if hopwise and not graph.graph.is_symmetric:
        raise InputError("graph must have every edge in both directions where embeddings travel; it has not")

    def settle(channel: Channel) -> None:
        if not isinstance(task.exchange, NoExchange):
            note_own_graph(channel, graph)

    def make(comm: Collectives, _coins: Coins) -> FedStructClient:
        return kind(comm, task, device=device, given=tell(comm.silo))

    task_of_run = Task(make, task.exchange.schemes, task.preset.epochs, graph.num_classes, crossing=hopwise)
    show = None if shown is None else lambda programs: shown(cast("tuple[FedStructClient, ...]", programs))
    return Job(task_of_run, graph, settle=settle, shares=_shares_of(graph, task), shown=show)


PUBLISHED = "published features"


def _shares_of(graph: FederatedGraph, task: FedStructTask) -> tuple[Silo, ...]:
    """What clients hold: under the `paper` preset with it their rows of fixed features of the whole graph.

    That is how the public code has them, and what no client could compute.
    """
    shares = tuple(Silo.all_of(graph))
    if task.preset.name != "paper" or task.learns or isinstance(task.exchange, NoExchange):
        return shares
    table = structure_features(task.features, graph.graph, task.preset.structure_width, task.seed)
    return tuple(replace(silo, own={PUBLISHED: table[silo.nodes]}) for silo in shares)


def _published_inputs(silo: Silo) -> SimulatedInputs:
    """What a client's share has of what it could not compute."""
    return SimulatedInputs(features=silo.own[PUBLISHED]) if PUBLISHED in silo.own else SimulatedInputs()


def client_features(graph: FederatedGraph, preset: FedStructPreset, name: str, seed: int) -> Table:
    """Fixed structure features of all nodes float32 [n, d_s], each row as its client has it."""
    task = FedStructTask(preset, NoExchange(), name, seed)
    if preset.name == "paper":
        return structure_features(name, graph.graph, preset.structure_width, seed)
    shares = Silo.all_of(graph)
    parts = [_own_features(silo, task) for silo in shares]
    order = np.argsort(np.concatenate([silo.nodes for silo in shares]))
    return np.concatenate(parts)[order]
