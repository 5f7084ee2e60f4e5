"""A tiny data set in Planetoid's raw format, with what should come out of it."""

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

FILES = tuple(f"ind.cora.{part}" for part in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"))
NODES = 520  # PyTorch Geometric takes 500 nodes after the first ones for validation, whatever the data set
TRAINING = 2
TEST_INDEX = [519, 517, 518]  # Planetoid lists test nodes in an order of its own
FEATURES = np.arange(1, 3 * NODES + 1, dtype=np.float32).reshape(NODES, 3) % 7
LABELS = np.arange(NODES) % 3
# In Planetoid's adjacency lists: a self-loop at 2, and the edge between 0 and 1 written twice.
ADJACENCY = {0: [1, 1], 1: [0, 0, 2], 2: [1, 2, 519], 3: [4], 4: [3], 517: [518], 518: [517], 519: [2]}
EDGES = {(0, 1), (1, 0), (1, 2), (2, 1), (2, 519), (519, 2), (3, 4), (4, 3), (517, 518), (518, 517)}


def write_raw_files(raw: Path) -> None:
    """Write the eight files of the data set under the name Cora."""
    raw.mkdir(parents=True)
    one_hot = np.eye(3, dtype=np.int32)[LABELS]
    adjacency = defaultdict(list, {node: ADJACENCY.get(node, []) for node in range(NODES)})
    contents = {
        "x": csr_matrix(FEATURES[:TRAINING]),
        "tx": csr_matrix(FEATURES[TEST_INDEX]),
        "allx": csr_matrix(FEATURES[: -len(TEST_INDEX)]),
        "y": one_hot[:TRAINING],
        "ty": one_hot[TEST_INDEX],
        "ally": one_hot[: -len(TEST_INDEX)],
        "graph": adjacency,
    }
    for part, content in contents.items():
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(content, protocol=2))
    (raw / "ind.cora.test.index").write_text("".join(f"{node}\n" for node in TEST_INDEX))
