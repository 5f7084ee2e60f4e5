"""Graph neural networks by name: those of this package, those that a program registers, and those that are installed.

A backbone is given by its layer: a `MessageLayer` (`fgl_secure.training.backbones`), made from the widths of its input
and of its output. Packages name theirs as entry points of the group `fgl_secure.backbones`. Nothing is imported before
it is asked for, so that `--help` answers at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, overload

from fgl_secure import plugins
from fgl_secure.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from torch import nn

    from fgl_secure.training.backbones import AdaptedModule, LayerMaker

GROUP = "fgl_secure.backbones"
"""Of entry points, each of which names a class of layers, or what makes one."""

_PLACE = "fgl_secure.training.backbones"
_IN_TREE = {
    "gcn": "GCNLayer",
    "sage": "SAGELayer",
    "gat": "GATLayer",
    "gcn_without_loops": "GCNWithoutLoopsLayer",
    "gcn_gated": "GatedGCNLayer",
}
_OTHERS = {
    "literature": {},
    "paper": {"gcn": "GCNWithoutLoopsLayer"},
    "public-code": {"gcn": "PublishedGCNLayer", "sage": "PublishedSAGELayer"},
}
"""The layers that HiFGL's paper and its public code have in place of those of the literature."""
_registered: dict[str, Callable[..., Any] | AdaptedModule] = {}


@overload
def register_backbone(name: str, layer: nn.Module) -> AdaptedModule: ...


@overload
def register_backbone(name: str, layer: Callable[[int, int], Any]) -> None: ...


def register_backbone(name: str, layer: Any) -> AdaptedModule | None:  # see the overloads
    """Make a backbone known in this process, under a name that `HiFGL(backbone=...)` takes.

        class MyLayer(fgl_secure.training.backbones.MessageLayer): ...

        register_backbone("mine", MyLayer)
        train(HiFGL(backbone="mine"), data)

    A module of PyTorch Geometric is a backbone, too. Training starts from its weights, whatever its seed. It has to be
    called as `module(x, edge_index)` and to consist of GCNConv, SAGEConv (mean or sum) or GINConv, one after another,
    with ReLU between them. Dropout may follow each of them but the last. The module and layers made of it are compared
    on random graphs, so that anything else in its `forward` is noticed.

        from torch_geometric.nn import GraphSAGE

        backbone = register_backbone("sage2", GraphSAGE(64, 32, num_layers=2, out_channels=10))
        trained = train(HiFGL(backbone="sage2"), "digits", "relay-coded")
        module = backbone.load(trained.result.report["theta"])

    Args:
        name: a word; one that a program registered before is replaced.
        layer: makes a layer, `layer(d_in, d_out)`, such as a class of layers; or a module of float parameters, all of
            them trained.

    Returns:
        For a module the adapted one, whose `load` writes trained weights back; otherwise None.

    Raises:
        InputError: the name is that of another backbone or no word; the layer cannot be called; or the module has an
            option, a part or a forward pass that sums over neighbours don't serve. What depends on the size of a graph
            or on values of features may go unnoticed.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"name of a backbone must be a word; found {name!r}")
    if name in names() and name not in _registered:
        raise InputError(f"name of a backbone must be new; found {name!r} among {', '.join(names())}")
    if not callable(layer):
        raise InputError(f"layer must be what makes a layer, such as a class of layers; found {layer!r}")
    if isinstance(layer, type) or not hasattr(layer, "named_parameters"):
        _registered[name] = layer
        return None
    adapted: AdaptedModule = importlib.import_module("fgl_secure.training.pyg_modules").adapt(layer)
    _registered[name] = adapted
    return adapted


def names() -> tuple[str, ...]:
    """The names of all backbones, those of this package first."""
    others = [point.name for point in plugins.installed_plugins(GROUP)]
    return tuple(dict.fromkeys((*_IN_TREE, *_registered, *others)))


def maker(name: str, layers_of: str = "literature") -> LayerMaker | AdaptedModule:
    """What makes the layers of a backbone, or an adapted module.

    Args:
        name: of the backbone.
        layers_of: "literature"; "paper" or "public-code" take those of HiFGL where it has others.

    Raises:
        UnknownNameError: there is none of that name.
        InputError: an installed package does not load.
    """
    if name in _IN_TREE:
        module = importlib.import_module(_PLACE)
        return cast("LayerMaker", getattr(module, _OTHERS[layers_of].get(name, _IN_TREE[name])))
    if name in _registered:
        return _registered[name]
    for point in plugins.installed_plugins(GROUP):
        if point.name == name:
            return cast("LayerMaker", plugins.load_plugin(point))
    raise UnknownNameError("backbone", name, names())
