"""A user's own graph and silo assignment, in files that hold plain arrays and nothing that could run."""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.attributed_graph import Graph
from fgl_secure.graph.own_arrays import MASKS, REQUIRED, listed, own_graph
from fgl_secure.graph.split import SplitMasks

MOST_ENTRIES = 2**29
"""Numbers in all arrays that are read of one file: 34,493 nodes with 8,415 features are about half of them."""
MOST_TEXT = 2**12
"""Bytes of a text beside the numbers, four for each character."""
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


FORM = ".npz"
"""How the path of a user's own graph ends."""
FORM_IN_WORDS = (
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
            f"{listed([*arrays, *others]) or 'nothing'}; {FORM_IN_WORDS}"
        )
    name = path.stem.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # bytes that a C locale left as such
    return own_graph(name, arrays, seed, unused=others, split=split)


def of_another_form(path: Path) -> InputError:
    """The error for a file or a folder that is no graph of one's own, with what to do."""
    if path.suffix.casefold() not in _SAVED or not path.is_file():
        return InputError(f"{path} must be an .npz file; found {_kind_of(path)}: {FORM_IN_WORDS}")
    load = f"torch.load({str(path)!r}, weights_only=False)"
    return InputError(
        f"{path} must be an .npz file; found a saved object, which can run code when it is loaded: if it is your own, "
        f"and a Data or a dict, convert it in Python by: import numpy, torch; "
        f"numpy.savez({str(path.with_suffix(FORM))!r}, **{load}); {FORM_IN_WORDS}"
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
    whole = silo_of.dtype.kind == "f" and (np.abs(silo_of) < MOST_ENTRIES).all() and (silo_of % 1 == 0).all()
    if (silo_of.dtype.kind not in "iu" and not whole) or silo_of.ndim != 1:
        raise InputError(f"{path} must hold integers [n]; found {loaded.dtype} of shape {loaded.shape}")
    return silo_of.astype(np.int64)


def _npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        entries, width = _announced(file)
        if entries * width != path.stat().st_size - file.tell():
            raise ValueError("its length is another than its header says")
    found: NDArray[Any] = np.load(path, allow_pickle=False)
    return found


def _column(path: Path) -> list[int]:
    """The integers of a text file, one a line."""
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line]
    if len(numbered) == 1:
        numbered = [(numbered[0][0], entry) for entry in numbered[0][1].replace(",", " ").split()]
    found = []
    for number, entry in numbered:
        if not _NUMBER.fullmatch(entry) or float(entry) % 1 or not abs(float(entry)) < MOST_ENTRIES:
            raise ValueError(
                f"found {entry[:40]!r} in line {number}: write the silo of each device alone on its line, in the order "
                "of the nodes, as a number from 0 on; other lines begin with #"
            )
        found.append(int(float(entry)))
    return found


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
            there = [name for name in names if f"{name}.npy" in archive.NameToInfo]
            entries = 0
            for name in there:
                with archive.open(f"{name}.npy") as member:
                    entries += _announced(member)[0]
        if entries <= most_entries:
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in there}
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{path} must be an .npz file of plain arrays, without Python objects; {name} can't be read ({error})"
        ) from error
    raise InputError(f"{path} must have at most {most_entries:,} numbers in {', '.join(there)}; found {entries:,}")


_UNREADABLE = (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, RuntimeError, NotImplementedError)
"""What reading a damaged archive raises: RuntimeError where a wrong bit says that it is encrypted."""


def _announced(file: IO[bytes]) -> tuple[int, int]:
    """How many numbers follow the header of an .npy file, and of how many bytes; the file then stands behind it."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version must be one of {list(_HEADERS)}; found {version}")
    shape, _, dtype = _HEADERS[version](file)
    if not (dtype.kind in "biuf" or (dtype.kind == "U" and shape == () and dtype.itemsize <= MOST_TEXT)):
        raise ValueError(f"arrays must be of numbers, or one short text; found {dtype} {shape}")
    if min(shape, default=0) < 0:
        raise ValueError(f"arrays must have lengths of at least 0; found {shape}")
    return math.prod(shape), dtype.itemsize


def _must_exist(path: Path) -> None:
    if not os.path.isfile(path):
        raise DataNotFoundError(f"{path} must be a file; found {_kind_of(path)}{_meant(path)}")


def _kind_of(path: Path) -> str:
    if os.path.isdir(path):
        return "a folder"
    return "another kind of file" if os.path.exists(path) else "nothing"


def _meant(path: Path) -> str:
    """A hint for names with a blank too much."""
    bare = str(path).strip()
    return f"; did you mean {bare}?" if bare != str(path) and os.path.isfile(bare) else ""
