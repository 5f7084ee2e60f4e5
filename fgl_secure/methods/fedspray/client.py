"""FedSpray as one client runs it (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.networks import (
    NETWORKS,
    SGC,
    ClassNetwork,
    MakeNetwork,
    ProxyEncoder,
    Subgraph,
    draw_encoder,
    draw_weights,
)
from fgl_secure.methods.fedspray.preset import FedSprayPreset, RoundChoice
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Make, Task
from fgl_secure.training.loop import COUNTS, NOTHING, Figures, TrainingRounds, counts_of, probabilities, share_of
from fgl_secure.training.parameters import Adam, flat, optimiser_state, overwrite, remind
from fgl_secure.training.presets import Selection
from fgl_secure.training.server_sums import FRACTION_BITS
from fgl_secure.training.silo import Facts, Silo
from fgl_secure.typing import Array, Floats, Ids


def shares_of(counts: Ids, grid: int | None) -> Floats:
    """Shares that sum to one.

    On a grid, each is rounded down to a multiple of 1 / grid, and what is missing to one goes, a unit each, to those
    that lost most (largest remainders; of equals to the class of the lower number). So a share is off by less than
    1 / grid, that of an absent class is zero, and one below 1 / grid may become zero: then the class weighs nothing.

    Args:
        counts: int64 [C], labelled nodes of each class.
        grid: public number of units that make one; None for exact shares.

    Returns:
        float64 [C]; zeros without a labelled node.
    """
    labelled = int(counts.sum())
    if not labelled:
        return np.zeros(len(counts))
    if grid is None:
        return np.asarray(counts / labelled, dtype=np.float64)
    units, lost = np.divmod(counts.astype(np.int64) * grid, labelled)
    missing = grid - int(units.sum())
    units[np.argsort(-lost, kind="stable")[:missing]] += 1
    return np.asarray(units / grid, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ProxyLayout:
    """Where the parts of a summand lie: numerators, then denominators, no count or share by itself.

    Attributes:
        parameters: entries P of the encoder.
        classes: number of classes C.
        width: columns d of a structure proxy.
    """

    parameters: int
    classes: int
    width: int

    def __post_init__(self) -> None:
        for name, value in (("parameters", self.parameters), ("classes", self.classes), ("width", self.width)):
            if value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")

    @classmethod
    def of(cls, features: int, classes: int, width: int) -> ProxyLayout:
        """That of a run with the encoder of these widths."""
        return cls((features + 1) * width + 2 * (width + 1) * classes, classes, width)

    @property
    def model(self) -> slice:
        """P entries: the encoder omega, times the client's weight."""
        return slice(0, self.parameters)

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its local proxy."""
        return slice(self.parameters, self.parameters + self.classes * self.width)

    @property
    def right(self) -> slice:
        """One entry, over the number of all nodes: what the round is chosen by.

        That is how many validation nodes are predicted right, or the sum of their losses.
        """
        return slice(self.proxies.stop, self.proxies.stop + 1)

    @property
    def loss(self) -> slice:
        """One entry: the loss of the client's network, times about one over the number of all nodes."""
        return slice(self.right.stop, self.right.stop + 1)

    @property
    def weight(self) -> slice:
        """One entry: the client's number of nodes over that of the whole graph (Eq. 14)."""
        return slice(self.loss.stop, self.loss.stop + 1)

    @property
    def shares(self) -> slice:
        """C entries: the share a_j of each class among the client's labelled nodes (Eq. 15)."""
        return slice(self.weight.stop, self.weight.stop + self.classes)

    @property
    def validation_entry(self) -> slice:
        """One entry: the client's validation nodes, over the number of all nodes."""
        return slice(self.shares.stop, self.shares.stop + 1)

    @property
    def length(self) -> int:
        """Entries of a summand up to the counts of right predictions; the last one is the factor of the loss."""
        return int(self.validation_entry.stop) + 1


def fractions(encoder: Floats, weight: float, proxies: Floats, shares: Floats) -> tuple[list[Floats], Floats]:
    """One client's numerators and denominators.

    Args:
        encoder: [P], omega after the client's second phase.
        weight: its nodes over those of the whole graph.
        proxies: [C, d], its class-wise proxies.
        shares: [C], of the classes among its labelled nodes.

    Returns:
        The encoder and each class's proxy, float64 [P] and C of [d], times their weights; and these, float64 [1 + C].
    """
    return [weight * encoder, *(shares[:, None] * proxies)], np.array([weight, *shares])


def minority_nodes(silo: Silo) -> NDArray[np.bool_]:
    """Bool [m], the nodes whose label is not the one that is most frequent among the client's labelled nodes."""
    nodes: NDArray[np.bool_] = silo.labels != np.bincount(silo.labels[silo.train]).argmax()
    return nodes


class ChosenRounds(TrainingRounds):
    """A client's rounds, of which a validation figure chooses one: what FedSpray and its baselines have in common.

    Args:
        comm: the collectives of the run.
        preset: rounds, patience, and how the round is chosen.
        device: where model compute runs.

    Attributes:
        subgraph: what the client holds.
        predictions: float32 [m, C], scores of its nodes by which the last round was judged.
    """

    def __init__(self, comm: Collectives, preset: FedSprayPreset, device: torch.device) -> None:
        super().__init__(comm, preset.epochs, Selection.VALIDATION, preset.patience)
        self.preset, self.subgraph, self.predictions = preset, Subgraph.of(comm.silo, device), torch.empty(0)

    def sum_parts(
        self, loss: float, parts: Sequence[Array] = (), denominators: Array = NOTHING
    ) -> tuple[list[Floats], Figures]:
        """One sum of all clients: of a round's fractions, and of the figures that judge it.

        Args:
            loss: of the client's network.
            parts: float [P] each, numerators.
            denominators: float, one for each part.

        Returns:
            The quotients, float64 [P] each, NaN where a sum of denominators is 0; and the figures.
        """
        n, choice = self.silo.facts.nodes, self.preset.choice
        once = 0.5 ** n.bit_length()  # about one over all nodes, and exact on the grid
        # A client's validation figures, summed over its validation nodes, and how many there are.
        subgraph = self.subgraph
        scores = self.predictions
        places = subgraph.validation
        if choice is RoundChoice.LOSS:
            total = functional.cross_entropy(scores[places], subgraph.labels[places], reduction="sum")
        else:
            total = (scores[places].argmax(dim=1) == subgraph.labels[places]).sum()
        (figure, nodes) = float(total), float(len(places))
        own_counts = self._counts()
        (*result, selected_figure, mean), counts = self.comm.ratios(
            [*parts, np.array([figure / n]), np.array([once * loss])],
            np.array([*denominators, nodes / n, once]),
            own_counts,
            grid=self.comm.grid(FRACTION_BITS),
        )
        score = float(selected_figure[0]) * (-1 if choice is RoundChoice.LOSS else 1)
        return result, Figures(float(mean[0]), counts, own_counts, score)

    def answers(self) -> Mapping[str, Floats]:
        """See `TrainingRounds.answers`: what the last round was judged by."""
        return {"features and edges": probabilities(self.predictions)} if len(self.predictions) else {}

    def _counts(self) -> NDArray[np.int64]:
        """Int64 [COUNTS + 2]: with right predictions and predictions of minority nodes behind the others."""
        predicted: NDArray[np.int64] = self.predictions.argmax(dim=1).cpu().numpy()
        minority = minority_nodes(self.silo) & self.silo.test
        right = int((minority & (predicted == self.silo.labels)).sum())
        return np.array([*counts_of(self.silo, predicted), right, minority.sum()], dtype=np.int64)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the accuracy over test nodes that are not of their client's majority class."""
        return {**super().report, "minority": share_of(self._scores.best[COUNTS:])}


def choose_rounds(graph: FederatedGraph, scheme: Scheme, preset: FedSprayPreset, make: Make) -> Job:
    """Rounds of all clients, of which one is reported for all of them.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds the clients' vectors up.
        preset: rounds, and how the round is chosen.
        make: makes a client's `ChosenRounds`.
    """
    return Job(Task(make, {SERVER: scheme}, preset.epochs), graph, message_graph=graph.restricted_to_silos())


def _divergence(targets: torch.Tensor, learner: torch.Tensor) -> torch.Tensor:
    """Mean Kullback-Leibler divergence KL(target || learner) over nodes.

    Args:
        targets: float32 [m, C], logarithms of the distributions to come close to.
        learner: float32 [m, C], logits of those that come closer.
    """
    return functional.kl_div(functional.log_softmax(learner, dim=1), targets, log_target=True, reduction="batchmean")


def network_loss(
    scores: torch.Tensor,
    labelled: torch.Tensor,
    labels: torch.Tensor,
    targets: torch.Tensor,
    taught: torch.Tensor | None,
    teaching: float,
) -> torch.Tensor:
    """L_G = L_G_CE + lambda_1 L_G_KD of a client's network (Eq. 7).

    Args:
        scores: float32 [m, C], the network's, of all nodes.
        labelled: int64 [t], places of labelled nodes.
        labels: int64 [t], their labels.
        targets: float32 [m, C], logarithms of the encoder's soft targets p of all nodes.
        taught: int64 [k], places of the nodes in the second term; None takes all, as Eq. 6 does.
        teaching: lambda_1.
    """
    truth = functional.cross_entropy(scores[labelled], labels)
    if taught is None:
        return truth + teaching * _divergence(targets, scores)
    return truth + teaching * _divergence(targets[taught], scores[taught])


def encoder_loss(
    classified: torch.Tensor, projected: torch.Tensor, labels: torch.Tensor, predicted: torch.Tensor, learning: float
) -> torch.Tensor:
    """L_F = L_F_CE + lambda_2 L_F_KD of encoder and proxies (Eq. 11), over a client's labelled nodes.

    Args:
        classified: float32 [t, C], logits of p.
        projected: float32 [t, C], logits of q.
        labels: int64 [t].
        predicted: float32 [t, C], logarithms of the network's predictions.
        learning: lambda_2.
    """
    return functional.cross_entropy(projected, labels) + learning * _divergence(predicted, classified)


class FedSprayClient(ChosenRounds):
    """A network of its own, the common encoder, and a structure proxy for each labelled node.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs.

    Attributes:
        network: never shared.
        encoder: that of all clients at the start of each round.
        proxies: float32 [t, width], of the labelled nodes.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: FedSprayPreset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        place, facts, draws = device or torch.device("cpu"), comm.silo.facts, torch.Generator().manual_seed(seed)
        super().__init__(comm, preset, place)
        self.encoder = ProxyEncoder(facts.features, preset.width, facts.classes)
        draw_encoder(self.encoder, draws)
        self.encoder.to(place)
        self.network = drawn_network(backbone, facts, preset, draws, comm.silo.silo).to(place)
        first = torch.full((len(self.subgraph.labelled), preset.width), preset.first_node_proxy * preset.proxies)
        self.proxies = nn.Parameter(first.to(place), requires_grad=preset.proxies)
        self._optimisers = {
            "network": adam(self.network, preset.learning_rate),
            "encoder": adam(self.encoder, preset.learning_rate),
            "proxies": Adam([self.proxies], lr=preset.proxy_rate, fused=True),
        }
        self.class_proxies = first_proxies(facts.classes, preset)

    @property
    def class_proxies(self) -> NDArray[np.float64]:
        """S, float64 [C, width], the same for all clients."""
        return self.kept["proxies"]

    @class_proxies.setter
    def class_proxies(self, values: NDArray[np.float64]) -> None:
        self.kept["proxies"] = values

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Both phases; then encoders and class proxies become the weighted means of all clients."""
        loss, silo = self.work(), self.silo
        shares = shares_of(self.subgraph.counts, self.preset.share_grid)
        encoder, proxies = flat(self._shared_parameters).astype(np.float64), self.local_class_proxies().cpu().numpy()
        weight = len(silo.nodes) / silo.facts.nodes
        parts, denominators = fractions(encoder, weight, proxies.astype(np.float64), shares)
        (mean, *means), figures = self.sum_parts(loss, parts, denominators)
        overwrite(self._shared_parameters, mean)
        result = np.stack(means)
        # a class that no party has a labelled node of keeps its own
        self.class_proxies = np.where(np.isnan(result), self.class_proxies, result)
        return figures

    def judge(self, number: int) -> None:
        """None: predictions are made in rounds."""

    def work(self) -> float:
        """What the client does by itself in a round: the loss of its network before the last step."""
        loss = self._train_network(*self._soft_targets())
        with torch.no_grad():
            self.predictions = self.network.scores(self.subgraph)
            if self.preset.classifier_projects:
                self.encoder.projector.load_state_dict(self.encoder.classifier.state_dict())
        self._train_encoder(functional.log_softmax(self.predictions[self.subgraph.labelled], dim=1))
        return loss

    @torch.no_grad()
    def local_class_proxies(self) -> torch.Tensor:
        """The mean proxy of the labelled nodes of each class, float32 [C, width]; zeros for a class without any."""
        subgraph = self.subgraph
        members = functional.one_hot(subgraph.labelled_labels, len(subgraph.counts)).T.to(self.proxies.dtype)
        return members @ self.proxies.detach() / members.sum(dim=1, keepdim=True).clamp(min=1)

    @torch.no_grad()
    def _soft_targets(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Lines 2 to 5: logarithms of p of all nodes [m, C], and the places of those that teach; None for all."""
        subgraph, preset, encoder = self.subgraph, self.preset, self.encoder
        class_proxies = torch.tensor(self.class_proxies, dtype=torch.float32, device=self.proxies.device)
        embeddings = encoder.embed(subgraph.features)
        soft = functional.softmax(encoder.project(embeddings), dim=1)
        if preset.proxies and not preset.own_proxies:
            self.proxies.copy_(class_proxies[subgraph.labelled_labels])
        proxies = soft @ class_proxies
        proxies[subgraph.labelled] = self.proxies
        targets = functional.log_softmax(encoder.classify(embeddings, proxies), dim=1)
        if preset.confidence is None:
            return targets, None
        sure = soft.max(dim=1).values > preset.confidence
        sure[subgraph.labelled] = True
        return targets, torch.nonzero(sure)[:, 0]

    def _train_network(self, targets: torch.Tensor, taught: torch.Tensor | None) -> float:
        """Lines 6 to 11."""
        subgraph, labels = self.subgraph, self.subgraph.labelled_labels
        loss, steps = torch.empty(0), self._optimisers["network"]
        for _ in range(self.preset.local_epochs):
            steps.zero_grad()
            scores = self.network.scores(subgraph)
            loss = network_loss(scores, subgraph.labelled, labels, targets, taught, self.preset.teaching)
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
        return loss.item()

    def _train_encoder(self, predicted: torch.Tensor) -> None:
        """Lines 15 to 22."""
        encoder, labels, features = self.encoder, self.subgraph.labelled_labels, self.subgraph.labelled_features
        steps = (self._optimisers["encoder"], self._optimisers["proxies"])
        for _ in range(self.preset.local_epochs):
            for optimiser in steps:
                optimiser.zero_grad()
            embeddings = encoder.embed(features)
            classified, projected = encoder.classify(embeddings, self.proxies), encoder.project(embeddings)
            loss = encoder_loss(classified, projected, labels, predicted, self.preset.learning)
            loss.backward()  # type: ignore[no-untyped-call]
            for optimiser in steps:
                optimiser.step()

    @property
    def _shared_parameters(self) -> list[nn.Parameter]:
        return list(self.encoder.parameters())

    @property
    def _trained_parameters(self) -> list[nn.Parameter]:
        return [*self.network.parameters(), *self._shared_parameters, self.proxies]

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the parameters after the last round."""
        return {**super().report, "theta": flat(self._trained_parameters), "class proxies": self.class_proxies}

    def state(self) -> dict[str, Array]:
        """Parameters, class proxies, and what the optimisers remember."""
        arrays = {**super().state(), "values": flat(self._trained_parameters)}
        for name, optimiser in self._optimisers.items():
            arrays |= under(name, optimiser_state(optimiser))
        return arrays

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(self._trained_parameters, state["values"])
        for name, optimiser in self._optimisers.items():
            remind(optimiser, within(name, state))


def first_proxies(classes: int, preset: FedSprayPreset) -> NDArray[np.float64]:
    """S before the first round, float64 [C, width]."""
    scale = preset.first_class_proxy if preset.proxies else 0.0
    return scale * np.repeat(np.arange(classes, dtype=np.float64)[:, None], preset.width, axis=1)


def drawn_network(
    backbone: str,
    facts: Facts,
    preset: FedSprayPreset,
    draws: torch.Generator,
    client: int,
    known: Mapping[str, MakeNetwork] = NETWORKS,
) -> ClassNetwork:
    """A client's fresh network, on the CPU, from coins that draw those of all clients one after the other.

    Raises:
        UnknownNameError: there is no such backbone among those that are known.
    """
    if backbone not in known:
        raise UnknownNameError("backbone", backbone, tuple(known))
    network = known[backbone](facts.features, preset.hidden, facts.classes)
    if isinstance(network, SGC):
        network.propagations = preset.propagations
    for _ in range(client + 1):
        draw_weights(network, draws, preset.uniform_weights)
    return network


def adam(module: nn.Module, rate: float) -> Adam:
    """Adam on all parameters, without weight decay."""
    return Adam(module.parameters(), lr=rate, fused=True)


def clients_of(
    graph: FederatedGraph,
    scheme: Scheme,
    preset: FedSprayPreset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients; one round is reported for all of them, chosen as the preset says.

    Args:
        graph: who has what; edges between clients go unused.
        scheme: adds the clients' vectors up.
        preset: how to train.
        backbone: "gcn", "sgc" or "sage".
        seed: of initial weights.
        device: where model compute runs; the CPU by default.
    """
    return choose_rounds(
        graph, scheme, preset, lambda comm, _: FedSprayClient(comm, preset, backbone=backbone, seed=seed, device=device)
    )
