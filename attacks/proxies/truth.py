"""The secrets of clients that send structure proxies."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.attacks.base import Truth
from fgl_secure.attacks.truth import moved_on
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class ProxyTruth(Truth):
    """Labelled nodes and their proxies, by client k and round t.

    Attributes:
        labelled: int64 [K, R, C], how many labelled nodes of each class a client has.
        singles: float64 [K, R, C, d], the proxy of the one node of each class that has a single one, else NaN.
        added: float64 [K, R, d], the proxy of the node that a client counts from that round on; NaN where there is
            none, or several.
        sizes: int64 [K, R], how many labelled nodes a client has. The null control leaves it: it says when there is
            something to find, not what.
    """

    labelled: Ids
    singles: Floats
    added: Floats
    sizes: Ids

    def permuted(self, seed: int) -> ProxyTruth:  # noqa: ARG002  # clients move on by one
        """Every client's nodes at the next client."""
        return ProxyTruth(moved_on(self.labelled), moved_on(self.singles), moved_on(self.added), self.sizes)
