"""What a client's summand holds, entry by entry."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.errors import InputError


@dataclass(frozen=True, slots=True)
class ProxyLayout:
    """Where the parts of a summand lie: numerators and denominators, no count or share by itself.

    Attributes:
        parameters: entries P of the encoder.
        classes: number of classes C.
        width: columns d of a structure proxy.
    """

    parameters: int
    classes: int
    width: int

    def __post_init__(self) -> None:
        for name, value in (("parameters", self.parameters), ("classes", self.classes), ("width", self.width)):
            if value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")

    @property
    def model(self) -> slice:
        """P entries: the encoder omega, times the client's weight."""
        return slice(0, self.parameters)

    @property
    def weight(self) -> slice:
        """One entry: the client's number of nodes over that of the whole graph (Eq. 14)."""
        return slice(self.parameters, self.parameters + 1)

    @property
    def proxies(self) -> slice:
        """C d entries, class by class: the share of the class times its local proxy."""
        return slice(self.weight.stop, self.weight.stop + self.classes * self.width)

    @property
    def shares(self) -> slice:
        """C entries: the share a_j of each class among the client's labelled nodes (Eq. 15)."""
        return slice(self.proxies.stop, self.proxies.stop + self.classes)

    @property
    def right(self) -> slice:
        """One entry, over the number of all nodes: what the round is chosen by.

        That is how many validation nodes are predicted right, or the sum of their losses.
        """
        return slice(self.shares.stop, self.shares.stop + 1)

    @property
    def scored(self) -> slice:
        """One entry: the client's validation nodes, over the number of all nodes."""
        return slice(self.right.stop, self.right.stop + 1)

    @property
    def length(self) -> int:
        """Entries of a summand."""
        return self.parameters + 1 + self.classes * (self.width + 1) + 2
