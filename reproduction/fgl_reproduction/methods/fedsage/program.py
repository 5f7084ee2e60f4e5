"""FedSage+ as one client runs it: a generator of missing neighbours, then averaging of models on mended graphs.

Each client first learns a generator alone. In the rounds after that it sends all others its generator of features and
what it generates from, embeddings under noise; each of them works out how the generated rows should change to be nearer
to its own nodes, as a gradient of the generator's parameters, and the sum of these gradients goes to the client (4.3).
Published is that the server passes all of it on in plaintext; here the sum of gradients is one collective, under any
scheme for clients. Then every client mends its graph, and GraphSAGE models are averaged on the mended graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fgl_reproduction.attacks.generators import GRADIENT_SUM, INPUTS, OWN_GENERATOR
from fgl_reproduction.methods.fedsage.generator import GeneratorPreset, NeighGen, graph_of
from fgl_secure.algebra.checks import largest_magnitude
from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.runtime import MessageKind
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.loop import COUNTS, Figures
from fgl_secure.training.node_models import AveragedRounds, Surroundings, backbone_of, make_model
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import PRESETS, AveragedPreset, Selection
from fgl_secure.training.ranges import shrunk
from fgl_secure.typing import Array, Floats, Ids


@dataclass(frozen=True, slots=True)
class FedSagePreset(AveragedPreset):
    """Everything about training that is not the graph or how sums are computed; `hops` are layers of the classifier.

    Attributes:
        generator: how generators are trained.
    """

    generator: GeneratorPreset = field(default_factory=GeneratorPreset)

    @property
    def rounds_together(self) -> int:
        """Rounds in which generators are trained together; none where nothing is generated."""
        return self.generator.rounds if self.generator.most else 0

    def with_generator(self, rounds: int | None, most: int | None) -> FedSagePreset:
        """The same preset with other rounds for generators or other neighbours; None changes nothing."""
        generator = self.generator
        rounds, most = generator.rounds if rounds is None else rounds, generator.most if most is None else most
        return replace(self, generator=replace(generator, rounds=rounds, most=most))


HONEST = FedSagePreset("honest", hidden=64, epochs=100, learning_rate=0.5, descent=True, weight_decay=5e-4)
"""One step of gradient descent a round on the whole mended graph, the round chosen on validation nodes."""

_PUBLISHED = replace(
    HONEST, name="paper", selection=Selection.TEST, generator=GeneratorPreset(width=256, alone=20, learning_rate=1e-3)
)
"""What is known of the public code on the generator; for the classifier, which there takes samples, as `HONEST`."""


def fedsage_preset(name: str) -> FedSagePreset:
    """The preset of a name; it is the same for all data sets.

    Args:
        name: "honest" reports the best round on validation data, "paper" the best on test data.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS)
    return HONEST if name == "honest" else _PUBLISHED


class SageMessage(MessageKind):
    """What clients of FedSage+ tell each other beside sums."""

    EMBEDDINGS = ("noisy embeddings", "embeddings of a client's nodes under noise, which neighbours are generated from")
    GENERATOR = ("generator", "parameters of a client's generator of neighbours' features")


class FedSageClient(AveragedRounds):
    """One client of FedSage+.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        backbone: of the classifier: "gcn", "sage" or "dagnn".
        seed: of initial weights, hidden nodes, noise and dropout.
        device: where model compute runs; the CPU by default.

    Attributes:
        neighgen: the client's generator.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: FedSagePreset,
        *,
        backbone: str = "sage",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        facts = comm.silo.facts
        model = make_model(backbone, (facts.features, preset.hidden, facts.classes), preset.hops, seed)
        rounds = preset.rounds_together + preset.epochs
        super().__init__(comm, preset.with_epochs(rounds), model, seed=seed, device=device)
        self.preset, self._kind = preset, backbone_of(backbone).propagation
        self.neighgen = NeighGen(self.silo, preset.generator, seed, self.device)

    def begin(self) -> None:
        """Each client learns its generator alone; nothing is said."""
        if self.preset.generator.most:
            self.neighgen.learn_alone()

    def train(self, number: int) -> Figures:
        """A round for generators, which no model is scored in, or one of averaging."""
        if number >= self.preset.rounds_together:
            return super().train(number)
        inputs = self.neighgen.inputs(number)
        theta = flat(self.neighgen.theta)
        self.comm.note(INPUTS, lambda: inputs)
        self.comm.note(OWN_GENERATOR, lambda: theta[None])
        loss, gradient = self.neighgen.own_gradient(inputs)
        self.neighgen.step(gradient + self._from_others(theta, inputs))
        return replace(self.figures(np.zeros(COUNTS, dtype=np.int64), loss, 1), score=-1.0)

    def _from_others(self, theta: Array, inputs: Array) -> Floats:
        """The sum of what the other clients answer, float64 [P]; they are answered likewise."""
        others, grid = self.silo.others, self.comm.clients_grid
        rows = self.comm.exchange(SageMessage.EMBEDDINGS, dict.fromkeys(others, inputs))
        told = self.comm.exchange(SageMessage.GENERATOR, dict.fromkeys(others, theta[None]))
        answers = dict[int, Floats]()
        for client in others:
            if len(told[client]) != 1 or not (np.isfinite(told[client]).all() and np.isfinite(rows[client]).all()):
                raise ProtocolError(f"generator of client {client} must be one row, finite as its inputs; it is not")
            answers[client] = self.neighgen.gradient_for(told[client][0], rows[client]).astype(np.float64)
        exponent = self.comm.exponent(max(map(largest_magnitude, answers.values()), default=0.0), grid.bound)
        terms: dict[int, Ids | int] = {
            client: grid.encode(shrunk(answers[client], exponent)) if client in answers else len(theta)
            for client in range(self.silo.facts.silos)
        }
        return shrunk(grid.decode(self.comm.clients(terms, grid.largest, GRADIENT_SUM)), -exponent)

    def surroundings(self) -> Surroundings:
        """The client's graph with its generated neighbours."""
        features, edges = self.neighgen.mend_graph()
        return graph_of(features, edges, self._kind, self.device)

    @property
    def report(self) -> dict[str, Array]:
        """As of averaging; and the generator of features."""
        return {**super().report, "generator": flat(self.neighgen.theta)}

    def state(self) -> dict[str, Array]:
        """The generator, too."""
        return {**super().state(), **under("neighgen", self.neighgen.state())}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        self.neighgen.restore(within("neighgen", state))


def clients_of(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    preset: FedSagePreset,
    *,
    backbone: str = "sage",
    seed: int = 0,
    device: torch.device | None = None,
) -> Job:
    """The clients: they learn generators, alone and together, mend their graphs and train.

    Args:
        graph: who has what; edges between clients go unused.
        schemes: of "clients", gradients of generators, and of "server", models; what is not there is in plaintext.
        preset: how to train.
        backbone: of the classifier: "gcn", "sage" or "dagnn".
        seed: of initial weights, hidden nodes, noise and dropout.
        device: where model compute runs; the CPU by default.
    """

    def make(comm: Collectives, _coins: Coins) -> FedSageClient:
        return FedSageClient(comm, preset, backbone=backbone, seed=seed, device=device)

    chosen = {CLIENTS: Plaintext(), SERVER: Plaintext(), **schemes}
    rounds = preset.rounds_together + preset.epochs
    return Job(Task(make, chosen, rounds), graph, message_graph=graph.restricted_to_silos())
