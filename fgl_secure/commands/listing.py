"""What there is to choose from."""

from __future__ import annotations

from fgl_secure.attacks.registry import attacks
from fgl_secure.commands.method_pages import METHOD_PAGES, lines_of
from fgl_secure.graph import describe
from fgl_secure.graph.graph_sets import describe_sets
from fgl_secure.protocols.registry import PROTOCOLS, Parameters
from fgl_secure.protocols.staged.registry import STAGED

Rows = list[tuple[str, str]]

SCHEMES = {
    "plaintext": "updates in the clear, as existing training loops send them",
    "pairwise-masking": "masks that cancel in the sum (Bonawitz et al. 2017, Bell et al. 2020); survives drop-outs",
    "lightsecagg": "coded masks, whose sum is opened in one shot (So et al. 2022); survives drop-outs",
    "ckks": "updates encrypted under a key that the clients share and the server does not have",
}
"""Sums of updates of clients, for one server."""


def listing(kind: str | None = None) -> str:
    """The names of one kind, or of all, with a line each.

    Args:
        kind: "datasets", "protocols", "exchanges", "schemes", "attacks", "methods", or None for all.
    """
    tables = {
        "datasets": _datasets,
        "protocols": _protocols,
        "exchanges": _exchanges,
        "schemes": _schemes,
        "attacks": _attacks,
        "methods": _methods,
    }
    wanted = tables if kind is None else {kind: tables[kind]}
    return "\n\n".join(_table(name, rows()) for name, rows in wanted.items())


def _table(name: str, rows: Rows) -> str:
    width = max(len(first) for first, _ in rows) + 2
    return "\n".join([name, *(f"  {first:<{width}}{second}" for first, second in rows)])


def _datasets() -> Rows:
    nodes = [
        (d.name, f"{d.description}; {d.nodes:,} devices, {d.edges:,} messages a layer, {d.features:,} features, "
                 f"{d.classes} classes")
        for d in describe()
    ]  # fmt: skip
    return nodes + [(d.name, f"{d.description} (fedvn)") for d in describe_sets()]


def _protocols() -> Rows:
    rows = []
    for protocol in PROTOCOLS.values():
        promises = len(protocol.make(Parameters()).claim.guarantees)
        rows.append((protocol.name, f"{protocol.summary}; promises {promises or 'nothing'}"))
    return rows


def _exchanges() -> Rows:
    return [
        ("plaintext", "FedStruct's terms, features and gradients in the clear, as published (ICLR 2025)"),
        ("ckks", "terms encrypted for their receiver and added by the server; gradients under pairwise masks"),
        ("pairwise-masking", "terms and gradients under masks that cancel; survives drop-outs"),
        ("hopwise", "embeddings hop by hop under --protocol; nobody holds a power of the adjacency"),
    ]


def _schemes() -> Rows:
    return [
        (name, f"{SCHEMES[name]}; promises {len(make(None).claim.guarantees) or 'nothing'}")
        for name, make in STAGED.items()
    ]


def _attacks() -> Rows:
    return [(a.card.name, f"{a.card.summary} ({a.card.source})") for a in attacks().values()]


def _methods() -> Rows:
    return [line for method in METHOD_PAGES for line in lines_of(method)]
