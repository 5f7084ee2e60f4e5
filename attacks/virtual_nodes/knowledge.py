"""Which runs attacks on virtual nodes read, which they must break, and what a server may know beside its view."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VIRTUAL_NODES = "virtual nodes"
"""Scenario: what clients of FedVN send to the server, or its sum: model and virtual nodes."""

FEDVN = "fedvn in the clear, several rounds"
FEDVN_SKEWED = "fedvn in the clear, clients of different label shares"
"""Controls, as FedVN makes them."""


@dataclass(frozen=True, slots=True)
class LocalWork:
    """What every client does in a round; the server that hands it out knows it.

    Attributes:
        rate: learning rate of plain gradient descent on the model.
        batch: graphs that a client takes a step on.
        epochs: how often it goes through its training graphs.
        whole: what the number of a client's training graphs is divided by before it is sent as its weight.
    """

    rate: float
    batch: int
    epochs: int
    whole: int

    def steps(self, weight: float) -> int:
        """How many steps a client of a weight takes, at least one."""
        return self.epochs * max(ceil(round(weight * self.whole) / self.batch), 1)


@dataclass(frozen=True, slots=True, eq=False)
class VirtualSlices:
    """Where the parts of a summand lie, and what else a server knows that hands out the model.

    All entries are times the client's weight, which stands last.

    Attributes:
        parameters: entries P of the model.
        head_bias: where among them the bias of the last layer lies, one entry a class.
        virtual_nodes: how many virtual nodes M.
        width: columns of a virtual node.
        hidden: columns of the last layer's weight, whose rows lie just before the bias, class by class; 0 where they
            don't.
        start: float64 [P + M width], the model and the virtual nodes that the server hands out in the first round.
        work: what a client does in a round.
        scores: entries of the mean score vector that clients send, where the server learns one; else 0.
    """

    parameters: int
    head_bias: slice
    virtual_nodes: int
    width: int
    hidden: int = 0
    start: Floats | None = None
    work: LocalWork | None = None
    scores: int = 0

    @property
    def model(self) -> slice:
        """P entries: the model."""
        return slice(0, self.parameters)

    @property
    def nodes(self) -> slice:
        """M width entries: each virtual node."""
        return slice(self.parameters, self.parameters + self.virtual_nodes * self.width)

    @property
    def entries(self) -> int:
        """P + M width: of the model and the virtual nodes."""
        return int(self.nodes.stop)

    @property
    def score_vector(self) -> slice:
        """The mean score vector."""
        return slice(self.entries, self.entries + self.scores)

    @property
    def classes(self) -> int:
        """Entries of the last bias."""
        return int(self.head_bias.stop - self.head_bias.start)

    @property
    def head_weight(self) -> slice:
        """C hidden entries: the weight of the last layer; empty where nobody says where it is."""
        return slice(self.head_bias.start - self.classes * self.hidden, self.head_bias.start)
