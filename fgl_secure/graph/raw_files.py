"""Data sets that come as raw files: found or downloaded, parsed once, and kept in the cache afterwards.

The folder with the raw files is only read. What is downloaded or derived goes to the cache.

A cache entry is an .npz of plain arrays that is read without pickle. It appears whole or not at all, and an entry that
can't be read counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph, SparseRows
from fgl_secure.graph.own_files import MOST_ENTRIES, plain_arrays

# What reading a damaged file raises: RuntimeError where a wrong bit says that the archive is encrypted, and ValueError
# covers InputError, since an entry that isn't a valid graph is damaged too.
_DAMAGED = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_graph(entry: Path, name: str) -> Graph | None:
    """Read a cache entry, or return None where it is absent or damaged."""
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    try:
        stored = plain_arrays(entry, ("values", "columns", "row_starts", "shape", "labels", "edges"))
        rows, columns = stored["shape"].tolist()
        if rows * columns > MOST_ENTRIES:
            return None
        features = csr_array((stored["values"], stored["columns"], stored["row_starts"]), shape=(rows, columns))
        return Graph.from_arrays(name, features, stored["labels"], stored["edges"])
    except _DAMAGED:
        return None


def write_graph(entry: Path, graph: Graph) -> None:
    """Write a cache entry; where the cache can't be written, do nothing, since it only saves time.

    Features are stored as a sparse matrix: most public graphs have bags of words.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 (not needed to import the package)

    sparse = graph.stored.matrix if isinstance(graph.stored, SparseRows) else csr_array(graph.stored)
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=entry.parent) as workspace:
            unfinished = Path(workspace) / "graph.npz"
            np.savez(
                unfinished,
                values=sparse.data,
                columns=sparse.indices,
                row_starts=sparse.indptr,
                shape=np.array(sparse.shape),
                labels=graph.labels,
                edges=graph.edges,
            )
            os.replace(unfinished, entry)


DATA_VARIABLE = "FGL_SECURE_DATA"
CACHE_VARIABLE = "FGL_SECURE_CACHE"


@dataclass(frozen=True, slots=True)
class RawFiles:
    """Where the raw files of a data set are, and how they become a graph.

    Attributes:
        name: What `load` calls the data set.
        publisher: Whose files they are, for messages.
        folder: The folder of the files under the data root, as PyTorch Geometric lays it out.
        files: The names of the files that are read.
        parse: Makes the graph from the folder with the files; what it raises means that they are damaged.
        download: Lets PyTorch Geometric download into an empty folder, and returns the folder that then has the files.
    """

    name: str
    publisher: str
    folder: str
    files: tuple[str, ...]
    parse: Callable[[Path], Graph]
    download: Callable[[Path], Path]


def load_raw(source: RawFiles, data_root: Path | None, cache: Path) -> Graph:
    """Load a data set from its raw files, or from the cache entry that an earlier load of the same files left.

    Args:
        source: The data set.
        data_root: Holds the raw files; None to let PyTorch Geometric download them into the cache.
        cache: Where downloads and parsed graphs are kept; entries are told apart by the raw files they came from.

    Raises:
        DataNotFoundError: Raw files are missing under `data_root`, or could not be downloaded.
        InputError: The raw files are there but are not what they should be.
    """
    raw = (cache if data_root is None else data_root) / source.folder
    missing = [file for file in source.files if not (raw / file).is_file()]
    if missing and data_root is not None:
        raise DataNotFoundError(
            f"data_root must hold the raw files of {source.name}; not in {raw}: {', '.join(missing)}. Put the "
            f"{source.publisher} raw files there, or unset {DATA_VARIABLE} (and give no data_root) to let PyTorch "
            "Geometric download them"
        )
    if missing:
        _download(source, raw, cache)
    entry = cache / "graphs" / f"{source.name.lower()}-{_fingerprint(source, raw)}.npz"
    graph = read_graph(entry, source.name)
    if graph is None:
        graph = _parse(source, raw)
        write_graph(entry, graph)
    return graph


def chosen_folder(argument: str | os.PathLike[str] | None, variable: str) -> Path | None:
    """The folder that was given, else the one that an environment variable names, else None."""
    value = argument or os.environ.get(variable)
    try:
        return Path(value).expanduser() if value else None
    except RuntimeError as error:
        raise InputError(f"{variable} must name a folder without ~ for a user without a home; found {value}") from error


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The given folder, else the one that FGL_SECURE_CACHE names, else the user's cache folder.

    For a user without a home that is one that takes no files, so that nothing is kept.
    """
    chosen = chosen_folder(cache_dir, CACHE_VARIABLE)
    if chosen is not None:
        return chosen
    with contextlib.suppress(RuntimeError):  # older releases of platformdirs return a folder called ~
        usual = Path(platformdirs.user_cache_dir("fgl-secure", appauthor=False))
        if usual.is_absolute():
            return usual
    return Path(os.devnull, "fgl-secure")


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep PyTorch Geometric's progress lines and the deprecation warnings of its own imports from the caller."""
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield


def _fingerprint(source: RawFiles, raw: Path) -> str:
    """Tell raw folders apart, and notice when their files are replaced."""
    stats = [(raw / file).stat() for file in source.files]
    identity = [str(raw.resolve()), *(f"{stat.st_size} {stat.st_mtime_ns}" for stat in stats)]
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]


def _parse(source: RawFiles, raw: Path) -> Graph:
    try:
        return source.parse(raw)
    except Exception as error:  # a damaged file can make a parser raise anything
        raise InputError(
            f"the raw files of {source.name} must be {source.publisher}'s; those in {raw} can't be read "
            f"({type(error).__name__}: {error})"
        ) from error


def _download(source: RawFiles, raw: Path, cache: Path) -> None:
    """Download and parse in a scratch folder first, so that only raw files that work reach the cache."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            with silence():
                downloaded = source.download(Path(scratch))
            raw.mkdir(parents=True, exist_ok=True)
            for file in source.files:
                os.replace(downloaded / file, raw / file)
    except Exception as error:  # the network, the server, the disk and the parser each have their own exceptions
        raise DataNotFoundError(
            f"{source.name} could not be downloaded into {cache} ({type(error).__name__}: {error}). Try again with a "
            f"network connection, or set {DATA_VARIABLE} to a folder that has {source.folder}/ with the files "
            f"{', '.join(source.files)}"
        ) from None
