"""Data sets of other packages."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fgl_secure import plugins
from fgl_secure.cli.main import BAD_INPUT, OK, main
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph, GraphDataset, load
from fgl_secure.graph.datasets import GROUP, GraphSetDataset
from fgl_secure.graph.motif import motif
from tests.graphs import two_communities


def _communities(_data_root: Path | None, _cache: Path) -> Graph:
    graph = two_communities(devices=48, silos=3)
    return Graph.from_arrays("Communities", graph.features, graph.labels, graph.edges)


COMMUNITIES = GraphDataset("Communities", "two of them", _communities, nodes=48, edges=0, features=8, classes=2)
MOTIFS = GraphSetDataset("Motifs", "from outside", lambda seed, _: motif("Motif-mini", seed, 60), 3, 60, 1, 3, "basis")
DIGITS = GraphDataset("digits", "a name of the toolkit", _communities, nodes=48, edges=0, features=8, classes=2)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """Data sets of a package that is not installed; the list may be extended."""
    points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in ("COMMUNITIES", "MOTIFS", "DIGITS")]
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: points if group == GROUP else [])
    return points


RUNS = {
    "graph": ("hifgl", "communities", "relay-coded", "silo-pattern"),
    "set of graphs": ("fedvn", "MOTIFS", "pairwise-masking", "virtual-node-population"),
}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("method", "dataset", "scheme", "attack"), RUNS.values(), ids=RUNS)
def test_a_data_set_from_outside_is_trained_on_and_audited(
    method: str, dataset: str, scheme: str, attack: str, tmp_path: Path
) -> None:
    """By its name, in upper or lower case, as the toolkit's own."""
    common = [method, "--dataset", dataset, "--epochs", "1", "--device", "cpu", "--scheme", scheme, "-q"]
    assert main(["train", *common]) == OK
    assert main(["audit", *common, "--attack", attack, "--out", str(tmp_path)]) == OK
    assert (tmp_path / "report.json").exists()


@pytest.mark.usefixtures("installed")
def test_data_sets_from_outside_are_listed_last(capsys: pytest.CaptureFixture[str]) -> None:
    """A name of the toolkit is not taken from it."""
    assert main(["list", "datasets"]) == OK
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed.index("DBLP") + 1 == listed.index("Communities")
    assert listed[-1] == "Motifs"
    assert listed.count("digits") == 1
    assert load("digits").num_nodes == 1797


@pytest.mark.parametrize("value", ["no_such_module:DATA", f"{__name__}:RUNS"])
def test_a_broken_package_leaves_data_sets_of_the_toolkit(
    installed: list[EntryPoint], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names that the toolkit lacks are refused with the broken entry point."""
    installed.append(EntryPoint("broken", value, GROUP))
    assert load("digits").num_nodes == 1797
    with pytest.raises(InputError):
        load("Communities")
    assert main(["train", "fedvn", "--dataset", "Motifs"]) == BAD_INPUT
    assert "entry point broken" in capsys.readouterr().err
