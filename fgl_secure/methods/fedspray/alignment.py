"""What clients send and what the server makes of the sum: FedAvg (Eq. 14) and proxy alignment (Eq. 15) in one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.methods.fedspray.layout import ProxyLayout

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """What the server holds after a round.

    Attributes:
        encoder: float64 [P], omega.
        proxies: float64 [C, d], S.
        figure: what the round is chosen by, a mean over the validation nodes of all clients; NaN without any.
    """

    encoder: Reals
    proxies: Reals
    figure: float


def summand(
    layout: ProxyLayout, encoder: Reals, weight: float, proxies: Reals, shares: Reals, scored: tuple[float, float]
) -> Reals:
    """One client's term of the sum: numerators and denominators, in the order of the layout.

    Args:
        layout: of the term.
        encoder: [P], omega after the client's second phase.
        weight: its nodes over those of the whole graph.
        proxies: [C, d], its class-wise proxies.
        shares: [C], of the classes among its labelled nodes.
        scored: sum of its validation figures, and number of its validation nodes, both over all nodes.

    Returns:
        float64 [layout.length].
    """
    row = np.empty(layout.length)
    row[layout.model] = weight * encoder
    row[layout.weight] = weight
    row[layout.proxies] = (shares[:, None] * proxies).reshape(-1)
    row[layout.shares] = shares
    row[layout.right], row[layout.scored] = scored
    return row


def align(layout: ProxyLayout, total: Reals, before: Reals) -> Aligned:
    """The server's round, from the sum alone.

    Args:
        layout: of the sum.
        total: float64 [layout.length], over all clients.
        before: float64 [C, d], the proxies that were; a class that nobody has a labelled node of keeps its own.
    """
    shares = total[layout.shares][:, None]
    numerators = total[layout.proxies].reshape(layout.classes, layout.width)
    proxies = np.where(shares > 0, numerators / np.where(shares > 0, shares, 1.0), before)
    scored = float(total[layout.scored][0])
    figure = float(total[layout.right][0]) / scored if scored > 0 else np.nan
    return Aligned(total[layout.model] / total[layout.weight], proxies, figure)
