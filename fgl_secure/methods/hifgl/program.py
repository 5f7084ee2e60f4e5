"""HiFGL (KDD 2024, 4.1) as one silo runs it: devices compute, the silo optimises its model, the server averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.backbones import maker
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.runtime import Channel, Direction, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.backbones import Degrees, MessageLayer, make_layers, shape_preset, widest
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.local_privacy import LocalPerturbation, propagate_means
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.optimisers import Adam
from fgl_secure.training.parameters import flat, optimiser_state, overwrite, remind, unwritten
from fgl_secure.training.parties import neighbour_sums, note_membership
from fgl_secure.training.presets import Federation, Preset
from fgl_secure.training.rounds import Figures, TrainingRounds
from fgl_secure.typing import Array


class HiFGLSilo(TrainingRounds):
    """One silo's model in training.

    Args:
        talk: the collectives of the run: sums over neighbours, over the silo's devices, and over silos.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of the initial weights and of dropout; coins of schemes come from elsewhere.
        device: where model compute runs.
        perturbation: of features at devices; None trains on them as they are.
        coins: of that perturbation; the operating system's entropy unless given.
    """

    def __init__(
        self,
        talk: Collectives,
        preset: Preset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        perturbation: LocalPerturbation | None = None,
        coins: Coins | None = None,
    ) -> None:
        super().__init__(talk, preset.epochs, preset.selection, preset.patience)
        make = maker(backbone, preset.layers_of)
        self._preset, self._device, silo = shape_preset(make, preset), device or torch.device("cpu"), talk.silo
        widths = preset.widths(silo.facts.features, silo.facts.classes)
        self.layers = make_layers(make, widths, seed).to(self._device)
        self._optimiser = Adam(self.layers.parameters(), lr=preset.learning_rate, foreach=True)
        self._steps = 0
        self._coins = torch.Generator().manual_seed(seed)
        self._degrees = Degrees(*(self._column(item) for item in (silo.degrees, talk.partners, talk.message_counts)))
        self._perturbation = perturbation
        self._smoothed = perturbation is None
        self._features = unwritten(silo.features, self._device)
        if perturbation is not None:  # devices keep what they drew: a second draw would cost epsilon once more
            self._features = self._to_device(perturbation.model_inputs(silo.features, silo.facts.nodes, coins))
        self._labels, self._training = self._to_device(silo.labels), self._to_device(silo.train)
        self._static: torch.Tensor | None = None
        if preset.static_first_layer and not self._part(0).projects_sums:
            raise InputError(f"static_first_layer must be false for {backbone}, whose sums cannot be projected later")
        talk.watch(self.layers)
        if self._smoothed:
            talk.unchanging(self._features, silo.facts.feature_bits)

    def _to_device(self, array: Array) -> torch.Tensor:
        return torch.tensor(array).to(self._device)

    def _column(self, counts: NDArray[np.int64]) -> torch.Tensor:
        return self._to_device(counts[:, None].astype(np.float32))

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """One step on the mean gradient of the silo's devices (4.1.2, item 2), and federation (4.3)."""
        self.talk.hand_down(self.layers)
        logits = self.forward(training=True)
        losses = self.task_losses(logits) * self._training
        judged = self.predict_logits() if self.judges_apart else logits.detach()
        self.talk.backward(losses.sum())
        self.talk.gradients()
        return self._step(judged, losses.detach())

    def judge(self, number: int) -> Figures | None:  # noqa: ARG002  # whenever it is
        """Hands out the models as they are, and scores them."""
        self.talk.hand_down(self.layers)
        return self.sum_figures(self.predictions(self.predict_logits()))[1]

    def task_losses(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the loss of each of the silo's devices, [m], of outputs [m, classes]."""
        return functional.cross_entropy(outputs, self._labels, reduction="none")

    def predictions(self, outputs: torch.Tensor) -> Array:
        """Return what is predicted for each of the silo's devices: its class, int64 [m]."""
        classes: Array = outputs.argmax(dim=1).cpu().numpy()
        return classes

    @property
    def judges_apart(self) -> bool:
        """Whether models are scored in a pass of their own, and not by what the step computes."""
        return self._preset.dropout > 0

    def predict_logits(self) -> torch.Tensor:
        """Logits [m, classes] of the models as they are, without dropout."""
        with self.talk.evaluation():
            return self.forward(training=False)

    def forward(self, *, training: bool) -> torch.Tensor:
        """Logits [m, classes] of the silo's devices."""
        h, depth = self._inputs(), len(self.layers)
        for number in range(depth):
            part = self._part(number)
            kept = part.local_state(h)
            if number == 0 and self._preset.static_first_layer:
                sums = part.project(self._static_sums(part), part.message_weight)
            else:
                kept, sums = self.talk.neighbours(part.message(kept, self._degrees), carry=kept, layer=number)
            h = part.update(kept, sums, self._degrees)
            if number < depth - 1:
                h = self._activate(h, training=training)
        return h

    def _inputs(self) -> torch.Tensor:
        """Return the first layer's input [m, d]: features, or means of perturbed ones, computed at the first call."""
        if self._perturbation is not None and not self._smoothed:
            hops, first_layer = self._perturbation.hops, len(self.layers)
            self._keep_smoothed(propagate_means(self.talk, self._features, hops, first_layer))
        return self._features

    def _keep_smoothed(self, smoothed: torch.Tensor) -> None:
        self._features, self._smoothed = smoothed, True
        self.talk.unchanging(smoothed)

    def _part(self, number: int) -> MessageLayer:
        part = self.layers[number]
        assert isinstance(part, MessageLayer)
        return part

    def _static_sums(self, part: MessageLayer) -> torch.Tensor:
        """The sums of the neighbours' scaled features [m, d], exchanged when first asked for and kept."""
        if self._static is None:
            raw = part.raw_message(self._features, self._degrees)
            self._keep(self.talk.neighbours(raw, layer=0)[1])
        assert self._static is not None, "it has just been kept"
        return self._static

    def _keep(self, sums: torch.Tensor) -> None:
        self._static = sums
        self.talk.unchanging(sums)

    def _activate(self, h: torch.Tensor, *, training: bool) -> torch.Tensor:
        h, rate = torch.relu(h), self._preset.dropout
        if not (training and rate):
            return h
        # one seed for all silos: each draws what all of them drop, and takes its own
        draws = [torch.rand((size, h.shape[1]), generator=self._coins) for size in self.silo.facts.sizes]
        return h * (draws[self.silo.silo].to(h.device) >= rate) / (1 - rate)

    def _step(self, judged: torch.Tensor, losses: torch.Tensor) -> Figures:
        """A step of the silo's own optimiser, and the mean of all models; or of gradients, for one shared model."""
        train = self.silo.train
        devices = len(train) if self._preset.mean_over_devices else max(int(train.sum()), 1)
        for parameter in self.layers.parameters():
            if parameter.grad is not None:
                parameter.grad /= devices
        shared = self._preset.federation is Federation.SHARED
        if not shared:
            self._take_step()
        federated = (
            [p.grad for p in self.layers.parameters() if p.grad is not None] if shared else self.averaged_tensors
        )
        mean, figures = self.sum_figures(self.predictions(judged), losses.cpu().numpy(), flat(federated))
        overwrite(federated, mean.astype(np.float32))
        if shared:
            self._take_step()
        self._optimiser.zero_grad()
        return figures

    @property
    def averaged_tensors(self) -> list[torch.Tensor]:
        """What is averaged after a step: the whole model."""
        return list(self.layers.parameters())

    def _take_step(self) -> None:
        self._optimiser.step()
        self._steps += 1
        if self._steps % self._preset.decay_every == 0:
            self._optimiser.param_groups[0]["lr"] *= self._preset.decay

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, and the parameters after the last round."""
        return {**super().report, "theta": flat(list(self.layers.parameters()))}

    def state(self) -> dict[str, Array]:
        """Parameters, what the optimiser remembers, its rate, where dropout's coins are, and sums that are kept."""
        rate = self._optimiser.param_groups[0]["lr"]
        return {
            **super().state(),
            "values": flat(list(self.layers.parameters())),
            "rate": np.array([rate, self._steps], dtype=np.float64),
            "coins": self._coins.get_state().numpy(),
            **({} if self._static is None else {"static": self._static.cpu().numpy()}),
            **self._perturbed_state,
            **under("optimiser", optimiser_state(self._optimiser)),
        }

    @property
    def _perturbed_state(self) -> dict[str, Array]:
        """What a later process must not draw again."""
        if self._perturbation is None:
            return {}
        return {"smoothed" if self._smoothed else "perturbed": self._features.cpu().numpy()}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        if "perturbed" in state:
            self._features = self._to_device(state["perturbed"])
        if "smoothed" in state:
            self._keep_smoothed(self._to_device(state["smoothed"]))
        overwrite(list(self.layers.parameters()), state["values"])
        remind(self._optimiser, within("optimiser", state))
        self._optimiser.param_groups[0]["lr"], self._steps = float(state["rate"][0]), int(state["rate"][1])
        self._coins.set_state(torch.from_numpy(state["coins"].copy()))
        self._static = None
        if "static" in state:
            self._keep(self._to_device(state["static"]))


def exchange(
    graph: FederatedGraph,
    scheme: Scheme,
    channel: Channel,
    values: NDArray[np.floating[Any]],
    *,
    both_ways: bool = False,
) -> NDArray[np.float64]:
    """Every device sends one row to each of its neighbours and gets the sum of what it was sent.

    Args:
        graph: who is whose neighbour, and in which silo.
        scheme: how the sums are computed.
        channel: between the parties of `hierarchy_of(graph, scheme.helpers)`.
        values: [n, d], the row of each device.
        both_ways: whether the rows also travel along the reversed edges, as gradients do.

    Returns:
        float64 [n, d], the sums of the forward pass.
    """
    if values.ndim != 2 or len(values) != graph.num_devices:
        raise InputError(f"values must be [{graph.num_devices}, d]; found {list(values.shape)}")
    note_membership(channel, graph.silo_of)
    session = open_neighbours(scheme, neighbour_sums(graph), values.shape[1], channel)
    sums = session.sum(values, Step(0, 0))
    if both_ways:
        session.sum(values, Step(0, 0, Direction.BACKWARD))
    return sums


def silos_of(
    graph: FederatedGraph,
    schemes: Scheme | Mapping[str, Scheme],
    preset: Preset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    kind: Callable[..., HiFGLSilo] = HiFGLSilo,
    perturbation: LocalPerturbation | None = None,
) -> Job:
    """The silos; a round is selected as the preset says.

    Args:
        graph: who has what.
        schemes: by topology, or one for neighbours' rows. What devices hand to their silo goes under the scheme of
            neighbours unless it has one of its own; what is left is in the clear.
        preset: how to train.
        backbone: a name of `fgl_secure.backbones`.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        kind: makes a silo's program, as `HiFGLSilo` does.
        perturbation: of features at devices.
    """
    assignment = {NEIGHBOURS: schemes} if isinstance(schemes, Scheme) else dict(schemes)
    if NEIGHBOURS in assignment:
        assignment.setdefault(MEMBERS, assignment[NEIGHBOURS])
    make_layer = maker(backbone, preset.layers_of)
    rows = widest(make_layer, shape_preset(make_layer, preset).widths(graph.graph.num_features, graph.num_classes))
    choices = {"backbone": backbone, "seed": seed, "device": device}
    features = graph.graph.num_features if preset.static_first_layer or perturbation is not None else 1

    def make(talk: Collectives, coins: Coins) -> HiFGLSilo:
        if perturbation is None:
            return kind(talk, preset, **choices)
        return kind(talk, preset, **choices, perturbation=perturbation, coins=coins)

    task = Task(make, assignment, preset.epochs, width=max(rows, features))
    return Job(task, graph, graph.restricted_to_split() if preset.split_restricted else None)
