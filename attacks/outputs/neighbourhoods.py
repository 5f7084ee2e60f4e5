"""Which nodes was a graph network trained on? The Bayes-optimal score over a node's whole neighbourhood (G-BASE).

A node changes what its neighbours are answered, in training as afterwards. G-BASE (Lassila et al., NeurIPS 2025,
arXiv:2505.24089) therefore compares losses of a neighbourhood with and without the node, on subgraphs that random sets
of nodes induce. Where models are drawn with probability in proportion to exp(-loss), that is a likelihood ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, logsumexp

from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.typing import Flags, Floats, Ids

SETS = 4
"""Random sets of nodes."""
HOPS = 2
"""Losses of nodes up to so many hops away are compared; more gain little where a model has two layers."""
REACH = 3
"""Hops that a node's presence is felt in two convolutions, since it changes its neighbours' degrees."""
HALVINGS = 60

Ask = Callable[[Flags], Floats]
"""Takes the nodes that are present, bool [n], and gives log probabilities of all nodes' labels, [m, n]."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhoods:
    """Nodes whose neighbourhoods are asked about.

    Attributes:
        nodes: int64 [v], in ascending order.
        priors: float64 [n], the probability that a node is a training node.
        sets: bool [k, n]: which other nodes are present.
        groups: int64 [v]: nodes of one group are so far apart that they are added to one query together.
        balls: bool [v, n] in sparse form: the nodes whose losses are compared.
    """

    nodes: Ids
    priors: Floats
    sets: Flags
    groups: Ids
    balls: sparse.csr_array

    def compare(self, ask: Ask) -> Floats:
        """Log probabilities of neighbourhoods, for each set and model: float64 [2, k, m, v].

        The first are those without the node, the second say how much the node adds.
        """
        out = []
        for present in self.sets:
            parts = [self._of_group(ask, present, group) for group in range(int(self.groups.max(initial=-1)) + 1)]
            out.append(np.concatenate(parts, axis=2)[:, :, np.argsort(np.argsort(self.groups, kind="stable"))])
        return np.stack(out, axis=1)

    def _of_group(self, ask: Ask, present: Flags, group: int) -> Floats:
        chosen = self.groups == group
        inside, outside = present.copy(), present.copy()
        inside[self.nodes[chosen]], outside[self.nodes[chosen]] = True, False
        without, joined = np.where(outside, ask(outside), 0), np.where(inside, ask(inside), 0)
        return np.stack([(self.balls[chosen] @ each.T).T for each in (without, joined - without)])


def draw_neighbourhoods(graph: Graph, nodes: Ids, priors: Floats, *, sets: int = SETS, seed: int = 0) -> Neighbourhoods:
    """Draw sets of nodes beside which nodes are asked about.

    Args:
        graph: labels and edges; their direction is ignored.
        nodes: int64 [v], labelled ones in ascending order.
        priors: float64 [n], the probability that a node is a training node: sets hold it with that probability.
        sets: number of sets.
        seed: of the draw.

    Raises:
        InputError: a prior is not a probability, or there are no sets.

    Examples:
        >>> import numpy as np
        >>> from fgl_secure.graph import load
        >>> draw_neighbourhoods(load("digits"), np.arange(5), np.full(1797, 0.5)).sets.shape
        (4, 1797)
    """
    if sets < 1:
        raise InputError(f"sets must be at least 1; found {sets}")
    n, rng = graph.num_nodes, np.random.default_rng([seed, 1])
    check_priors(priors, n)
    present = (rng.random((sets, n)) < priors) & (graph.labels >= 0)
    ones = np.ones(2 * graph.edges.shape[1] + n, dtype=np.int32)
    ends = np.concatenate([graph.edges, graph.edges[::-1], np.tile(np.arange(n), (2, 1))], axis=1)
    adjacency = sparse.csr_array((ones, (ends[0], ends[1])), shape=(n, n))
    near = sparse.csr_array((np.ones(len(nodes), np.int32), (np.arange(len(nodes)), nodes)), shape=(len(nodes), n))
    for hop in range(HOPS + REACH):
        if hop == HOPS:
            balls = near
        near = near @ adjacency
        near.data[:] = 1
    return Neighbourhoods(nodes, priors, present, _groups(near[:, nodes]), balls.astype(np.float64))


def check_priors(priors: Floats, nodes: int) -> None:
    """Refuse what is not a probability for each node.

    Raises:
        InputError: the length differs, or a number is outside 0 to 1.
    """
    if priors.shape != (nodes,):
        raise InputError(f"priors must be {nodes} probabilities, one a node; found {list(priors.shape)}")
    outside = priors[~((priors >= 0) & (priors <= 1))]
    if len(outside):
        raise InputError(f"priors must be probabilities from 0 to 1; found {outside[0]}")


def _groups(conflicts: sparse.csr_array) -> Ids:
    """The first group of each node that none of its conflicts is in."""
    groups = np.full(conflicts.shape[0], -1, dtype=np.int64)
    for node in range(len(groups)):
        taken = groups[conflicts.indices[conflicts.indptr[node] : conflicts.indptr[node + 1]]]
        free = np.ones(len(groups) + 1, dtype=np.bool_)
        free[taken[taken >= 0]] = False
        groups[node] = free.argmax()
    return groups


def g_base(target: Floats, shadows: Floats, members: Flags, priors: Floats) -> Floats:
    """Log odds that a node is a training node, its neighbourhood taken into account.

    Each set of other nodes counts by how well it fits the neighbourhood's answers, which tell what its members are.

    Args:
        target: float64 [2, k, t, v], from `Neighbourhoods.compare`, of attacked models.
        shadows: float64 [2, k, m, v], those of shadow models.
        members: bool [m, v], the nodes that each shadow model was trained on.
        priors: float64 [v], the probability that a node is a training node (Bayesian membership privacy, Yildirim and
            Khosla, arXiv:2606.04069).

    Returns:
        float64 [t, v].
    """
    (without, change), (all_without, all_changes) = target, shadows
    fit = without - logsumexp(all_without, axis=1)[:, None] + np.log(len(members))
    ratio = change - np.stack([log_ratio(each, members) for each in all_changes])[:, None]
    odds = logit(np.clip(priors, 1e-9, 1 - 1e-9))
    return np.asarray(logsumexp(fit + ratio, axis=0) - logsumexp(fit, axis=0) + odds)


def log_ratio(changes: Floats, members: Flags) -> Floats:
    """Log of how much larger the sum of likelihoods over all models is with a node than without it: float64 [v].

    Models that were trained with the node and models that were not are both used (acceptance ratio of Bennett, J.
    Comput. Phys. 22, 1976). Where all models are of one kind, the mean over that kind.

    Args:
        changes: float64 [m, v], log likelihood ratios of shadow models.
        members: bool [m, v], the nodes that each was trained on.
    """
    inside = members / np.maximum(members.sum(axis=0), 1)
    outside = ~members / np.maximum((~members).sum(axis=0), 1)
    low, high = changes.min(axis=0) - 30, changes.max(axis=0) + 30
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        excess = (outside * expit(changes - middle) - inside * expit(middle - changes)).sum(axis=0)
        low, high = np.where(excess > 0, middle, low), np.where(excess > 0, high, middle)
    one_kind = np.where(
        members.any(axis=0), -logsumexp(-changes, axis=0), logsumexp(changes, axis=0) - 2 * np.log(len(changes))
    )
    one_kind += np.log(len(changes))
    return np.asarray(np.where(members.any(axis=0) & ~members.all(axis=0), (low + high) / 2, one_kind))
