"""Cora, CiteSeer and PubMed from the raw files of Planetoid: pickles, read without running what is in them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.own_files import MOST_ENTRIES
from fgl_secure.graph.raw_files import RawFiles, load_raw, silence

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def load_planetoid(name: str, data_root: Path | None, cache: Path) -> Graph:
    """Load one of the three graphs, without self-loops and duplicate edges.

    Args:
        name: "Cora", "CiteSeer" or "PubMed".
        data_root: Holds Planetoid/<name>/raw/ind.<name>.*; None to download them into the cache from where PyTorch
            Geometric has them.
        cache: Where downloads are kept.

    Raises:
        DataNotFoundError: Raw files are missing under `data_root`, or could not be downloaded.
        InputError: The raw files are there but are not what they should be, such as pickles of anything but arrays.
    """
    files = tuple(f"ind.{name.lower()}.{part}" for part in _PARTS)
    folder = f"Planetoid/{name}/raw"
    source = RawFiles(name, "Planetoid", folder, files, partial(_parse, name), partial(_download, name, files))
    return load_raw(source, data_root, cache)


def _parse(name: str, raw: Path) -> Graph:
    """The same graph as PyTorch Geometric's `read_planetoid_data`, whose order of nodes is Planetoid's.

    The test nodes stand behind the others, in the order of test.index; of CiteSeer some numbers among them are missing,
    and become nodes without features, class 0.
    """
    stem = f"ind.{name.lower()}"
    allx, tx, ally, ty = (_matrix(_unpickle(raw / f"{stem}.{part}")) for part in ("allx", "tx", "ally", "ty"))
    tested = np.array((raw / f"{stem}.test.index").read_text(encoding="ascii").split(), dtype=np.int64)
    first, ordered = int(tested.min()), np.sort(tested)
    rows = int(tested.max()) - first + 1
    if first != len(allx) or len(ally) != len(allx) or rows > 2 * len(tested):
        raise ValueError(f"test.index must number the nodes behind the {len(allx)} others; found {first} to {rows}")
    features, classes = (np.zeros((first + rows, part.shape[1]), dtype=np.float32) for part in (allx, ally))
    for whole, known, test in ((features, allx, tx), (classes, ally, ty)):
        whole[:first] = known
        whole[ordered] = test
        whole[tested] = whole[ordered]
    edges = _edges(_unpickle(raw / f"{stem}.graph"))
    return Graph.from_arrays(name, features, classes.argmax(axis=1), edges)


def _download(name: str, files: tuple[str, ...], scratch: Path) -> Path:
    """Downloads from PyTorch Geometric's address, and without its reader, which would run what is in the files."""
    with silence():
        from torch_geometric.datasets import Planetoid  # noqa: PLC0415 (takes seconds)
        from torch_geometric.io import fs  # noqa: PLC0415 (takes seconds)

        raw = scratch / name / "raw"
        raw.mkdir(parents=True)
        for file in files:
            fs.cp(f"{Planetoid.url}/{file}", str(raw))
    _parse(name, raw)
    return raw


class _Inert:
    """What a pickle makes in place of an object: what it would be made of, and nothing that does anything."""

    def __init__(self, *made_of: object) -> None:
        self.made_of, self.state = made_of, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Sparse(_Inert):
    """In place of a `csr_matrix`."""


class _Array(_Inert):
    """In place of an array."""


class _Type(_Inert):
    """In place of a type of entries."""


class _Lists(dict[object, object]):
    """In place of a `defaultdict` of lists."""

    def __init__(self, _factory: object = None) -> None:
        super().__init__()

    def __setstate__(self, _state: object) -> None:
        raise pickle.UnpicklingError("dictionary must have no state of its own; it has")


class _Bytes(bytes):
    """In place of what newer Pythons write for bytes."""

    __slots__ = ()

    def __new__(cls, text: object, encoding: object) -> _Bytes:
        if not (isinstance(text, str) and encoding == "latin1"):
            raise pickle.UnpicklingError("bytes must be written in latin1; they are not")
        return super().__new__(cls, text.encode("latin1"))


_KNOWN: Mapping[tuple[str, str], type] = MappingProxyType(
    {
        **{(module, "csr_matrix"): _Sparse for module in ("scipy.sparse.csr", "scipy.sparse._csr")},
        **{(f"numpy.{module}.multiarray", "_reconstruct"): _Array for module in ("core", "_core")},
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("collections", "defaultdict"): _Lists,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
        ("_codecs", "encode"): _Bytes,
    }
)
"""All names that the raw files have, and what stands for each of them."""


class _Reader(pickle.Unpickler):
    """Reads a pickle whose names are known, and calls nothing but what stands for them here."""

    def find_class(self, module: str, name: str) -> type:
        """The class that stands for a name.

        Raises:
            UnpicklingError: it is none of those that the raw files have.
        """
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"pickle must name arrays and lists alone; found {module}.{name}")
        return _KNOWN[module, name]


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        return _Reader(file, encoding="latin1").load()


def _matrix(result: object) -> NDArray[Any]:
    """A dense matrix, from what stands for a sparse or a dense one."""
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    if not isinstance(result, _Sparse):
        return _array(result, axes=2)
    parts: dict[str, Any] = result.state or {}
    rows, columns = parts["_shape"]
    if not 0 <= rows * columns <= MOST_ENTRIES:
        raise ValueError(f"matrix must have at most {MOST_ENTRIES:,} entries; found {rows} * {columns}")
    matrix = csr_array(tuple(_array(parts[name], axes=1) for name in ("data", "indices", "indptr")), (rows, columns))
    matrix.check_format(full_check=True)  # an index outside of the matrix would be read from foreign memory
    return np.asarray(matrix.toarray())


def _array(result: object, axes: int) -> NDArray[Any]:
    """An array of numbers, from what stands for it: (version, shape, type, whether by columns, entries)."""
    if not isinstance(result, _Array) or result.state is None:
        raise ValueError(f"arrays must be pickled as such; found {type(result).__name__}")
    _, shape, kind, by_columns, entries = result.state
    if not isinstance(kind, _Type) or kind.made_of[0] not in ("f4", "f8", "i4", "i8", "i1", "u1"):
        raise ValueError("arrays must be of numbers; one is not")
    order = kind.state[1] if kind.state else "|"
    data = entries.encode("latin1") if isinstance(entries, str) else entries
    flat = np.frombuffer(data, np.dtype(str(kind.made_of[0])).newbyteorder(order))
    if len(shape) != axes:
        raise ValueError(f"arrays must have {axes} axes; found {len(shape)}")
    return flat.reshape(shape, order="F" if by_columns else "C")


def _edges(result: object) -> NDArray[np.int64]:
    """Int64 [2, m], the edges of lists of neighbours, sorted by target and then by source as PyTorch Geometric does."""
    if not isinstance(result, _Lists) or not all(isinstance(near, list) for near in result.values()):
        raise ValueError("graph must be lists of neighbours; it is not")
    pairs = [(near, node) for node, all_near in result.items() for near in all_near]  # type: ignore[attr-defined]
    edges = np.unique(np.array(pairs).reshape(-1, 2), axis=0)
    if edges.dtype != np.int64:
        raise ValueError(f"nodes must be integers; found {edges.dtype}")
    edges = edges[edges[:, 0] != edges[:, 1]]
    return np.ascontiguousarray(edges[:, ::-1].T)
