"""HiFGL's choices, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.programs import filled, name_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.privacy import perturbed
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Topology
from fgl_secure.runtime import Channel
from fgl_secure.schemes import Assignment, parse
from fgl_secure.training.loop import compute_device
from fgl_secure.training.one_process import most_terms
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from fgl_secure.training.presets import Preset

if TYPE_CHECKING:
    from fgl_secure.methods.hifgl.configuration import HiFGL


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Checked choices: everything that a run needs.

    Attributes:
        method: the choices.
        seed: of partition, split, initial weights, and of the coins of an audit.
        graph: who has what.
        heard: the graph along whose edges messages travel: `graph`, or its restriction to splits.
        runs: for each run its schemes by topology, those that were not named filled in.
        names: what each run is called.
        preset: how to train.
        device: where model compute runs.
    """

    method: HiFGL
    seed: int
    graph: FederatedGraph
    heard: FederatedGraph
    runs: tuple[Assignment, ...]
    names: tuple[str, ...]
    preset: Preset
    device: torch.device

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """For each run, what sums neighbours' rows."""
        return tuple(run[NEIGHBOURS] for run in self.runs)


def prepare(method: HiFGL, asked: Asked) -> Prepared:
    """Checks every choice and loads the data; nothing is run and nothing is written.

    Raises:
        FglSecureError: a choice breaks a rule; the message names it.
    """
    device = compute_device(asked.device)
    graph = asked.federated()
    usual = dict([parse(method.trained, (NEIGHBOURS,), method.usual)])
    named = [{**usual, **run} for run in asked.runs]
    runs = tuple(method.assigned(filled(run, graph.num_silos)) for run in named)
    training = method.training(graph.graph.name)
    heard = graph.restricted_to_split() if training.split_restricted else graph
    _check_ranges([run[NEIGHBOURS] for run in runs], heard)
    names = tuple(map(name_of, named))
    if method.privacy is not None:
        rows = [perturbed(run[NEIGHBOURS], method.privacy, training, graph) for run in runs]
        _check_openings(rows, heard)
        names = tuple(
            name.replace(run[NEIGHBOURS].name, noisy.name, 1)
            for name, run, noisy in zip(names, runs, rows, strict=True)
        )
        runs = tuple(_with_noise(run, noisy) for run, noisy in zip(runs, rows, strict=True))
    return Prepared(method, asked.seed, graph, heard, runs, names, training, device)


def _with_noise(run: Assignment, noisy: Perturbed) -> Assignment:
    """Noise goes on what devices hand to their silo too, where one scheme serves both."""
    both = run[MEMBERS] is run[NEIGHBOURS]
    return {**run, NEIGHBOURS: noisy, MEMBERS: noisy if both else run[MEMBERS]}


def _check_openings(schemes: Sequence[Scheme], heard: FederatedGraph) -> None:
    """Opens each scheme once on the graph, so that noise that fits no field or cap is refused before training."""
    for scheme in schemes:
        channel = Channel(hierarchy_of(heard, scheme.helpers), SimulationCoins(0))
        Collective(scheme, Topology(NEIGHBOURS, neighbour_sums(heard), 1), channel)


def _check_ranges(schemes: Sequence[Scheme], heard: FederatedGraph) -> None:
    """Refuses a scheme that computes no sum of this graph, or whose field holds none, before a round is trained."""
    grouping = neighbour_sums(heard)
    largest = grouping.largest_group
    for scheme in schemes:
        rules = scheme.partnering(grouping)
        if rules is not None and rules.reach:
            within = _largest_component(heard) - 1
            enough, what = within >= rules.least, f"{within} others within reach"
        else:
            enough, what = bool(len(scheme.answered(grouping).target)), f"{largest} neighbours"
        if largest and not enough:
            raise InputError(
                f"scheme must compute at least one sum of this graph; {scheme.name} computes none, and no device has "
                f"more than {what}"
            )
    for scheme in schemes:
        try:
            scheme.fixed_point(most_terms(scheme, grouping))
        except FieldRangeError as error:
            wrap = f", or let sums wrap: {scheme.label}[wrap]" if "overflow" in scheme.parameters else ""
            raise FieldRangeError(f"{error}; take a larger field or a smaller bound{wrap}") from error


def _largest_component(graph: FederatedGraph) -> int:
    """Devices that can reach one another along edges: the most of them that hang together."""
    adjacency = coo_array((np.ones(graph.edges.shape[1], dtype=np.int8), graph.edges), shape=(graph.num_devices,) * 2)
    return int(np.bincount(connected_components(adjacency, directed=False)[1]).max())
