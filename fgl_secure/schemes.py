"""Schemes by text: `[TOPOLOGY=]NAME`, with parameters in brackets where they differ from the default.

    relay-coded                                     for the topology that a method uses it for
    server=pairwise-masking[threshold=4]            for sums at the server, and with a threshold
    neighbours=relay-coded[k_min=1,graph-shown],server=lightsecagg   a scheme for each of two topologies

The schemes of this package come first, then those of packages that are installed and name a class as an entry point of
group `fgl_secure.schemes`. What a scheme's `name` prints is read back here. A parameter is a field of the scheme's
dataclass: a number, a switch or one of a few words; a word alone stands for the field that takes it.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

from fgl_secure import plugins
from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.protocols.ckks import Ckks, SharedKeyCkks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import SHORT, Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import Topology

Assignment = Mapping[str, Scheme]
"""By topology, the scheme that serves it."""

GROUP = "fgl_secure.schemes"
"""Of entry points, each of which names a class of schemes."""

IN_TREE: tuple[type[Scheme], ...] = (
    Plaintext,
    SecretMessagePassing,
    RelayCoded,
    PairwiseMasking,
    LightSecAgg,
    Ckks,
    SharedKeyCkks,
)
"""The classes of this package."""

TOPOLOGIES: Mapping[str, str] = MappingProxyType({
    "neighbours": "rows of a node's neighbours, for the node or its client",
    "members": "a row of each of a silo's devices, for the silo",
    "clients": "a term of each of the other clients, for one client",
    "server": "a vector of each client, for the server",
})  # fmt: skip
"""Who adds what for whom, in words."""

_NAME = re.compile(r"(?:(?P<topology>[\w-]+)=)?(?P<name>[\w-]+)(?:\[(?P<parameters>[^\[\]]+)\])?")
_NUMBER = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?", re.ASCII)


def kinds() -> Mapping[str, type[Scheme]]:
    """All classes of schemes by what they are called: those of this package, then those of installed packages.

    Raises:
        InputError: an entry point names no such class, or one that is called like another.
    """
    result: dict[str, type[Scheme]] = {}
    for kind in (*IN_TREE, *(_load_scheme(point) for point in plugins.installed_plugins(GROUP))):
        if kind.label in result:
            raise InputError(f"scheme must have a label of its own; found {kind.label} twice")
        result[kind.label] = kind
    return MappingProxyType(result)


def _load_scheme(point: EntryPoint) -> type[Scheme]:
    """The class that an entry point names."""
    kind = plugins.load_plugin(point)
    if not (isinstance(kind, type) and issubclass(kind, Scheme)):
        raise InputError(f"entry point {point.name} of {GROUP} must name a class of schemes; found {point.value}")
    try:
        made, hints = kind(), typing.get_type_hints(kind)
    except Exception as error:
        raise InputError(f"{point.value} must be made without arguments; found {error!r}") from error
    unknown = [key for key in made.parameters if key not in hints]
    if unknown:
        raise InputError(f"parameters of {point.value} must be its fields; found {unknown[0]}")
    return kind


def _find_scheme(name: str) -> type[Scheme]:
    known = kinds()
    if name not in known:
        raise UnknownNameError("scheme", str(name), tuple(known))
    return known[name]


def check_serves(scheme: object, topology: str) -> None:
    """Raises InputError, with the reason, unless it is a scheme that serves a topology of that name."""
    if not isinstance(scheme, Scheme):
        raise InputError(f"schemes must be texts, or Scheme objects by topology; found {scheme!r} for {topology}")
    scheme.check_serves(Topology.example(topology))


def names(topology: str | None = None) -> tuple[str, ...]:
    """The names of the schemes that serve a topology; of all schemes where none is named."""
    return tuple(name for name in kinds() if topology is None or refusal(name, topology) is None)


def summary(name: str) -> str:
    """What a scheme does, in one line."""
    return _find_scheme(name).summary


def parameters(name: str) -> tuple[str, ...]:
    """What may stand in brackets behind the name of a scheme."""
    return _find_scheme(name).parameters


def refusal(name: str, topology: str) -> str | None:
    """Why a scheme does not serve a topology, as the end of a sentence; None where it does."""
    scheme = _find_scheme(name)()
    if topology not in TOPOLOGIES:
        raise UnknownNameError("topology", str(topology), tuple(TOPOLOGIES))
    why = scheme.refuses(Topology.example(topology))
    if why is None:
        return None
    where = ", ".join(item for item in TOPOLOGIES if scheme.refuses(Topology.example(item)) is None) or "none of these"
    return f"{name} serves {where} and not {topology} ({TOPOLOGIES[topology]}): {why}"


def parse(
    text: str,
    topologies: tuple[str, ...] = tuple(TOPOLOGIES),
    usual: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> tuple[str, Scheme]:
    """Reads one `[TOPOLOGY=]NAME`.

    Args:
        text: what a caller wrote.
        topologies: among which to look; a name without a topology is for the first of them that it serves.
        usual: by topology, parameters that a scheme with such fields takes where the text names none of them.

    Returns:
        The topology and the scheme.

    Raises:
        UnknownNameError: no scheme, topology or parameter has that name.
        InputError: the text is none of these, the scheme does not serve the topology, or a parameter is out of range.

    Examples:
        >>> topology, scheme = parse("server=pairwise-masking[threshold=4]")
        >>> topology, scheme.name
        ('server', 'pairwise-masking[threshold=4]')
        >>> parse("relay-coded", ("server",))
        Traceback (most recent call last):
        fgl_secure.errors.InputError: scheme must serve server, as plaintext, ...
    """
    result = _NAME.fullmatch(text.strip()) if isinstance(text, str) else None
    if result is None:
        raise InputError(f"scheme must be written [TOPOLOGY=]NAME, with [parameter=value,...] behind; found {text!r}")
    name, topology = result["name"], result["topology"]
    known = kinds()
    if name not in known:
        raise UnknownNameError("scheme", name, tuple(known))
    if topology is not None and topology not in TOPOLOGIES:
        raise UnknownNameError("topology", topology, tuple(TOPOLOGIES))
    if topology is not None and topology not in topologies:
        raise InputError(f"scheme must be for {' or '.join(topologies)} here; found {text}, for {topology}")
    among = topologies if topology is None else (topology,)
    served = next((item for item in among if refusal(name, item) is None), None)
    if served is None:
        serving = dict.fromkeys(item for topology in among for item in names(topology))
        raise InputError(
            f"scheme must serve {' or '.join(among)}, as {', '.join(serving)} do; {refusal(name, among[0])}; "
            f"found {text}"
        )
    return served, _make_scheme(name, known[name], result["parameters"], usual.get(served, {}))


def assignment(
    text: str, topologies: tuple[str, ...], usual: Mapping[str, Mapping[str, object]] = MappingProxyType({})
) -> dict[str, Scheme]:
    """Reads the schemes of one run: `[TOPOLOGY=]NAME`, or several with commas between.

    Args:
        text: what a caller wrote.
        topologies: see `parse`.
        usual: see `parse`.

    Raises:
        InputError: see `parse`; or two schemes are for one topology.
    """
    if not topologies:
        raise InputError("topologies must be one or more; found none")
    chosen: dict[str, Scheme] = {}
    for item in re.split(r",(?![^\[]*\])", text) if isinstance(text, str) else [text]:
        topology, scheme = parse(item, topologies, usual)
        if topology in chosen:
            raise InputError(f"scheme must be given once for {topology} of one run; found {text}")
        chosen[topology] = scheme
    return chosen


def promises(scheme: Scheme, topology: str) -> int:
    """How many guarantees a scheme states for a topology."""
    return len(scheme.claim_for(Topology.example(topology)).guarantees)


def server_scheme(text: str) -> Scheme:
    """The scheme for sums of all clients at a server, by its name; see `parse`."""
    return parse(text, ("server",))[1]


def _make_scheme(name: str, kind: type[Scheme], text: str | None, usual: Mapping[str, object]) -> Scheme:
    values = dict(_values(name, kind, text)) if text else {}
    fitting = {key: _of_kind(kind, key, value) for key, value in usual.items() if key in kind.parameters}
    kinds_of_it = {key: value for key, value in fitting.items() if isinstance(value, StrEnum)}
    numbers = {key: value for key, value in fitting.items() if key not in kinds_of_it}
    chosen = {**kinds_of_it, **values}
    if not set(numbers) & set(values):  # numbers go together
        with suppress(InputError):  # what is usual for a method gives way where a scheme can't do it
            return kind.of_parameters({**chosen, **numbers})
    return kind.of_parameters(chosen)


def _of_kind(scheme: type, key: str, value: object) -> object:
    """A value of a field, of which a number stands for the field of so many elements, and a text for a choice."""
    kind = _kind(scheme, key)
    if kind is PrimeField:
        return PrimeField(typing.cast(int, value))
    return kind(value) if issubclass(kind, StrEnum) else value


def _values(name: str, scheme: type[Scheme], text: str) -> Iterator[tuple[str, object]]:
    if not scheme.parameters:
        raise InputError(f"{name} must be named without parameters, it has none; found [{text}]")
    fields = {key: _kind(scheme, key) for key in scheme.parameters}
    seen: set[str] = set()
    for item in text.split(","):
        key, given, value = item.strip().partition("=")
        if given:
            meant = next((long for long in fields if key in (long, SHORT.get(long))), None)
            if meant is None:
                raise UnknownNameError(f"parameter of {name}", key, scheme.parameters)
            if meant in seen:
                raise InputError(f"{key} of {name} must be given once; found [{text}]")
            seen.add(meant)
            yield meant, _read(name, key, fields[meant], value)
            continue
        fitting = [k for k, kind in fields.items() if issubclass(kind, StrEnum) and key in tuple(kind)]
        if len(fitting) != 1:
            raise UnknownNameError(f"parameter of {name}", key, scheme.parameters)
        yield fitting[0], fields[fitting[0]](key)


def _kind(scheme: type, name: str) -> Any:  # a type
    """The type of a field, without its None."""
    hint = _hints(scheme)[name]
    if isinstance(hint, types.UnionType):
        (hint,) = (item for item in typing.get_args(hint) if item is not type(None))
    return hint


@cache
def _hints(scheme: type) -> Mapping[str, Any]:  # types
    """By name, the types of fields; there is much of it to read again for each name of a scheme."""
    return MappingProxyType(typing.get_type_hints(scheme))


def _read(name: str, key: str, kind: Any, value: str) -> object:  # a type
    if issubclass(kind, StrEnum):
        if value not in tuple(kind):
            raise UnknownNameError(f"{key} of {name}", value, tuple(kind))
        return kind(value)
    number = int if kind is PrimeField else kind
    try:
        read = number(value if _NUMBER.fullmatch(value) else "")
    except ValueError as error:
        wanted = "a number" if number is float else "an integer"
        raise InputError(f"{key} of {name} must be {wanted}; found {value or 'nothing'}") from error
    return PrimeField(read) if kind is PrimeField else read
