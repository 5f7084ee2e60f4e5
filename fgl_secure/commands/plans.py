"""From the name of a method to what an audit of it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fgl_secure.commands.options import Options
from fgl_secure.commands.subjects import Plan
from fgl_secure.errors import UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.subjects import fed2gnn_plan
from fgl_secure.methods.fedavg.subjects import fedavg_plan
from fgl_secure.methods.fedspray.subjects import fedspray_plan
from fgl_secure.methods.fedstruct.subjects import fedstruct_plan
from fgl_secure.methods.fedvn.subjects import fedvn_plan
from fgl_secure.methods.hifgl.subjects import hifgl_plan

Planner = Callable[[Options, tuple[str, ...], FederatedGraph | None], Plan]

PLANNERS: Mapping[str, Planner] = MappingProxyType({
    "hifgl": hifgl_plan,
    "fedstruct": fedstruct_plan,
    "fedspray": fedspray_plan,
    "fed2gnn": fed2gnn_plan,
    "fedvn": fedvn_plan,
    "fedavg": fedavg_plan,
})  # fmt: skip


def planned(options: Options, protocols: tuple[str, ...] = (), graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: names; those that the method demonstrates when empty.
        graph: a graph of the caller's own, instead of the options' data set and partition.
    """
    if options.method not in PLANNERS:
        raise UnknownNameError("method", options.method, tuple(PLANNERS))
    return PLANNERS[options.method](options, protocols, graph)
