"""What a caller asks for, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.commands.privacy import PrivacyChoice, perturbed
from fgl_secure.commands.unused_choices import check_unused
from fgl_secure.errors import FieldRangeError, InputError, UnknownNameError
from fgl_secure.graph import PARTITIONS, FederatedGraph, load, partition, random_split, read_assignment, read_graph
from fgl_secure.methods.fed2gnn.choice import TreeChoice
from fgl_secure.methods.fedavg.choice import UpdateChoice
from fgl_secure.methods.fedstruct.choice import StructureChoice
from fgl_secure.methods.fedvn.choice import VirtualChoice
from fgl_secure.methods.hifgl.program import hierarchy_of, neighbour_sums
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.registry import Parameters, make_scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel
from fgl_secure.training.backbones import LAYERS
from fgl_secure.training.loop import compute_device
from fgl_secure.training.presets import PRESETS, Preset, Selection, preset

METHODS = ("hifgl", "fedstruct", "fedspray", "fed2gnn", "fedvn", "fedavg")

BACKBONES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    **dict.fromkeys(METHODS, tuple(LAYERS)),
    "fedspray": ("gcn", "sgc", "sage"),
    "fed2gnn": ("gcn", "sage", "dagnn"),
    "fedvn": ("gin",),
})  # fmt: skip
"""The graph neural networks that each method trains; the first where none is named."""

OWN_GRAPH = ".npz"
"""How the path of a user's own graph ends; every other data set is a name."""


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of one run.

    Attributes:
        method: the learning method.
        dataset: name of a data set, or path of an .npz file (see `read_graph`).
        partition: how devices are assigned to silos.
        silos: number of silos.
        silo_file: file with the silo of each device (see `read_assignment`); replaces partition and silos.
        backbone: one of `BACKBONES` of the method.
        preset: "honest" or "paper".
        epochs: most training rounds; None takes the preset's.
        seed: of partition, split, initial weights, and of the coins of an audit.
        data_root: folder of the raw data sets; None takes the environment's.
        device: "auto", "cpu" or "cuda".
        static_first_layer: whether the neighbours' features are summed once and for all.
        privacy: differential privacy of what devices send; None for none.
        parameters: of the protocols.
        structure: what is FedStruct's alone.
        updates: how the server's sums are protected, and what is federated averaging's alone.
        trees: what is Fed2GNN's alone.
        virtual: what is FedVN's alone.

    A choice that the method has no use for must stay as it is here (see `unused_choices`).
    """

    method: str = "hifgl"
    dataset: str = "digits"
    partition: str = "random"
    silos: int = 5
    silo_file: Path | None = None
    backbone: str = "gcn"
    preset: str = "honest"
    epochs: int | None = None
    seed: int = 0
    data_root: Path | None = None
    device: str = "auto"
    static_first_layer: bool = False
    privacy: PrivacyChoice | None = None
    parameters: Parameters = field(default_factory=Parameters)
    structure: StructureChoice = field(default_factory=StructureChoice)
    updates: UpdateChoice = field(default_factory=UpdateChoice)
    trees: TreeChoice = field(default_factory=TreeChoice)
    virtual: VirtualChoice = field(default_factory=VirtualChoice)


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


def prepare(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Prepared:
    """Checks every choice and loads the data; nothing is run and nothing is written.

    Args:
        options: the choices.
        protocols: names, at least one.
        graph: a graph of the caller's own; dataset, partition and silos of the options then go unused.

    Raises:
        FglSecureError: a choice breaks a rule; the message names it.
    """
    check_common(options)
    device = compute_device(options.device)
    schemes = tuple(make_scheme(name, options.parameters) for name in protocols)
    graph = federated_graph(options) if graph is None else graph
    training = preset(options.preset, graph.graph.name).with_epochs(options.epochs)
    training = replace(training, static_first_layer=options.static_first_layer)
    check_selection(training.name, training.selection, graph)
    heard = graph.restricted_to_split() if training.split_restricted else graph
    _check_ranges(schemes, heard)
    if options.privacy is not None:
        schemes = tuple(perturbed(scheme, options.privacy, training, graph) for scheme in schemes)
        _check_openings(schemes, heard)
    return Prepared(options, graph, heard, schemes, training, device)


def check_common(options: Options) -> None:
    """Raises unless names that all methods share are known, numbers in range, and all choices of use to the method."""
    for kind, name, known in (
        ("method", options.method, METHODS),
        ("backbone", options.backbone, BACKBONES.get(options.method, ())),
        ("preset", options.preset, PRESETS),
        ("partition", options.partition, tuple(PARTITIONS)),
    ):
        if name not in known:
            raise UnknownNameError(kind, name, known)
    check_unused(options, Options())
    if not 0 <= options.seed < 2**63:
        raise InputError(f"seed must lie in 0..2^63 - 1; found {options.seed}")
    if options.epochs is not None and options.epochs < 1:
        raise InputError(f"epochs must be at least 1; found {options.epochs}")


def check_selection(name: str, selection: Selection, graph: FederatedGraph) -> None:
    """Raises unless the graph has nodes to choose the reported round on.

    Args:
        name: the preset's.
        selection: what the preset chooses the round on.
        graph: who has what.
    """
    chosen_on = {Selection.VALIDATION: graph.validation_mask, Selection.TEST: graph.test_mask}[selection]
    if not chosen_on.any():
        raise InputError(
            f"masks.{selection} must mark at least one node, the {name} preset chooses the round on them; found none"
        )


def federated_graph(options: Options, fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)) -> FederatedGraph:
    """Loads the data set, or a user's own graph, splits its nodes and assigns them to silos.

    Args:
        options: the choices.
        fractions: shares of the nodes that train, validate and test; a user's own masks go before.
    """
    if options.dataset.endswith(OWN_GRAPH):
        data, masks = read_graph(Path(options.dataset), options.seed)
    else:
        data = load(options.dataset, options.data_root)
        masks = random_split(data.num_nodes, options.seed, fractions)
    if options.silo_file is not None:
        return FederatedGraph.from_assignment(data, read_assignment(options.silo_file), masks)
    silo_of = partition(options.partition, data, options.silos, options.seed)
    idle = np.setdiff1d(np.arange(options.silos), silo_of[masks.train])
    if len(idle):
        raise InputError(
            f"silos must leave a training device to every silo; found {options.silos} for {data.num_nodes:,} devices "
            f"with seed {options.seed}, and silo {idle[0]} has none"
        )
    return FederatedGraph.from_assignment(data, silo_of, masks, options.partition)


def _check_openings(schemes: tuple[Scheme, ...], heard: FederatedGraph) -> None:
    """Opens each scheme once on the graph, so that noise that fits no field or cap is refused before training."""
    for scheme in schemes:
        channel = Channel(hierarchy_of(heard, scheme.relays), SimulationCoins(0))
        scheme.open(channel, neighbour_sums(heard), 1)


def _check_ranges(schemes: tuple[Scheme, ...], heard: FederatedGraph) -> None:
    """Refuses a field that cannot hold the sums of this graph before the first round is trained."""
    grouping = neighbour_sums(heard)
    terms = max(grouping.largest_group, grouping.reversed().largest_group, 1)
    for scheme in schemes:
        try:
            scheme.fixed_point(terms)
        except FieldRangeError as error:
            wrap = ", or let sums wrap as published (--allow-wrap)" if isinstance(scheme, SecretMessagePassing) else ""
            raise FieldRangeError(f"{error}; take a larger field or a smaller bound{wrap}") from error
