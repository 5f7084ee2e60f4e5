"""Digits as graphs of superpixels, in a colour that says nothing about the digit but everything about the client.

Written from the description of GOOD-CMNIST (Gui et al., NeurIPS 2022): MNIST turned into graphs by superpixels, digits
coloured by environment, five colours in training. What it leaves open is settled here, see `colour_digits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_reproduction.datasets.published_sets import cached_set, gunzip, optional_library
from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph.datasets import GraphSetDataset
from fgl_secure.graph.graph_sets import GraphSet, client_split
from fgl_secure.graph.own_files import DATA_VARIABLE
from fgl_secure.graph.partition import seeded_generator

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
    raw = gunzip(file)
    if len(raw) < 4 or raw[:3] != bytes([0, 0, _UNSIGNED_BYTES]) or len(raw) < 4 + 4 * raw[3]:
        raise InputError(f"{file.name} must begin as an idx file of unsigned bytes; found {raw[:4]!r}")
    start = 4 + 4 * raw[3]
    shape = [int(size) for size in np.frombuffer(raw[4:start], dtype=">u4")]
    expected = int(np.prod(shape, dtype=object))
    if len(raw) - start != expected:
        raise InputError(f"{file.name} must have {expected} values, as its head says; found {len(raw) - start}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape)


COLOURS: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0), "magenta": (1, 0, 1)}
)
"""One a client, as shares of red, green and blue. The paper does not name its colours."""

SUPERPIXELS = 75
"""At most about so many nodes a graph, as in MNIST-75sp (Knyazev et al. 2019)."""
NEIGHBOURS = 8
"""Every superpixel is joined to so many nearest others, as in the superpixel graphs of Dwivedi et al. (JMLR 2023)."""


def colour_digits(seed: int, data_root: Path | None, graphs: int = 1000, validation: float = 0.1) -> GraphSet:
    """Draw images for five clients, each with a colour of its own.

    Superpixels are scikit-image's SLIC (75 asked for, compactness 0.25). A node's features are its mean brightness
    times the colour of its client, three columns; the background stays black. Nodes are joined to the 8 whose centres
    are nearest, in both directions.

    Args:
        seed: Repeats the draw and the split, under one version of scikit-image.
        data_root: Holds MNIST/raw/train-*.gz.
        graphs: Graphs a client, 10 to 12,000; no image is drawn twice.
        validation: Share of a client's graphs that choose the model, 0 to 0.7; 20 % test it and the rest train it.

    Raises:
        DataNotFoundError: The files are not there.
        InputError: scikit-image is not installed, a file is damaged, or an argument is out of range.
    """
    slic = optional_library("skimage.segmentation", "superpixels", "CMNIST").slic
    draw = seeded_generator(seed)
    images, digits = training_digits(data_root)
    most = len(images) // len(COLOURS)
    if not 10 <= graphs <= most:
        raise InputError(f"graphs must be in 10..{most} a client; found {graphs}")
    chosen = draw.permutation(len(images))[: graphs * len(COLOURS)]
    client_of = np.repeat(np.arange(len(COLOURS)), graphs)
    pieces = [superpixel_graph(images[image] / 255.0, slic) for image in chosen]
    sizes = np.array([len(brightness) for brightness, _ in pieces])
    first = np.cumsum(sizes) - sizes
    graph_of = np.repeat(np.arange(len(sizes)), sizes)
    colour = np.array(list(COLOURS.values()))[client_of[graph_of]]
    edges = np.concatenate([edges + start for (_, edges), start in zip(pieces, first, strict=True)], axis=1)
    return GraphSet.from_arrays(
        "CMNIST",
        np.concatenate([brightness for brightness, _ in pieces])[:, None] * colour,
        edges,
        graph_of,
        digits[chosen].astype(np.int64),
        client_of,
        client_split(client_of, draw, validation),
        "color",
    )


def superpixel_graph(image: NDArray[np.float64], slic: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The brightness of each superpixel of an image, and the edges between near ones in both directions.

    Args:
        image: float64 [height, width] in 0..1.
        slic: scikit-image's function.

    Returns:
        float64 [n] and int64 [2, m].
    """
    label = slic(image, n_segments=SUPERPIXELS, compactness=0.25, channel_axis=None, start_label=0)
    pixel = np.unique(label, return_inverse=True)[1].ravel()  # numbers without gaps
    size = np.bincount(pixel)
    brightness = np.bincount(pixel, weights=image.ravel()) / size
    centre = np.stack([np.bincount(pixel, weights=axis.ravel()) / size for axis in np.indices(image.shape)])
    distance = ((centre[:, :, None] - centre[:, None, :]) ** 2).sum(axis=0)
    np.fill_diagonal(distance, np.inf)
    near = min(NEIGHBOURS, len(size) - 1)
    target = np.repeat(np.arange(len(size)), near)
    source = np.argsort(distance, axis=0, kind="stable")[:near].T.ravel()
    return brightness, np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)


CMNIST = GraphSetDataset(
    "CMNIST",
    "superpixels of digits, one colour per client; needs scikit-image",
    partial(cached_set, "CMNIST", colour_digits),
    clients=5,
    graphs=1000,
    features=3,
    classes=10,
    shift="color",
)
