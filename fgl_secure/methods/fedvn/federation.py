"""FedVN (AAAI 2025) and the baselines of its Table 1 as a program with one server sum a round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.methods.fedvn.batches import GraphStore
from fgl_secure.methods.fedvn.client import GraphClient, shared_parameters
from fgl_secure.methods.fedvn.models import GraphModel
from fgl_secure.methods.fedvn.preset import FedVNPreset, GlobalScore, GraphMethod
from fgl_secure.methods.fedvn.scoring import ClientScores
from fgl_secure.runtime import Step
from fgl_secure.training.server_sums import ServerSums

SCORE_UNIT = 1024.0
"""Score vectors are sent in units of so many nodes: a graph's scores sum to as much as it has nodes."""


@dataclass(frozen=True, slots=True)
class VirtualNodeLayout:
    """The parts of a row: w theta, w Q, w, what the model is chosen by, and w s_local where that is learnt.

    The weight w is a client's number of training graphs over the number of all graphs, which is public.

    Attributes:
        parameters: shared entries P of the model.
        head_bias: where among them the bias of the last layer lies, one entry a class.
        virtual_nodes: M; 0 without.
        width: entries of a virtual node.
        classes: outputs of the model; 1 for values.
        scores: M where clients' score vectors are averaged as well, otherwise 0.
    """

    parameters: int
    head_bias: slice
    virtual_nodes: int
    width: int
    classes: int
    scores: int = 0

    @property
    def model(self) -> slice:
        """The weight times the parameters."""
        return slice(0, self.parameters)

    @property
    def nodes(self) -> slice:
        """The weight times the virtual nodes, row after row."""
        return slice(self.parameters, self.weight)

    @property
    def weight(self) -> int:
        """The weight."""
        return self.parameters + self.virtual_nodes * self.width

    @property
    def right(self) -> int:
        """The weight of the validation graphs times the share of right predictions, or times the mean error."""
        return self.weight + 1

    @property
    def scored(self) -> int:
        """The weight of the validation graphs: their number over that of all graphs."""
        return self.weight + 2

    @property
    def score_vector(self) -> slice:
        """The weight times the client's mean score vector, in units of `SCORE_UNIT` nodes."""
        return slice(self.weight + 3, self.weight + 3 + self.scores)

    @property
    def entries(self) -> int:
        """Length of a row."""
        return self.weight + 3 + self.scores


Reals = NDArray[np.float64]


class GraphFederation:
    """One model in training: the server, and the clients with what they keep.

    Args:
        sets: who has which graphs.
        method: what is trained, and which of it is shared.
        preset: how.
        sums: adds the clients' rows up.
        seed: of initial weights, batches and dropout.
        device: where model compute runs.
    """

    def __init__(
        self,
        sets: GraphSet,
        method: GraphMethod,
        preset: FedVNPreset,
        sums: ServerSums,
        *,
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        place = device or torch.device("cpu")
        trains = sets.train | sets.validation if preset.validation_trains else sets.train
        _check(sets, trains)
        self._sets, self._sums, self._held_out = sets, sums, not preset.validation_trains
        self._graphs = [sets.graphs_of(client) for client in range(sets.num_clients)]
        store, outputs = GraphStore(sets, place), max(sets.num_classes, 1)
        draws = torch.Generator().manual_seed(seed)
        model = GraphModel(store.width, outputs, preset, virtual=method.virtual, draws=draws).to(place)
        self.clients = tuple(
            GraphClient(store, own[trains[own]], method, preset, model, np.random.default_rng([seed, client]), place)
            for client, own in enumerate(self._graphs)
        )
        self._counts = np.array([int(trains[own].sum()) for own in self._graphs])
        shared = shared_parameters(model, method.shared)
        self.layout = _layout(shared, outputs, method, preset)
        self._model = torch.cat([part.detach().reshape(-1) for part in shared]) if shared else torch.zeros(0)
        self._virtual = torch.zeros(preset.virtual_nodes, preset.hidden, device=place)
        self._score = torch.full((preset.virtual_nodes,), 1 / preset.virtual_nodes, device=place)

    @property
    def state(self) -> NDArray[np.float32]:
        """What the server sends to every client: parameters [P], virtual nodes [M d], where it is learnt s_global."""
        parts = [self._model]
        if self.layout.virtual_nodes:
            parts.append(self._virtual.reshape(-1))
        if self.layout.scores:
            parts.append(self._score)
        return torch.cat([part.cpu() for part in parts]).numpy()

    def send_down(self) -> None:
        """Every client takes over the server's model and virtual nodes."""
        for client in self.clients:
            client.receive(self._model, self._virtual)

    def pass_on(self) -> None:
        """Every client gets what the next one has: graphs, models and all."""
        self.clients = (*self.clients[1:], *self.clients[:1])
        self._graphs = [*self._graphs[1:], *self._graphs[:1]]
        self._counts = np.roll(self._counts, -1)

    def scores(self) -> tuple[ClientScores, ...]:
        """How good the predictions of all clients are with what they have now."""
        return tuple(self._scores(client, own) for client, own in zip(self.clients, self._graphs, strict=True))

    def round(self, scores: tuple[ClientScores, ...], step: Step) -> tuple[float, float | None]:
        """Local training of all clients, and the server's sum.

        Args:
            scores: of the models before the round.
            step: when.

        Returns:
            The mean loss over all training graphs, and the mean score of all validation graphs before the round, as
            the server learns it; None without any.
        """
        losses = [client.train(self._score) for client in self.clients]
        rows = np.stack([self._row(*each) for each in zip(self.clients, self._counts, scores, strict=True)])
        total = self._sums(rows, step)
        self._update(total)
        return float(np.average(losses, weights=self._counts)), self._chosen_by(total)

    def close(self, scores: tuple[ClientScores, ...], step: Step) -> float | None:
        """A last sum, zero but for the scores of the final model; what the server learns of them."""
        rows = np.zeros((len(self.clients), self.layout.entries))
        for row, each in zip(rows, scores, strict=True):
            self._put_scores(row, each)
        return self._chosen_by(self._sums(rows, step))

    def _scores(self, client: GraphClient, own: NDArray[np.int64]) -> ClientScores:
        validation = own[self._sets.validation[own]] if self._held_out else own[:0]
        return client.scores(validation, own[self._sets.test[own]])

    def _row(self, client: GraphClient, count: int, scores: ClientScores) -> Reals:
        weight, layout = count / self._sets.num_graphs, self.layout
        row = np.zeros(layout.entries)
        row[layout.model] = weight * _reals(client.shared)
        if layout.virtual_nodes:
            row[layout.nodes] = weight * _reals(client.virtual.detach().reshape(-1))
        row[layout.weight] = weight
        if layout.scores:
            row[layout.score_vector] = weight * _reals(client.local_score) / SCORE_UNIT
        self._put_scores(row, scores)
        return row

    def _put_scores(self, row: Reals, scores: ClientScores) -> None:
        row[self.layout.right] = scores.validation.sum() / self._sets.num_graphs
        row[self.layout.scored] = len(scores.validation) / self._sets.num_graphs

    def _chosen_by(self, total: Reals) -> float | None:
        right, scored = (float(total[at]) * self._sets.num_graphs for at in (self.layout.right, self.layout.scored))
        if round(scored) < 1:
            return None
        if self._sets.num_classes:  # counts: what the fixed point rounds off must not decide between equal rounds
            return round(right) / round(scored)
        return right / scored

    def _update(self, total: Reals) -> None:
        layout = self.layout
        mean = total / total[layout.weight]
        self._model = _floats(mean[layout.model], self._virtual.device)
        if layout.virtual_nodes:
            self._virtual = _floats(mean[layout.nodes], self._virtual.device).reshape(self._virtual.shape)
        if layout.scores:
            self._score = _floats(mean[layout.score_vector] * SCORE_UNIT, self._virtual.device)


def _check(sets: GraphSet, trains: NDArray[np.bool_]) -> None:
    idle = np.flatnonzero(np.bincount(sets.client_of[trains], minlength=sets.num_clients) == 0)
    if len(idle):
        raise InputError(f"sets.train must mark at least one graph of every client; client {idle[0]} has none")


def _layout(
    shared: tuple[torch.nn.Parameter, ...], outputs: int, method: GraphMethod, preset: FedVNPreset
) -> VirtualNodeLayout:
    parameters = sum(parameter.numel() for parameter in shared)
    number = preset.virtual_nodes if method.virtual else 0
    scores = number if preset.global_score is GlobalScore.LEARNT else 0
    bias = slice(parameters - outputs, parameters) if shared else slice(0, 0)
    return VirtualNodeLayout(parameters, bias, number, preset.hidden, outputs, scores)


def _reals(values: torch.Tensor) -> Reals:
    return values.cpu().numpy().astype(np.float64)


def _floats(values: Reals, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device)
