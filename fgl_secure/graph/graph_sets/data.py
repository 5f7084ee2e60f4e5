"""Which set of graphs a run is on, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgl_secure.choices import choice
from fgl_secure.graph.graph_sets.catalogue import load_set
from fgl_secure.graph.graph_sets.graph_set import GraphSet


@dataclass(frozen=True, slots=True)
class GraphSets:
    """Many small graphs; which client has which comes with them.

    Attributes:
        name: of a set.
        root: folder of the raw data sets; None takes FGL_SECURE_DATA.
    """

    name: str = choice("Motif-mini", "set of graphs, see fgl-secure list datasets", option="dataset")
    root: Path | None = choice(
        None, "folder of raw data sets; None takes FGL_SECURE_DATA", option="data-root", shown="DIR"
    )

    def drawn(self, seed: int = 0) -> GraphSet:
        """Loads or draws the set.

        Raises:
            UnknownNameError: there is none of that name.
            DataNotFoundError: its raw files are not there.
        """
        return load_set(self.name, seed, self.root)
