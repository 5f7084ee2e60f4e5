"""Schemes by text: `[TOPOLOGY=]NAME`, with parameters in brackets where they differ from the default.

    relay-coded                                     for the topology that a method uses it for
    server=pairwise-masking[threshold=4]            for sums at the server, and with a threshold
    neighbours=relay-coded[k_min=1,anon],server=ckks   a scheme for each of two topologies

What a scheme's `name` prints is read back here. A parameter is a field of the scheme's dataclass: a number, a switch or
one of a few words; a word alone stands for the field that takes it.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.protocols.ckks import Ckks, SharedKeyCkks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import Topology

Assignment = Mapping[str, Scheme]
"""By topology, the scheme that serves it."""

SUMMARIES: Mapping[str, str] = MappingProxyType({
    "plaintext": "every value in the clear; the oracle of correctness",
    "secmp": "Secret Message Passing as HiFGL publishes it (KDD 2024)",
    "relay-coded": "message passing over relays, the repair of secmp",
    "pairwise-masking": "masks that cancel in the sum (Bonawitz et al. 2017, Bell et al. 2020); survives drop-outs",
    "lightsecagg": "coded masks, whose sum is opened in one shot (So et al. 2022); survives drop-outs",
    "ckks": "ciphertexts are added under a key of the receiver",
    "ckks-shared-key": "ciphertexts are added for a server, under a key that the clients share and it never has",
})  # fmt: skip
"""Every scheme in words."""

TOPOLOGIES: Mapping[str, str] = MappingProxyType({
    "neighbours": "rows of a node's neighbours, for the node or its client",
    "clients": "a term of each of the other clients, for one client",
    "server": "a vector of each client, for the server",
})  # fmt: skip
"""Who adds what for whom, in words."""

_NAME = re.compile(r"(?:(?P<topology>[\w-]+)=)?(?P<name>[\w-]+)(?:\[(?P<parameters>[^\[\]]+)\])?")
_SHORT = {"p": ("field", "modulus"), "mu": ("delivery",), "k_min": ("k_min", "minimum_group")}
"""What names print, and the fields that are meant."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A scheme's class, the fields that a caller may name, and fields that follow from others unless they are named."""

    kind: type[Scheme]
    parameters: tuple[str, ...] = ()
    following: Mapping[str, tuple[str, int]] = field(default_factory=dict)


_CODING = ("field", "T", "bound", "fraction_bits")
_TABLE: Mapping[str, Mapping[str, _Served]] = MappingProxyType({
    "neighbours": {
        "plaintext": _Served(Plaintext),
        "secmp": _Served(SecretMessagePassing, (*_CODING, "overflow", "delivery")),
        "relay-coded": _Served(RelayCoded, (*_CODING, "R", "k_min", "profile", "padding"), {"R": ("T", 1)}),
    },
    "clients": {
        "plaintext": _Served(Plaintext),
        "ckks": _Served(Ckks),
        "pairwise-masking": _Served(PairwiseMasking, ("threshold", "degree", "modulus")),
    },
    "server": {
        "plaintext": _Served(Plaintext, ("threshold",)),
        "pairwise-masking": _Served(PairwiseMasking, ("threshold", "degree", "modulus")),
        "lightsecagg": _Served(LightSecAgg, ("threshold", "colluding", "modulus")),
        "ckks-shared-key": _Served(SharedKeyCkks, ("threshold",)),
    },
})  # fmt: skip


def names(topology: str | None = None) -> tuple[str, ...]:
    """The names of the schemes that serve a topology; of all schemes where none is named."""
    return tuple(SUMMARIES) if topology is None else tuple(_TABLE[topology])


def parameters(name: str) -> tuple[str, ...]:
    """What may stand in brackets behind the name of a scheme, whatever it serves."""
    return tuple(
        dict.fromkeys(each for served in _TABLE.values() if name in served for each in served[name].parameters)
    )


def refusal(name: str, topology: str) -> str | None:
    """Why a scheme does not serve a topology, as the end of a sentence; None where it does."""
    if name in _TABLE[topology]:
        return None
    where = ", ".join(each for each in _TABLE if name in _TABLE[each])
    return f"{name} serves {where} and not {topology} ({TOPOLOGIES[topology]})"


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
    """
    found = _NAME.fullmatch(text.strip())
    if found is None:
        raise InputError(f"scheme must be written [TOPOLOGY=]NAME, with [parameter=value,...] behind; found {text!r}")
    name, topology = found["name"], found["topology"]
    if name not in SUMMARIES:
        raise UnknownNameError("scheme", name, names())
    if topology is not None and topology not in TOPOLOGIES:
        raise UnknownNameError("topology", topology, tuple(TOPOLOGIES))
    if topology is not None and topology not in topologies:
        raise InputError(f"scheme must be for {' or '.join(topologies)} here; found {text}, for {topology}")
    among = topologies if topology is None else (topology,)
    served = next((each for each in among if name in _TABLE[each]), None)
    if served is None:
        known = dict.fromkeys(each for topology in among for each in _TABLE[topology])
        raise InputError(
            f"scheme must serve {' or '.join(among)}, as {', '.join(known)} do; {refusal(name, among[0])}; found {text}"
        )
    return served, _made(name, _TABLE[served][name], found["parameters"], usual.get(served, {}))


def assignment(
    text: str,
    topologies: tuple[str, ...],
    usual: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> dict[str, Scheme]:
    """Reads the schemes of one run: `[TOPOLOGY=]NAME`, or several with commas between.

    Args:
        text: what a caller wrote.
        topologies: see `parse`.
        usual: see `parse`.

    Raises:
        InputError: see `parse`; or two schemes are for one topology.
    """
    chosen: dict[str, Scheme] = {}
    for each in re.split(r",(?![^\[]*\])", text):
        topology, scheme = parse(each, topologies, usual)
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


def _made(name: str, served: _Served, text: str | None, usual: Mapping[str, object]) -> Scheme:
    values = dict(_values(name, served, text)) if text else {}
    for follower, (leader, more) in served.following.items():
        if leader in values and follower not in values:
            values[follower] = typing.cast(int, values[leader]) + more
    if not set(usual) & set(values):
        values |= {key: _of_kind(served.kind, key, value) for key, value in usual.items() if key in served.parameters}
    return served.kind(**values)


def _of_kind(scheme: type, key: str, value: object) -> object:
    """A value of a field, of which a number stands for the field of so many elements."""
    return PrimeField(typing.cast(int, value)) if _kind(scheme, key) is PrimeField else value


def _values(name: str, served: _Served, text: str) -> Iterator[tuple[str, object]]:
    if not served.parameters:
        raise InputError(f"{name} must be named without parameters, it has none; found [{text}]")
    kinds = {key: _kind(served.kind, key) for key in served.parameters}
    for each in text.split(","):
        key, given, value = each.strip().partition("=")
        if given:
            meant = next((long for long in _SHORT.get(key, (key,)) if long in kinds), None)
            if meant is None:
                raise UnknownNameError(f"parameter of {name}", key, served.parameters)
            yield meant, _read(name, key, kinds[meant], value)
            continue
        fitting = [k for k, kind in kinds.items() if issubclass(kind, StrEnum) and key in tuple(kind)]
        if len(fitting) != 1:
            raise UnknownNameError(f"parameter of {name}", key, served.parameters)
        yield fitting[0], kinds[fitting[0]](key)


def _kind(scheme: type, name: str) -> Any:  # a type
    """The type of a field, without its None."""
    hint = typing.get_type_hints(scheme)[name]
    if isinstance(hint, types.UnionType):
        (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
    return hint


def _read(name: str, key: str, kind: Any, value: str) -> object:  # a type
    if issubclass(kind, StrEnum):
        if value not in tuple(kind):
            raise UnknownNameError(f"{key} of {name}", value, tuple(kind))
        return kind(value)
    number = int if kind is PrimeField else kind
    try:
        read = number(value)
    except ValueError as error:
        wanted = "a number" if number is float else "an integer"
        raise InputError(f"{key} of {name} must be {wanted}; found {value}") from error
    return PrimeField(read) if kind is PrimeField else read
