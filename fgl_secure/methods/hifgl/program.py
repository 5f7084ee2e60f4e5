"""HiFGL (KDD 2024, 4.1) as one silo runs it: devices compute, the silo optimises its model, the server averages.

In node regression every device has a real value, and silos fit the values by squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn import functional

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.backbones import maker
from fgl_secure.coins import Coins
from fgl_secure.dp import response_matrix
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.runtime import Channel, Direction, Step
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.backbones import Degrees, MessageLayer, make_layers, shape_preset, widest
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job, Task
from fgl_secure.training.local_privacy import LocalPerturbation, correct_scores, perturb_labels
from fgl_secure.training.loop import COUNTS, Counts, Figures, Scores, TrainingRounds, probabilities
from fgl_secure.training.one_process import open_neighbours
from fgl_secure.training.parameters import Adam, as_shared_tensor, flat, optimiser_state, overwrite, remind
from fgl_secure.training.parties import neighbour_sums, note_membership
from fgl_secure.training.presets import Federation, Preset
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Floats

NORM = 4.0
"""L2 norm of a device's model input; bags of words and digits have about as much, and ranges of sums suit them."""


def _propagate_means(comm: Collectives, rows: torch.Tensor, hops: int, first_layer: int) -> torch.Tensor:
    """Return means over neighbours of means over neighbours, and so on, scaled to `NORM`: float [m, d].

    A device without a sum, since it has too few neighbours, keeps its row.

    Args:
        comm: the collectives of the run.
        rows: float [m, d], of the silo's devices, within [-1, 1].
        hops: number of means.
        first_layer: number of the first sum, beyond those of the model.
    """
    import torch  # noqa: PLC0415  # see above
    from torch.nn import functional  # noqa: PLC0415

    counts = torch.tensor(comm.message_counts[:, None], dtype=rows.dtype, device=rows.device)
    with torch.no_grad():
        for hop in range(hops):
            _, sums = comm.neighbours(rows, layer=first_layer + hop)
            rows = torch.where(counts > 0, sums / counts.clamp(min=1), rows)
    return functional.normalize(rows) * NORM


class HiFGLSilo(TrainingRounds):
    """One silo's model in training.

    Args:
        comm: the collectives of the run: sums over neighbours, over the silo's devices, and over silos.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of the initial weights and of dropout; coins of schemes come from elsewhere.
        device: where model compute runs.
        perturbation: of features at devices; None trains on them as they are.
        coins: of that perturbation; the operating system's entropy unless given.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: Preset,
        *,
        backbone: str = "gcn",
        seed: int = 0,
        device: torch.device | None = None,
        perturbation: LocalPerturbation | None = None,
        coins: Coins | None = None,
    ) -> None:
        super().__init__(comm, preset.epochs, preset.selection, preset.patience)
        make = maker(backbone, preset.layers_of)
        self._preset, self._device, silo = shape_preset(make, preset), device or torch.device("cpu"), comm.silo
        widths = preset.widths(silo.facts.features, silo.facts.classes)
        self.layers = make_layers(make, widths, seed).to(self._device)
        self._optimiser = Adam(self.layers.parameters(), lr=preset.learning_rate, foreach=True)
        self._steps = 0
        self._judged: torch.Tensor | None = None
        self._coins = torch.Generator().manual_seed(seed)
        self._degrees = Degrees(*(self._column(item) for item in (silo.degrees, comm.partners, comm.message_counts)))
        self._perturbation = perturbation
        self._smoothed = perturbation is None
        self._features = as_shared_tensor(silo.features, self._device)
        if perturbation is not None:  # devices keep what they drew: a second draw would cost epsilon once more
            self._features = self._to_device(perturbation.model_inputs(silo.features, silo.facts.nodes, coins))
        self._response: torch.Tensor | None = None
        if perturbation is not None and perturbation.label_epsilon is not None:
            law = response_matrix(silo.facts.classes, perturbation.label_epsilon)
            self._response = self._to_device(law.astype(np.float32))
            self.silo = perturb_labels(silo, perturbation.label_epsilon, coins)
        self._labels, self._training = self._to_device(self.silo.labels), self._to_device(silo.train)
        self._static: torch.Tensor | None = None
        if preset.static_first_layer and not self._part(0).projects_sums:
            raise InputError(f"static_first_layer must be false for {backbone}, whose sums cannot be projected later")
        comm.watch(self.layers)
        if self._smoothed:
            comm.unchanging(self._features, silo.facts.feature_bits)

    def _to_device(self, array: Array) -> torch.Tensor:
        return torch.tensor(array).to(self._device)

    def _column(self, counts: NDArray[np.int64]) -> torch.Tensor:
        return self._to_device(counts[:, None].astype(np.float32))

    def train(self, number: int) -> Figures:  # noqa: ARG002  # every round is alike
        """One step on the mean gradient of the silo's devices (4.1.2, item 2), and federation (4.3)."""
        self.comm.hand_down(self.layers)
        logits = self.forward(training=True)
        losses = self.task_losses(logits) * self._training
        judged = self.predict_logits() if self.judges_apart else logits.detach()
        self.comm.backward(losses.sum())
        self.comm.gradients()
        return self._step(judged, losses.detach())

    def judge(self, number: int) -> Figures | None:  # noqa: ARG002  # whenever it is
        """Hands out the models as they are, and scores them."""
        self.comm.hand_down(self.layers)
        self._judged = self.predict_logits()
        return self.sum_figures(self.predictions(self._judged))[1]

    def task_losses(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the loss of each of the silo's devices, [m], of outputs [m, classes]."""
        scores = outputs if self._response is None else correct_scores(outputs, self._response)
        return functional.cross_entropy(scores, self._labels, reduction="none")

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
        with self.comm.evaluation():
            return self.forward(training=False)

    def answers(self) -> Mapping[str, Floats]:
        """See `TrainingRounds.answers`: as the models were last scored, and by the model for features without noise."""
        if self._judged is None:
            return {}
        h, depth = as_shared_tensor(self.silo.features, self._device), len(self.layers)
        if self._perturbation is not None:
            h = functional.normalize(h - self._perturbation.middle) * NORM
        nothing = Degrees(*[torch.zeros(len(h), 1, device=h.device)] * 3)
        with torch.no_grad():
            for number in range(depth):
                part = self._part(number)
                state = part.local_state(h)
                h = part.update(state, torch.zeros_like(part.message(state, nothing)), nothing)
                h = self._activate(h, training=False) if number < depth - 1 else h
        return {"features and edges": probabilities(self._judged), "features": probabilities(h)}

    def forward(self, *, training: bool) -> torch.Tensor:
        """Logits [m, classes] of the silo's devices."""
        h, depth = self._inputs(), len(self.layers)
        for number in range(depth):
            part = self._part(number)
            state = part.local_state(h)
            if number == 0 and self._preset.static_first_layer:
                # The sums of the neighbours' scaled features [m, d], exchanged when first asked for and kept.
                if self._static is None:
                    raw = part.raw_message(self._features, self._degrees)
                    self._keep(self.comm.neighbours(raw, layer=0)[1])
                assert self._static is not None, "it has just been kept"
                sums = part.project(self._static, part.message_weight)
            else:
                state, sums = self.comm.neighbours(part.message(state, self._degrees), carry=state, layer=number)
            h = part.update(state, sums, self._degrees)
            if number < depth - 1:
                h = self._activate(h, training=training)
        return h

    def _inputs(self) -> torch.Tensor:
        """Return the first layer's input [m, d]: features, or means of perturbed ones, computed at the first call."""
        if self._perturbation is not None and not self._smoothed:
            hops, first_layer = self._perturbation.hops, len(self.layers)
            self._keep_smoothed(_propagate_means(self.comm, self._features, hops, first_layer))
        return self._features

    def _keep_smoothed(self, smoothed: torch.Tensor) -> None:
        self._features, self._smoothed = smoothed, True
        self.comm.unchanging(smoothed)

    def _part(self, number: int) -> MessageLayer:
        part = self.layers[number]
        assert isinstance(part, MessageLayer)
        return part

    def _keep(self, sums: torch.Tensor) -> None:
        self._static = sums
        self.comm.unchanging(sums)

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
        features = {"smoothed" if self._smoothed else "perturbed": self._features.cpu().numpy()}
        return features if self._response is None else {**features, "labels": self.silo.labels}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        if "perturbed" in state:
            self._features = self._to_device(state["perturbed"])
        if "smoothed" in state:
            self._keep_smoothed(self._to_device(state["smoothed"]))
        if "labels" in state:
            self.silo = replace(self.silo, labels=state["labels"].copy())
            self._labels = self._to_device(self.silo.labels)
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
            neighbours unless it has one of its own; what is left is in plaintext.
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

    def make(comm: Collectives, coins: Coins) -> HiFGLSilo:
        if perturbation is None:
            return kind(comm, preset, **choices)
        return kind(comm, preset, **choices, perturbation=perturbation, coins=coins)

    task = Task(make, assignment, preset.epochs, width=max(rows, features))
    return Job(task, graph, graph.restricted_to_split() if preset.split_restricted else None)


MOST_TARGET = 1000.0
"""Largest magnitude of a target: layers suit values of the order of 1."""
_UNIT = 2**20
"""Errors are summed as multiples of 1 / _UNIT."""
_TARGETS = "targets"
"""Name of the devices' values among what a silo holds."""


class NodeRegression(HiFGLSilo):
    """One silo's model of its devices' values in training.

    In all sums squared errors take the place of correct predictions, and absolute errors follow the counts.

    Args:
        comm: the collectives of the run; its silo holds the targets.
        preset: how to train.
        choices: as of `HiFGLSilo`.
    """

    count_scales: ClassVar[Array] = np.array([_UNIT, 1, _UNIT, 1, _UNIT, _UNIT])

    def __init__(self, comm: Collectives, preset: Preset, **choices: Any) -> None:
        super().__init__(comm, preset, **choices)
        self._scores = Scores(preset.selection, less=True)
        self._targets = self._to_device(comm.silo.own[_TARGETS])

    def task_losses(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the squared error of each device, [m]."""
        return functional.mse_loss(outputs[:, 0], self._targets, reduction="none")

    def answers(self) -> Mapping[str, Floats]:
        """Return nothing: values are no classes."""
        return {}

    def predictions(self, outputs: torch.Tensor) -> Floats:
        """Return the value predicted for each device, float64 [m]."""
        values: Floats = outputs[:, 0].double().cpu().numpy()
        return values

    def marks(self, predicted: Array) -> Array:
        """Return what devices add to the counts, float64 [m, 6].

        The columns are squared errors and numbers of validation and of test devices, then their absolute errors.
        """
        errors = np.abs(predicted - self.silo.own[_TARGETS])
        masks = [mask.astype(np.float64) for mask in (self.silo.validation, self.silo.test)]
        squares = [side for mask in masks for side in (errors**2 * mask, mask)]
        return np.stack([*squares, *(errors * mask for mask in masks)], axis=1)

    @property
    def report(self) -> dict[str, Array]:
        """As of all training, with errors in the units of the targets.

        "validation", "test" and "own test" are root mean squared errors, "test MAE" and "own test MAE" mean absolute
        errors; NaN without any device.
        """
        best, client_scores = self._scores.best, self._scores.own
        return {
            **super().report,
            "validation": np.sqrt(_mean_error(best, 0, 1)),
            "test": np.sqrt(_mean_error(best, 2, 3)),
            "own test": np.sqrt(_mean_error(client_scores, 2, 3)),
            "test MAE": _mean_error(best, COUNTS + 1, 3),
            "own test MAE": _mean_error(client_scores, COUNTS + 1, 3),
        }


def _mean_error(counts: Counts, errors: int, number: int) -> Array:
    """Return the mean of the errors summed at one place over the number at another; NaN without any."""
    return np.asarray(counts[errors] / _UNIT / counts[number] if counts[number] else np.nan, dtype=np.float64)


def node_regression(
    graph: FederatedGraph, targets: ArrayLike, schemes: Scheme | Mapping[str, Scheme], preset: Preset, **choices: Any
) -> Job:
    """Return the silos of HiFGL for node regression; the round with the least squared error is selected.

    Their result's `accuracy` holds root mean squared errors, its `report` mean absolute errors under "test MAE". Ranges
    of sums are found in each round, since errors have no bound.

    Args:
        graph: who has what; its labels are not used.
        targets: real numbers [n], finite, the value of each device. The widths of layers suit values of the order of 1.
        schemes: by topology, or one for neighbours' rows, as for `silos_of`.
        preset: how to train.
        choices: as for `silos_of`: backbone, seed, device and perturbation.

    Raises:
        InputError: targets are not one finite number per device.
    """
    values = as_floats(targets, "targets").astype(np.float32)
    if values.shape != (graph.num_devices,):
        raise InputError(f"targets must be {graph.num_devices} numbers, one per device; found shape {values.shape}")
    check_finite(values, "targets")
    if np.abs(values).max() > MOST_TARGET:
        raise InputError(
            f"targets must lie within {MOST_TARGET:g} in magnitude, so that squared errors fit sums; found "
            f"{np.abs(values).max():g}: standardise them"
        )
    if not graph.train_mask.any():
        raise InputError("masks.train must mark at least one device; found none")
    unlabelled = replace(graph.graph, labels=read_only(np.zeros(graph.num_devices, dtype=np.int64)))
    graph = replace(graph, graph=unlabelled)
    job = silos_of(graph, schemes, preset, kind=NodeRegression, **choices)
    shares = [_with_targets(share, values) for share in Silo.all_of(graph, job.message_graph)]
    return replace(job, shares=tuple(shares))


def _with_targets(share: Silo, values: Array) -> Silo:
    return replace(share, facts=replace(share.facts, large_features=True), own={_TARGETS: values[share.nodes]})
