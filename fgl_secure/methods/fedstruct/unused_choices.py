"""Choices of FedStruct that the exchanges of a run have no use for; they are refused, not passed over."""

from __future__ import annotations

from fgl_secure.commands.options import Options
from fgl_secure.commands.unused_choices import CHOICES, chosen
from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.choice import ExchangeName
from fgl_secure.methods.fedstruct.exchange import FeatureSharing
from fgl_secure.protocols.hop_adjacency import Pruning

AUDITED = {"tau", "count_queries", "pooled"}
"""How queries are audited."""

OF_ROWS = {"pruning", "kept", "sharing", "delivery"} | AUDITED
"""Of exchanges of powers of the adjacency, which a hopwise one has none of."""

OF_SUMS = {choice.option for choice in CHOICES if choice.field.startswith("parameters.")} - {"k_min"}
"""Of protocols for neighbourhood sums; k_min bounds queries too."""


def check_exchanges(options: Options) -> None:
    """Refuses choices that none of the exchanges uses.

    Raises:
        InputError: the message names the choice, what it must go with and the value.
    """
    structure = options.structure
    names = structure.exchanges or tuple(ExchangeName)
    hopwise = ExchangeName.HOPWISE in names
    rows = any(name != ExchangeName.HOPWISE for name in names)
    queries = structure.sharing is FeatureSharing.QUERIES
    for choices, used, what in (
        (OF_ROWS, rows, "an exchange other than hopwise"),
        (AUDITED, queries, "sharing by queries"),
        ({"tau"}, not structure.counting, "queries that are not counted"),
        ({"kept"}, structure.pruning is not Pruning.NONE, "pruning"),
        (OF_SUMS, hopwise, "a hopwise exchange"),
        ({"k_min"}, hopwise or queries, "a hopwise exchange or sharing by queries"),
    ):
        for choice, found in () if used else chosen(options, Options()):
            if choice.option in choices:
                raise InputError(f"{choice.option} must go with {what}; found {found}")
