"""Chameleon: the graph of two text files, and errors for any other files."""

from pathlib import Path

import numpy as np
import pytest

from fgl_secure.errors import DataNotFoundError, InputError
from fgl_secure.graph import load
from tests.error_codes import about
from tests.graph.test_npz_archives import served  # noqa: F401  # a fixture

MASKS = ("train_mask", "val_mask", "test_mask")
RAW = Path("WikipediaNetwork") / "chameleon" / "geom_gcn" / "raw"
NODES = "node_id\tfeature\tlabel\n0\t0,1,0\t4\n1\t1,1,0\t0\n2\t0,0,0\t2\n"
EDGES = "node_id\tnode_id\n2\t0\n0\t1\n1\t1\n0\t1\n"


def write_files(root: Path, nodes: str = NODES, edges: str = EDGES) -> Path:
    (root / RAW).mkdir(parents=True)
    (root / RAW / "out1_node_feature_label.txt").write_text(nodes)
    (root / RAW / "out1_graph_edges.txt").write_text(edges)
    return root


def test_raw_files_become_the_graph(tmp_path: Path) -> None:
    """Links keep their direction, self-loops and repetitions go."""
    root = write_files(tmp_path / "root")
    graph = load("CHAMELEON", root, tmp_path / "cache")
    assert graph.name == "Chameleon"
    assert graph.edges.T.tolist() == [[2, 0], [0, 1]]
    assert graph.features.tolist() == [[0, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert graph.labels.tolist() == [4, 0, 2]


def test_missing_files_are_named_with_the_way_out(tmp_path: Path) -> None:
    root = write_files(tmp_path / "root")
    (root / RAW / "out1_graph_edges.txt").unlink()
    with pytest.raises(DataNotFoundError, match=r"geom_gcn/raw: out1_graph_edges.txt. Put .* unset FGL_SECURE_DATA"):
        load("Chameleon", root, tmp_path / "cache")


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (NODES.replace("1,1,0", "1,1"), EDGES),
        (NODES.replace("\n2\t", "\n7\t"), EDGES),
        (NODES.replace("\t2\n", "\n"), EDGES),
        (NODES, EDGES.replace("2\t0", "3\t0")),
        (NODES, EDGES.replace("2\t0", "2,0")),
        (NODES, "node_id\tnode_id\n"),
    ],
    ids=["short row", "node left out", "no label", "unknown node", "no tab", "no edges"],
)
def test_damaged_files_are_refused(tmp_path: Path, nodes: str, edges: str) -> None:
    """Rows of unequal length, nodes out of order and links to nowhere are refused."""
    root = write_files(tmp_path / "root", nodes, edges)
    with pytest.raises(InputError, check=about("the raw files of Chameleon")):
        load("Chameleon", root, tmp_path / "cache")


def test_chameleon_is_downloaded_once(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Files come from the web the first time and from the cache the second; splits are not kept."""
    web = request.getfixturevalue("served")
    (web / "splits").mkdir()
    (web / "new_data").mkdir()
    raw = write_files(tmp_path / "root") / RAW
    raw.rename(web / "new_data" / "chameleon")
    for split in range(10):
        masks = {mask: np.ones(3, dtype=np.uint8) for mask in MASKS}
        np.savez(web / "splits" / f"chameleon_split_0.6_0.2_{split}.npz", **masks)  # type: ignore[arg-type]
    assert load("Chameleon", cache_dir=tmp_path / "cache").edges.shape == (2, 2)
    kept = sorted(path.name for path in (tmp_path / "cache" / RAW).iterdir())
    assert kept == ["out1_graph_edges.txt", "out1_node_feature_label.txt"]
    (web / "new_data" / "chameleon" / "out1_graph_edges.txt").unlink()
    assert load("Chameleon", cache_dir=tmp_path / "cache").edges.shape == (2, 2)


@pytest.mark.usefixtures("served")
def test_failed_downloads_leave_nothing(tmp_path: Path) -> None:
    """If the files are not on the web there is one clear error, and the cache stays empty."""
    with pytest.raises(DataNotFoundError):
        load("Chameleon", cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
