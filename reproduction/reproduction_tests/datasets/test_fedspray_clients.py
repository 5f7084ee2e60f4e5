"""FedSpray's clients: large communities, the authors' files, splits inside of every client, and the kept subgraph."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_reproduction.datasets.fedspray_clients import (
    FOLDER,
    fedspray_partition,
    kept_clients,
    louvain_floor,
    per_client_split,
)
from fgl_secure.errors import DataNotFoundError, InputError, UnknownNameError
from fgl_secure.graph import Graph
from tests.error_codes import about
from tests.graph.strategies import graph_from_pairs, pairs

needs_public_data = pytest.mark.skipif(
    not os.environ.get("FGL_SECURE_DATA"), reason="FGL_SECURE_DATA doesn't name a folder with the raw public data"
)


def _cliques(*sizes: int) -> Graph:
    ends = np.cumsum(sizes).tolist()
    edges = [
        (source, target)
        for size, end in zip(sizes, ends, strict=True)
        for source in range(end - size, end)
        for target in range(end - size, end)
    ]
    return graph_from_pairs(ends[-1], edges)


def _files(root: Path, *contents: str) -> Path:
    (root / FOLDER).mkdir(parents=True)
    for number, content in enumerate(contents):
        (root / FOLDER / f"PubMed_{2 * number:02}.txt").write_text(content)
    return root


def test_large_communities_are_clients_and_small_ones_are_dropped() -> None:
    """Cliques of 3, 6, 2 and 5 nodes at floor 3: clients 2, 0, none and 1."""
    assert louvain_floor(_cliques(3, 6, 2, 5), 3, seed=0).tolist() == [2] * 3 + [0] * 6 + [-1] * 2 + [1] * 5


@pytest.mark.parametrize(
    ("floor", "message"),
    [(0, "floor must be at least 1 node; found 0"), (5, "floor must be at most 4, the size .* of small; found 5")],
)
def test_impossible_floors_are_refused(floor: int, message: str) -> None:
    """Below one node, and above the largest community."""
    with pytest.raises(InputError, match=message):
        louvain_floor(_cliques(4, 2), floor, seed=0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 1000))
def test_every_client_is_split_by_itself(sizes: list[int], seed: int) -> None:
    """Each node of a client is in one mask, shares are off by less than one node, and every client trains."""
    client_of = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    masks = per_client_split(client_of, seed)
    stacked = np.stack([masks.train, masks.validation, masks.test])
    assert (stacked.sum(axis=0) == 1).all()
    for client, size in enumerate(sizes):
        counts = stacked[:, client_of == client].sum(axis=1)
        assert counts[0] >= 1
        assert (np.abs(counts - size * np.array([0.4, 0.3, 0.3])) <= 1).all()


def test_known_split_sizes() -> None:
    """Ten nodes of one client and five of another split into 4, 3, 3 and 2, 2, 1; the cut after 3.5 goes to 4."""
    client_of = np.repeat([0, 1], [10, 5])
    masks = per_client_split(client_of, 0)
    counts = [[int(mask[client_of == k].sum()) for k in (0, 1)] for mask in (masks.train, masks.validation, masks.test)]
    assert counts == [[4, 2], [3, 2], [3, 1]]


def test_clients_without_nodes_are_refused() -> None:
    with pytest.raises(InputError, check=about("client_of")):
        per_client_split(np.array([0, 2]), 0)


@given(pairs(), st.integers(0, 1000))
def test_kept_graph_is_the_induced_subgraph(example: tuple[int, list[tuple[int, int]]], seed: int) -> None:
    """Kept nodes in order, with the features, labels and edges that they had among themselves."""
    num_nodes, edges = example
    graph = graph_from_pairs(num_nodes, edges)
    client_of = np.random.default_rng(seed).integers(-1, 1, size=num_nodes)
    client_of[0] = 0
    federated = kept_clients(graph, client_of, seed)
    kept = np.flatnonzero(client_of == 0)
    np.testing.assert_array_equal(federated.labels, graph.labels[kept])
    original = {(s, t) for s, t in graph.edges.T.tolist() if s in kept and t in kept}
    assert {(int(kept[s]), int(kept[t])) for s, t in federated.edges.T.tolist()} == original
    assert federated.num_silos == 1
    checked = Graph.from_arrays("checked", federated.features, federated.labels, federated.edges)
    np.testing.assert_array_equal(federated.edges, checked.edges)


@pytest.mark.parametrize(
    ("client_of", "message"),
    [
        ([0, 1], r"client_of must have shape \(3,\), one a node; found shape \(2,\)"),
        ([0, -2, 0], "client_of must be a client or -1; node 1 has -2"),
        ([-1, -1, -1], "client_of must give at least one node to a client; found only -1"),
        ([0, -1, 2], "client_of must give every client a node; client 1 has none"),
        ([0.0, 1.0, 1.0], "client_of must be integers; found dtype float64"),
    ],
)
def test_assignments_that_leave_nobody_are_refused(client_of: list[float], message: str) -> None:
    """Wrong lengths, numbers that are no client, nobody at all, and a client without a node."""
    with pytest.raises(InputError, match=message):
        kept_clients(graph_from_pairs(3, []), client_of, 0)


def test_files_are_read_in_order(tmp_path: Path) -> None:
    """Clients are numbered in the order of the files, whose own numbers have gaps; ids are written as floats."""
    root = _files(tmp_path, "7.000000000000000000e+00\n0.000000000000000000e+00\n", "1.9716e+04\n")
    client_of = fedspray_partition("pubmed", root)
    assert client_of.shape == (19717,)
    assert (client_of[7], client_of[0], client_of[19716], (client_of == -1).sum()) == (0, 0, 1, 19714)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (("1.0\n2.0\n", "2.0\n"), r"PubMed_02.txt must not have a node of another client; it has node 2"),
        (("1.0\n1.0\n",), r"PubMed_00.txt must have each node once; found 1 repeated"),
        (("19717\n",), r"PubMed_00.txt must have node numbers in 0..19716; found 19717.0"),
        (("1.5\n",), r"PubMed_00.txt must have node numbers in 0..19716; found 1.5"),
        (("nan\n",), r"PubMed_00.txt must have node numbers in 0..19716; found nan"),
        (("",), r"PubMed_00.txt must have node numbers in 0..19716; found none"),
        (("one\n",), r"PubMed_00.txt must have one node number a line"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, contents: tuple[str, ...], message: str) -> None:
    """Shared, repeated, outlying, broken and missing numbers are refused, with the file's name."""
    with pytest.raises(InputError, match=message):
        fedspray_partition("PubMed", _files(tmp_path, *contents))


def test_missing_files_and_unknown_graphs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FGL_SECURE_DATA", raising=False)
    for root in (tmp_path, None):
        with pytest.raises(DataNotFoundError, check=about("data_root")):
            fedspray_partition("Physics", root)
    with pytest.raises(UnknownNameError, check=about("FedSpray partition")):
        fedspray_partition("Flickr", tmp_path)


@needs_public_data
@pytest.mark.parametrize(
    ("name", "clients", "kept", "smallest", "largest"),
    [("PubMed", 7, 11258, 1300, 2287), ("Physics", 12, 31813, 1081, 4442)],
)
def test_published_partitions_have_the_known_sizes(
    name: str, clients: int, kept: int, smallest: int, largest: int
) -> None:
    """Clients, kept nodes, and the smallest and largest client of the authors' files."""
    client_of = fedspray_partition(name)
    sizes = np.bincount(client_of[client_of >= 0])
    assert (len(sizes), sizes.sum(), sizes.min(), sizes.max()) == (clients, kept, smallest, largest)
