"""What a client of Fed2GNN sends to the server in a round, as one row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpdateLayout:
    """Where what is in a row [w theta, w, right, scored] of P + 3 entries.

    Every count is divided by the number of nodes of the whole graph, which is public.

    Attributes:
        parameters: number P of model parameters theta.
    """

    parameters: int

    @property
    def model(self) -> slice:
        """The model, times its weight."""
        return slice(0, self.parameters)

    @property
    def weight(self) -> slice:
        """The weight w: the client's labelled nodes."""
        return slice(self.parameters, self.parameters + 1)

    @property
    def right(self) -> slice:
        """The client's validation nodes that the model sent last predicts rightly."""
        return slice(self.parameters + 1, self.parameters + 2)

    @property
    def scored(self) -> slice:
        """The client's validation nodes."""
        return slice(self.parameters + 2, self.width)

    @property
    def width(self) -> int:
        """Entries of a row."""
        return self.parameters + 3
