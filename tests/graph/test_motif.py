"""Motif graphs are drawn as GOOD defines them, clients differ as they should, and the seed repeats all."""

from collections.abc import Callable
from math import log2

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import BASES, MOTIFS, Edges, MotifEnvironment, motif, motif_set
from tests.error_codes import about

HOUSE, CYCLE, CRANE = range(3)
REFERENCES: dict[str, Callable[[int], nx.Graph]] = {
    "wheel": nx.wheel_graph,
    "tree": lambda width: nx.balanced_tree(2, max(int(log2(width)) - 1, 1)),
    "ladder": nx.ladder_graph,
    "star": nx.star_graph,
    "path": nx.path_graph,
}
NODES: dict[str, Callable[[int], int]] = {
    "wheel": lambda width: width,
    "tree": lambda width: 2 ** (max(int(log2(width)) - 1, 1) + 1) - 1,
    "ladder": lambda width: 2 * width,
    "star": lambda width: width + 1,
    "path": lambda width: width,
}


def _graph(edges: Edges, nodes: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges.T.tolist())
    return graph


def _graph_of_set(sets: GraphSet, number: int) -> nx.Graph:
    found = sets.batch([number])
    return _graph(found.edges, len(found.features))


def _motifs(sets: GraphSet) -> NDArray[np.int64]:
    """Which motif the last five nodes of each graph are: only a cycle has no edge 1-4, only a crane no edge 0-4."""
    first, nodes = sets.node_starts[1:] - 5, len(sets.features)
    codes = sets.edges[0] * nodes + sets.edges[1]
    chord, roof = (np.isin((first + source) * nodes + first + 4, codes) for source in (1, 0))
    return np.where(~chord, CYCLE, np.where(roof, HOUSE, CRANE))


def _sizes(sets: GraphSet, client: int) -> set[int]:
    """The numbers of nodes of a client's bases."""
    return set((np.bincount(sets.graph_of)[sets.graphs_of(client)] - 5).tolist())


@pytest.mark.parametrize("name", list(BASES))
@settings(max_examples=15)
@given(width=st.integers(1, 75))
def test_bases_of_a_width(name: str, width: int) -> None:
    """A wheel and a path have w nodes, a star w + 1, a ladder 2 w, a tree is int(log2 w) - 1 high: as of networkx."""
    edges = BASES[name](width)
    graph = _graph(edges, int(edges.max(initial=0)) + 1)
    assert len(graph) == NODES[name](width)
    assert graph.number_of_edges() == edges.shape[1]
    assert nx.is_isomorphic(graph, REFERENCES[name](width))


def test_motifs_are_house_cycle_and_crane() -> None:
    """The house is a ring of five with a chord, the cycle a ring of five, and the crane K_2,3; node 0 has two edges."""
    graphs = {name: _graph(edges, 5) for name, edges in MOTIFS.items()}
    assert list(graphs) == ["house", "cycle", "crane"]
    assert nx.is_isomorphic(graphs["house"], nx.house_graph())
    assert nx.is_isomorphic(graphs["cycle"], nx.cycle_graph(5))
    assert nx.is_isomorphic(graphs["crane"], nx.complete_bipartite_graph(2, 3))
    assert all(graph.degree(0) == 2 for graph in graphs.values())
    assert not any(graphs["house"].has_edge(0, other) for other in (2, 3))  # the top of the roof


@pytest.fixture(scope="module")
def basis() -> GraphSet:
    return motif("Motif-basis", 0)


@pytest.fixture(scope="module")
def motifs(basis: GraphSet) -> NDArray[np.int64]:
    return _motifs(basis)


def test_every_graph_is_a_base_a_motif_a_joint_and_random_edges() -> None:
    """The joint is at motif node 0 and any node of the base; no random edge is without an inner node of the base."""
    sets = motif_set("wide", [MotifEnvironment((base,), (30,)) for base in BASES], "basis", 3, 12, 0.0)
    joined, motifs = set(), _motifs(sets)
    for number, client in enumerate(sets.client_of):
        name, graph = list(BASES)[client], _graph_of_set(sets, number)
        nodes = len(graph) - 5
        base, motif = _base(name, nodes), list(MOTIFS.values())[motifs[number]]
        edges = {_sorted(edge) for edge in graph.edges}
        assert base <= edges
        assert {edge for edge in edges if min(edge) >= nodes} == {_sorted(edge) for edge in (motif + nodes).T.tolist()}
        added = [edge for edge in edges - base if min(edge) < nodes]
        assert nodes in {max(edge) for edge in added}
        drawn, without = (len(base) + motif.shape[1] + 1) // 20, [e for e in added if not _inner(name, nodes) & set(e)]
        assert len(added) <= 1 + drawn
        assert all(max(edge) == nodes for edge in without)  # the joint may be anywhere
        assert len(without) <= 1
        joined |= {min(edge) for edge in added if max(edge) == nodes}
    assert len(joined) > 15


def _inner(base: str, nodes: int) -> set[int]:
    """The inner nodes of a base: of a star its centre, of a path all but its ends, of others all."""
    return {0} if base == "star" else set(range(1, nodes - 1) if base == "path" else range(nodes))


@pytest.mark.parametrize(("base", "width"), [("path", 30), ("wheel", 12)])
def test_random_edges_without_an_inner_node_are_dropped(base: str, width: int) -> None:
    """One pair is drawn of all that have no edge, and added as often as such pairs have an inner node among them."""
    graphs, sets = 400, motif_set("x", [MotifEnvironment((base,), (width,), 0)], "basis", 1, 400, 0.0)
    added, chances, ends = 0, [], []
    for number in range(graphs):
        graph = _graph_of_set(sets, number)
        nodes = len(graph) - 5
        known = _base(base, nodes)
        extra = [edge for edge in map(_sorted, graph.edges) if edge not in known and min(edge) < nodes]
        assert len(known) + len(list(graph.subgraph(range(nodes, nodes + 5)).edges)) + 1 in range(20, 40)
        added += len(extra) - 1
        ends += [max(edge) >= nodes for edge in extra if max(edge) != nodes]
        free = [*nx.non_edges(graph), *extra[: len(extra) - 1]]  # which of two is the joint does not matter here
        chances.append(np.mean([bool(_inner(base, nodes) & set(edge)) for edge in free]))
    expected, chance = np.sum(chances), np.mean(chances)
    assert abs(added - expected) < 5 * np.sqrt(graphs * chance * (1 - chance)) + 1
    if base in {"wheel", "ladder"}:  # an edge may go to the motif, whose nodes but 0 are told from the joint's
        assert 0.1 < np.mean(ends) < 0.6


def _sorted(edge: tuple[int, int]) -> tuple[int, int]:
    return (min(edge), max(edge))


def _base(name: str, nodes: int) -> set[tuple[int, int]]:
    """The edges of a base of so many nodes."""
    width = next(width for width in range(1, 76) if NODES[name](width) == nodes)
    return {_sorted(edge) for edge in BASES[name](width).T.tolist()}


def test_one_label_in_ten_is_drawn_anew(basis: GraphSet, motifs: NDArray[np.int64]) -> None:
    """Two thirds of a tenth differ from the motif, at every client, in training and in test alike, and either way."""
    wrong = basis.targets != motifs
    for part in (slice(None), basis.train, basis.test, *(basis.client_of == client for client in range(5))):
        count = len(wrong[part])
        assert abs(wrong[part].sum() - count / 15) < 5 * np.sqrt(count / 15)
    told = np.bincount(3 * motifs + basis.targets.astype(np.int64), minlength=9)
    assert (told > 20).all()


def test_basis_shift_has_the_published_shape(basis: GraphSet) -> None:
    """Five clients with 1,000 graphs, 800 of them not for test, three labels and one constant feature."""
    assert (basis.num_clients, basis.num_classes, basis.num_features) == (5, 3, 1)
    for client in range(5):
        own = basis.graphs_of(client)
        counts = (basis.train[own].sum(), basis.validation[own].sum(), basis.test[own].sum())
        assert counts == (700, 100, 200)
    assert (basis.features == 1).all()


def test_widths_of_the_basis_domain_are_ten_give_or_take_five(basis: GraphSet) -> None:
    """Each client has one base, and of all widths 5 to 15 its sizes."""
    for client, name in enumerate(BASES):
        assert _sizes(basis, client) == {NODES[name](width) for width in range(5, 16)}


def test_the_base_follows_the_label_in_the_concept_shift_of_the_basis() -> None:
    """Houses have wheels, cycles trees and cranes ladders in 99, 97, 95, 30 and 0 % of graphs; else any."""
    sets = motif("Motif-basis-concept", 0, graphs=300)
    motifs, bases = _motifs(sets), np.array([_base_of(_graph_of_set(sets, each)) for each in range(sets.num_graphs)])
    for client, share in enumerate((0.99, 0.97, 0.95, 0.3, 0.0)):
        own = sets.graphs_of(client)
        chance = share + (1 - share) / 3
        assert (motifs[own] == bases[own]).mean() == pytest.approx(chance, abs=5 * np.sqrt(chance * (1 - chance) / 300))
    assert set(bases[sets.graphs_of(4)].tolist()) == {0, 1, 2}


def _base_of(graph: nx.Graph) -> int:
    """Which of the three is there with all its edges."""
    nodes, edges = len(graph) - 5, {_sorted(edge) for edge in graph.edges}
    possible = [name for name in ("wheel", "tree", "ladder") if nodes in {NODES[name](width) for width in range(5, 16)}]
    return next(list(BASES).index(name) for name in possible if _base(name, nodes) <= edges)


def test_seed_repeats_the_set() -> None:
    """Equal seeds give equal sets and others do not; without validation graphs the same graphs test."""
    first, again, other = (
        motif("Motif-mini", 1, 60, 0.2),
        motif("Motif-mini", 1, 60, 0.2),
        motif("Motif-mini", 2, 60, 0.2),
    )
    np.testing.assert_array_equal(first.edges, again.edges)
    np.testing.assert_array_equal(first.train, again.train)
    assert first.edges.shape != other.edges.shape or not np.array_equal(first.edges, other.edges)
    as_published = motif("Motif-mini", 1, 60, 0.0)
    np.testing.assert_array_equal(first.test, as_published.test)
    assert not as_published.validation.any()
    np.testing.assert_array_equal(as_published.train, first.train | first.validation)


def test_wrong_arguments_are_named() -> None:
    """Numbers of graphs, shares, environments and seeds out of range."""
    with pytest.raises(InputError, check=about("graphs")):
        motif("Motif-basis", 0, graphs=9)
    with pytest.raises(InputError, check=about("validation")):
        motif("Motif-basis", 0, graphs=10, validation=0.8)
    with pytest.raises(InputError, check=about("seed")):
        motif("Motif-size", -1)
    with pytest.raises(InputError, check=about("environments")):
        motif_set("none", [], "basis", 0, 10, 0.0)
    with pytest.raises(InputError, check=about("noise")):
        motif_set("wheels", [MotifEnvironment(("wheel",))], "basis", 0, 10, 0.0, 1.1)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"bases": ("wheel", "grid")}, "bases"),
        ({"bases": ()}, "bases"),
        ({"bases": ("wheel",), "spread": -1}, "spread"),
        ({"bases": ("wheel",), "widths": ()}, "widths"),
        ({"bases": ("wheel",), "widths": (10, 5)}, "widths"),
        ({"bases": ("wheel",), "bases_follow": 1.5}, "bases_follow"),
        ({"bases": ("wheel",), "bases_follow": 0.5}, "bases"),
        ({"bases": ("wheel",), "widths_follow": 0.5}, "widths"),
    ],
)
def test_impossible_environments_are_refused(environment: dict[str, object], message: str) -> None:
    """Unknown or no bases, widths that could be none, shares that are none, and nothing to follow a label with."""
    with pytest.raises(InputError, check=about(message)):
        MotifEnvironment(**environment)  # type: ignore[arg-type]
