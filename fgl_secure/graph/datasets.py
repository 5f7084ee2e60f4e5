"""The data sets that can be loaded by name: those of this package, and those of others by entry points.

An entry point of group `fgl_secure.datasets` names a `GraphDataset`, or a `GraphSetDataset` of many small graphs.

Photo, CS, Physics and DBLP are published as one .npz of plain arrays (gnn-benchmark, Shchur et al. 2018, and
graph2gauss, 2018). FedSage+ and Fed2GNN call CS "MSAcademic".

Cora, CiteSeer and PubMed come as pickles, which are read without running what is in them.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure import plugins
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.graph.motif import motif
from fgl_secure.graph.own_files import (
    DATA_VARIABLE,
    MOST_ENTRIES,
    RawFiles,
    cache_folder,
    chosen_folder,
    load_raw,
    plain_arrays,
    silence,
)

_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _load_planetoid(name: str, data_root: Path | None, cache: Path) -> Graph:
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
    for matrix, known, test in ((features, allx, tx), (classes, ally, ty)):
        matrix[:first] = known
        matrix[ordered] = test
        matrix[tested] = matrix[ordered]
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


GROUP = "fgl_secure.datasets"


@dataclass(frozen=True, slots=True)
class _Dataset:
    """What all data sets have.

    Attributes:
        name: on the command line and in Python, in upper or lower case.
        description: one line for listings.
        load: returns the data; its arguments depend on the kind of data set.
    """

    name: str
    description: str
    load: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class GraphDataset(_Dataset):
    """A data set of one graph.

    `load(data_root, cache)` returns a `Graph`, with the folder of raw files or None, and the folder for downloads.

    Attributes:
        nodes: number of nodes.
        edges: number of directed edges; each undirected edge counts twice.
        features: number of features of a node.
        classes: number of classes.

    Examples:
        pair = GraphDataset(load_pair, nodes=2, edges=2, features=1, classes=2)
    """

    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True, slots=True)
class GraphSetDataset(_Dataset):
    """A data set of many small graphs, of which every client has some.

    `load(seed, data_root)` returns a `GraphSet`, with the folder of raw files or None.

    Attributes:
        clients: number of clients.
        graphs: graphs per client.
        features: number of features of a node.
        classes: number of classes; 0 if a value is predicted.
        shift: what differs between the clients.
    """

    clients: int
    graphs: int
    features: int
    classes: int
    shift: str


NEIGHBOURS = 5
"""Of an image of a digit."""


@cache
def load_digits_graph() -> Graph:
    """Join each of scikit-learn's 1,797 images of digits to its 5 nearest neighbours.

    Distances are Euclidean between raw pixels, and two images are joined in both directions if either counts the other
    among its nearest. Pixels are scaled from 0..16 to [0, 1]. The result is the same every time, and
    is made once a process: no party can write to its arrays.
    """
    # Imported here because they take two seconds that only this data set needs.
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

    pixels, labels = load_digits(return_X_y=True)
    # A k-d tree in one job breaks ties between equal distances in a fixed order, whatever the number of cores.
    search = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="kd_tree", n_jobs=1).fit(pixels)
    nearest = search.kneighbors(return_distance=False)
    source, target = nearest.ravel(), np.repeat(np.arange(len(pixels)), NEIGHBOURS)
    both_ways = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    return Graph.from_arrays("digits", pixels / 16.0, labels, both_ways, image_shape=(8, 8))


def _digits(_data_root: Path | None, _cache: Path) -> Graph:
    return load_digits_graph()


def _from_archive(
    name: str, folder: str, file: str, publisher: str = "gnn-benchmark"
) -> Callable[[Path | None, Path], Graph]:
    """Return what loads a graph that is published as one .npz, as PyTorch Geometric has it.

    Args:
        name: what `load` calls it.
        folder: PyTorch Geometric's class and its folder for the graph.
        file: name of the file.
        publisher: whose it is, for messages.
    """
    kind, _, inner = folder.partition("/")
    parse, download = partial(_parse_archive, name, file), partial(_download_archive, kind, name, inner)
    return partial(load_raw, RawFiles(name, publisher, f"{folder}/raw", (file,), parse, download))


def _download_archive(kind: str, name: str, inner: str, scratch: Path) -> Path:
    from torch_geometric import datasets  # noqa: PLC0415 (takes seconds)

    getattr(datasets, kind)(root=str(scratch), name=name)
    return scratch / inner / "raw"


def _parse_archive(name: str, file_name: str, raw: Path) -> Graph:
    """Return the graph of two sparse matrices, adj_* and attr_*, and labels: symmetric, features 0 or 1."""
    stored = plain_arrays(raw / file_name, [*(f"{m}_{part}" for m in ("adj", "attr") for part in _CSR), "labels"])
    features = _sparse(stored, "attr") > 0
    source, target = _sparse(stored, "adj").nonzero()
    edges: NDArray[np.int64] = np.stack([np.append(source, target), np.append(target, source)]).astype(np.int64)
    return Graph.from_arrays(name, features, stored["labels"], edges)


_CSR = ("data", "indices", "indptr", "shape")


def _sparse(stored: Mapping[str, NDArray[Any]], prefix: str) -> Any:
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    parts = (stored[f"{prefix}_data"], stored[f"{prefix}_indices"], stored[f"{prefix}_indptr"])
    rows, columns = stored[f"{prefix}_shape"].tolist()
    if prefix == "attr" and rows * columns > MOST_ENTRIES:
        raise ValueError(f"features must be at most {MOST_ENTRIES:,} numbers; found {rows:,} * {columns:,}")
    matrix = csr_array(parts, shape=(rows, columns))
    matrix.check_format(full_check=True)  # an index outside of the matrix would be read from foreign memory
    return matrix


_OWN: Mapping[str, _Dataset] = MappingProxyType({dataset.name.casefold(): dataset for dataset in (
    GraphDataset("digits", "8x8 images of digits joined to their 5 nearest; no download",
                 _digits, 1797, 12616, 64, 10),
    GraphDataset("Cora", "papers on machine learning joined by citations",
                 partial(_load_planetoid, "Cora"), 2708, 10556, 1433, 7),
    GraphDataset("CiteSeer", "papers on computer science joined by citations, 48 of them alone",
                 partial(_load_planetoid, "CiteSeer"), 3327, 9104, 3703, 6),
    GraphDataset("PubMed", "papers on diabetes joined by citations",
                 partial(_load_planetoid, "PubMed"), 19717, 88648, 500, 3),
    GraphDataset("Photo", "Amazon Photo: goods joined where they are bought together",
                 _from_archive("Photo", "Amazon/Photo", "amazon_electronics_photo.npz"), 7650, 238162, 745, 8),
    GraphDataset("CS", "authors in computer science joined by joint papers (MSAcademic)",
                 _from_archive("CS", "Coauthor/CS", "ms_academic_cs.npz"), 18333, 163788, 6805, 15),
    GraphDataset("Physics", "authors in physics joined by joint papers; loading takes 2.6 GB",
                 _from_archive("Physics", "Coauthor/Physics", "ms_academic_phy.npz"), 34493, 495924, 8415, 5),
    GraphDataset("DBLP", "papers on four fields of computer science joined by citations",
                 _from_archive("DBLP", "CitationFull/dblp", "dblp.npz", "graph2gauss"), 17716, 105734, 1639, 4),
    GraphSetDataset("Motif-mini", "Motif-basis in small, for tries and audits; generated",
                    lambda seed, _root: motif("Motif-mini", seed, 60, 0.2), 3, 60, 1, 3, "basis"),
    GraphSetDataset("Motif-basis", "a motif at a base that differs by client; generated",
                    lambda seed, _root: motif("Motif-basis", seed), 5, 1000, 1, 3, "basis"),
    GraphSetDataset("Motif-size", "a motif at a base whose size differs by client; generated",
                    lambda seed, _root: motif("Motif-size", seed), 5, 1000, 1, 3, "size"),
    GraphSetDataset("Motif-basis-concept", "a motif, and a base that follows it or not; generated",
                    lambda seed, _root: motif("Motif-basis-concept", seed), 5, 1000, 1, 3, "basis concept"),
    GraphSetDataset("Motif-size-concept", "a motif, and a size that follows it or not; generated",
                    lambda seed, _root: motif("Motif-size-concept", seed), 5, 1000, 1, 3, "size concept"),
)})  # fmt: skip


_Kind = TypeVar("_Kind", bound=_Dataset)


def _installed_datasets() -> list[_Dataset]:
    """Return the data sets that other packages register, except for names of this package.

    Raises:
        InputError: an entry point names something else, or does not load.
    """
    loaded = []
    for point in sorted(plugins.installed_plugins(GROUP)):
        dataset = plugins.load_plugin(point)
        if not isinstance(dataset, _Dataset):
            raise InputError(f"entry point {point.name} of {GROUP} must name a Dataset; found {point.value}")
        loaded.append(dataset)
    return [dataset for dataset in loaded if dataset.name.casefold() not in _OWN]


def find_dataset(name: str) -> _Dataset | None:
    """Return a data set of either kind, or None. Plugins are loaded only for names that this package lacks.

    Args:
        name: in upper or lower case.
    """
    wanted = name.casefold()
    if wanted in _OWN:
        return _OWN[wanted]
    return next((dataset for dataset in _installed_datasets() if dataset.name.casefold() == wanted), None)


def available(kind: type[_Dataset] = GraphDataset) -> tuple[str, ...]:
    """Return the names of all data sets of a kind, those of this package first."""
    return tuple(dataset.name for dataset in describe(kind))


def describe(kind: type[_Kind]) -> tuple[_Kind, ...]:
    """Return all data sets of a kind, those of this package first. No graph is loaded."""
    return tuple(dataset for dataset in (*_OWN.values(), *_installed_datasets()) if isinstance(dataset, kind))


def _check_kind(noun: str, name: str, kind: type[_Kind]) -> _Kind:
    dataset = find_dataset(name)
    if isinstance(dataset, kind):
        return dataset
    if dataset is None:
        raise UnknownNameError(noun, name, available(kind))
    if kind is GraphDataset:
        raise InputError(f"{noun} must be one graph; found {dataset.name}, a set of many graphs, which is for fedvn")
    raise InputError(f"{noun} must have many graphs, of which each client has some; found {dataset.name}, one graph")


def load(
    name: str, data_root: str | os.PathLike[str] | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> Graph:
    """Load a data set by name.

    Args:
        name: One of `available()`, in upper or lower case.
        data_root: The folder with the raw files, Planetoid/Cora/raw/ind.cora.x and so on; it is never written to. By
            default the environment variable FGL_SECURE_DATA, and without that PyTorch Geometric downloads to the cache.
        cache_dir: Where downloads are kept. By default the environment variable FGL_SECURE_CACHE, and
            without that the user's cache folder.

    Raises:
        UnknownNameError: There is no data set of that name.
        DataNotFoundError: Its files are not there and could not be had; the message says where they were looked for.
        InputError: Its files can't be read, or a package with data sets does not load.
    """
    dataset, root = _check_kind("data set", name, GraphDataset), chosen_folder(data_root, DATA_VARIABLE)
    graph: Graph = dataset.load(root, cache_folder(cache_dir))
    return graph


def load_set(name: str, seed: int = 0, data_root: str | os.PathLike[str] | None = None) -> GraphSet:
    """Load or generate a set of graphs by name.

    Args:
        name: One of `available(GraphSetDataset)`, in upper or lower case.
        seed: Repeats the graphs that are drawn and their split.
        data_root: The folder with raw files, for sets that need them; by default the environment variable
            FGL_SECURE_DATA.

    Raises:
        UnknownNameError: There is no set of that name.
        DataNotFoundError: Its files are not there; the message says where they were looked for.
        InputError: A library that it needs is not installed, its files can't be read, or the seed is negative.
    """
    if os.path.exists(name) and find_dataset(name) is None:
        raise InputError(
            f"graph set must be one of {', '.join(available(GraphSetDataset))}, for clients have many graphs; found "
            f"{name}: a file with one graph is for the other methods"
        )
    graphs: GraphSet = _check_kind("graph set", name, GraphSetDataset).load(
        seed, chosen_folder(data_root, DATA_VARIABLE)
    )
    return graphs
