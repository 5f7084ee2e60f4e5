"""The secrets of a run, for scoring and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Directory, Role, Step, Transcript

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What the parties of a run kept to themselves.

    Attributes:
        parties: numbering of the parties.
        silo_of: int64 [n], the silo index of each device.
        edges: int64 [2, m], source above target, device indices, of messages that were sent.
        embeddings: for each step, what each device sent, [n, d] as it entered the scheme.
    """

    parties: Directory
    silo_of: Ids
    edges: Ids
    embeddings: Mapping[Step, NDArray[Any]]

    @classmethod
    def of(cls, transcript: Transcript, graph: FederatedGraph) -> Truth:
        """Gathers the truth of a recorded run on a graph (the one whose edges carried the messages)."""
        devices = transcript.parties.ids(Role.DEVICE)
        embeddings: dict[Step, NDArray[Any]] = {}
        for batch in transcript.secrets():
            if not np.array_equal(batch.owners, devices):
                raise InputError("transcript must hold one input row a device, in the order of the devices")
            embeddings[batch.step] = batch.values.copy()
        return cls(transcript.parties, graph.silo_of, graph.edges, embeddings)

    def permuted(self, seed: int) -> Truth:
        """The same truth with the devices of each silo shuffled among themselves: the null control's truth.

        The shuffle is one cycle through the silo, so that no device keeps its own secret (but one alone in its silo).
        """
        swap = np.arange(len(self.silo_of))
        rng = np.random.default_rng(seed)
        for silo in range(int(self.silo_of.max()) + 1):
            members = np.flatnonzero(self.silo_of == silo)
            cycle = rng.permutation(members)
            swap[cycle] = np.roll(cycle, 1)
        embeddings = {step: rows[swap] for step, rows in self.embeddings.items()}
        return replace(self, edges=swap[self.edges], embeddings=embeddings)

    @property
    def foreign_neighbours(self) -> NDArray[np.bool_]:
        """Bool [n, silos]: whether a device has an edge to or from a device of that silo, its own left out."""
        silos = int(self.silo_of.max()) + 1
        touches = np.zeros((len(self.silo_of), silos), dtype=np.bool_)
        for a, b in (self.edges, self.edges[::-1]):
            touches[a, self.silo_of[b]] = True
        touches[np.arange(len(self.silo_of)), self.silo_of] = False
        return touches

    @property
    def only_source(self) -> Ids:
        """int64 [n]: the one device that sends to a device, or -1 where there are none or several."""
        counts = np.bincount(self.edges[1], minlength=len(self.silo_of))
        sources = np.full(len(self.silo_of), -1, dtype=np.int64)
        sources[self.edges[1]] = self.edges[0]
        return np.where(counts == 1, sources, -1)
