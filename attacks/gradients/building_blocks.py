"""Neighbourhoods of nodes that agree with a gradient, and the graphs that they make.

A node and its neighbours give a row that enters the next layer, so that it lies in the span of that layer's gradient.
Nodes that all differ are settled one by one, those with the fewest possible neighbourhoods first. Nodes that are alike
are found as kinds with numbers, and kinds are put together by a search that goes back.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from fgl_secure.attacks.gradients.discrete_rows import CLOSE, MOST_STEPS, Span
from fgl_secure.typing import Floats, Ids

SAME_DIRECTION = 1e-7
"""How far two directions outside a span may be apart."""
MOST_SETS = 1_000_000
"""Neighbourhoods that are tried for one node."""
MOST_ALIKE = 24
"""Nodes of the rarest kind."""
CHUNK = 20_000

Activation = Callable[[torch.Tensor], torch.Tensor]
Neighbours = tuple[int, ...]


class Layer:
    """A convolution of PyTorch Geometric, one node at a time.

    Args:
        module: GCNConv or GATConv.
        entering: float64 [k, d], rows of different kinds of nodes.
        degree: int64 [k], their degrees.
        activation: behind the convolution.
        before: float64 [k, p], what stands before the result of a node of each kind; None for nothing.
    """

    def __init__(
        self, module: Any, entering: Floats, degree: Ids, activation: Activation, before: Floats | None = None
    ) -> None:
        self.degree, self.activation, self.before = degree, activation, before
        self.product = entering @ module.lin.weight.detach().numpy().T
        self.bias = np.zeros(self.product.shape[1]) if module.bias is None else module.bias.detach().numpy()
        self.heads = module.heads if type(module).__name__ == "GATConv" else 0
        if self.heads:
            by_head, self.slope = self.product.reshape(len(entering), self.heads, -1), module.negative_slope
            self.scores = [(by_head * part.detach().numpy()).sum(axis=2) for part in (module.att_src, module.att_dst)]

    def out(self, centre: int, sets: Ids, at: Any = slice(None)) -> Floats:
        """What a node gives with each of several sets of neighbours, int64 [b, k]: float64 [b, h] at coordinates."""
        if self.before is None:
            return self._convolve(centre, sets, at)
        rows = np.tile(self.before[centre], (len(sets), 1))
        return np.asarray(np.concatenate([rows, self._convolve(centre, sets, slice(None))], axis=1)[:, at])

    def _convolve(self, centre: int, sets: Ids, at: Any) -> Floats:
        members = np.column_stack([np.full(len(sets), centre), sets])
        product = self.product[:, at][members]
        if self.heads:
            scores = self.scores[0][members] + self.scores[1][centre]
            scores = np.where(scores > 0, scores, self.slope * scores)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            head = np.repeat(np.arange(self.heads), self.product.shape[1] // self.heads)[at]
            total = (weights[:, :, head] * product).sum(axis=1)
        else:
            weights = 1 / np.sqrt((self.degree[members] + 1.0) * (self.degree[centre] + 1.0))
            total = np.einsum("bk,bkh->bh", weights, product)
        return np.asarray(self.activation(torch.from_numpy(total + self.bias[at])).numpy())


class Neighbourhoods:
    """Which sets of neighbours give a row in the span of the next layer's gradient."""

    def __init__(self, layer: Layer, span: Span) -> None:
        self.layer, self.span = layer, span

    def passing(self, centre: int, sets: Iterable[Neighbours], known: Sequence[int] = ()) -> list[Neighbours]:
        """Those of sets of neighbours that fit, each joined with the known neighbours."""
        at, orthogonal = self.span.quick()
        result: list[tuple[float, Neighbours]] = []
        for array in _chunks(sets, known):
            quick = self.layer.out(centre, array, at)
            off = np.linalg.norm(quick @ orthogonal, axis=1) / np.maximum(np.linalg.norm(quick, axis=1), 1e-300)
            likely = array[off <= max(self.span.close, 10 * CLOSE)]
            off = self.span.distance(self.layer.out(centre, likely))
            result += [(o, tuple(row)) for o, row in zip(off, likely.tolist(), strict=True) if o <= self.span.close]
        if not self.span.exact and result:
            limit = 2 * min(result)[0]
            result = [item for item in result if item[0] <= limit]
        return [item for _, item in result]

    def cut_off(self, candidates: Iterable[tuple[int, Iterable[Neighbours], Sequence[int]]]) -> Floats | None:
        """A row that is missing from the span; None if none is certain.

        A null vector of the adjacency cuts the rows of its nodes off. They then share one direction outside the span,
        and a direction that two different neighbourhoods share is no accident.
        """
        at, orthogonal = self.span.quick()
        if not orthogonal.shape[1]:
            return None
        outside, owners = [np.empty((0, orthogonal.shape[1]))], list[tuple[int, Neighbours]]()
        for centre, sets, known in candidates:
            for array in _chunks(sets, known):
                outside.append(self.layer.out(centre, array, at) @ orthogonal)
                owners += [(centre, tuple(row)) for row in array.tolist()]
        rows = np.concatenate(outside)
        lengths = np.linalg.norm(rows, axis=1)
        rows = rows / np.maximum(lengths, 1e-300)[:, None]
        rows *= np.where(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)] < 0, -1, 1)[:, None]
        key = rows @ np.random.default_rng(1).standard_normal(rows.shape[1])
        order = np.argsort(key)
        order = order[lengths[order] > 1e-9]
        for one, two in itertools.pairwise(order.tolist()):
            if key[two] - key[one] < SAME_DIRECTION and np.abs(rows[one] - rows[two]).max() < CLOSE:
                pair = [self.layer.out(node, np.array([item], dtype=np.int64))[0]
                        for node, item in (owners[one], owners[two])]  # fmt: skip
                # Nodes with equal closed neighbourhoods have equal rows, true or not.
                if not np.allclose(*pair):
                    return np.asarray(pair[0])
        return None


def _chunks(sets: Iterable[Neighbours], known: Sequence[int]) -> Iterator[Ids]:
    """Sets of neighbours, joined with known ones, as int64 [b, k] for some b at a time."""
    sets = iter(sets)
    while block := list(itertools.islice(sets, CHUNK)):
        array = np.array(block, dtype=np.int64).reshape(len(block), len(block[0]))
        yield np.column_stack([array, np.tile(np.array(known, dtype=np.int64), (len(block), 1))])


class Peeling:
    """Edges [k, k] as 1 for yes, -1 for no and 0 for unknown, and what neighbourhoods are left for each node."""

    def __init__(self, test: Neighbourhoods) -> None:
        self.test, self.degree = test, test.layer.degree
        self.state = np.zeros((len(self.degree), len(self.degree)), dtype=np.int8)
        np.fill_diagonal(self.state, -1)
        self.options: dict[int, list[Neighbours]] = {}
        self.trusting = True

    def run(self, *, trusting: bool) -> None:
        """Take nodes with the fewest candidates first, and add to the span what a null vector has cut off.

        Args:
            trusting: whether a set that also fits as that of a neighbour, which gives an equal row, is taken at once.
        """
        left, self.trusting = set(range(len(self.degree))), trusting
        while left:
            self._settle(left)
            left = {node for node in range(len(self.degree)) if self._cost(node) and node not in self.options}
            row = self.test.cut_off(self._cheapest(left)) if self.test.span.exact else None
            if row is not None:
                self.test.span.extend(row)
            elif self.trusting:
                break
            self.trusting |= row is None

    def adjacencies(self) -> Iterator[NDArray[np.bool_]]:
        """Every adjacency, bool [k, k], that takes one neighbourhood of each undecided node; then certain edges."""
        yield from self._choose(self.state, [node for node, sets in self.options.items() if len(sets) > 1])
        yield self.state == 1

    def _choose(self, state: NDArray[np.int8], nodes: list[int]) -> Iterator[NDArray[np.bool_]]:
        if not nodes:
            yield state == 1
            return
        for chosen in self.options[nodes[0]]:
            line = np.full(len(state), -1, dtype=np.int8)
            line[list(chosen)] = 1
            if (state[nodes[0]] * line >= 0).all():
                after = state.copy()
                after[nodes[0]], after[:, nodes[0]] = line, line
                yield from self._choose(after, nodes[1:])

    def _is_shared(self, node: int, neighbours: Neighbours) -> bool:
        """Whether a neighbour that has the others as its own would give an equal row."""
        degrees = self.degree[list(neighbours)] == self.degree[node]
        return not self.test.layer.heads and bool(degrees.any())

    def _cost(self, node: int) -> int:
        """How many neighbourhoods are possible; 0 where nothing is unknown."""
        unknown = int((self.state[node] == 0).sum())
        places = int(self.degree[node]) - int((self.state[node] == 1).sum())
        return math.comb(unknown, places) if unknown and places >= 0 else 0

    def _sets(self, node: int) -> tuple[Iterator[Neighbours], list[int]]:
        known, unknown = (np.flatnonzero(self.state[node] == item).tolist() for item in (1, 0))
        return itertools.combinations(unknown, int(self.degree[node]) - len(known)), known

    def _cheapest(self, nodes: set[int]) -> Iterator[tuple[int, Iterator[Neighbours], list[int]]]:
        budget = MOST_SETS // 4
        for node in sorted(nodes, key=lambda item: (self._cost(item), item)):
            budget -= self._cost(node)
            if budget < 0:
                return
            yield node, *self._sets(node)

    def _settle(self, left: set[int]) -> None:
        while left:
            node = min(left, key=lambda item: (self._cost(item), item))
            if self._cost(node) > MOST_SETS:
                return
            left.discard(node)
            if not self._cost(node):
                continue
            candidates, known = self._sets(node)
            if len(known) == self.degree[node]:
                sets = [tuple(known)]
            elif node in self.options:
                sets = [item for item in self.options[node]
                        if (self.state[node, list(item)] >= 0).all() and set(known) <= set(item)]  # fmt: skip
            else:
                sets = self.test.passing(node, candidates, known)
            if sets and (self.trusting or not all(self._is_shared(node, item) for item in sets)):
                self.options[node] = sets
                left |= self._narrow(node, sets)

    def _narrow(self, node: int, sets: list[Neighbours]) -> set[int]:
        """Write down what all sets of a node agree on; the nodes at the other ends."""
        common, union = set.intersection(*map(set, sets)), set.union(*map(set, sets))
        changed = {other for other in np.flatnonzero(self.state[node] == 0).tolist()
                   if other in common or other not in union}  # fmt: skip
        for other in changed:
            self.state[node, other] = self.state[other, node] = 1 if other in common else -1
        return changed


@dataclass(frozen=True, slots=True)
class Kind:
    """Nodes that look alike up to some hops."""

    centre: int  # what they are one hop nearer: an index of rows of features, or of kinds
    neighbours: Neighbours  # the same of their neighbours, ascending


def _kinds(test: Neighbourhoods, candidates: Sequence[list[Neighbours]]) -> list[Kind]:
    """Kinds that fit the span and whose every neighbour fits back, of candidates for each centre."""
    while True:
        fitting = [test.passing(centre, sets) for centre, sets in enumerate(candidates)]
        result = [Kind(centre, item) for centre, sets in enumerate(fitting) for item in sets]
        while True:
            ways = {(kind.centre, item) for kind in result for item in kind.neighbours}
            kept = [kind for kind in result if all((item, kind.centre) in ways for item in kind.neighbours)]
            if len(kept) == len(result):
                break
            result = kept
        lost = set(range(len(candidates))) - {kind.centre for kind in result}
        few = test.span.exact and sum(len(candidates[centre]) for centre in lost) <= MOST_SETS // 4
        row = test.cut_off((centre, candidates[centre], ()) for centre in sorted(lost)) if few else None
        if row is None:
            return result
        test.span.extend(row)


def first_kinds(test: Neighbourhoods) -> list[Kind]:
    """Rows of features with those of their neighbours; none if there are too many."""
    degree, count = test.layer.degree, len(test.layer.degree)
    if sum(math.comb(count + int(item) - 1, int(item)) for item in degree) > MOST_SETS // 10:
        return []
    return _kinds(test, [list(itertools.combinations_with_replacement(range(count), int(item))) for item in degree])


def second_kinds(first: list[Kind], test: Neighbourhoods) -> list[Kind]:
    """First kinds with those of their neighbours; none if there are too many."""
    candidates: list[list[Neighbours]] = []
    for kind in first:
        choices = [[i for i, other in enumerate(first) if other.centre == item and kind.centre in other.neighbours]
                   for item in kind.neighbours]  # fmt: skip
        if math.prod(map(len, choices)) > CHUNK:
            return []
        candidates.append(sorted({tuple(sorted(item)) for item in itertools.product(*choices)}))
    return _kinds(test, candidates)


def count_nodes(rows: Floats, gradient: Floats, likely: Floats | None) -> Iterator[Ids]:
    """How many nodes there may be of each kind, int64 [k]: nothing if that is not determined.

    Kinds with equal rows have a number in common, which is dealt among them in every way.

    Args:
        rows: float64 [k, m], what a node of each kind enters the last layer with.
        gradient: float64 [c, m], of this layer's weights.
        likely: float64 [k, c], the softmax of each kind's logits if nodes have labels; None if the graph has one.
    """
    scale = np.abs(rows).max()
    _, first, alike = np.unique(np.round(rows / scale, 9), axis=0, return_index=True, return_inverse=True)
    different, alike = rows[first] / scale, alike.reshape(-1)
    if likely is None:
        # Under a mean over nodes the gradient is of rank 1, and its row is the mean of the nodes' rows.
        line = gradient[np.abs(gradient).sum(axis=1).argmax()]
        shares = min((nnls(different.T, sign * line / np.abs(line).max()) for sign in (1, -1)), key=lambda x: x[1])[0]
    else:
        # Softmax less one-hot is the softmax where a kind has no such label.
        shares = (np.linalg.lstsq(different.T, gradient.T, rcond=1e-10)[0] / likely[first]).max(axis=1)
    present = shares > 1e-5 * shares.max(initial=0.0)
    for times in range(1, MOST_ALIKE + 1) if present.any() else ():
        exact = np.where(present, times * shares / shares[present].min(), 0)
        counts = np.rint(exact).astype(np.int64)
        if np.abs(exact - counts).max() < 0.01:
            deals = [itertools.combinations_with_replacement(np.flatnonzero(alike == group), int(count))
                     for group, count in enumerate(counts)]  # fmt: skip
            for deal in itertools.islice(itertools.product(*deals), CHUNK):
                yield np.bincount(np.array([*itertools.chain(*deal)], dtype=np.int64), minlength=len(rows))
            return


def assemblies(first: list[Kind], second: list[Kind], counts: Ids) -> Iterator[tuple[Ids, NDArray[np.bool_]]]:
    """Connected graphs with so many nodes of each second kind: rows of features int64 [n], and adjacency [n, n]."""
    ends = Counter[tuple[int, int]]()
    for count, kind in zip(counts.tolist(), second, strict=True):
        for item in kind.neighbours:
            ends[kind.centre, item] += count
    if any(ends[two, one] != count or (one == two and count % 2) for (one, two), count in list(ends.items())):
        return
    kinds = [second[item] for item in np.repeat(np.arange(len(second)), counts)]
    places = [Counter(kind.neighbours) for kind in kinds]
    adjacency = np.zeros((len(kinds), len(kinds)), dtype=np.bool_)
    order, steps = [0], itertools.count()

    def fill() -> Iterator[None]:
        node = next((item for item in order if places[item].total()), None)
        if node is None:
            if len(order) == len(kinds):
                yield
            return
        wanted, own = next(iter(+places[node])), kinds[node].centre
        unused: dict[Kind, int] = {}
        for item in range(len(kinds)):
            if item not in order:
                unused.setdefault(kinds[item], item)
        for other in [*order, *unused.values()]:
            fits = kinds[other].centre == wanted and places[other][own] and other != node
            if not fits or adjacency[node, other] or next(steps) > MOST_STEPS:
                continue
            is_new = other not in order
            order.extend([other] * is_new)
            places[node][wanted] -= 1
            places[other][own] -= 1
            adjacency[node, other] = adjacency[other, node] = True
            yield from fill()
            adjacency[node, other] = adjacency[other, node] = False
            places[node][wanted] += 1
            places[other][own] += 1
            if is_new:
                order.pop()

    for _ in fill():
        yield np.array([first[kind.centre].centre for kind in kinds], dtype=np.int64), adjacency.copy()
