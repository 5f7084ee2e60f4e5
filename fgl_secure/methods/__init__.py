"""Learning methods: frozen configurations that can be trained and audited.

    from fgl_secure.methods import HiFGL, method, names

    HiFGL(backbone="sage", epochs=20)
    method("fedavg")(local_steps=5)

A method from outside is found by an entry point of the group `fgl_secure.methods`, whose value names a subclass of
`fgl_secure.auditing.method.Method`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from fgl_secure import plugins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.training.local_privacy import LocalPerturbation

if TYPE_CHECKING:
    from fgl_secure.auditing.method import Method
    from fgl_secure.methods.fed2gnn.configuration import Fed2GNN
    from fgl_secure.methods.fedavg.configuration import FedAvg
    from fgl_secure.methods.fedspray.configuration import FedSpray
    from fgl_secure.methods.fedstruct.configuration import FedStruct
    from fgl_secure.methods.fedvn.configuration import FedVN
    from fgl_secure.methods.hifgl.configuration import HiFGL

GROUP = "fgl_secure.methods"

_IN_TREE = (
    EntryPoint("hifgl", "fgl_secure.methods.hifgl.configuration:HiFGL", GROUP),
    EntryPoint("fedstruct", "fgl_secure.methods.fedstruct.configuration:FedStruct", GROUP),
    EntryPoint("fedspray", "fgl_secure.methods.fedspray.configuration:FedSpray", GROUP),
    EntryPoint("fed2gnn", "fgl_secure.methods.fed2gnn.configuration:Fed2GNN", GROUP),
    EntryPoint("fedvn", "fgl_secure.methods.fedvn.configuration:FedVN", GROUP),
    EntryPoint("fedavg", "fgl_secure.methods.fedavg.configuration:FedAvg", GROUP),
)

__all__ = ["Fed2GNN", "FedAvg", "FedSpray", "FedStruct", "FedVN", "HiFGL", "LocalPerturbation", "method", "names"]


def names() -> tuple[str, ...]:
    """The names of all methods, those of this package first."""
    return tuple(_places())


def method(name: str) -> type[Method]:
    """The configuration class of a method.

    Raises:
        UnknownNameError: there is none of that name.
        InputError: an installed package names something else, or does not load.
    """
    if name not in _places():
        raise UnknownNameError("method", name, names())
    place = _places()[name]
    if place in _IN_TREE:
        return cast("type[Method]", place.load())
    # The class that an entry point names.
    from fgl_secure.auditing.method import Method  # noqa: PLC0415  # data sets come with it

    kind = plugins.load_plugin(place)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise InputError(f"entry point {place.name} of {GROUP} must name a class of methods; found {place.value}")
    return kind


def _places() -> Mapping[str, EntryPoint]:
    """By name; a name of this package is not taken from it."""
    return _places_of(tuple(plugins.installed_plugins(GROUP)))


@cache
def _places_of(points: tuple[EntryPoint, ...]) -> Mapping[str, EntryPoint]:
    others = {item.name: item for item in sorted(points)}
    inside = {item.name: item for item in _IN_TREE}
    return MappingProxyType(inside | {name: item for name, item in others.items() if name not in inside})


def __getattr__(name: str) -> object:
    """Return a method's class by its name, of this package or of an installed one."""
    for known, place in _places().items():
        if place.attr == name:
            return method(known)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(place.attr for place in _places().values())})
