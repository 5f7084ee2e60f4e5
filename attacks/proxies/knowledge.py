"""Which runs attacks on proxies read, which they must break, and what a server may know beside its view."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.attacks.suspects import Suspects

PROXIES = "structure proxies"
"""Scenario: what clients of FedSpray send to the server, or its sum: encoder, proxies and their weights."""

FEDSPRAY = "fedspray in the clear, one round"
FEDSPRAY_SUM = "fedspray under masks, one round, clients of different numbers of labelled nodes"
FEDSPRAY_ROUNDS = "fedspray in the clear, rounds between which labelled nodes were added"
"""Controls, as FedSpray makes them."""


@dataclass(frozen=True, slots=True)
class ProxySlices:
    """Where the parts of a summand lie: numerators and then denominators, part by part.

    Attributes:
        parameters: entries P of the encoder.
        classes: number of classes C.
        width: columns d of a structure proxy.
        labelled: how many labelled nodes each client has in the first round, where the server knows; else None.
        grid: shares are multiples of one over this, a public number; None where they are exact.
    """

    parameters: int
    classes: int
    width: int
    labelled: tuple[int, ...] | None = None
    grid: int | None = None

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its proxy."""
        return slice(self.parameters, self.parameters + self.classes * self.width)

    @property
    def shares(self) -> slice:
        """C entries: the share of each class among a client's labelled nodes."""
        start = self.proxies.stop + 3  # two figures, and the client's weight
        return slice(start, start + self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class ProxyKnowledge:
    """What a server knows that tells clients what to send.

    Attributes:
        layout: where the parts of a summand lie.
        suspects: two proxies for each node that is added, of which it has one; None where nobody knows any.
    """

    layout: ProxySlices
    suspects: Suspects | None = None
