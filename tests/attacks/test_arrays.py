"""Attacks on arrays of one's own: what is found where it can be, and nothing where it can't."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.nn import functional

from fgl_secure.attacks import differences, edges_from_product, find_contained, invert, match
from fgl_secure.errors import InputError
from tests.error_codes import about

RNG = np.random.default_rng(0)
TABLE = RNG.integers(0, 50, (30, 12))
"""Counts, as graphlet degrees are."""


@pytest.mark.parametrize("method", ["nearest", "assignment"])
def test_shuffled_features_are_matched(method: str) -> None:
    order = RNG.permutation(30)
    found = match(TABLE[order], TABLE, method=method, truth=order)
    assert np.array_equal(found.rows, order)
    assert (found.score, found.baseline) == (1.0, 1 / 30)
    assert found.interval is not None
    assert found.interval.low > 0.8


def test_degrees_match_nodes() -> None:
    """One-hot degrees, of which most nodes have one: each node is matched with a node of its degree."""
    table = np.eye(6)[[0, 1, 3, 3, 3, 3, 5]]
    found = match(table[::-1], table, method="degrees")
    assert np.array_equal(table[found.rows], table[::-1])


@pytest.mark.parametrize("change", [lambda x: x + 1e7, lambda x: x * 1e-170], ids=["far from 0", "tiny"])
def test_equal_rows_are_matched_whatever_their_size(change: Callable[[Any], Any]) -> None:
    table = change(RNG.random((50, 4)))
    order = RNG.permutation(50)
    assert match(table[order], table, truth=order).score == 1


def test_one_row_far_away_spoils_no_match() -> None:
    table, order = RNG.random((50, 4)), RNG.permutation(50)
    assert match(table[order], np.concatenate([table, table[:1] + 1e7]), truth=order).score == 1


def test_features_of_other_nodes_match_no_better_than_chance() -> None:
    """The negative control: independent features score about as the baseline."""
    found = match(RNG.integers(0, 50, (30, 12)), TABLE, truth=np.arange(30))
    assert found.score is not None
    assert found.score < 0.2


def adjacency(nodes: int, edges: int) -> np.ndarray[Any, Any]:
    ends = RNG.integers(0, nodes, (2, edges))
    matrix = np.eye(nodes)
    matrix[ends[0], ends[1]] = matrix[ends[1], ends[0]] = 1
    return matrix


def test_neighbour_lists_are_read_from_a_product() -> None:
    """Rows that the client's own edges determine; dense and sparse matrices say the same."""
    theirs, own = adjacency(20, 30), np.eye(12, 20)
    product = own @ (theirs / theirs.sum(axis=1, keepdims=True))
    found = edges_from_product(own, product, truth=theirs)
    assert found.nodes.tolist() == list(range(12))
    assert np.array_equal(found.neighbours, theirs[:12] > 0)
    assert found.score == (theirs[:12].sum() - 12) / (theirs.sum() - 20)
    again = edges_from_product(sparse.csr_array(own), sparse.csr_array(product))
    assert np.array_equal(again.neighbours, found.neighbours)
    assert again.score is None


def test_products_of_another_graph_recover_nothing() -> None:
    """The null control: lists are recovered, and are those of other nodes."""
    theirs, others = adjacency(20, 30), adjacency(20, 30)
    product = np.eye(20) @ (others / others.sum(axis=1, keepdims=True))
    found = edges_from_product(np.eye(20), product, truth=theirs)
    assert found.score is not None
    assert found.baseline is not None
    assert found.score < found.baseline + 0.1


def test_self_loops_earn_nothing() -> None:
    """With the columns of the nodes themselves given, only edges to others are scored."""
    theirs = adjacency(20, 30)
    loops = np.eye(8, 20)[:, ::-1]
    found = edges_from_product(np.eye(8), loops, truth=theirs[:8], own=range(19, 11, -1))
    assert found.score == 0.0


def test_sums_over_pairs_determine_no_list() -> None:
    """Two nodes that are never apart can't be told from each other."""
    theirs = adjacency(6, 8)
    own = np.array([[1.0, 1.0, 0, 0, 0, 0]])
    found = edges_from_product(own, own @ (theirs / theirs.sum(axis=1, keepdims=True)), truth=theirs)
    assert (len(found.nodes), found.score) == (0, 0.0)


def test_terms_are_found_in_a_dictionary() -> None:
    """Every term is found, and a row that is in no sum seldom."""
    rows = (RNG.random((40, 60)) < 0.1).astype(float)
    rows[:, 0] = 1
    inside = RNG.random((5, 40)) < 0.08
    found = find_contained(inside @ rows, rows, truth=inside)
    claimed = np.zeros_like(inside)
    claimed[found.sums, found.rows] = True
    assert (claimed >= inside).all()
    assert found.score is not None
    assert found.score > 0.6 > 5 * (found.baseline or 0)


def test_rows_are_not_found_in_sums_of_other_rows() -> None:
    """The null control: sums over rows that are not in the dictionary."""
    rows, others = ((RNG.random((40, 200)) < 0.05).astype(float) for _ in range(2))
    inside = RNG.random((5, 40)) < 0.08
    found = find_contained(inside @ others, rows, truth=inside)
    assert found.score is not None
    assert found.score < 0.1


def test_rows_are_read_where_sums_determine_them() -> None:
    """One sender comes late: its row is the difference; the two others are never apart."""
    rows = RNG.normal(size=(3, 4))
    present = np.array([[1, 1, 0], [1, 1, 1]])
    found = differences(present @ rows, present, truth=rows)
    assert found.senders.tolist() == [2]
    assert np.allclose(found.rows, rows[2:])
    assert (found.score, found.baseline) == (1 / 3, 0.0)
    small = differences(present @ (rows * 1e-9), present, truth=rows * 1e-9)
    assert small.score == 1 / 3
    assert differences(present @ (rows * 1e-9) + 1e-12, present, truth=rows[::-1] * 1e-9).score == 0


def seen(model: torch.nn.Module, logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(functional.cross_entropy(logits, labels), tuple(model.parameters()))


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Sigmoid(), torch.nn.Linear(24, 4))


@pytest.mark.parametrize(
    ("method", "form"),
    [("cosine", "tuple"), ("dlg", "tuple"), ("idlg", "tuple"), ("idlg", "by name"), ("idlg", "flat")],
)
def test_a_gradient_of_any_module_is_inverted(method: str, form: str) -> None:
    """The one input of the batch, and its label; the model stays as it is."""
    model, x = network(), torch.rand(1, 12, generator=torch.Generator().manual_seed(1))
    gradient: Any = seen(model, model(x), torch.tensor([3]))
    if form == "by name":
        gradient = {name: part for (name, _), part in zip(model.named_parameters(), gradient, strict=True)}
    if form == "flat":
        gradient = torch.cat([part.reshape(-1) for part in gradient])
    found = invert(model, gradient, (1, 12), method=method, truth=x)
    assert (found.score, found.baseline, found.labels.tolist()) == (1.0, 0.0, [3])
    assert all(value.grad is None and value.dtype == torch.float32 for value in model.parameters())


def test_a_gradient_over_averages_tells_the_averages() -> None:
    """Of nodes that a model averages the average is determined, and the model's own answer with it."""
    model, mean, x = network(), torch.full((1, 3), 1 / 3), torch.rand(3, 12)
    gradient = seen(model, model(mean @ x), torch.tensor([1]))
    found = invert(model, gradient, (3, 12), call=lambda own, rows: own(mean.double() @ rows), method="idlg")
    assert found.labels.tolist() == [1]
    assert np.allclose(found.inputs.mean(axis=0), x.mean(dim=0), atol=1e-2)


def test_the_gradient_of_another_input_finds_nothing() -> None:
    """The negative control: what is scored against the truth is not what was seen."""
    model, x = network(), torch.rand(1, 12)
    found = invert(model, seen(model, model(1 - x), torch.tensor([0])), (1, 12), method="idlg", truth=x)
    assert found.score == 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: match([[1.0]], [[1.0, 2.0]]), "table"),
        (lambda: match([[np.nan]], [[1.0]]), "features"),
        (lambda: match([[1.0]], np.empty((0, 1))), "table"),
        (lambda: match([[1.0]], [[1.0]], method="best"), "method"),
        (lambda: match([[1.0]], [[1.0]], truth=[1]), "truth"),
        (lambda: match([[0.5]], [[1.5]], method="degrees"), "features"),
        (lambda: edges_from_product([[1.0]], [[1.0], [2.0]]), "product"),
        (lambda: edges_from_product([[1.0]], [[1.0]], truth=[[1, 0]]), "truth"),
        (lambda: edges_from_product([[1.0]], [[0.5, 0.5]], truth=[[1, 1]]), "own"),
        (lambda: find_contained([[1.0]], [[-1.0]]), "dictionary"),
        (lambda: find_contained([[1.0]], [[1.0]], truth=[[1, 0]]), "truth"),
        (lambda: differences([[1.0]], [[1], [1]]), "taking_part"),
        (lambda: differences([[1.0]], [[1]], truth=[[1], [2]]), "truth"),
        (lambda: invert(network(), [torch.ones(1)], (1, 12)), "gradient"),
        (lambda: invert(network(), torch.ones(5), (1, 12)), "gradient"),
        (lambda: invert(network(), [torch.zeros_like(p) for p in network().parameters()], (1, 12)), "gradient"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (1, 12), method="x"), "method"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (1, 12), labels=[9]), "labels"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (1, 12), box=(1, 0)), "box"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (1, 12), box=(0, np.inf)), "box"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (1, 11)), "shape"),
        (lambda: invert(network(), [p.detach() for p in network().parameters()], (0, 12)), "shape"),
        (lambda: match([["a"]], [["b"]]), "features"),
        (lambda: match([[1.0]], [[1.0]], seed=-1), "seed"),
        (lambda: edges_from_product([[1.0]], [[1.0]], truth=[[1]]), "truth"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], name: str) -> None:
    with pytest.raises(InputError, check=about(name)):
        call()
