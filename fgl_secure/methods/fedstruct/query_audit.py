"""Which weighted sums of its nodes' embeddings a client may hand out: auditing by row space, not by counting.

FedStruct (ICLR 2025, App. G.1) has a client refuse once it has answered some number of queries. What a requester can
solve for does not depend on their number but on what they span: node u's embedding is known exactly once e_u lies in
the row space of the queries. So the client keeps an orthonormal basis of all that it has answered and refuses a query
that would bring some node too near to it (query-set auditing: Chin, Ozsoyoglu 1982). It decides from the queries alone,
before it looks at any embedding, so that a refusal tells nothing of them (simulatable auditing: Kenthapadi, Mishra,
Nissim 2005).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fgl_secure.errors import InputError
from fgl_secure.typing import Floats

TOLERANCE = 1e-9
"""Length of what a query adds to the basis, relative to the query, below which it adds nothing; and how far leverages
computed in floating point may be off."""


@dataclass(frozen=True, slots=True)
class AuditRule:
    """When a query is refused.

    Attributes:
        most_leverage: tau in (0, 1]: the largest leverage |V^T e_u|^2 that any node may reach, V being an orthonormal
            basis of the answered queries; at 1 a node is known exactly.
        least_nodes: k_min, at least 1: the fewest nodes that a query may weigh.
    """

    most_leverage: float = 0.9
    least_nodes: int = 3

    def __post_init__(self) -> None:
        if not 0 < self.most_leverage <= 1:
            raise InputError(f"most_leverage must lie in (0, 1]; found {self.most_leverage}")
        if self.least_nodes < 1:
            raise InputError(f"least_nodes must be at least 1; found {self.least_nodes}")


class QueryAudit:
    """What one requester, or a coalition that is assumed to pool its answers, has been told about one client's nodes.

    Args:
        nodes: how many nodes the client has, m.
        rule: when a query is refused.
    """

    def __init__(self, nodes: int, rule: AuditRule) -> None:
        self._rule = rule
        self._basis = np.zeros((min(nodes, 16), nodes))  # its first `rank` rows are in use
        self._rank = 0
        self._leverage = np.zeros(nodes)

    @property
    def leverage(self) -> Floats:
        """float64 [m]: how near each node is to being known; 1 where it is. No guarantee of differential privacy."""
        return self._leverage.copy()

    def admits(self, query: Floats) -> bool:
        """Decides on a query and remembers it where it is answered.

        Args:
            query: float64 [m], the weight of each node; a query of zeros only is answered.

        Raises:
            InputError: the query has another shape or is not finite.
        """
        if query.shape != self._leverage.shape or not np.isfinite(query).all():
            raise InputError(f"query must be {len(self._leverage)} finite weights; found shape {list(query.shape)}")
        weighed = int(np.count_nonzero(query))
        if not weighed:
            return True
        if weighed < self._rule.least_nodes:
            return False
        addition = self._new_direction(query)
        if addition is None:
            return True
        leverage = self._leverage + addition**2
        if leverage.max() > self._rule.most_leverage + TOLERANCE:  # of a basis in floating point
            return False
        if self._rank == len(self._basis):
            self._basis = np.vstack([self._basis, np.zeros_like(self._basis)])
        self._basis[self._rank] = addition
        self._leverage, self._rank = leverage, self._rank + 1
        return True

    def _new_direction(self, query: Floats) -> Floats | None:
        """What a query adds to the basis, orthonormal to it; None where it adds nothing."""
        basis = self._basis[: self._rank]
        rest = query - basis.T @ (basis @ query)
        rest -= basis.T @ (basis @ rest)  # once more: the first pass leaves rounding errors behind
        length = float(np.linalg.norm(rest))
        return None if length <= TOLERANCE * float(np.linalg.norm(query)) else rest / length


def published_limit(rows: int, width: int, classes: int, nodes: int) -> bool:
    """Whether App. G.1 lets a client answer so many queries of Eq. 47: their number may not exceed m d_s / c.

    Args:
        rows: queries.
        width: d_s, columns of a structure feature; c for Eq. 49, whose limit is then m.
        classes: c.
        nodes: m, how many nodes the queries weigh.
    """
    return rows * classes <= nodes * width
