"""Photo, CS, Physics and DBLP: the graph of an .npz file of plain arrays, and errors for any other file."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import load
from tests.error_codes import about

FILES: Mapping[str, Path] = MappingProxyType(
    {
        "Photo": Path("Amazon") / "Photo" / "raw" / "amazon_electronics_photo.npz",
        "CS": Path("Coauthor") / "CS" / "raw" / "ms_academic_cs.npz",
        "Physics": Path("Coauthor") / "Physics" / "raw" / "ms_academic_phy.npz",
        "DBLP": Path("CitationFull") / "dblp" / "raw" / "dblp.npz",
    }
)

every_archive = pytest.mark.parametrize("name", list(FILES))


def arrays() -> dict[str, NDArray[np.generic]]:
    """Three nodes with edges 0 -> 1, 1 -> 0, 1 -> 2 and a self-loop at 2; features 0.5 and 2 among zeros."""
    return {
        "adj_data": np.ones(4, dtype=np.float32),
        "adj_indices": np.array([1, 0, 2, 2], dtype=np.int32),
        "adj_indptr": np.array([0, 1, 3, 4], dtype=np.int32),
        "adj_shape": np.array([3, 3]),
        "attr_data": np.array([0.5, 2.0], dtype=np.float32),
        "attr_indices": np.array([0, 1], dtype=np.int32),
        "attr_indptr": np.array([0, 1, 1, 2], dtype=np.int32),
        "attr_shape": np.array([3, 2]),
        "labels": np.array([0, 1, 1]),
        "class_names": np.array(["lens", "film"]),
    }


def written(root: Path, name: str, **changed: NDArray[np.generic]) -> Path:
    (root / FILES[name]).parent.mkdir(parents=True)
    np.savez(root / FILES[name], **{**arrays(), **changed})  # type: ignore[arg-type]  # stubs for allow_pickle only
    return root


@every_archive
def test_raw_file_becomes_the_graph(name: str, tmp_path: Path) -> None:
    """Edges go both ways, and features are 0 or 1."""
    root = written(tmp_path / "root", name)
    graph = load(name.lower(), root, tmp_path / "cache")
    assert graph.name == name
    assert graph.edges.T.tolist() == [[1, 0], [0, 1], [2, 1], [1, 2]]
    assert graph.features.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert graph.labels.tolist() == [0, 1, 1]


@every_archive
def test_missing_file_is_named_with_the_way_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, check=about("data_root")):
        load(name, tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": np.array([0, "one", None], dtype=object)},
        {"adj_indices": np.array([1, 0, 2, 7], dtype=np.int32)},
        {"attr_indices": np.array([0, -1], dtype=np.int32)},
        {"labels": np.array([0, 1])},
    ],
    ids=["objects", "column outside", "negative column", "too few labels"],
)
def test_damaged_files_are_refused(tmp_path: Path, changed: dict[str, NDArray[np.generic]]) -> None:
    """Objects that would have to be unpickled and indices outside of the matrix are refused."""
    root = written(tmp_path / "root", "Photo", **changed)
    with pytest.raises(InputError, check=about("the raw files of Photo")):
        load("Photo", root, tmp_path / "cache")
