"""Names that clients give to foreign nodes, and how they are scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NamedNodes:
    """Whom clients take foreign nodes for.

    Attributes:
        observers: int64 [k], party identifiers of the clients.
        nodes: int64 [k], device indices.
        names: int64 [k, r], indices in the list that the crawl goes by, the likeliest first; -1 for none.
        choices: int64 [k], how many listed nodes belong to the client of each.
        alike: int64 [k], nodes of that client with the same features, itself included.
        rate: the share of the edges that the crawl has.
    """

    observers: Ids
    nodes: Ids
    names: Ids
    choices: Ids
    alike: Ids
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class MatchedGroup:
    """Nodes int64 [m], names int64 [m, r], choices and alike int64 [m] as in `NamedNodes`."""

    nodes: Ids
    names: Ids
    choices: Ids
    alike: Ids


def gathered(found: list[tuple[int, MatchedGroup]], rate: float) -> NamedNodes | None:
    """The matches of all clients in one table; None without any."""
    if not found:
        return None
    observers = np.concatenate([np.full(len(match.nodes), client) for client, match in found])
    nodes, names, choices, alike = (
        np.concatenate([getattr(match, column) for _, match in found])
        for column in ("nodes", "names", "choices", "alike")
    )
    return NamedNodes(observers, nodes, names, choices, alike, rate)


def share_named(metric: str, guess: NamedNodes, truth: Truth, first: int) -> Measurement:
    """The share of nodes whose right name is among the first ones.

    Without the transcript any listed node of the client is as likely. Nodes with equal features are told apart by
    luck alone, which bounds what can be reached.
    """
    names = guess.names[:, :first]
    resolved = np.where(names >= 0, truth.identity[names], -1)
    right = (resolved == guess.nodes[:, None]).any(axis=1)
    share = clustered_proportion(right, guess.nodes, seed=0)
    blind = float(np.minimum(1, first / np.maximum(guess.choices, 1)).mean())
    best = float(np.minimum(1, first / guess.alike).mean())
    bound = ", an upper bound" if guess.rate >= 1 else ""
    finding = (
        f"{int(right.sum()):,} of {len(right):,} foreign nodes are named right ({metric}) from a copy with "
        f"{guess.rate:.0%} of the edges{bound}."
    )
    return Measurement(
        metric, share.value, share.interval, share.n, blind, blind, max(best, share.value), True, finding
    )
