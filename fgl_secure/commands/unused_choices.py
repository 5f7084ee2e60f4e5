"""Which methods use which choice; a choice that a method has no use for is refused, not passed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING

from fgl_secure.errors import InputError

if TYPE_CHECKING:
    from fgl_secure.commands.options import Options

HIFGL, FEDSTRUCT, FED2GNN, FEDVN, FEDAVG = ("hifgl",), ("fedstruct",), ("fed2gnn",), ("fedvn",), ("fedavg",)
SUMMED = ("fedavg", "fedspray", "fed2gnn", "fedvn")
"""Methods whose server sums something."""
PROTECTED = ("hifgl", "fedstruct", "fed2gnn")
"""Methods with neighbourhood sums under a protocol."""
SECRET = ("hifgl", "fedstruct")
"""Of them, those that run under secmp too."""
ONE_GRAPH = ("hifgl", "fedstruct", "fedspray", "fed2gnn", "fedavg")
"""Methods that are given one graph and deal its nodes to clients."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that not every method uses.

    Attributes:
        option: its name on the command line, with underscores.
        field: where `Options` keeps it.
        methods: those that use it.
        because: why others refuse it.
    """

    option: str
    field: str
    methods: tuple[str, ...]
    because: str = "which has no use for it"


CHOICES = (
    Choice("partition", "partition", ONE_GRAPH, "whose sets name clients"),
    Choice("silos", "silos", ONE_GRAPH, "whose sets name clients"),
    Choice("silo_file", "silo_file", ONE_GRAPH, "whose sets name clients"),
    Choice("static_first_layer", "static_first_layer", HIFGL, "which has no such layer"),
    Choice("dp_epsilon", "privacy.epsilon", HIFGL, "to whose messages no such noise is added"),
    Choice("features", "structure.features", FEDSTRUCT),
    Choice("exchange", "structure.exchanges", FEDSTRUCT),
    Choice("hops", "structure.hops", FEDSTRUCT),
    Choice("pruning", "structure.pruning", FEDSTRUCT),
    Choice("kept", "structure.kept", FEDSTRUCT),
    Choice("sharing", "structure.sharing", FEDSTRUCT),
    Choice("delivery", "structure.delivery", FEDSTRUCT),
    Choice("tau", "structure.most_leverage", FEDSTRUCT),
    Choice("count_queries", "structure.counting", FEDSTRUCT),
    Choice("pooled", "structure.pooled", FEDSTRUCT),
    Choice("scheme", "updates.schemes", SUMMED),
    Choice("threshold", "updates.threshold", SUMMED),
    Choice("batch", "updates.batch", FEDAVG),
    Choice("local_steps", "updates.local_steps", FEDAVG),
    Choice("local_rate", "updates.local_rate", FEDAVG),
    Choice("noise", "updates.noise", FEDAVG),
    Choice("clip", "updates.clip", FEDAVG),
    Choice("hops", "trees.hops", FED2GNN),
    Choice("neighbours", "trees.neighbours", FED2GNN),
    Choice("virtual_nodes", "virtual.virtual_nodes", FEDVN),
    Choice("relays", "parameters.relays", PROTECTED),
    Choice("k_min", "parameters.k_min", PROTECTED),
    Choice("profile", "parameters.profile", PROTECTED),
    Choice("field", "parameters.modulus", PROTECTED),
    Choice("T", "parameters.T", PROTECTED),
    Choice("bound", "parameters.bound", PROTECTED),
    Choice("fraction_bits", "parameters.fraction_bits", PROTECTED),
    Choice("mu", "parameters.mu_delivery", SECRET),
    Choice("allow_wrap", "parameters.overflow", SECRET),
)
"""Every choice but those that all methods use."""


def check_unused(options: Options, usual: Options) -> None:
    """Refuses a choice that the method has no use for.

    Args:
        options: the choices, of a known method.
        usual: the choices of somebody who chose nothing; what equals them was not chosen.

    Raises:
        InputError: the message names the choice, the method and the value.
    """
    for choice, found in chosen(options, usual):
        if options.method not in choice.methods:
            raise InputError(f"{choice.option} must be left out for {options.method}, {choice.because}; found {found}")


def chosen(options: Options, usual: Options) -> Iterator[tuple[Choice, str]]:
    """What differs from the usual choices, and how, in words."""
    for choice in CHOICES:
        found = _value(options, choice)
        if found != _value(usual, choice):
            yield choice, _said(found)


def _value(options: Options, choice: Choice) -> object:
    """None where nothing was chosen: differential privacy is a part that may be absent."""
    if options.privacy is None and choice.field.startswith("privacy."):
        return None
    return attrgetter(choice.field)(options)


def _said(found: object) -> str:
    if found is True:
        return "it set"
    if isinstance(found, tuple):
        return ", ".join(map(str, found))
    return str(found.value if isinstance(found, Enum) else found)
