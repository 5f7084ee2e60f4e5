"""From the sums over a set of neighbours back to the neighbours (4.3): one forward pass gives up to d of them.

The network is shaped like a U-Net: widths shrink by the pool size from block to block and grow again, with skips in
between. The paper has its blocks and pool size, and not the layers in them; here they are linear with ReLU, for the
coordinates of a latent space have no order that a convolution could use. Outputs are shifted so that they sum to the
input, which is the constraint of Eq. 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.errors import InputError
from fgl_secure.methods.fed2gnn.coordinates import Coordinates
from fgl_secure.methods.fed2gnn.matching import matched
from fgl_secure.methods.fed2gnn.neighbourhoods import Neighbourhoods
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from fgl_secure.training.optimisers import Adam
from fgl_secure.typing import Floats, Ids

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


class UNet(nn.Module):
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
        found = nn.functional.linear(hidden, self.leave.weight[:outputs], self.leave.bias[:outputs])
        return found.reshape(len(hidden), count, self._d_out)


class DegreePredictor(nn.Module):
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
        found: torch.Tensor = self.second(torch.relu(self.first(rows)))
        return found[:, 0]


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
        self,
        data: Neighbourhoods,
        most: int,
        preset: DecoderPreset,
        seed: int,
        device: torch.device | None = None,
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
        self.separator = UNet(flat + 1, flat, most, preset, self.coins).to(self._device)
        self.predictor = DegreePredictor(self._space.width, self.coins).to(self._device)
        self.losses: list[float] = []
        self.train(data, preset)

    def space(self, data: Neighbourhoods, most: int, device: torch.device) -> Coordinates:
        """The coordinates that networks work in; arguments as for `Coordinates.of`."""
        return Coordinates.of(data, most, device)

    def decode(self, sums: Floats, counts: Ids) -> Floats:
        """The elements of sets.

        Args:
            sums: float64 [s, K, w].
            counts: int64 [s], from 1 to d.

        Returns:
            float64 [sum of counts, K, w], set by set; the elements of a set sum to its row of `sums`.
        """
        if len(counts) and not (int(counts.min()) >= 1 and int(counts.max()) <= self._most):
            raise InputError(f"counts must be in 1..{self._most}; found {counts.min()}..{counts.max()}")
        first = np.cumsum(counts) - counts
        found = np.empty((int(counts.sum()), self._parts, self._width))
        with torch.no_grad():
            for count in np.unique(counts):
                sets = np.flatnonzero(counts == count)
                mean = sums[sets] / count
                hidden = self._hidden(self._space.into(self._tensor(mean)), counts[sets])
                apart = self._space.out(self._deviations(hidden, int(count))).cpu().numpy().astype(np.float64)
                apart -= apart.mean(axis=1, keepdims=True)  # once more, in double precision
                found[first[sets][:, None] + np.arange(count)] = mean[:, None] + apart
        return found

    def degrees(self, elements: Floats) -> Floats:
        """How many other neighbours decoded nodes [b, at least 2, w] have, float64 [b], as phi_d believes."""
        with torch.no_grad():
            rows = self._space.into(self._tensor(elements[:, :2]))
            found = self.predictor(rows.flatten(1)).cpu().numpy().astype(np.float64)
        others: Floats = np.maximum(np.expm1(found), 0)
        return others

    def loss(self, data: Neighbourhoods) -> float:
        """The mean over elements of sets of more than one of their part in Eq. 8, in the units of `Coordinates`.

        An estimate that takes every element to be the mean of its set has the variance within sets as its loss.
        """
        inside = self._space.into(self._tensor(data.elements))
        total, elements = 0.0, 0
        several = np.flatnonzero(data.size > 1)
        with torch.no_grad():
            for truth, found, places in self._compared(data, several, inside) if len(several) else ():
                total += float(((truth - found) ** 2).sum())
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
                loss = self._objective(data, sets, inside, others)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
                optimiser.step()
                done.append(float(loss.detach()))
            if done:
                self.losses.append(float(np.mean(done)))
            self.passed(data)

    def passed(self, data: Neighbourhoods) -> None:
        """Called after each pass."""

    def _objective(self, data: Neighbourhoods, sets: Ids, inside: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Eq. 7 for some sets, every set with the same weight."""
        total = torch.zeros((), device=self._device)
        decoded, places = [], []
        for truth, found, where in self._compared(data, sets, inside):
            total = total + ((truth - found) ** 2).sum()
            decoded.append(found[:, :, :2].flatten(2).flatten(0, 1))
            places.append(where.reshape(-1))
        guess = self.predictor(torch.cat(decoded))
        total = total + ((guess - others[np.concatenate(places)]) ** 2).sum()
        mean: torch.Tensor = total / len(sets)
        return mean

    def _compared(
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
            data.first[some][:, None] + np.arange(c) for c, some in zip(sizes, np.split(sets, first[1:]), strict=True)
        ]
        truths = [inside[each] for each in where]
        means = torch.cat([truth.mean(dim=1) for truth in truths])
        hidden = self._hidden(means, data.size[sets])
        for truth, start, places in zip(truths, first, where, strict=True):
            some = slice(int(start), int(start) + len(truth))
            found = means[some][:, None] + self._deviations(hidden[some], truth.shape[1])
            if truth.shape[1] > 1:
                found = matched(truth.flatten(2), found.flatten(2)).reshape(truth.shape)
            yield truth, found, places

    def _hidden(self, means: torch.Tensor, counts: Ids) -> torch.Tensor:
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
