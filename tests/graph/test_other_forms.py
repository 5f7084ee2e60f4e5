"""Files of another form, given as a graph of one's own or as silos: taken, or refused with what to do."""

import io
import re
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from fgl_secure import FederatedGraph, train
from fgl_secure.cli.main import main
from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import Data, read_assignment
from fgl_secure.methods import FedVN
from tests.error_codes import about

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own imports are deprecated in torch
    from torch_geometric.data import Data as PygData
    from torch_geometric.data import InMemoryDataset
    from torch_geometric.utils import from_networkx

N = 12
NODE = np.arange(N)
RING: dict[str, Any] = {
    "x": np.eye(N, dtype=np.float32),
    "y": NODE % 2,
    "edge_index": np.hstack([[NODE, (NODE + 1) % N], [(NODE + 1) % N, NODE]]),
}
MASKS = {"train_mask": NODE < 6, "val_mask": (NODE >= 6) & (NODE < 9), "test_mask": NODE >= 9}
OWN = "with the arrays x [n, d], y [n] and edge_index [2, m] (docs/audit_your_graph.md)"
TEXTS = {
    "k.graphml": "<graphml><graph><node id='0'/></graph></graphml>",
    "k.gml": "graph [ node [ id 0 ] ]",
    "k.edgelist": "0 1 {}\n1 2 {}\n",
    "snap.txt": "# Directed graph\n0\t1\n",
    "mols.smi": "CCO 1\n",
    "k.json": "{}",
    "k.gpickle": "cos\nsystem\n(S'false'\ntR.",
    "edges.csv.gz": "\x1f",
    "without_suffix": "0 1\n",
    "x.npy": "\x93NUMPY",
}


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(name: str) -> tuple[int, str]:
    """Status and line of training on a file."""
    err = io.StringIO()
    words = ("train", "fedavg", "--dataset", name, "--silos", "2", "--epochs", "1", "--scheme", "plaintext", "-q")
    with redirect_stderr(err):
        return main(words), err.getvalue()


@pytest.mark.parametrize("name", TEXTS)
def test_other_files_are_refused_with_what_a_graph_is(name: str) -> None:
    """Nothing is loaded; the line names the file, and not the public data sets alone."""
    Path(name).write_text(TEXTS[name], encoding="latin-1")
    status, line = said(name)
    assert (status, line.count("\n")) == (2, 1)
    assert name in line
    assert OWN in line
    with pytest.raises(InputError, match=re.escape(name)):
        train(FedVN(epochs=1), name)


def test_folders_and_files_that_are_not_there_are_refused() -> None:
    """A folder of the raw files of OGB, and a path that leads nowhere; names of data sets stay names beside folders."""
    Path("ogb/raw").mkdir(parents=True)
    Path("digits").mkdir()
    status, line = said("ogb")
    assert (status, "found a folder" in line, OWN in line) == (2, True, True)
    for name in ("ogb/raw/edge.csv", "no.pt"):
        status, line = said(name)
        assert (status, "found nothing" in line, OWN in line) == (2, True, True)
    assert Data("digits", silos=2).load().num_devices == 1797
    for name in ("none.npz", "no/none.npz", "a\0b.npz", "x" * 300 + ".npz"):
        with pytest.raises(DataNotFoundError):
            Data(name).load()


def test_names_in_capitals_are_files_and_a_blank_too_much_is_told() -> None:
    np.savez("ring.npz", **{**RING, **MASKS})
    Path("ring.npz").rename("RING.NPZ")
    assert said("RING.NPZ") == (0, "")
    status, line = said("RING.NPZ ")
    assert (status, "did you mean RING.NPZ?" in line) == (2, True)


@pytest.mark.parametrize("saved", ["Data", "dict"])
def test_saved_objects_are_converted_as_the_line_says(saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused unloaded, for they can run code; the code in the line makes a file that is taken whole."""
    data = PygData(**{key: torch.from_numpy(value) for key, value in {**RING, **MASKS}.items()})
    torch.save(data if saved == "Data" else data.to_dict(), "graph.pt")
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", None)
        status, line = said("graph.pt")
    assert (status, OWN in line) == (2, True)
    code = re.search(r"by: (import .*\)\));", line)
    assert code is not None
    exec(code[1], {})  # noqa: S102  # the remedy, as a user would run it
    graph = Data("graph.npz", silos=2).load()
    assert graph.train_mask.tolist() == MASKS["train_mask"].tolist()
    assert graph.edges.shape == (2, 2 * N)


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "must be an .npz file"),
    "cut": (lambda whole: whole[: len(whole) // 2], "must be an .npz file"),
    "npy": (lambda _: b"\x93NUMPY\x01\x00v\x00{}", "must be an .npz file"),
}


@pytest.mark.parametrize(("damage", "rule"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_refused(damage: Callable[[bytes], bytes], rule: str) -> None:
    """With status 2."""
    np.savez("ring.npz", **RING)
    Path("ring.npz").write_bytes(damage(Path("ring.npz").read_bytes()))
    status, line = said("ring.npz")
    assert (status, rule in line) == (2, True)


@pytest.mark.parametrize("key", ["x", "y", "edge_index", "val_mask"])
def test_arrays_of_objects_are_named(key: str) -> None:
    np.savez("ring.npz", **{**RING, **MASKS, key: np.array([None] * N, dtype=object)})
    status, line = said("ring.npz")
    assert (status, f"{key} can't be read" in line) == (2, True)


@pytest.mark.parametrize(
    "arrays",
    [{"adj_indices": NODE, "feat": RING["x"], "label": NODE}, {"feature": RING["x"], "node_types": NODE}, {}],
    ids=["gnn-benchmark", "reddit", "nothing"],
)
def test_arrays_of_other_names_are_listed(arrays: dict[str, Any]) -> None:
    np.savez("other.npz", **arrays)
    status, line = said("other.npz")
    assert (status, OWN in line, all(name in line for name in arrays)) == (2, True, True)
    assert "missing: x, y, edge_index" in line


SILOS = (NODE % 4).tolist()
COLUMN = "\n".join(map(str, SILOS))
TAKEN: dict[str, bytes] = {
    "plain.txt": COLUMN.encode(),
    "bom_crlf.txt": b"\xef\xbb\xbf" + COLUMN.replace("\n", "\r\n").encode(),
    "comment.txt": b"# silo of each node\n\n" + COLUMN.replace("\n", " # a node\n").encode(),
    "savetxt.txt": "\n".join(f"{silo:.18e}" for silo in SILOS).encode(),
    "column.csv": COLUMN.encode() + b"\n",
    "one_line.txt": " ".join(map(str, SILOS)).encode(),
    "one_line.csv": ",".join(map(str, SILOS)).encode(),
}
REFUSED: dict[str, bytes] = {
    "header.txt": b"silo\n" + COLUMN.encode(),
    "names.txt": b"A\nB\n",
    "two.txt": "\n".join(f"{node} {silo}" for node, silo in enumerate(SILOS)).encode(),
    "two.csv": "\n".join(f"{node},{silo}" for node, silo in enumerate(SILOS)).encode(),
    "underscore.txt": COLUMN.replace("3", "1_0").encode(),
    "arabic.txt": COLUMN.replace("3", "\u0663").encode(),
    "half.txt": COLUMN.replace("3", "2.5").encode(),
    "nan.txt": COLUMN.replace("3", "nan").encode(),
    "infinite.txt": COLUMN.replace("3", "1e400").encode(),
    "utf16.txt": COLUMN.encode("utf-16"),
    "empty.npy": b"",
}
ARRAYS: dict[str, Any] = {
    "int64": NODE % 4,
    "big-endian": (NODE % 4).astype(">i4"),
    "uint8": (NODE % 4).astype(np.uint8),
    "float": (NODE % 4).astype(np.float64),
    "n x 1": (NODE % 4)[:, None],
}
WRONG_ARRAYS: dict[str, Any] = {
    "halves": NODE % 4 / 2,
    "nan": np.where(NODE == 3, np.nan, 0.0),
    "infinite": np.where(NODE == 3, np.inf, 0.0),
    "n x 2": np.stack([NODE, NODE % 4], axis=1),
    "bool": NODE % 2 == 0,
    "text": np.array(["A", "B"]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_silos_are_read_from_every_clear_text(name: str) -> None:
    """A mark of the byte order, ends of lines, comments and whole fractions change nothing."""
    Path(name).write_bytes(TAKEN[name])
    assert read_assignment(Path(name)).tolist() == SILOS


@pytest.mark.parametrize("name", REFUSED)
def test_unclear_silos_are_refused_and_not_guessed(name: str) -> None:
    """One line that names the file and says what it must hold; numbers that Python alone reads are none."""
    Path(name).write_bytes(REFUSED[name])
    with pytest.raises(InputError, check=about(name)):
        read_assignment(Path(name))


def test_arrays_of_silos_are_taken_in_every_type() -> None:
    """Integers of any byte order, columns and whole fractions; all else is refused."""
    for suffix in (".npy", ".NPY"):
        for values in ARRAYS.values():
            with Path(f"silos{suffix}").open("wb") as file:
                np.save(file, values)
            assert read_assignment(Path(f"silos{suffix}")).tolist() == SILOS
    for name, values in WRONG_ARRAYS.items():
        np.save("silos.npy", values)
        with pytest.raises(InputError, check=about("silos.npy")):
            print(name, read_assignment(Path("silos.npy")))


def test_the_conversions_of_the_page_work() -> None:
    """Of a processed file of PyTorch Geometric, and of a NetworkX graph."""
    whole = PygData(**{key: torch.from_numpy(value) for key, value in {**RING, **MASKS}.items()})
    InMemoryDataset.save([whole], "data.pt")
    np.savez("graph.npz", **torch.load("data.pt", weights_only=False)[0])
    assert Data("graph.npz", silos=2).load().test_mask.tolist() == MASKS["test_mask"].tolist()
    data = from_networkx(networkx.cycle_graph(N))
    data.x, data.y = whole.x, whole.y
    assert FederatedGraph.from_pyg(data, 2).edges.shape == (2, 2 * N)
