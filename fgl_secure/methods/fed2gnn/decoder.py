"""From the sums over a set of neighbours back to the neighbours (4.3): one forward pass gives up to d of them.

The network is shaped like a U-Net: widths shrink by the pool size from block to block and grow again, with skips in
between. The paper has its blocks and pool size, and not the layers in them; here they are linear with ReLU, for the
coordinates of a latent space have no order that a convolution could use. Outputs are shifted so that they sum to the
input, which is the constraint of Eq. 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import nn

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from fgl_secure.training.parameters import Adam
from fgl_secure.typing import Floats, Ids


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhoods:
    """Sets of neighbours.

    Attributes:
        elements: float64 [e, K, w], x_m and r^1 to r^(K-1) of every pair of a node i and a neighbour m.
        others: int64 [e], |N_m| - 1, the neighbours of m except for i.
        first: int64 [s], where the elements of each set begin.
        size: int64 [s], how many elements each set has, from 1 to d.
    """

    elements: Floats
    others: Ids
    first: Ids
    size: Ids

    def sums(self) -> Floats:
        """float64 [s, K, w], what a decoder is given of each set (X_i of Eq. 5)."""
        if not len(self.first):
            return np.empty((0, *self.elements.shape[1:]))
        sums: Floats = np.add.reduceat(self.elements, self.first, axis=0)
        return sums

    def deviations(self) -> Floats:
        """float64 [e, K, w], how far each element is from the mean of its set."""
        means = self.sums() / np.maximum(self.size, 1)[:, None, None]
        return self.elements - np.repeat(means, self.size, axis=0)


def walk_sums(edges: Ids, values: Floats, mu: Floats) -> Floats:
    """The sums r over walks that leave a node's father behind.

    Args:
        edges: int64 [2, e], fathers i above children m, every edge in both directions.
        values: float64 [n, w], x.
        mu: float64 [K - 1, n, w], sums over all walks of 1 to K - 1 steps that do not turn round.

    Returns:
        float64 [e, K, w]: x_m, r^1, ..., r^(K-1).
    """
    father, child = edges
    n = len(values)
    back = np.argsort(child * n + father)[np.argsort(np.argsort(father * n + child))]  # where (m, i) is
    layers = [values[child]]
    for hop in mu:
        layers.append(hop[child] - layers[-1][back])
    return np.stack(layers, axis=1)


def own_neighbourhoods(
    graph: FederatedGraph, client: int, values: Floats, mu: Floats, degree: Floats, most: int, seed: int
) -> Neighbourhoods:
    """The sets of one client.

    Args:
        graph: who has what.
        client: which.
        values: float64 [n, w], x of every node; those of the client's own are looked at.
        mu: float64 [K - 1, n, w], sums of Protocol 1; those of the client's own nodes are looked at.
        degree: float64 [n], numbers of neighbours; as above.
        most: d; of larger neighbourhoods so many elements are drawn.
        seed: of the draws.
    """
    source, target = graph.edges
    edges = graph.edges[::-1, (graph.silo_of[source] == client) & (graph.silo_of[target] == client)]
    elements = walk_sums(edges, values, mu)
    order = np.lexsort((np.random.default_rng(seed).random(edges.shape[1]), edges[0]))
    father = edges[0][order]
    remaining = order[np.arange(len(order)) - np.searchsorted(father, father) < most]
    _, first, size = np.unique(edges[0][remaining], return_index=True, return_counts=True)
    others = np.maximum(np.rint(degree[edges[1][remaining]]).astype(np.int64) - 1, 0)
    return Neighbourhoods(elements[remaining], others, first.astype(np.int64), size.astype(np.int64))


TINY = 1e-6
UNDECIDED = 1e-3
"""What principal directions are decided by where nothing varies, as a share of the mean variance."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The space in which networks work: the directions in which neighbours differ most.

    Attributes:
        basis: float32 [K, w, r], orthonormal directions for each part of an element.
        centre: float32 [K, r], the mean element.
        unit: float32 [K, 1], the root mean square of its parts about that.
    """

    basis: torch.Tensor
    centre: torch.Tensor
    unit: torch.Tensor

    @classmethod
    def of(cls, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """Those of a client's elements, at most so many a part; of no account where there are none."""
        basis = np.stack([directions(part.T @ part, most) for part in data.deviations().transpose(1, 0, 2)])
        inside = np.einsum("ekw,kwr->ekr", data.elements, basis)
        centre = inside.mean(axis=0) if len(inside) else np.zeros(inside.shape[1:])
        squares = ((inside - centre) ** 2).mean(axis=(0, 2)) if len(inside) else np.ones(inside.shape[1])
        return cls.on(basis, centre, squares, device)

    @classmethod
    def on(cls, basis: Floats, centre: Floats, squares: Floats, device: torch.device) -> Coordinates:
        """Those with the basis [K, w, r], the mean element [K, r] in it, and mean squares [K] about that."""
        unit = np.sqrt(np.maximum(squares, TINY))[:, None]
        return cls(*(torch.from_numpy(item.astype(np.float32)).to(device) for item in (basis, centre, unit)))

    @property
    def width(self) -> int:
        """Coordinates r of a part."""
        return int(self.basis.shape[2])

    def into(self, elements: torch.Tensor) -> torch.Tensor:
        """Elements or means of elements, float [b, k, w] of the first k parts, to [b, k, r]."""
        parts = elements.shape[1]
        inside = torch.einsum("bkw,kwr->bkr", elements, self.basis[:parts])
        return (inside - self.centre[:parts]) / self.unit[:parts]

    def out(self, deviations: torch.Tensor) -> torch.Tensor:
        """Differences of elements, float [..., K, r] to [..., K, w]."""
        return torch.einsum("...kr,kwr->...kw", deviations * self.unit, self.basis)


def directions(spread: Floats, most: int) -> Floats:
    """float64 [w, r], at most so many principal directions of rows whose products sum to `spread` [w, w]."""
    width = len(spread)
    if width <= most:
        return np.eye(width)
    floor = UNDECIDED * np.trace(spread) / width * np.linspace(2, 1, width)
    _, vectors = np.linalg.eigh(spread + np.diag(floor))  # where data don't decide, neither does rounding
    chosen = vectors[:, : -most - 1 : -1]
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(most)]
    result: Floats = np.ascontiguousarray(chosen * np.sign(largest))
    return result


MOST_LISTED = 4
"""Largest set whose bijections are all looked at; above that a linear program finds the best."""


@lru_cache(maxsize=MOST_LISTED)
def _bijections(size: int) -> Ids:
    """int64 [size!, size]."""
    return np.array(list(permutations(range(size))), dtype=np.int64)


def best_matching(costs: NDArray[np.float64]) -> Ids:
    """The cheapest bijection of every pair of sets.

    Args:
        costs: float [b, c, c], costs[k, j, l] of matching element j of the first set of pair k with l of the second.

    Returns:
        int64 [b, c], the partner of each element of the first set.
    """
    if costs.ndim != 3 or costs.shape[1] != costs.shape[2]:
        raise InputError(f"costs must be [b, c, c]; found {list(costs.shape)}")
    size = costs.shape[1]
    if size <= MOST_LISTED:
        listed = _bijections(size)
        total = costs[:, np.arange(size), listed].sum(axis=2)
        result: Ids = listed[total.argmin(axis=1)]
        return result
    return np.array([linear_sum_assignment(cost)[1] for cost in costs], dtype=np.int64).reshape(-1, size)


def match_elements(truth: torch.Tensor, decoded: torch.Tensor) -> torch.Tensor:
    """The decoded elements in the order of their partners.

    Args:
        truth: float [b, c, w], sets of c elements.
        decoded: float [b, c, w], as many; gradients flow through the order found.

    Returns:
        float [b, c, w], element j is the partner of truth's element j.
    """
    if truth.shape != decoded.shape or truth.ndim != 3:
        raise InputError(
            f"truth and decoded must be [b, c, w] of one shape; found {list(truth.shape)} and {list(decoded.shape)}"
        )
    with torch.no_grad():
        products = truth @ decoded.transpose(1, 2)
        squares = (decoded**2).sum(dim=2)
        costs = (squares[:, None, :] - 2 * products).cpu().numpy().astype(np.float64)  # |truth|^2 is the same for all
    partner = torch.from_numpy(best_matching(costs)).to(decoded.device)
    return torch.gather(decoded, 1, partner[:, :, None].expand_as(decoded))


NARROWEST = 4
"""Least width of a block."""
PREDICTOR = 32
"""Hidden units of the degree predictor."""


def _layer(d_in: int, d_out: int, coins: torch.Generator) -> nn.Linear:
    layer = nn.Linear(d_in, d_out, device="meta").to_empty(device="cpu")  # torch's own coins are left alone
    with torch.no_grad():
        nn.init.xavier_uniform_(layer.weight, generator=coins)
        layer.bias.zero_()
    return layer


class _UNet(nn.Module):
    """Blocks that shrink and grow again, each grown one next to the shrunk one of its width.

    Args:
        d_in: inputs.
        d_out: outputs of one element.
        most: d, elements.
        preset: pool size, blocks, width.
        coins: draw the initial weights.
    """

    def __init__(self, d_in: int, d_out: int, most: int, preset: DecoderPreset, coins: torch.Generator) -> None:
        super().__init__()
        widths = [preset.width]
        for _ in range(preset.blocks):
            widths.append(max(widths[-1] // preset.pool, NARROWEST))
        self.enter = _layer(d_in, widths[0], coins)
        self.down = nn.ModuleList(_layer(wide, narrow, coins) for wide, narrow in pairwise(widths))
        self.up = nn.ModuleList(_layer(wide + narrow, wide, coins) for wide, narrow in pairwise(widths))
        self.leave = _layer(widths[0] + d_in, most * d_out, coins)
        self._d_out = d_out

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """What the outputs are made of: float [b, d_in] to [b, h]."""
        levels = [torch.relu(self.enter(rows))]
        for shrink in self.down:
            levels.append(torch.relu(shrink(levels[-1])))
        hidden = levels.pop()
        for grow in reversed(self.up):
            hidden = torch.relu(grow(torch.cat([hidden, levels.pop()], dim=1)))
        return torch.cat([hidden, rows], dim=1)

    def elements(self, hidden: torch.Tensor, count: int) -> torch.Tensor:
        """The first `count` elements: float [b, h] to [b, count, d_out]."""
        outputs = count * self._d_out
        result = nn.functional.linear(hidden, self.leave.weight[:outputs], self.leave.bias[:outputs])
        return result.reshape(len(hidden), count, self._d_out)


class _DegreePredictor(nn.Module):
    """phi_d: from a decoded neighbour's row and sum to the logarithm of 1 + the number of its other neighbours.

    Args:
        width: of a row.
        coins: draw the initial weights.
    """

    def __init__(self, width: int, coins: torch.Generator) -> None:
        super().__init__()
        self.first, self.second = _layer(2 * width, PREDICTOR, coins), _layer(PREDICTOR, 1, coins)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Float [b, 2 w] to [b]."""
        result: torch.Tensor = self.second(torch.relu(self.first(rows)))
        return result[:, 0]


class Decoder:
    """One client's decoder and degree predictor for sets with K parts.

    Args:
        data: the client's neighbourhoods.
        most: d, largest set.
        preset: how they are built and trained.
        seed: of initial weights and batches.
        device: where they are.

    Attributes:
        coins: draw initial weights and batches.
        losses: the mean of Eq. 7 in every epoch, in the units of `Coordinates`, over the sets looked at.
    """

    def __init__(
        self, data: Neighbourhoods, most: int, preset: DecoderPreset, seed: int, device: torch.device | None = None
    ) -> None:
        if most < 1:
            raise InputError(f"most must be at least 1 element; found {most}")
        self._device, self._most = device or torch.device("cpu"), most
        _, self._parts, self._width = data.elements.shape
        if self._parts < 2:  # a row and a sum
            raise InputError(f"elements must have at least 2 parts, a row and a sum; found {self._parts}")
        self.coins = torch.Generator().manual_seed(seed)
        self._space = self.space(data, preset.coordinates, self._device)
        flat = self._parts * self._space.width
        self.separator = _UNet(flat + 1, flat, most, preset, self.coins).to(self._device)
        self.predictor = _DegreePredictor(self._space.width, self.coins).to(self._device)
        self.losses: list[float] = []
        self.train(data, preset)

    def space(self, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """The coordinates that networks work in; arguments as for `Coordinates.of`."""
        return Coordinates.of(data, most, device)

    def decode(self, sums: Floats, counts: Ids) -> Floats:
        """The elements of sets.

        Args:
            sums: float64 [s, k, w], the first k of the K parts, k at least 1. The mean element stands in for parts that
                are missing.
            counts: int64 [s], from 1 to d.

        Returns:
            float64 [sum of counts, k, w], set by set; the elements of a set sum to its row of `sums`.
        """
        if len(counts) and not (int(counts.min()) >= 1 and int(counts.max()) <= self._most):
            raise InputError(f"counts must be in 1..{self._most}; found {counts.min()}..{counts.max()}")
        first = np.cumsum(counts) - counts
        parts = sums.shape[1]
        result = np.empty((int(counts.sum()), parts, self._width))
        with torch.no_grad():
            for count in np.unique(counts):
                sets = np.flatnonzero(counts == count)
                mean = sums[sets] / count
                inside = nn.functional.pad(self._space.into(self._tensor(mean)), (0, 0, 0, self._parts - parts))
                hidden = self._hidden_layer(inside, counts[sets])
                apart = self._space.out(self._deviations(hidden, int(count))).cpu().numpy().astype(np.float64)
                apart = apart[:, :, :parts]
                apart -= apart.mean(axis=1, keepdims=True)  # once more, in double precision
                result[first[sets][:, None] + np.arange(count)] = mean[:, None] + apart
        return result

    def degrees(self, elements: Floats, most: float) -> Floats:
        """Predict how many other neighbours decoded nodes have.

        Args:
            elements: float64 [b, at least 2, w].
            most: the largest number that there can be. A client with few neighbourhoods trains phi_d on few rows, and
                the exponential of what it makes of others exceeds float32.

        Returns:
            float64 [b], from 0 to `most`.
        """
        with torch.no_grad():
            rows = self._space.into(self._tensor(elements[:, :2]))
            result = self.predictor(rows.flatten(1)).cpu().numpy().astype(np.float64)
        others: Floats = np.expm1(np.clip(result, 0, np.log1p(most)))
        return others

    def loss(self, data: Neighbourhoods) -> float:
        """The mean over elements of sets of more than one of their part in Eq. 8, in the units of `Coordinates`.

        An estimate that takes every element to be the mean of its set has the variance within sets as its loss.
        """
        inside = self._space.into(self._tensor(data.elements))
        total, elements = 0.0, 0
        several = np.flatnonzero(data.size > 1)
        with torch.no_grad():
            for truth, result, places in self._compare(data, several, inside) if len(several) else ():
                total += float(((truth - result) ** 2).sum())
                elements += places.size
        return total / max(elements, 1)

    def train(self, data: Neighbourhoods, preset: DecoderPreset) -> None:
        """Passes over the client's neighbourhoods."""
        groups = [
            {"params": list(self.separator.parameters()), "lr": preset.separator_rate},
            {"params": list(self.predictor.parameters()), "lr": preset.predictor_rate},
        ]
        optimiser = Adam(groups)
        inside, others = self._space.into(self._tensor(data.elements)), torch.log1p(self._tensor(data.others))
        for _ in range(preset.epochs):
            order = torch.randperm(len(data.first), generator=self.coins).numpy()
            done = []
            for sets in np.split(order, range(preset.batch, len(order), preset.batch)) if len(order) else ():
                # Eq. 7 for some sets, every set with the same weight.
                total = torch.zeros((), device=self._device)
                decoded, places = [], []
                for truth, result, where in self._compare(data, sets, inside):
                    total = total + ((truth - result) ** 2).sum()
                    decoded.append(result[:, :, :2].flatten(2).flatten(0, 1))
                    places.append(where.reshape(-1))
                guess = self.predictor(torch.cat(decoded))
                total = total + ((guess - others[np.concatenate(places)]) ** 2).sum()
                loss: torch.Tensor = total / len(sets)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                optimiser.step()
                done.append(float(loss.detach()))
            if done:
                self.losses.append(float(np.mean(done)))
            self.on_pass(data)

    def on_pass(self, data: Neighbourhoods) -> None:
        """Called after each pass."""

    def _compare(
        self, data: Neighbourhoods, sets: Ids, inside: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, Ids]]:
        """Sums sets up and decodes them again.

        Yields:
            For each size c the true elements float [b, c, K, r], the decoded ones in matched order, and the places
            int64 [b, c] of the elements.
        """
        sets = sets[np.argsort(data.size[sets], kind="stable")]
        sizes, first = np.unique(data.size[sets], return_index=True)
        where = [
            data.first[span][:, None] + np.arange(c) for c, span in zip(sizes, np.split(sets, first[1:]), strict=True)
        ]
        truths = [inside[item] for item in where]
        means = torch.cat([truth.mean(dim=1) for truth in truths])
        hidden = self._hidden_layer(means, data.size[sets])
        for truth, start, places in zip(truths, first, where, strict=True):
            span = slice(int(start), int(start) + len(truth))
            result = means[span][:, None] + self._deviations(hidden[span], truth.shape[1])
            if truth.shape[1] > 1:
                result = match_elements(truth.flatten(2), result.flatten(2)).reshape(truth.shape)
            yield truth, result, places

    def _hidden_layer(self, means: torch.Tensor, counts: Ids) -> torch.Tensor:
        """What deviations are made of: from the means float [b, K, r] and sizes int64 [b] of sets to float [b, h]."""
        shares = self._tensor(counts / self._most)[:, None]
        hidden: torch.Tensor = self.separator(torch.cat([means.flatten(1), shares], dim=1))
        return hidden

    def _deviations(self, hidden: torch.Tensor, count: int) -> torch.Tensor:
        """How far the elements of sets of one size are from their means: float [b, count, K, r], which sum to zero."""
        raw = self.separator.elements(hidden, count).reshape(len(hidden), count, self._parts, self._space.width)
        centred: torch.Tensor = raw - raw.mean(dim=1, keepdim=True)
        return centred

    def _tensor(self, values: NDArray[np.float64] | Ids) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, dtype=np.float32)).to(self._device)
