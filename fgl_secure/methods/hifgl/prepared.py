"""HiFGL's choices, checked as a whole before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fgl_secure.auditing.method import Asked
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.methods.hifgl.privacy import perturbed
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Channel
from fgl_secure.training.loop import compute_device
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from fgl_secure.training.presets import Preset, check_selection, preset


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Checked choices: everything that a run needs.

    Attributes:
        method: the choices.
        seed: of partition, split, initial weights, and of the coins of an audit.
        graph: who has what.
        heard: the graph along whose edges messages travel: `graph`, or its restriction to splits.
        schemes: for each run, what sums neighbours' rows.
        preset: how to train.
        device: where model compute runs.
    """

    method: HiFGL
    seed: int
    graph: FederatedGraph
    heard: FederatedGraph
    schemes: tuple[Scheme, ...]
    preset: Preset
    device: torch.device


def prepare(method: HiFGL, asked: Asked) -> Prepared:
    """Checks every choice and loads the data; nothing is run and nothing is written.

    Raises:
        FglSecureError: a choice breaks a rule; the message names it.
    """
    device = compute_device(asked.device)
    schemes = tuple(run["neighbours"] for run in asked.runs)
    graph = asked.federated()
    training = preset(method.preset, graph.graph.name).with_epochs(method.epochs)
    training = replace(training, static_first_layer=method.static_first_layer)
    check_selection(training.name, training.selection, graph)
    heard = graph.restricted_to_split() if training.split_restricted else graph
    _check_ranges(schemes, heard)
    if method.privacy is not None:
        schemes = tuple(perturbed(scheme, method.privacy, training, graph) for scheme in schemes)
        _check_openings(schemes, heard)
    return Prepared(method, asked.seed, graph, heard, schemes, training, device)


def _check_openings(schemes: tuple[Scheme, ...], heard: FederatedGraph) -> None:
    """Opens each scheme once on the graph, so that noise that fits no field or cap is refused before training."""
    for scheme in schemes:
        channel = Channel(hierarchy_of(heard, scheme.helpers), SimulationCoins(0))
        Collective(scheme, Topology(NEIGHBOURS, neighbour_sums(heard), 1), channel)


def _check_ranges(schemes: tuple[Scheme, ...], heard: FederatedGraph) -> None:
    """Refuses a scheme that computes no sum of this graph, or whose field holds none, before a round is trained."""
    grouping = neighbour_sums(heard)
    largest = grouping.largest_group
    for scheme in schemes:
        if largest and not len(scheme.answered(grouping).target):
            raise InputError(f"scheme must compute at least one sum of this graph; {scheme.name} computes none, and no "
                             f"device has more than {largest} neighbours")  # fmt: skip
    terms = max(grouping.largest_group, grouping.reversed().largest_group, 1)
    for scheme in schemes:
        try:
            scheme.fixed_point(terms)
        except FieldRangeError as error:
            wrap = ", or let sums wrap as published: secmp[wrap]" if isinstance(scheme, SecretMessagePassing) else ""
            raise FieldRangeError(f"{error}; take a larger field or a smaller bound{wrap}") from error
