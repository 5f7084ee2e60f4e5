"""Single passes of structure embeddings, with all clients in one process, for the tests."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.structure import StructureEmbedding
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.program import Program
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array

Make = Callable[[Collectives], StructureEmbedding]
Loss = Callable[[torch.Tensor, Silo], torch.Tensor]


def squares(z: torch.Tensor, _silo: Silo) -> torch.Tensor:
    return z.pow(2).sum()


class Pass(Program):
    """One pass, forward and backward.

    Args:
        comm: the collectives of the run.
        embeddings: float [n, c], of all nodes.
        make: makes the structure embeddings; it may comm.
        loss: of a client.
    """

    def __init__(self, comm: Collectives, embeddings: NDArray[Any], make: Make, loss: Loss) -> None:
        super().__init__(comm)
        self._embeddings, self._make_structure, self._loss = embeddings, make, loss

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        self.structure = self._make_structure(self.comm)
        own = torch.from_numpy(self._embeddings[self.silo.nodes]).requires_grad_()
        z = self.structure.combine(own)
        self.structure.backward(self._loss(z, self.silo))
        assert own.grad is not None
        self.kept = {"z": z.detach().numpy(), "gradient": own.grad.numpy()}
        return False

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def passed(
    graph: FederatedGraph,
    schemes: Mapping[str, Scheme],
    channel: Channel,
    embeddings: NDArray[Any],
    make: Make,
    loss: Loss = squares,
    *,
    crossing: bool = False,
) -> tuple[dict[str, Array], tuple[Pass, ...]]:
    """What came of it for all nodes, by name, [n, c] each; and the clients."""

    def made(comm: Collectives) -> Pass:
        return Pass(comm, embeddings, make, loss)

    process = OneProcess(graph, schemes, channel, made, width=embeddings.shape[1], crossing=crossing)
    process.round(0)
    whole = {name: embeddings.copy() for name in ("z", "gradient")}
    for client in process.programs:
        for name, table in whole.items():
            table[client.silo.nodes] = client.report[name]
    return whole, process.programs  # type: ignore[return-value]  # made above
