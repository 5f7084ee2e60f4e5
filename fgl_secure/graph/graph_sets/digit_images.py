"""MNIST from its raw files: the format idx (LeCun et al. 1998), gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.raw_files import DATA_VARIABLE

FOLDER = "MNIST/raw"
_IMAGES, _LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
_UNSIGNED_BYTES = 8


def training_digits(root: Path | None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The 60,000 training images, uint8 [60000, 28, 28], and their digits, uint8 [60000].

    Args:
        root: Holds MNIST/raw/train-*.gz.

    Raises:
        DataNotFoundError: A file is not there.
        InputError: A file is not what its name says.
    """
    folder = None if root is None else root / FOLDER
    missing = [name for name in (_IMAGES, _LABELS) if folder is None or not (folder / name).is_file()]
    if folder is None or missing:
        raise DataNotFoundError(
            f"data_root must hold the raw files of MNIST; not in {folder}: {', '.join(missing)}. Give data_root or set "
            f"{DATA_VARIABLE} to a folder that has {FOLDER} with them"
        )
    images, digits = read_idx(folder / _IMAGES), read_idx(folder / _LABELS)
    if images.ndim != 3 or digits.shape != images.shape[:1] or digits.max(initial=0) > 9:
        raise InputError(
            f"{folder} must have images [n, height, width] and n digits 0..9; found {images.shape} and {digits.shape}"
        )
    return images, digits


def read_idx(file: Path) -> NDArray[np.uint8]:
    """The array of bytes in a gzipped idx file: two zero bytes, the type, the dimensions, their sizes, the values.

    Raises:
        InputError: The file is not of this kind.
    """
    try:
        raw = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file.name} must be a gzipped file; it can't be read ({error})") from None
    if len(raw) < 4 or raw[:3] != bytes([0, 0, _UNSIGNED_BYTES]) or len(raw) < 4 + 4 * raw[3]:
        raise InputError(f"{file.name} must begin as an idx file of unsigned bytes; found {raw[:4]!r}")
    start = 4 + 4 * raw[3]
    shape = [int(size) for size in np.frombuffer(raw[4:start], dtype=">u4")]
    expected = int(np.prod(shape, dtype=object))
    if len(raw) - start != expected:
        raise InputError(f"{file.name} must have {expected} values, as its head says; found {len(raw) - start}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)
