"""FED-PUB as one client runs it: own steps on masked weights, then an average of all clients' weights for it alone.

In a round a client k takes steps on its loss at theta_k * mu_k, and lambda_1 |mu_k|_1 + lambda_2 |theta_k - theta'_k|^2
beside it, with theta'_k the average that it got last. Then it tells all others its functional embedding h_k, the
mean over the nodes of a public random graph of what its model makes of them, and gets its next average, the sum over
all j of a_kj theta_j, where the row a_k is the soft-max over j of tau cos(h_k, h_j). Masks never leave it, and it
predicts with what its steps came to.

Published is that the server gets all models and embeddings and computes the averages. Here the average of k is a sum
that the others compute for k alone, each with its own weight in it: under a scheme for such sums k learns one sum of
the others' models a round, and the server none. That the server adds up n averages of n models under masks, and is told
them, would be no help: it knows the weights, and solves for every model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_reproduction.attacks.personal_averages import OWN_EMBEDDING, WEIGHTED_SUM, AverageMessage
from fgl_reproduction.methods.fedpub.models import MaskedGCN, own_surroundings, public_graph
from fgl_secure.algebra.checks import largest_magnitude
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError, ProtocolError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.schemes import promises as promised
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.dropout import CoinDropout
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import Figures, TrainingRounds, counts_of
from fgl_secure.training.node_models import APART
from fgl_secure.training.parameters import Adam, flat, optimiser_state, overwrite, remind, unflatten
from fgl_secure.training.presets import PRESETS, AveragedPreset
from fgl_secure.training.ranges import shrunk
from fgl_secure.typing import Array, Floats, Ids


@dataclass(frozen=True, slots=True)
class FedPubPreset(AveragedPreset):
    """Everything about training that is not the graph or how sums are computed.

    Attributes:
        temperature: tau; a client's weights are the soft-max of tau times the cosines of functional embeddings.
        sparsity: lambda_1, the factor of the sum of the masks' magnitudes.
        proximal: lambda_2, the factor of the squared distance to the average that the client got.
        pruned: entries of masks below this magnitude are 0 wherever the model is not in training.
        tested_averaged: whether a client predicts with the average that ends a round, under its own masks, instead of
            with the model that its own steps left.
    """

    temperature: float = 5.0
    sparsity: float = 0.0
    proximal: float = 0.0
    pruned: float = 1e-3
    tested_averaged: bool = False

    def __post_init__(self) -> None:
        AveragedPreset.__post_init__(self)
        for name in ("temperature", "sparsity", "proximal", "pruned"):
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise InputError(f"{name} must be zero or positive; found {value}")


HONEST = FedPubPreset("honest", hidden=128, epochs=100, weight_decay=1e-6, sparsity=1e-4, proximal=1e-3)
"""Rate, width, rounds, decay and proximal factor of the public code; lambda_1 chosen among 0, 1e-5 and 1e-4 on
validation nodes (Cora, ten clients by Louvain, seed 0)."""

_PUBLISHED = replace(HONEST, name="paper", temperature=3.0, sparsity=0.0, proximal=0.0)
"""What the public code does on Cora in parts without overlap. It adds both penalties as numbers that carry no gradient
(they are taken of the model's `state_dict`), so that neither has an effect. Which round is reported, and tau and rounds
on other data sets, it does not say: the round is chosen on validation nodes here."""


def fedpub_preset(name: str) -> FedPubPreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" or "paper".
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED


class FedPubClient(TrainingRounds):
    """One client of FED-PUB.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        seed: of initial weights, of the public graph and of dropout.
        device: where model compute runs; the CPU by default.

    Attributes:
        model: the client's own; weights and biases are those of its last average once a round is over.
        sent: float64 [P], what it brought into the averages of the last round, in the process that ran it.
    """

    sent: Floats

    def __init__(
        self, comm: Collectives, preset: FedPubPreset, *, seed: int = 0, device: torch.device | None = None
    ) -> None:
        super().__init__(comm, preset.epochs, preset.selection, preset.patience)
        silo, place = comm.silo, device or torch.device("cpu")
        self._preset, self._grid = preset, comm.clients_grid
        widths = silo.facts.features, preset.hidden, silo.facts.classes
        self.model = MaskedGCN(widths, preset.pruned, torch.Generator().manual_seed(seed)).to(place)
        self._steps = Adam(self.model.parameters(), lr=preset.learning_rate, weight_decay=preset.weight_decay)
        self._dropout = CoinDropout(preset.dropout, seed + APART * (1 + silo.silo))
        self._own = own_surroundings(silo.features, silo.alone.edges, place)
        self._public = public_graph(silo.facts.features, seed, place)
        self._labelled = torch.from_numpy(np.flatnonzero(silo.train)).to(place)
        self._labels = torch.from_numpy(silo.labels[silo.train]).to(place)

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """Own steps, and the average to go on from; figures are of what the steps of the round before came to."""
        counts = counts_of(self.silo, self._predict)
        loss = self._learn()
        self.kept["predicted"] = self._classes()
        self._take_average()
        if self._preset.tested_averaged:
            self.kept["predicted"] = self._classes()
        return self.figures(counts, loss, len(self._labelled))

    def judge(self, number: int) -> Figures:  # noqa: ARG002  # whenever it is
        """Scores what the last steps came to."""
        return self.figures(counts_of(self.silo, self._predict))

    @property
    def _predict(self) -> Ids:
        return self.kept["predicted"] if "predicted" in self.kept else self._classes()

    def _classes(self) -> Ids:
        self.model.eval()
        with torch.no_grad():
            classes: Ids = self.model(self._own, self._dropout).argmax(dim=1).cpu().numpy()
        return classes

    def _learn(self) -> float:
        """Steps on the client's own loss; the loss before them. Without labelled nodes there is none."""
        self.model.train()
        losses = [self._one_step() for _ in range(self._preset.local_steps if len(self._labelled) else 0)]
        return losses[0] if losses else 0.0

    def _one_step(self) -> float:
        scores = self.model(self._own, self._dropout)[self._labelled]
        loss = functional.cross_entropy(scores, self._labels)
        self._steps.zero_grad()
        (loss + self._penalty()).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._steps.step()
        return float(loss.detach())

    def _penalty(self) -> torch.Tensor:
        """Of masks that are not sparse, and of weights that are far from the average; none before the first."""
        shared = self.model.shared_parameters
        total = self._preset.sparsity * torch.stack([mask.abs().sum() for mask in self.model.masks]).sum()
        if "average" not in self.kept:
            return total
        pairs = zip(shared, unflatten(self.kept["average"], shared), strict=True)
        return total + self._preset.proximal * torch.stack([(one - two).square().sum() for one, two in pairs]).sum()

    def _take_average(self) -> None:
        """Tells the embedding, and takes over the average of all models for this client."""
        me, facts = self.silo.silo, self.silo.facts
        weights = similar(self._embeddings(), self._preset.temperature)
        self.sent = flat(self.model.shared_parameters).astype(np.float64)
        exponent = self.comm.exponent(largest_magnitude(self.sent), self._grid.bound)
        terms: dict[int, Ids | int] = {
            other: self._grid.encode(shrunk(weights[other, me] * self.sent, exponent)) for other in range(facts.silos)
        }
        clients = self.comm.clients({**terms, me: len(self.sent)}, self._grid.largest, WEIGHTED_SUM)
        average = shrunk(self._grid.decode(clients), -exponent) + weights[me, me] * self.sent
        self.kept["average"] = average.astype(np.float32)
        overwrite(self.model.shared_parameters, self.kept["average"])

    def _embeddings(self) -> Floats:
        """The functional embeddings of all clients, float64 [clients, hidden]."""
        own = self._embedding()
        self.comm.note(OWN_EMBEDDING, lambda: own[None])
        received = self.comm.exchange(AverageMessage.FUNCTIONAL_EMBEDDINGS, dict.fromkeys(self.silo.others, own[None]))
        for other in self.silo.others:
            if len(received[other]) != 1 or not np.isfinite(received[other]).all():
                raise ProtocolError(f"silo {other} must tell one functional embedding of finite numbers; it does not")
        received[self.silo.silo] = own[None]
        return np.concatenate(received)

    def _embedding(self) -> Floats:
        self.model.eval()
        with torch.no_grad():
            mean = self.model.hidden_embeddings(self._public, self._dropout).mean(dim=0)
        return np.asarray(mean.cpu().numpy(), dtype=np.float64)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, the client's last average, and how much of its masks is pruned."""
        sparse = np.asarray(self.model.sparsity, dtype=np.float64)
        return {**super().report, "own theta": flat(self.model.shared_parameters), "own sparsity": sparse}

    def state(self) -> dict[str, Array]:
        """The model with its masks, what Adam remembers, and where dropout's coins are."""
        own = {"own": flat(list(self.model.parameters())), "coins": self._dropout.position}
        return {**super().state(), **own, **under("steps", optimiser_state(self._steps))}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        overwrite(list(self.model.parameters()), state["own"])
        self._dropout.position = state["coins"]
        remind(self._steps, within("steps", state))


def similar(embeddings: NDArray[np.float64], temperature: float) -> Floats:
    """What each client's model weighs in the average of each: rows that sum to 1.

    Args:
        embeddings: float64 [n, d]; one of zeros is like none, itself neither.
        temperature: tau.

    Returns:
        float64 [n, n], row k the soft-max over j of tau cos(h_k, h_j).
    """
    lengths = np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    unit = embeddings / lengths
    powers = np.exp(temperature * (unit @ unit.T - 1))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


LEAST = 3
"""Clients, where sums are not in plaintext: with two, the sum of the others is one model."""


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: FedPubPreset,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients, each with its own subgraph.

    Args:
        graph: who has what; edges between clients go unused.
        schemes: of "clients", averages, and of "server", figures; what is not there is in plaintext.
        preset: how to train.
        seed: of initial weights, of the public graph and of dropout.
        device: where model compute runs; the CPU by default.

    Raises:
        InputError: there are too few clients.
    """
    schemes = {CLIENTS: Plaintext(), SERVER: Plaintext(), **schemes}
    least = LEAST if promised(schemes[CLIENTS], CLIENTS) else 2
    if graph.num_silos < least:
        raise InputError(
            f"silos must be at least {least} for fedpub under {schemes[CLIENTS].name}, where a client gets a sum of "
            f"the others' models; found {graph.num_silos}"
        )

    def make(comm: Collectives, _coins: Coins) -> FedPubClient:
        return FedPubClient(comm, preset, seed=seed, device=device)

    return Job(Task(make, schemes, preset.epochs), graph, message_graph=graph.restricted_to_silos())
