"""Data sets by name: what a listing says is what loads, and published figures are met."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import (
    FederatedGraph,
    GraphDataset,
    GraphSetDataset,
    available,
    boundary_nodes,
    describe,
    load,
    load_set,
    partition,
    random_split,
)
from fgl_secure.graph.datasets import load_digits_graph
from tests.error_codes import about

needs_public_data = pytest.mark.skipif(
    not os.environ.get("FGL_SECURE_DATA"), reason="FGL_SECURE_DATA doesn't name a folder with the raw public data"
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def test_listing_and_names_agree() -> None:
    assert available()[:8] == ("digits", "Cora", "CiteSeer", "PubMed", "Photo", "CS", "Physics", "DBLP")
    assert tuple(info.name for info in describe(GraphDataset)) == available()
    assert all(info.description and "\n" not in info.description for info in describe(GraphDataset))


def test_import_is_light() -> None:
    """Importing the package loads none of the large libraries that only some of its functions need."""
    heavy = "{'torch', 'torch_geometric', 'networkx', 'sklearn', 'scipy'}"
    code = f"import sys, fgl_secure.graph; print(sorted({heavy} & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "info",
    [info if info.name == "digits" else pytest.param(info, marks=needs_public_data) for info in describe(GraphDataset)],
)
def test_data_sets_have_the_sizes_of_the_listing(info: GraphDataset, cache: Path) -> None:
    """A loaded graph has the sizes that the listing states, and all but Chameleon are symmetric."""
    graph = load(info.name, cache_dir=cache)
    found = (graph.name, graph.num_nodes, graph.edges.shape[1], graph.num_features, graph.num_classes)
    assert found == (info.name, info.nodes, info.edges, info.features, info.classes)
    assert graph.is_symmetric == (info.name != "Chameleon")


@pytest.mark.parametrize("info", [info for info in describe(GraphSetDataset) if info.name.startswith("Motif")])
def test_generated_sets_are_as_listed(info: GraphSetDataset) -> None:
    """Clients, graphs, features, classes and shift are those of the listing."""
    sets = load_set(info.name.lower())
    assert (sets.name, sets.shift) == (info.name, info.shift)
    assert (sets.num_clients, sets.num_features, sets.num_classes) == (info.clients, info.features, info.classes)
    assert sets.num_graphs == info.clients * info.graphs


def test_a_set_of_graphs_is_no_graph() -> None:
    """A name of the other kind is refused with what it stands for, and an unknown one with those that exist."""
    with pytest.raises(InputError, match="Motif-mini, a set of many graphs, which is for fedvn"):
        load("motif-mini")
    with pytest.raises(InputError, check=about("graph set")):
        load_set("digits")
    with pytest.raises(UnknownNameError, check=about("graph set")):
        load_set("Motif")


def test_digits_are_images_joined_to_their_nearest() -> None:
    """Every digit has pixels in [0, 1], 5 neighbours or more, and none as near that isn't joined to it."""
    graph = load("Digits")
    assert graph.image_shape == (8, 8)
    assert (graph.features.min(), graph.features.max()) == (0.0, 1.0)
    assert graph.in_degree.min() >= 5
    pixels = np.rint(graph.features * 16).astype(np.int64)
    for node in range(0, graph.num_nodes, 97):
        squared = np.square(pixels - pixels[node]).sum(axis=1)
        squared[node] = np.iinfo(np.int64).max
        fifth = np.sort(squared)[4]
        joined = graph.edges[0, graph.edges[1] == node]
        assert set(np.flatnonzero(squared < fifth).tolist()) <= set(joined.tolist())
        assert (squared[joined] <= fifth).sum() >= 5


def test_digits_are_the_same_every_time() -> None:
    """Two searches give equal arrays, and what is kept of one is the same object that nobody can write to."""
    first = load("digits")
    assert load("digits") is first
    assert not any(array.flags.writeable for array in (first.features, first.labels, first.edges))
    load_digits_graph.cache_clear()
    second = load("digits")
    assert second is not first
    np.testing.assert_array_equal(first.edges, second.edges)
    np.testing.assert_array_equal(first.features, second.features)


@needs_public_data
@pytest.mark.parametrize(("name", "share"), [("Cora", 0.954), ("CiteSeer", 0.892)])
def test_random_silos_expose_what_hifgl_prints(name: str, share: float, cache: Path) -> None:
    """With five random silos eps_p is about what HiFGL reports (.9516 for Cora, .8870 for CiteSeer)."""
    graph = load(name, cache_dir=cache)
    masks = random_split(graph.num_nodes, seed=0)
    shares = [
        boundary_nodes(FederatedGraph.from_assignment(graph, partition("random", graph, 5, seed), masks)).mean()
        for seed in range(5)
    ]
    assert np.mean(shares) == pytest.approx(share, abs=0.01)
