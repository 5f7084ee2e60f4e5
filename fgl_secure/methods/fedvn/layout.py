"""What a client of FedVN sends: one row of numbers a round, of which the server learns the sum."""

from __future__ import annotations

from dataclasses import dataclass

SCORE_UNIT = 1024.0
"""Score vectors are sent in units of so many nodes: a graph's scores sum to as much as it has nodes."""


@dataclass(frozen=True, slots=True)
class VirtualNodeLayout:
    """The parts of a row: w theta, w Q, w, what the model is chosen by, and w s_local where that is learnt.

    The weight w is a client's number of training graphs over the number of all graphs, which is public.

    Attributes:
        parameters: shared entries P of the model.
        head_bias: where among them the bias of the last layer lies, one entry a class.
        virtual_nodes: M; 0 without.
        width: entries of a virtual node.
        classes: outputs of the model; 1 for values.
        scores: M where clients' score vectors are averaged as well, otherwise 0.
    """

    parameters: int
    head_bias: slice
    virtual_nodes: int
    width: int
    classes: int
    scores: int = 0

    @property
    def model(self) -> slice:
        """The weight times the parameters."""
        return slice(0, self.parameters)

    @property
    def nodes(self) -> slice:
        """The weight times the virtual nodes, row after row."""
        return slice(self.parameters, self.weight)

    @property
    def weight(self) -> int:
        """The weight."""
        return self.parameters + self.virtual_nodes * self.width

    @property
    def right(self) -> int:
        """The weight of the validation graphs times the share of right predictions, or times the mean error."""
        return self.weight + 1

    @property
    def scored(self) -> int:
        """The weight of the validation graphs: their number over that of all graphs."""
        return self.weight + 2

    @property
    def score_vector(self) -> slice:
        """The weight times the client's mean score vector, in units of `SCORE_UNIT` nodes."""
        return slice(self.weight + 3, self.weight + 3 + self.scores)

    @property
    def entries(self) -> int:
        """Length of a row."""
        return self.weight + 3 + self.scores
