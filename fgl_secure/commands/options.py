"""What a caller asks for, checked as a whole before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph, load, partition, random_split
from fgl_secure.learning.backbones import LAYERS
from fgl_secure.learning.hifgl import neighbour_sums
from fgl_secure.learning.loop import compute_device
from fgl_secure.learning.presets import Preset, preset
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.registry import Parameters, make_scheme
from fgl_secure.protocols.secmp import SecretMessagePassing

METHODS = ("hifgl",)


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one run.

    Attributes:
        method: the learning method.
        dataset: name of the data set.
        partition: how devices are assigned to silos.
        silos: number of silos.
        backbone: "gcn" or "sage".
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        seed: of partition, split, initial weights, and of the coins of an audit.
        data_root: folder of the raw data sets; None takes the environment's.
        device: "auto", "cpu" or "cuda".
        parameters: of the protocols.
    """

    method: str = "hifgl"
    dataset: str = "digits"
    partition: str = "random"
    silos: int = 5
    backbone: str = "gcn"
    preset: str = "honest"
    epochs: int | None = None
    seed: int = 0
    data_root: Path | None = None
    device: str = "auto"
    parameters: Parameters = field(default_factory=Parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Checked choices: everything that a run needs.

    Attributes:
        options: the choices.
        graph: who has what.
        heard: the graph along whose edges messages travel: `graph`, or its restriction to splits.
        schemes: the protocols that were asked for, in order.
        preset: how to train.
        device: where model compute runs.
    """

    options: Options
    graph: FederatedGraph
    heard: FederatedGraph
    schemes: tuple[Scheme, ...]
    preset: Preset
    device: torch.device


def prepare(options: Options, protocols: tuple[str, ...]) -> Prepared:
    """Checks every choice and loads the data; nothing is run and nothing is written.

    Raises:
        FglSecureError: a choice breaks a rule; the message names it.
    """
    if options.method not in METHODS:
        raise UnknownNameError("method", options.method, METHODS)
    if options.backbone not in LAYERS:
        raise UnknownNameError("backbone", options.backbone, tuple(LAYERS))
    if not 0 <= options.seed < 2**63:
        raise InputError(f"seed must lie in 0..2^63 - 1; found {options.seed}")
    device = compute_device(options.device)
    schemes = tuple(make_scheme(name, options.parameters) for name in protocols)
    training = preset(options.preset, options.dataset).with_epochs(options.epochs)
    data = load(options.dataset, options.data_root)
    training = preset(options.preset, data.name).with_epochs(options.epochs)
    silo_of = partition(options.partition, data, options.silos, options.seed)
    masks = random_split(data.num_nodes, options.seed)
    graph = FederatedGraph.from_assignment(data, silo_of, masks, options.partition)
    heard = graph.restricted_to_split() if training.split_restricted else graph
    _check_ranges(schemes, heard)
    return Prepared(options, graph, heard, schemes, training, device)


def _check_ranges(schemes: tuple[Scheme, ...], heard: FederatedGraph) -> None:
    """Refuses a field that cannot hold the sums of this graph before the first round is trained."""
    grouping = neighbour_sums(heard)
    terms = max(grouping.largest_group, grouping.reversed().largest_group, 1)
    for scheme in schemes:
        if isinstance(scheme, SecretMessagePassing):
            scheme.fixed_point(terms)
