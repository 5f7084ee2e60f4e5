"""A user's own graph and silo assignment: arrays in the forms in which people have them, and files of plain arrays.

A file holds nothing that could run. What is dropped, not used or missing is said in a `DataWarning`, a line each.

Raw files of known data sets are found, or downloaded into the cache. A folder with raw files that a caller names is
only read.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, DataWarning, InputError
from fgl_secure.graph.attributed_graph import Graph, as_array, read_only
from fgl_secure.graph.partition import Mask, SplitMasks, check_disjoint, random_split, read_mask

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
    """Load a data set from its raw files.

    Args:
        source: The data set.
        data_root: Holds the raw files; None to let PyTorch Geometric download them into the cache.
        cache: Where downloads are kept.

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
    return _parse(source, raw)


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


REQUIRED = ("x", "y", "edge_index")
MASKS = ("train_mask", "val_mask", "test_mask")
_UNLABELLED = -1
"""The label of a node without one, which is in no mask."""

_PART, _KIND = "(train|val|valid|validation|test)", "(mask|idx|index|ids|nodes)"
_OTHER_SPLITS = re.compile(f"{_PART}(_?{_KIND})?|{_KIND}_?{_PART}")
_LISTED = 8
"""Names in a message, at most."""


_WARNING: ContextVar[bool] = ContextVar("warning of data", default=True)


@contextmanager
def data_warnings(*, verbose: bool) -> Iterator[None]:
    """Within it there is no `DataWarning` unless `verbose`, in this thread alone."""
    token = _WARNING.set(verbose and _WARNING.get())
    try:
        yield
    finally:
        _WARNING.reset(token)


def own_graph(
    name: str, arrays: Mapping[str, Any], seed: int, *, unused: Collection[str] = (), split: int | None = None
) -> tuple[Graph, SplitMasks]:
    """Check the arrays of a graph, and warn of what is not taken as it is.

    Args:
        name: What the graph is called in tables.
        arrays: x, real numbers [n, d]; y, integers [n] or [n, 1], -1 for a node without a label, which is then in no
            mask; edge_index, integers [2, m]; and any of the masks, in the forms of `read_mask`. Without a mask the
            nodes are split 60/20/20 at random.
        seed: Repeats the random split.
        unused: Names of other arrays that came with these.
        split: The column of masks [n, k].

    Raises:
        InputError: An array breaks a rule; the message names it.
    """
    x = arrays["x"] if hasattr(arrays["x"], "toarray") else as_array("x", arrays["x"])
    edges = as_array("edge_index", arrays["edge_index"])
    if x.ndim != 2:
        raise InputError(f"x must have shape [nodes, features]; found shape {x.shape}")
    if edges.ndim == 2 and len(edges) != 2 and edges.shape[1] == 2:
        raise InputError(f"edge_index must have shape [2, edges]; found shape {edges.shape}: take edge_index.T")
    labels = _labels(arrays["y"], x.shape[0])
    labelled = labels != _UNLABELLED
    graph = Graph.from_arrays(name, x, np.where(labelled, labels, 0), edges)
    graph = graph if labelled.all() else replace(graph, labels=read_only(labels))
    given = {key: arrays[key] for key in MASKS if key in arrays}
    masks = _masks(given, labelled, seed, split, unused)
    if _WARNING.get():
        for note in (*_edge_notes(edges, graph), *_label_notes(labels), *_other_notes(given, unused)):
            warnings.warn(f"{name}: {note}", DataWarning, stacklevel=3)
    return graph, masks


def _labels(values: Any, number: int) -> NDArray[np.int64]:
    labels = as_array("y", values)
    if labels.shape not in ((number,), (number, 1)):
        raise InputError(
            f"y must have shape ({number},) or ({number}, 1), one class a node; found shape {labels.shape} (rows with "
            "a single 1 become classes by y.argmax(axis=1))"
        )
    if labels.dtype.kind == "f":
        nan = " with NaN" if np.isnan(labels).any() else ""
        remedy = ": take y.long() of a tensor, y.astype(int) of an array" if (labels % 1 == 0).all() else ""
        raise InputError(
            f"y must be integers, the class of each node, and -1 for a node without a label; found {labels.dtype}{nan}"
            f"{remedy}"
        )
    return labels.reshape(number).astype(np.int64)


def _masks(
    given: Mapping[str, Any], labelled: Mask, seed: int, split: int | None, unused: Collection[str]
) -> SplitMasks:
    """The split that is given, or a random one, without nodes that have no label."""
    others = [name for name in unused if _OTHER_SPLITS.fullmatch(name)]
    if others:
        raise InputError(
            f"a split must be named {', '.join(MASKS)}; found {_join_names(others)}: rename or remove them"
        )
    if not labelled.any():
        raise InputError("y must label at least one node; found none but -1")
    if split is not None and not any(as_array(name, mask).ndim > 1 for name, mask in given.items()):
        raise InputError(
            f"split must go with masks of several columns; found {split} and {_join_names(given) or 'no mask'}"
        )
    if not given:
        drawn = random_split(int(labelled.sum()), seed)
        masks = [np.zeros(len(labelled), dtype=np.bool_) for _ in MASKS]
        for mask, part in zip(masks, (drawn.train, drawn.validation, drawn.test), strict=True):
            mask[labelled] = part
        return SplitMasks(*masks)
    if "train_mask" not in given:
        raise InputError(
            f"train_mask must be there beside {_join_names(given)}, or no mask, for a random split; it is not"
        )
    none = np.zeros(len(labelled), dtype=np.bool_)
    read = {name: read_mask(name, given.get(name, none), len(labelled), split=split) for name in MASKS}
    check_disjoint(read, "node")
    if not (read["train_mask"] & labelled).any():
        result = as_array("train_mask", given["train_mask"])
        raise InputError(
            f"train_mask must mark at least one node that has a label; found {result.dtype} of shape {result.shape} "
            "without any"
        )
    return SplitMasks(*(mask & labelled for mask in read.values()))


def _edge_notes(edges: NDArray[Any], graph: Graph) -> Iterator[str]:
    loops = int((edges[0] == edges[1]).sum())
    repeated = edges.shape[1] - loops - graph.edges.shape[1]
    dropped = [f"{count:,} {noun}" for count, noun in ((loops, "self-loops"), (repeated, "repeated edges")) if count]
    if dropped:
        yield f"{' and '.join(dropped)} are dropped"


def _label_notes(labels: NDArray[np.int64]) -> Iterator[str]:
    used = np.unique(labels[labels != _UNLABELLED])
    without, classes = int((labels == _UNLABELLED).sum()), int(used[-1]) + 1
    if without:
        yield f"{without:,} nodes have label -1 and are in no mask; attacks on labels leave them out"
    if len(used) < classes:
        remedy = "" if without else "; numpy.unique(y, return_inverse=True)[1] numbers them without gaps"
        empty = f"{classes - len(used):,} without a node{remedy}"
        yield f"labels {_join_names(used.tolist())} make {classes:,} classes, {empty}"


def _other_notes(given: Mapping[str, Any], unused: Collection[str]) -> Iterator[str]:
    if given and "val_mask" not in given:
        yield "val_mask is missing: there are no validation nodes, and the last round is reported"
    if given and "test_mask" not in given:
        yield "test_mask is missing: there are no test nodes"
    if unused:
        yield f"not used: {_join_names(sorted(unused))}"


def _join_names(names: Collection[object]) -> str:
    """Some names for a message, the first of many."""
    shown = [str(name) for name in names]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return ", ".join(shown[:_LISTED]) + more


MOST_ENTRIES = 2**29
"""Numbers in all arrays that are read of one file: 34,493 nodes with 8,415 features are about half of them."""
_MOST_TEXT = 2**12
"""Bytes of a text beside the numbers, four for each character."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


FORM = ".npz"
"""How the path of a user's own graph ends."""
_FORM_IN_WORDS = (
    "a graph of your own is an .npz file that numpy.savez wrote, with the arrays x [n, d], y [n] and edge_index [2, m] "
    "(docs/audit_your_graph.md)"
)
_SAVED = (".pt", ".pth")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def read_graph(
    path: Path, seed: int, most_entries: int = MOST_ENTRIES, *, split: int | None = None
) -> tuple[Graph, SplitMasks]:
    """Reads a graph that was written with `numpy.savez(path, x=..., y=..., edge_index=..., ...)`.

    Other arrays in the file are not read.

    Args:
        path: an .npz file with x, real numbers [n, d], y, integers [n], and edge_index, integers [2, m], as in
            PyTorch Geometric; and any of train_mask, val_mask and test_mask. See `own_graph` for their forms.
        seed: of a random 60/20/20 split if there is none of the masks.
        most_entries: numbers that these arrays may have together.
        split: the column that is taken of masks [n, k].

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it is not such a file, has too many numbers, or an array breaks a rule of `Graph.from_arrays`.
    """
    wanted = (*REQUIRED, *MASKS)
    arrays = plain_arrays(path, wanted, most_entries)
    with zipfile.ZipFile(path) as archive:
        others = [name.removesuffix(".npy") for name in archive.namelist() if name.removesuffix(".npy") not in wanted]
    missing = [key for key in REQUIRED if key not in arrays]
    if missing:
        raise InputError(
            f"{path} must hold the arrays {', '.join(REQUIRED)}; missing: {', '.join(missing)}, found: "
            f"{_join_names([*arrays, *others]) or 'nothing'}; {_FORM_IN_WORDS}"
        )
    name = path.stem.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # bytes that a C locale left as such
    return own_graph(name, arrays, seed, unused=others, split=split)


def of_another_form(path: Path) -> InputError:
    """The error for a file or a folder that is no graph of one's own, with what to do."""
    if path.suffix.casefold() not in _SAVED or not path.is_file():
        return InputError(f"{path} must be an .npz file; found {_kind_of(path)}: {_FORM_IN_WORDS}")
    load = f"torch.load({str(path)!r}, weights_only=False)"
    return InputError(
        f"{path} must be an .npz file; found a saved object, which can run code when it is loaded: if it is your own, "
        f"and a Data or a dict, convert it in Python by: import numpy, torch; "
        f"numpy.savez({str(path.with_suffix(FORM))!r}, **{load}); {_FORM_IN_WORDS}"
    )


def read_assignment(path: Path) -> NDArray[np.int64]:
    """Reads the silo of each device: an .npy array [n] or [n, 1], or a text file with one integer a line.

    Of a text file empty lines and what follows a # are left out, and all integers may be on one line.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it holds anything but integers.
    """
    _must_exist(path)
    try:
        loaded = _npy(path) if path.suffix.casefold() == ".npy" else np.array(_column(path), dtype=np.int64)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must hold one integer per node, as UTF-8 text or .npy; found other bytes") from error
    except (ValueError, OSError, OverflowError, EOFError) as error:
        raise InputError(f"{path} must hold one integer per node, as text or .npy; {error}") from error
    silo_of = loaded[:, 0] if loaded.ndim == 2 and loaded.shape[1] == 1 else loaded
    is_integral = silo_of.dtype.kind == "f" and (np.abs(silo_of) < MOST_ENTRIES).all() and (silo_of % 1 == 0).all()
    if (silo_of.dtype.kind not in "iu" and not is_integral) or silo_of.ndim != 1:
        raise InputError(f"{path} must hold integers [n]; found {loaded.dtype} of shape {loaded.shape}")
    return silo_of.astype(np.int64)


def _npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        entries, width = _read_header(file)
        if entries * width != path.stat().st_size - file.tell():
            raise ValueError("its length is another than its header says")
    result: NDArray[Any] = np.load(path, allow_pickle=False)
    return result


def _column(path: Path) -> list[int]:
    """The integers of a text file, one a line."""
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line]
    if len(numbered) == 1:
        numbered = [(numbered[0][0], entry) for entry in numbered[0][1].replace(",", " ").split()]
    result = []
    for number, entry in numbered:
        if not _NUMBER.fullmatch(entry) or float(entry) % 1 or not abs(float(entry)) < MOST_ENTRIES:
            raise ValueError(
                f"found {entry[:40]!r} in line {number}: write the silo of each device alone on its line, in the order "
                "of the nodes, as a number from 0 on; other lines begin with #"
            )
        result.append(int(float(entry)))
    return result


def plain_arrays(path: Path, names: Iterable[str], most_entries: int = MOST_ENTRIES) -> dict[str, NDArray[Any]]:
    """Some arrays of an .npz file, those that are there; no others are read.

    What their headers say of their lengths is looked at first: a file of some kilobytes may say terabytes.

    Args:
        path: of the file.
        names: of the arrays.
        most_entries: numbers in all of them together.

    Raises:
        DataNotFoundError: there is no such file.
        InputError: it is no such file, one of the arrays holds something else than numbers or one short text, or they
            have too many.
    """
    _must_exist(path)
    name = "it"
    try:
        with zipfile.ZipFile(path) as archive:
            in_archive = [name for name in names if f"{name}.npy" in archive.NameToInfo]
            entries = 0
            for name in in_archive:
                with archive.open(f"{name}.npy") as member:
                    entries += _read_header(member)[0]
        if entries <= most_entries:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in in_archive}
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} must be an .npz file of plain arrays, without Python objects; {name} can't be read ({error})"
        ) from error
    raise InputError(f"{path} must have at most {most_entries:,} numbers in {', '.join(in_archive)}; found {entries:,}")


_UNREADABLE = (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, RuntimeError, NotImplementedError)
"""What reading a damaged archive raises: RuntimeError where a wrong bit says that it is encrypted."""


def _read_header(file: IO[bytes]) -> tuple[int, int]:
    """How many numbers follow the header of an .npy file, and of how many bytes; the file then stands behind it."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version must be one of {list(_HEADERS)}; found {version}")
    shape, _, dtype = _HEADERS[version](file)
    if not (dtype.kind in "biuf" or (dtype.kind == "U" and shape == () and dtype.itemsize <= _MOST_TEXT)):
        raise ValueError(f"arrays must be of numbers, or one short text; found {dtype} {shape}")
    if min(shape, default=0) < 0:
        raise ValueError(f"arrays must have lengths of at least 0; found {shape}")
    return math.prod(shape), dtype.itemsize


def _must_exist(path: Path) -> None:
    if not os.path.isfile(path):
        raise DataNotFoundError(f"{path} must be a file; found {_kind_of(path)}{_suggest_name(path)}")


def _kind_of(path: Path) -> str:
    if os.path.isdir(path):
        return "a folder"
    return "another kind of file" if os.path.exists(path) else "nothing"


def _suggest_name(path: Path) -> str:
    """A hint for names with a blank too much."""
    bare = str(path).strip()
    return f"; did you mean {bare}?" if bare != str(path) and os.path.isfile(bare) else ""
