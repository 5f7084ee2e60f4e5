"""Data sets that come as raw files: found or downloaded into the cache, and parsed.

A folder with raw files that a caller names is only read.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph

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
