"""Trains FedStruct to its end and says what came of it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.adjacency_powers import adjacency_powers, combined_adjacency, normalised_adjacency
from fgl_secure.methods.fedstruct.gradients import ClientSums
from fgl_secure.methods.fedstruct.presets import Averaging, FedStructPreset
from fgl_secure.methods.fedstruct.program import FedStruct, Structure, Trainee
from fgl_secure.methods.fedstruct.structure_sum import HeldRows, StructureSum
from fgl_secure.methods.fedstruct.traffic import FedStructTraffic
from fgl_secure.runtime import Step, Transcript
from fgl_secure.training.loop import Accuracy, Progress, RoundLog, TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import Selection


def shared_rows(graph: Graph, hops: int, kept: int | None, device: torch.device | None = None) -> StructureSum:
    """A-bar as somebody who has the whole graph applies it: the last power alone, pruned or not.

    Args:
        graph: the whole graph.
        hops: the power L_s.
        kept: entries kept per node of every power; None keeps all, and then no power is ever laid out.
        device: where model compute runs.
    """
    if kept is None:
        return Repeated(HeldRows(normalised_adjacency(graph), device), hops)
    return HeldRows(combined_adjacency(adjacency_powers(graph, hops, kept)), device)


class Repeated(StructureSum):
    """A power of a matrix, applied factor by factor.

    Args:
        once: the product with the matrix.
        times: the power, at least 1.
    """

    def __init__(self, once: StructureSum, times: int) -> None:
        if times < 1:
            raise InputError(f"times must be at least 1; found {times}")
        self._once, self._times = once, times

    def __call__(self, embeddings: torch.Tensor, step: Step) -> torch.Tensor:
        """As many products as the power says."""
        for _ in range(self._times):
            embeddings = self._once(embeddings, step)
        return embeddings


def train_fedstruct(
    graph: FederatedGraph,
    preset: FedStructPreset,
    structure: Structure | None,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    sums: ClientSums | None = None,
    traffic: FedStructTraffic | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains FedStruct, or FedSGD on local subgraphs, and selects a round as the preset says.

    Args:
        graph: who has what.
        preset: how to train.
        structure: what clients share; None leaves the local models alone.
        seed: of initial weights, learnt structure features and dropout.
        device: where model compute runs; the CPU by default.
        sums: how clients' gradients are added up; None adds them by one backward pass and says nothing.
        traffic: records what else is said: what clients know before is the caller's to note.
        progress: called after each round.

    Returns:
        The record of the run; `accuracy.test` is averaged as the preset says, and `selected_round` counts the steps
        that the reported model has taken.
    """
    method = FedStruct(graph, preset, structure, seed=seed, device=device, sums=sums)
    if structure is None or traffic is None:
        return run_rounds(method, graph, preset, traffic=traffic, progress=progress)
    return run_sharing(method, structure.features, graph, preset, traffic, progress)


def run_sharing(
    method: FedStruct,
    fixed: NDArray[np.float32] | None,
    graph: FederatedGraph,
    preset: FedStructPreset,
    traffic: FedStructTraffic,
    progress: Progress | None = None,
) -> TrainingResult:
    """Runs all rounds where every client holds all structure features: they are shared before, and held in the end.

    Args:
        method: what is trained.
        fixed: structure features [n, d_s] that are not learnt; None where they are.
        graph: who has what.
        preset: rounds, selection and averaging.
        traffic: records what is said.
        progress: called after each round.
    """
    traffic.features_shared(_held(method, fixed), Step(0))
    result = run_rounds(method, graph, preset, traffic=traffic, progress=progress)
    traffic.features_held(_held(method, fixed), 0 if fixed is not None else result.rounds)
    return result


def _held(method: FedStruct, fixed: NDArray[np.float32] | None) -> NDArray[np.float32]:
    found = method.structure_features if fixed is None else fixed
    assert found is not None
    return found


def run_rounds(
    method: Trainee,
    graph: FederatedGraph,
    preset: FedStructPreset,
    *,
    traffic: FedStructTraffic | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Runs all rounds; the model is scored after each where a round is to be selected, else after the last.

    Args:
        method: what is trained.
        graph: who has what; its masks and labels score the method.
        preset: rounds, selection and averaging.
        traffic: records models and counts.
        progress: called after each round.
    """
    watch = _Watch(graph, preset)
    if traffic is not None:
        traffic.models_down(method.parameters, Step(0))
    log = RoundLog(preset.epochs, progress)
    for number in range(preset.epochs):
        log.begin()
        loss = method.round(number)
        if traffic is not None:
            traffic.models_down(method.parameters, Step(number + 1))
        if preset.selection is not None or number == preset.epochs - 1:
            step = Step(number + 1, evaluation=True)
            watch.see(number + 1, method.predict(step))
            if traffic is not None:
                traffic.counts_up(step)
        log.end(loss)
    transcript = Transcript(hierarchy_of(graph)) if traffic is None else traffic.channel.transcript
    return log.result(watch.best, watch.best_round, transcript)


class _Watch:
    """Keeps the best round by the accuracy that the preset selects on; the last one where it selects on none."""

    def __init__(self, graph: FederatedGraph, preset: FedStructPreset) -> None:
        self._graph, self._preset = graph, preset
        self.best = Accuracy(None, None, ())
        self.best_round = -1

    def see(self, number: int, scores: torch.Tensor) -> None:
        correct = scores.argmax(dim=1).cpu().numpy() == self._graph.labels
        now = accuracy_of(self._graph, correct, self._preset.averaging)
        if self.best_round < 0 or self._score(now) > self._score(self.best):
            self.best, self.best_round = now, number

    def _score(self, accuracy: Accuracy) -> float:
        by_selection = {Selection.VALIDATION: accuracy.validation, Selection.TEST: accuracy.test, None: 0.0}
        return by_selection[self._preset.selection] or 0.0


def accuracy_of(graph: FederatedGraph, correct: NDArray[np.bool_], averaging: Averaging) -> Accuracy:
    """Shares of correct predictions, with clients' test accuracies averaged as told.

    Args:
        graph: who has what.
        correct: bool [n], whether the prediction of each node is right.
        averaging: how clients' test accuracies become one number; validation accuracy is always pooled.
    """
    clients = range(graph.num_silos)
    per_client = tuple(_share(correct, graph.test_mask & (graph.silo_of == client)) for client in clients)
    validation = _share(correct, graph.validation_mask)
    if averaging is Averaging.POOLED:
        return Accuracy(_share(correct, graph.test_mask), validation, per_client)
    nodes = np.bincount(graph.silo_of)
    tested = [client for client in clients if per_client[client] is not None]
    weights = nodes[tested] if averaging is Averaging.NODES else np.ones(len(tested))
    shares = np.array([per_client[client] for client in tested], dtype=np.float64)
    return Accuracy(float(shares @ weights / weights.sum()) if tested else None, validation, per_client)


def _share(correct: NDArray[np.bool_], mask: NDArray[np.bool_]) -> float | None:
    return float(correct[mask].mean()) if mask.any() else None
