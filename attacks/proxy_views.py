"""What a server of FedSpray finds in a summand, or in the sum."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProxySlices:
    """Where the parts of a summand lie; all entries but the last two parts are numerators and denominators.

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
        start = self.parameters + 1
        return slice(start, start + self.classes * self.width)

    @property
    def shares(self) -> slice:
        """C entries: the share of each class among a client's labelled nodes."""
        start = self.proxies.stop
        return slice(start, start + self.classes)
