"""The partitions that the authors of FedSpray (KDD 2024) published: one text file of node numbers a client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError, UnknownNameError
from fgl_secure.graph.communities import DROPPED
from fgl_secure.graph.raw_files import DATA_VARIABLE, chosen_folder

FOLDER = "FedSpray-partitions"
FEDSPRAY_NODES: Mapping[str, int] = MappingProxyType({"PubMed": 19717, "Physics": 34493})
"""The graphs with published partitions that can be loaded here, and their numbers of nodes."""


def fedspray_partition(name: str, data_root: str | os.PathLike[str] | None = None) -> NDArray[np.int64]:
    """Read which client has each node: 7 clients of PubMed, 12 of Physics. `kept_clients` makes the federated graph.

    The files are numbered with gaps; clients are numbered 0..K-1 in the order of the files.

    Args:
        name: "PubMed" or "Physics", in upper or lower case.
        data_root: Holds FedSpray-partitions/<name>_*.txt; by default the environment variable FGL_SECURE_DATA.

    Returns:
        The client of each node, int64 [n]; -1 means that no client has it.

    Raises:
        UnknownNameError: There is no such partition.
        DataNotFoundError: The files are not there.
        InputError: A file has something else than node numbers, or a node twice; the message names the file.
    """
    known = {graph.casefold(): graph for graph in FEDSPRAY_NODES}
    if name.casefold() not in known:
        raise UnknownNameError("FedSpray partition", name, tuple(FEDSPRAY_NODES))
    graph = known[name.casefold()]
    client_of = np.full(FEDSPRAY_NODES[graph], DROPPED, dtype=np.int64)
    for client, file in enumerate(_files(graph, chosen_folder(data_root, DATA_VARIABLE))):
        nodes = _nodes(file, len(client_of))
        taken = nodes[client_of[nodes] != DROPPED]
        if len(taken):
            raise InputError(f"{file.name} must not have a node of another client; it has node {taken[0]}")
        client_of[nodes] = client
    return client_of


def _files(graph: str, root: Path | None) -> list[Path]:
    folder = None if root is None else root / FOLDER
    files = [] if folder is None else sorted(folder.glob(f"{graph}_*.txt"))
    if not files:
        raise DataNotFoundError(
            f"data_root must hold {FOLDER}/{graph}_*.txt, the files of FedSpray's public repository under partition/; "
            f"not in {folder}. Give data_root or set {DATA_VARIABLE}"
        )
    return files


def _nodes(file: Path, num_nodes: int) -> NDArray[np.int64]:
    """The node numbers of one file, which are written as floats."""
    try:
        values = np.array(file.read_text(encoding="utf-8").split(), dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{file.name} must have one node number a line; {error}") from None
    wrong = ~((values >= 0) & (values < num_nodes) & (values == np.floor(values)))
    if wrong.any() or not len(values):
        found = values[int(np.argmax(wrong))] if len(values) else "none"
        raise InputError(f"{file.name} must have node numbers in 0..{num_nodes - 1}; found {found}")
    nodes = values.astype(np.int64)
    if len(np.unique(nodes)) < len(nodes):
        raise InputError(f"{file.name} must have each node once; found {len(nodes) - len(np.unique(nodes))} repeated")
    return nodes
