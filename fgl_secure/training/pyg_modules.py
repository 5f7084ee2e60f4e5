"""Modules of torch_geometric as message layers: read, checked on random graphs, and refused where they are more.

What a module's forward pass does is not read from its source. Its convolutions are put in the order in which one call
uses them, and the layers made of them have to give what the module gives, for random weights and on random graphs.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from fgl_secure.errors import InputError
from fgl_secure.training.backbones import (
    AdaptedModule,
    Degrees,
    GCNLayer,
    GCNWithoutLoopsLayer,
    GINLayer,
    MessageLayer,
    SAGELayer,
)

OPTIONS: Mapping[str, Mapping[str, tuple[object, ...]]] = MappingProxyType({
    "GCNConv": {"normalize": (True,), "improved": (False,), "cached": (False,), "aggr": ("add", "sum")},
    "SAGEConv": {"aggr": ("mean", "add", "sum"), "normalize": (False,), "project": (False,), "root_weight": (True,)},
    "GINConv": {"aggr": ("add", "sum")},
})  # fmt: skip
"""By convolution that is served, the values that its attributes may have; sources send to targets in all."""

GRAPHS = ((24, 1.0, True), (24, 30.0, False), (300, 1.0, False))
"""Nodes, deviation of features and symmetry of random graphs: ReLU differs from GELU at small features, and from
ReLU6 at large ones."""

CLOSE = 1e-9
"""Largest difference between a module and its layers in double precision, in the module's largest number."""

_Copy = Callable[[Any], nn.Parameter]
"""Given a parameter of a module, a copy as layers have it."""


class _CallRecorder(TorchFunctionMode):
    """Record which convolutions are entered and left, and rates of dropout, which is switched off."""

    def __init__(self, convolutions: Iterable[nn.Module]) -> None:
        super().__init__()
        self.calls: list[object] = []
        for convolution in convolutions:
            convolution.register_forward_pre_hook(lambda result, _: self.calls.append(result))
            convolution.register_forward_hook(lambda result, _, __: self.calls.append(result))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See `TorchFunctionMode`."""
        if func is not functional.dropout:
            return func(*args, **(kwargs or {}))
        given = inspect.signature(functional.dropout).bind(*args, **(kwargs or {}))
        given.apply_defaults()
        if given.arguments["training"] and given.arguments["p"]:
            self.calls.append(float(given.arguments["p"]))
        return given.arguments["input"]


def adapt(module: nn.Module) -> AdaptedModule:
    """Return a torch_geometric module as a backbone; see `fgl_secure.backbones.register_backbone`.

    Raises:
        InputError: it is none, or has an option, a part or a forward pass that sums over neighbours don't serve.
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"module must be a torch.nn.Module of torch_geometric's convolutions; found {module!r}")
    _check_parameters(module)
    from torch_geometric.nn import MessagePassing  # noqa: PLC0415  # takes seconds

    result = {name: part for name, part in module.named_modules() if isinstance(part, MessagePassing)}
    if not result:
        raise InputError(f"module must have convolutions among {', '.join(OPTIONS)}; found none")
    for name, part in result.items():
        kind, place = type(part).__name__, f"module.{name}".rstrip(".")
        if not _is_served(part):
            raise InputError(f"{place} must be one of {', '.join(OPTIONS)}; found {kind}: sums don't serve others")
        for option, served in {**OPTIONS[kind], "flow": ("source_to_target",)}.items():
            if (value := getattr(part, option)) not in served:
                rule = " or ".join(map(repr, served))
                raise InputError(f"{place}.{option} must be {rule} for {kind}; found {value!r}: make it anew")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layers, origins = _layers(module, [name for name, part in module.named_modules() if _is_served(part)])
        unread = [name for name, item in module.named_parameters() if not any(item is origin for origin in origins)]
        if unread or len({*map(id, origins)}) < len(origins):
            raise InputError(
                f"module must have each parameter in one weight or bias of {', '.join(OPTIONS)}; found "
                f"{', '.join(unread) or 'one in several layers'}: "
                "take out batch normalisation, linear heads and the like"
            )
        twin = _copy_module(module)
        width = _inputs(twin)
        order, dropout = _order(twin, width)
        _check_equal(twin, order, width)
        layers, origins = _layers(module, order)
    names = {id(item): name for name, item in module.named_parameters()}
    return AdaptedModule(module, layers, dropout, tuple(names[id(item)] for item in origins))


def _copy_module(module: nn.Module) -> nn.Module:
    hooked = [name for name, item in module.named_parameters() if getattr(item, "_backward_hooks", None)]
    if hooked:
        raise InputError(
            f"module.{hooked[0]} must have no hook, because training does not call hooks; found one: remove it"
        )
    try:
        return copy.deepcopy(module).cpu().double()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        raise InputError(
            f"module must be one that can be copied; found {type(error).__name__}: {error}: keep no outputs in it"
        ) from error


def _is_served(part: nn.Module) -> bool:
    return type(part).__name__ in OPTIONS and type(part).__module__.startswith("torch_geometric.")


def _check_parameters(module: nn.Module) -> None:
    for name, item in module.named_parameters():
        if is_lazy(item):
            raise InputError(f"module.{name} must have a shape; found none: give in_channels, and not -1")
        if not item.requires_grad or not item.is_floating_point():
            raise InputError(
                f"module.{name} must be a real parameter that is trained; found it frozen or of {item.dtype}"
            )


def _layers(
    module: nn.Module, order: Iterable[str], dtype: torch.dtype = torch.float32
) -> tuple[nn.ModuleList, list[nn.Parameter]]:
    """Return layers with copies of the weights of a module's convolutions, and the parameters that were copied."""
    origins: dict[int, nn.Parameter] = {}
    layers = nn.ModuleList()
    for name in order:

        def copy_parameter(parameter: Any, place: str = f"module.{name}".rstrip(".")) -> nn.Parameter:
            if not isinstance(parameter, nn.Parameter):
                raise InputError(
                    f"{place} must have parameters as weights and bias; found {parameter!r}: take bias=True"
                )
            turned = parameter.detach().t().cpu().to(dtype)
            result = nn.Parameter(turned.clone(memory_format=torch.contiguous_format))
            origins[id(result)] = parameter
            return result

        part = module.get_submodule(name)
        layers.append(_MAKERS[type(part).__name__](part, copy_parameter))
    return layers, [origins[id(item)] for item in layers.parameters()]


def _gcn(part: Any, copied: _Copy) -> MessageLayer:
    layer = (GCNLayer if part.add_self_loops else GCNWithoutLoopsLayer)(1, 1)
    layer.weight, layer.bias = copied(part.lin.weight), copied(part.bias)
    return layer


class _SummedSAGELayer(SAGELayer):
    """GraphSAGE with a sum in place of the mean: W_self h + W_neighbour sum(h of neighbours) + b."""

    def update(self, state: torch.Tensor, sums: torch.Tensor, degrees: Degrees) -> torch.Tensor:
        """Adds the own projection and the bias to the sum over all neighbours."""
        return self.shift(degrees.scaled_to_full(sums) + self.project(state, self.own_weight), self.bias)


def _sage(part: Any, copied: _Copy) -> MessageLayer:
    layer = (SAGELayer if part.aggr == "mean" else _SummedSAGELayer)(1, 1)
    layer.own_weight, layer.neighbour_weight = copied(part.lin_r.weight), copied(part.lin_l.weight)
    layer.bias = copied(part.lin_l.bias)
    return layer


def _gin(part: Any, copied: _Copy) -> MessageLayer:
    inner = part.nn.modules() if isinstance(part.nn, nn.Module) else ()
    linear = [item for item in inner if getattr(getattr(item, "weight", None), "ndim", 0) == 2]
    if not linear or isinstance(part.eps, nn.Parameter):
        raise InputError("nn of GINConv must be linear parts with ReLU between them, and eps fixed; found otherwise")
    layer = GINLayer(*(1,) * (len(linear) + 1), eps=float(part.eps))
    layer.weight, layer.bias = copied(linear[0].weight), copied(linear[0].bias)
    layer.weights = nn.ParameterList(copied(item.weight) for item in linear[1:])
    layer.biases = nn.ParameterList(copied(item.bias) for item in linear[1:])
    return layer


_MAKERS: Mapping[str, Callable[[Any, _Copy], MessageLayer]] = MappingProxyType(
    {"GCNConv": _gcn, "SAGEConv": _sage, "GINConv": _gin}
)


def _order(twin: nn.Module, width: int) -> tuple[list[str], float]:
    """Return the names of a module's convolutions as a call in training mode uses them, and the rate of dropout."""
    names = {part: name for name, part in twin.named_modules() if _is_served(part)}
    x, edges = _random_graph(width, *GRAPHS[0])
    with _CallRecorder(names) as called:
        trained = _output(twin.train(), x, edges)
    order = list(dict.fromkeys(item for item in called.calls if isinstance(item, nn.Module)))
    rates = [item for item in called.calls if isinstance(item, float)]
    expected: list[object] = []
    for part in order:
        expected += [part, part, *(rates[:1] if part is not order[-1] else ())]
    if called.calls != expected or len(order) != len(names):
        names_in_order = ", ".join(
            names[item] if isinstance(item, nn.Module) else f"dropout {item}" for item in called.calls
        )
        raise InputError(
            "module must call each convolution once, one after another, with one rate of dropout between them or none, "
            f"and no dropout elsewhere; found, as they begin and end: {names_in_order or 'no call'}"
        )
    if not torch.equal(trained, _output(twin.eval(), x, edges)):
        raise InputError(
            "module must compute in training what it does in evaluation, torch.nn.functional.dropout apart; found "
            "another output: take out other random parts and batch normalisation"
        )
    if rates and rates[0] >= 1:
        raise InputError(f"dropout of module must be below 1; found {rates[0]}")
    return [names[item] for item in order], rates[0] if rates else 0.0


def _check_equal(twin: nn.Module, order: list[str], width: int) -> None:
    """Compare outputs and gradients of a module and its layers; the weights that it has could hide a part."""
    for nodes, scale, symmetric in GRAPHS:
        for parameter in twin.parameters():
            parameter.copy_(
                torch.randn_like(parameter) * (parameter.shape[1] ** -0.5 if parameter.ndim == 2 else scale)
            )
        x, edges = _random_graph(width, nodes, scale, symmetric)
        layers, origins = _layers(twin, order, torch.float64)
        with torch.enable_grad():
            expected, actual = _output(twin, x, edges), _on_whole_graph(layers, x, edges)
            without = _output(twin, x, edges, learning=False)
            if actual.shape == expected.shape and actual.shape[1] > 1 and not _near(actual, expected):
                actual = torch.log_softmax(actual, dim=1)
            if actual.shape == expected.shape and _near(actual, expected) and _near(without, actual):
                weights = torch.randn_like(expected)
                slopes = (_slopes(expected, weights, origins), _slopes(actual, weights, list(layers.parameters())))
                if all(_near(our, their.t()) for their, our in zip(*slopes, strict=True)):
                    continue
        raise InputError(
            f"module must be {', '.join(order)} one after another with ReLU between them, and at most log_softmax "
            "behind them; found another output or gradient on a random graph: take out skip connections, other "
            "activations, normalisation, edge weights, changes of edges and parts without gradients"
        )


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=0, atol=CLOSE * float(other.detach().abs().max()))


def _slopes(output: torch.Tensor, weights: torch.Tensor, parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """Return the gradient of a weighted sum of outputs by each parameter, zeros where it has none."""
    if not output.requires_grad:
        return [torch.zeros_like(item) for item in parameters]
    slopes = torch.autograd.grad((output * weights).sum(), parameters, allow_unused=True)
    return [torch.zeros_like(item) if slope is None else slope for item, slope in zip(parameters, slopes, strict=True)]


def _random_graph(width: int, nodes: int, scale: float, symmetric: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features [n, width] and edges [2, m], in random order; node 0 has none."""
    joined = (torch.rand(nodes, nodes) < min(0.2, 20 / nodes)).fill_diagonal_(0)
    joined = joined.triu(1) | joined.triu(1).T if symmetric else joined
    joined[0] = joined[:, 0] = False
    edges = joined.nonzero().T
    return scale * torch.randn(nodes, width, dtype=torch.float64), edges[:, torch.randperm(edges.shape[1])]


def _inputs(twin: nn.Module) -> int:
    """Return how many features a module takes: the first width among those of its weights that it runs with."""
    *widths, last = dict.fromkeys(parameter.shape[1] for parameter in twin.parameters() if parameter.ndim == 2)
    for width in widths:
        with suppress(InputError):
            _output(twin, *_random_graph(width, *GRAPHS[0]))
            return int(width)
    return int(last)


def _output(module: nn.Module, x: torch.Tensor, edges: torch.Tensor, *, learning: bool = True) -> torch.Tensor:
    try:
        with torch.set_grad_enabled(learning and torch.is_grad_enabled()):
            output = module(x, edges)
    except Exception as error:  # a forward pass of the caller's own may raise anything
        raise InputError(
            f"module must be called as module(x, edge_index); found {type(error).__name__}: {error}"
        ) from error
    if not isinstance(output, torch.Tensor) or output.ndim != 2:
        raise InputError(f"module must return scores [nodes, classes]; found {type(output).__name__}")
    return output


def _on_whole_graph(layers: Iterable[Any], x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Return what layers give where one place has all edges."""
    received = torch.bincount(edges[1], minlength=len(x))[:, None].to(x.dtype)
    h, degrees = x, Degrees(received, received, received)
    for number, layer in enumerate(layers):
        state = layer.local_state(h if number == 0 else torch.relu(h))
        messages = layer.message(state, degrees)
        h = layer.update(state, torch.zeros_like(messages).index_add(0, edges[1], messages[edges[0]]), degrees)
    return h
