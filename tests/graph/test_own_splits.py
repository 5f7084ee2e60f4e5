"""A user's own split, in every form that people have it in, from Python and on the command line; and what is said."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from fgl_secure import FederatedGraph, audit, train
from fgl_secure.cli.main import main
from fgl_secure.errors import DataWarning, InputError
from fgl_secure.graph import Data, Graph, SplitMasks, read_graph
from fgl_secure.methods import FedAvg
from fgl_secure.training.silo import Silo
from tests.error_codes import about

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own imports are deprecated in torch
    from torch_geometric.data import Data as PygData
    from torch_geometric.data import HeteroData

N = 30
NODE = np.arange(N)
TRAIN, VAL, TEST = NODE < 15, (NODE >= 15) & (NODE < 20), NODE >= 24
MASKS = {"train_mask": TRAIN, "val_mask": VAL, "test_mask": TEST}
ARRAYS: dict[str, Any] = {
    "x": np.eye(N, 4, dtype=np.float32) + 1,
    "y": NODE % 3,
    "edge_index": np.hstack([[NODE, (NODE + 1) % N], [(NODE + 1) % N, NODE]]),
}
Form = Callable[[Any], Any]


def pyg(**changes: Any) -> Any:
    """The ring, as PyTorch Geometric has it."""
    return PygData(**{**{key: torch.from_numpy(value) for key, value in ARRAYS.items()}, **changes})


def columns(mask: Any, number: int = 10) -> Any:
    """Splits of which the fourth is the mask, and each other marks nodes moved around the ring."""
    return np.stack([np.roll(mask, column - 3) for column in range(number)], axis=1)


def split_of(graph: FederatedGraph) -> tuple[list[int], list[int], list[int]]:
    """The nodes of each mask."""
    train, validation, test = (
        np.flatnonzero(mask).tolist() for mask in (graph.train_mask, graph.validation_mask, graph.test_mask)
    )
    return train, validation, test


WANTED = tuple(np.flatnonzero(mask).tolist() for mask in MASKS.values())
FORMS: dict[str, Form] = {
    "bool": lambda mask: mask,
    "n x 1": lambda mask: mask[:, None],
    "uint8": lambda mask: mask.astype(np.uint8),
    "int64 n x 1": lambda mask: mask.astype(np.int64)[:, None],
    "big-endian": lambda mask: mask.astype(">i4"),
    "float32": lambda mask: mask.astype(np.float32),
    "numbers of nodes": np.flatnonzero,
    "shuffled numbers of nodes": lambda mask: np.flatnonzero(mask)[::-1].astype(np.uint16),
}
BAD: dict[str, tuple[Form, str]] = {
    "n x 10": (columns, r"train_mask .* bool of shape \(30, 10\): choose a column with split=0 to 9, or --split"),
    "10 x n": (lambda mask: columns(mask).T, r"train_mask .* shape \(30,\).* found bool of shape \(10, 30\)"),
    "short": (lambda mask: mask[:-1], r"train_mask .* found bool of shape \(29,\)"),
    "short of 0 and 1": (lambda mask: mask[:-1].astype(int), r"train_mask .* found int64 of shape \(29,\)"),
    "1 and 2": (lambda mask: mask + 1, r"train_mask .* other values than 0 and 1"),
    "-1 and 1": (lambda mask: 2 * mask - 1, r"train_mask .* int64 of shape \(30,\), with other values"),
    "NaN": (lambda mask: np.where(mask, 1.0, np.nan), r"train_mask .* float64 of shape \(30,\), with other values"),
    "shares": (lambda mask: mask * 0.5, r"train_mask .* float64 of shape \(30,\), with other values"),
    "nobody": (lambda mask: mask & False, r"train_mask must mark .* found bool of shape \(30,\) without any"),
    "everybody": (lambda mask: mask | True, r"overlap; node 15 is in more than one: train_mask and val_mask"),
    "node n": (lambda mask: np.flatnonzero(mask) + N, r"train_mask .* found int64 of shape \(15,\)"),
}


def told(make: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What is made, and what is said of the data."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = make()
    return made, [str(each.message) for each in seen if issubclass(each.category, DataWarning)]


def written(path: Path, **changes: Any) -> Path:
    """The ring in a file."""
    np.savez(path, **{**ARRAYS, **changes})
    return path


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_split_is_taken_in_every_form(tmp_path: Path, form: Form) -> None:
    """From PyTorch Geometric, from a file, and as `SplitMasks`: the user's nodes train, validate and test."""
    masks = {key: form(mask) for key, mask in MASKS.items()}
    tensors = {key: torch.from_numpy(mask.astype(mask.dtype.newbyteorder("="))) for key, mask in masks.items()}
    for given in (masks, tensors, {key: mask.tolist() for key, mask in masks.items()}):
        assert split_of(FederatedGraph.from_pyg(pyg(**given), 3)) == WANTED
    path = written(tmp_path / "mine.npz", **masks)
    assert split_of(Data(str(path), silos=3).load()) == WANTED
    graph = Graph.from_arrays("ring", *ARRAYS.values())
    assert split_of(FederatedGraph.from_assignment(graph, NODE % 3, SplitMasks(*masks.values()))) == WANTED


def test_sparse_masks_are_taken() -> None:
    dense = {key: mask[:, None].astype(np.uint8) for key, mask in MASKS.items()}
    for form in (lambda mask: torch.from_numpy(mask).to_sparse(), sparse.csr_array):
        assert split_of(FederatedGraph.from_pyg(pyg(**{key: form(mask) for key, mask in dense.items()}), 3)) == WANTED


@pytest.mark.parametrize(("form", "rule"), BAD.values(), ids=BAD)
def test_what_is_no_split_is_refused_with_the_mask_its_type_and_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: Form, rule: str
) -> None:
    """From PyTorch Geometric, and on the command line with status 2 and one line that speaks of no silo."""
    masks = {**MASKS, "train_mask": form(TRAIN)}
    with pytest.raises(InputError, match=rule):
        FederatedGraph.from_pyg(pyg(**masks), 3)
    path = written(tmp_path / "mine.npz", **masks)
    assert main(("train", "fedavg", "--dataset", str(path), "--silos", "3", "--scheme", "plaintext")) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "silo" not in said
    with pytest.raises(InputError, match=rule):
        read_graph(path, 0)


def test_one_of_several_splits_is_taken(tmp_path: Path) -> None:
    """By `split`, from Python and by name; masks of one split may stand beside; what is no column is refused."""
    masks = {key: columns(mask) for key, mask in MASKS.items()}
    path = written(tmp_path / "mine.npz", **masks)
    assert split_of(FederatedGraph.from_pyg(pyg(**masks), 3, split=3)) == WANTED
    assert split_of(Data(str(path), silos=3, split=3).load()) == WANTED
    for data in (pyg(**masks), path):
        done = train(FedAvg(epochs=1), data, "plaintext", silos=3, split=3, device="cpu")
        assert split_of(done.plan.graph) == WANTED
    words = ("train", "fedavg", "--dataset", str(path), "--silos", "3", "--scheme", "plaintext", "--epochs", "1", "-q")
    assert main((*words, "--split", "3")) == 0
    mixed = {**masks, "train_mask": TRAIN}
    assert split_of(FederatedGraph.from_pyg(pyg(**mixed), 3, split=3)) == WANTED
    for split, given in ((10, masks), (-1, masks), (0, MASKS), (0, {})):
        with pytest.raises(InputError, check=about("split")):
            FederatedGraph.from_pyg(pyg(**given), 3, split=split)
    with pytest.raises(InputError, check=about("split")):
        Data("digits", split=0).load()


def test_masks_that_are_missing_mark_no_node() -> None:
    """Train and test, or train alone: none of the user's other nodes is trained on, and it is said."""
    two, notes = told(lambda: FederatedGraph.from_pyg(pyg(train_mask=TRAIN, test_mask=TEST), 3))
    assert split_of(two) == (WANTED[0], [], WANTED[2])
    assert len(notes) == 1
    assert "val_mask is missing" in notes[0]
    one, notes = told(lambda: FederatedGraph.from_pyg(pyg(train_mask=TRAIN), 3))
    assert split_of(one) == (WANTED[0], [], [])
    assert len(notes) == 2


@pytest.mark.parametrize(
    "masks",
    [
        {"test_mask": TEST},
        {"train_idx": np.flatnonzero(TRAIN)},
        {"idx_train": np.flatnonzero(TRAIN)},
        {**MASKS, "valid_mask": VAL},
    ],
    ids=str,
)
def test_a_split_that_is_not_understood_is_no_random_one(tmp_path: Path, masks: dict[str, Any]) -> None:
    """Without train_mask, or under another name."""
    with pytest.raises(InputError):
        FederatedGraph.from_pyg(pyg(**masks), 3)
    with pytest.raises(InputError):
        read_graph(written(tmp_path / "mine.npz", **masks), 0)


def test_nodes_without_a_label_are_in_no_mask() -> None:
    """Label -1, with masks and without; labels may be a column, and NaN or a fraction is none."""
    labels = np.where(NODE % 5 == 0, -1, NODE % 3)
    for given in (MASKS, {}):
        graph, notes = told(partial(FederatedGraph.from_pyg, pyg(y=labels[:, None], **given), 3))
        assert not (graph.train_mask | graph.validation_mask | graph.test_mask)[labels == -1].any()
        assert graph.labels.tolist() == labels.tolist()
        assert Silo.of(graph, 0).labels.min() >= 0
        assert graph.num_classes == 3
        assert len(notes) == 1
        assert "6 nodes have label -1" in notes[0]
    assert [len(each) for each in split_of(FederatedGraph.from_pyg(pyg(y=labels), 3, verbose=False))] == [14, 5, 5]
    for bad in (np.where(labels < 0, np.nan, labels), np.eye(3)[NODE % 3], np.full(N, -1), np.full(N, -2)):
        with pytest.raises(InputError):
            FederatedGraph.from_pyg(pyg(y=bad), 3)


CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "self-loops and repeated edges": (
        {"edge_index": np.hstack([ARRAYS["edge_index"], [[0, 1, 2, 0, 0], [0, 1, 2, 1, 1]]])},
        ["3 self-loops and 2 repeated edges are dropped"],
    ),
    "weights": ({"edge_attr": np.ones(2 * N), "pos": np.ones(N)}, ["not used: edge_attr, pos"]),
    "gaps between labels": ({"y": 5 + 10 * (NODE % 3)}, ["labels 5, 15, 25 make 26 classes, 23 without a node"]),
}


@pytest.mark.parametrize(("changes", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_changes_or_is_not_used_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], expected: list[str]
) -> None:
    """As a warning in Python and a line on the command line; with verbose=False, or -q, not a word."""
    path = written(tmp_path / "mine.npz", **changes)
    method = FedAvg(epochs=1)
    makers: list[Callable[..., Any]] = [
        partial(FederatedGraph.from_pyg, pyg(**changes), 3),
        partial(train, method, path, "plaintext", silos=3, device="cpu"),
    ]
    for make in makers:
        _, notes = told(make)
        assert [len(notes), *(words in note for words, note in zip(expected, notes, strict=True))] == [
            len(expected), *[True] * len(expected)
        ]  # fmt: skip
        assert told(partial(make, verbose=False))[1] == []
    words = ("train", "fedavg", "--dataset", str(path), "--silos", "3", "--scheme", "plaintext", "--epochs", "1")
    for more in ((), ("-q",)):
        assert main((*words, *more)) == 0
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == (0 if more else len(expected))
        assert all(line.startswith("fgl-secure: mine: ") for line in lines)


def test_adjacency_matrices_are_taken_as_edges() -> None:
    """A transposed one of torch, in any layout, gives the same directed edges."""
    edges = torch.tensor([[0, 0, 3], [1, 2, 4]])
    matrix = torch.sparse_coo_tensor(edges.flip(0), torch.ones(3), (N, N), check_invariants=True)
    for adj_t in (matrix, matrix.to_sparse_csr()):
        graph = FederatedGraph.from_pyg(pyg(edge_index=None, adj_t=adj_t), 3)
        assert graph.edges.tolist() == edges.tolist()
    _, notes = told(lambda: FederatedGraph.from_pyg(pyg(edge_index=None, adj_t=2 * matrix), 3))
    assert any("values of adj_t" in note for note in notes)


def test_graphs_of_many_types_are_refused_with_what_to_do() -> None:
    """And the remedy works: nodes of the type without labels are in no mask."""
    hetero = HeteroData()
    hetero["a"].x, hetero["a"].y = torch.ones(N, 4), torch.from_numpy(NODE % 3)
    hetero["b"].x = torch.ones(6, 4)
    hetero["a", "to", "b"].edge_index = torch.from_numpy(np.stack([NODE, NODE % 6]))
    for call in (lambda: audit(hetero, method=FedAvg()), lambda: FederatedGraph.from_pyg(hetero, 3)):
        with pytest.raises(InputError, check=about("data")):
            call()
    graph, _ = told(lambda: FederatedGraph.from_pyg(hetero.to_homogeneous(), 3))
    assert graph.num_devices == N + 6
    assert not (graph.train_mask | graph.validation_mask | graph.test_mask)[N:].any()


@pytest.mark.parametrize("data", [object(), [pyg()], {"x": 1}, 3.5, ARRAYS["x"]], ids=lambda data: type(data).__name__)
def test_what_is_no_graph_is_refused_with_what_a_graph_has(data: Any) -> None:
    with pytest.raises(InputError, check=about("data")):
        train(FedAvg(epochs=1), data, "plaintext")
