"""FedSage+ as one client runs it: a generator of missing neighbours, then averaging of models on mended graphs.

Each client first learns a generator alone. In the rounds after that it sends all others its generator of features and
what it generates from, embeddings under noise; each of them works out how the generated rows should change to be nearer
to its own nodes, as a gradient of the generator's parameters, and the sum of these gradients goes to the client (4.3).
Published is that the server passes all of it on in the clear; here the sum of gradients is one collective, under any
scheme for clients. Then every client mends its graph, and GraphSAGE models are averaged on the mended graphs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fgl_secure.algebra.quantization import largest_magnitude
from fgl_secure.errors import ProtocolError
from fgl_secure.methods.fedsage.generator import NeighGen, graph_of
from fgl_secure.methods.fedsage.preset import FedSagePreset
from fgl_secure.runtime import Phase
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.averaging import Averaged
from fgl_secure.training.calls import Ids, Reals
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.node_models import Surroundings, backbone_of, make_model
from fgl_secure.training.parameters import flat
from fgl_secure.training.ranges import shrunk
from fgl_secure.training.rounds import Figures
from fgl_secure.training.scoring import COUNTS

INPUTS, OWN_GENERATOR = "generator inputs", "own generator"
"""What a client notes of a round for generators: float32 [r, latent] and [1, P], which it sent all others."""
GRADIENT_SUM = "generator gradient sum"
"""What it is left with: int64 [1, P] on the grid of gradients."""


class FedSage(Averaged):
    """One client of FedSage+.

    Args:
        talk: the collectives of the run.
        preset: how to train.
        backbone: of the classifier: "gcn", "sage" or "dagnn".
        seed: of initial weights, hidden nodes, noise and dropout.
        device: where model compute runs; the CPU by default.

    Attributes:
        neighgen: the client's generator.
    """

    def __init__(
        self,
        talk: Collectives,
        preset: FedSagePreset,
        *,
        backbone: str = "sage",
        seed: int = 0,
        device: torch.device | None = None,
    ) -> None:
        facts = talk.silo.facts
        model = make_model(backbone, (facts.features, preset.hidden, facts.classes), preset.hops, seed)
        rounds = preset.rounds_together + preset.epochs
        super().__init__(talk, preset.with_epochs(rounds), model, seed=seed, device=device)
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
        self.talk.note(INPUTS, lambda: inputs)
        self.talk.note(OWN_GENERATOR, lambda: theta[None])
        loss, gradient = self.neighgen.own_gradient(inputs)
        self.neighgen.step(gradient + self._from_others(theta, inputs))
        return replace(self.figures(np.zeros(COUNTS, dtype=np.int64), loss, 1), score=-1.0)

    def _from_others(self, theta: Array, inputs: Array) -> Reals:
        """The sum of what the other clients answer, float64 [P]; they are answered likewise."""
        others, grid = self.silo.others, self.talk.clients_grid
        rows = self.talk.exchange(Phase.EMBEDDINGS, dict.fromkeys(others, inputs))
        told = self.talk.exchange(Phase.GENERATOR, dict.fromkeys(others, theta[None]))
        answers = dict[int, Reals]()
        for client in others:
            if len(told[client]) != 1 or not (np.isfinite(told[client]).all() and np.isfinite(rows[client]).all()):
                raise ProtocolError(f"generator of client {client} must be one row, finite as its inputs; it is not")
            answers[client] = self.neighgen.gradient_for(told[client][0], rows[client]).astype(np.float64)
        exponent = self.talk.exponent(max(map(largest_magnitude, answers.values()), default=0.0), grid.bound)
        terms: dict[int, Ids | int] = {
            client: grid.encode(shrunk(answers[client], exponent)) if client in answers else len(theta)
            for client in range(self.silo.facts.silos)
        }
        return shrunk(grid.decode(self.talk.clients(terms, grid.largest, GRADIENT_SUM)), -exponent)

    def surroundings(self) -> Surroundings:
        """The client's graph with its generated neighbours."""
        features, edges = self.neighgen.mended()
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
