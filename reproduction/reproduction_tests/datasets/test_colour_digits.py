"""Coloured digits: raw files are checked, superpixels are joined to near ones, and a client has one colour."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.datasets import colour_digits as module
from fgl_reproduction.datasets.colour_digits import (
    COLOURS,
    FOLDER,
    colour_digits,
    read_idx,
    superpixel_graph,
    training_digits,
)
from fgl_secure.errors import DataNotFoundError, InputError
from tests.error_codes import about

IMAGES = 60


def idx(array: NDArray[np.uint8]) -> bytes:
    """The array in the format idx, gzipped."""
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with sixty random images of 28 by 28."""
    random = np.random.default_rng(0)
    (tmp_path / FOLDER).mkdir(parents=True)
    images = random.integers(256, size=(IMAGES, 28, 28), dtype=np.uint8)
    (tmp_path / FOLDER / "train-images-idx3-ubyte.gz").write_bytes(idx(images))
    (tmp_path / FOLDER / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(IMAGES, dtype=np.uint8) % 10))
    return tmp_path


def squares(image: NDArray[np.float64], **_settings: Any) -> NDArray[np.int64]:
    """Superpixels of 4 by 4, numbered with gaps, in place of SLIC."""
    row, column = np.indices(image.shape) // 4
    return np.array(100 * row + column, dtype=np.int64)


@pytest.fixture
def no_slic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares instead of SLIC, so that no library is needed."""
    library = type("library", (), {"slic": staticmethod(squares)})
    monkeypatch.setattr(module, "optional_library", lambda *_names: library)


def test_superpixels_are_joined_to_their_neighbours() -> None:
    """Of 49 squares an inner one has its eight neighbours, edges go both ways, and brightness is the mean."""
    image = np.arange(784.0).reshape(28, 28) / 784
    brightness, edges = superpixel_graph(image, squares)
    assert brightness.shape == (49,)
    assert brightness[0] == pytest.approx(image[:4, :4].mean())
    assert set(map(tuple, edges.T.tolist())) == set(map(tuple, edges[::-1].T.tolist()))
    around = {24 + 7 * row + column for row in (-1, 0, 1) for column in (-1, 0, 1)} - {24}
    assert around <= set(edges[0, edges[1] == 24].tolist())


def test_small_images_have_fewer_neighbours() -> None:
    """Four superpixels are all joined, and one is alone."""
    assert len(np.unique(superpixel_graph(np.zeros((8, 8)), squares)[1], axis=1).T) == 12
    assert superpixel_graph(np.zeros((4, 4)), squares)[1].shape == (2, 0)


@pytest.mark.usefixtures("no_slic")
def test_clients_have_a_colour_each(root: Path) -> None:
    """Five clients, each image once, with the digit as label and only the client's colours in the features."""
    sets = colour_digits(0, root, graphs=10)
    assert (sets.num_clients, sets.num_graphs, sets.num_features, sets.num_classes) == (5, 50, 3, 10)
    colours = np.array(list(COLOURS.values()))
    for client in range(5):
        nodes = sets.client_of[sets.graph_of] == client
        np.testing.assert_array_equal((sets.features[nodes] > 0).all(axis=0), colours[client] > 0)
        np.testing.assert_array_equal((sets.features[nodes] == 0).all(axis=0), colours[client] == 0)
    again, other = colour_digits(0, root, graphs=10), colour_digits(1, root, graphs=10)
    np.testing.assert_array_equal(sets.features, again.features)
    assert not np.array_equal(sets.targets, other.targets)


@pytest.mark.usefixtures("no_slic")
def test_more_graphs_than_images_are_refused(root: Path) -> None:
    """Sixty images give five clients at most twelve each."""
    with pytest.raises(InputError, check=about("graphs")):
        colour_digits(0, root, graphs=13)


def test_missing_files_are_named(tmp_path: Path) -> None:
    """Without a data root, and with one that lacks them."""
    for folder in (None, tmp_path):
        with pytest.raises(DataNotFoundError, check=about("data_root")):
            training_digits(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain", "must be a gzipped file"),
        (gzip.compress(b"\0\0\x0d\1\0\0\0\1\0"), "must begin as an idx file of unsigned bytes"),
        (gzip.compress(b"\0\0\x08\3\0"), "must begin as an idx file of unsigned bytes"),
        (gzip.compress(b"\0\0\x08\1\0\0\0\2\0"), "must have 2 values, as its head says; found 1"),
    ],
    ids=["plain", "floats", "cut head", "cut values"],
)
def test_damaged_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """What is not gzipped, not of bytes, or cut is refused with the file's name."""
    (tmp_path / "digits.gz").write_bytes(content)
    with pytest.raises(InputError, match=f"digits.gz {message}"):
        read_idx(tmp_path / "digits.gz")


def test_labels_must_fit_the_images(root: Path) -> None:
    """Fewer labels than images are refused."""
    (root / FOLDER / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(3, dtype=np.uint8)))
    with pytest.raises(InputError, match=r"must have images .* and n digits 0..9; found \(60, 28, 28\) and \(3,\)"):
        training_digits(root)


def test_scikit_image_makes_about_75_superpixels(root: Path) -> None:
    """With the library itself a graph has about 75 nodes and at least 8 neighbours a node."""
    pytest.importorskip("skimage", reason="needs the extra 'superpixels'")
    sets = colour_digits(0, root, graphs=10)
    sizes = np.bincount(sets.graph_of)
    assert sizes.mean() == pytest.approx(75, abs=15)
    assert np.bincount(sets.edges[1]).min() >= 8
