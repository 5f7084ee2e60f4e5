"""Sets by name: the listing is right, unknown names are refused, and made sets come back from the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph.graph_sets.catalogue import GraphSetInfo, available_sets, describe_sets, load_set
from fgl_secure.graph.graph_sets.graph_set import GraphSet
from fgl_secure.graph.graph_sets.motif import motif_mini
from fgl_secure.graph.graph_sets.optional import optional
from fgl_secure.graph.graph_sets.set_cache import kept_set, read_set, write_set


@pytest.mark.parametrize("info", [info for info in describe_sets() if info.name.startswith("Motif")])
def test_generated_sets_are_as_listed(info: GraphSetInfo) -> None:
    """Clients, graphs, features, classes and shift are those of the listing."""
    sets = load_set(info.name.lower())
    assert (sets.name, sets.shift) == (info.name, info.shift)
    assert (sets.num_clients, sets.num_features, sets.num_classes) == (info.clients, info.features, info.classes)
    assert sets.num_graphs == info.clients * info.graphs


def test_names_and_descriptions() -> None:
    """Each available set has a description of one line."""
    concepts = ("Motif-basis-concept", "Motif-size-concept")
    assert available_sets() == ("Motif-mini", "Motif-basis", "Motif-size", *concepts, "CMNIST", "ZINC")
    assert tuple(info.name for info in describe_sets()) == available_sets()
    assert all(info.description and "\n" not in info.description for info in describe_sets())


def test_unknown_names_are_refused() -> None:
    """An unknown name is refused with those that exist, and SST2 with the reason why it does not."""
    with pytest.raises(UnknownNameError, match=r"graph set must be one of Motif-mini, .*, ZINC; found 'Motif'"):
        load_set("Motif")
    with pytest.raises(InputError, match="SST2 can't be had: its features are embeddings of a language model"):
        load_set("sst2")


def test_missing_libraries_are_named_with_the_way_to_get_them() -> None:
    """The error says which set wants what, and which extra installs it."""
    message = r"graph set ZINC needs no_such_library, .*: pip install 'fgl-secure\[molecules\]'"
    with pytest.raises(InputError, match=message):
        optional("no_such_library", "molecules", "ZINC")


def test_sets_survive_the_cache(tmp_path: Path) -> None:
    """What is read is what was written; an absent or damaged entry is none."""
    sets, entry = motif_mini(0), tmp_path / "folder" / "set.npz"
    assert read_set(entry) is None
    write_set(entry, sets)
    read = read_set(entry)
    assert read is not None
    assert (read.name, read.shift, read.node_types) == (sets.name, sets.shift, sets.node_types)
    for field in ("features", "edges", "graph_of", "targets", "client_of", "train", "validation", "test"):
        np.testing.assert_array_equal(getattr(read, field), getattr(sets, field))
    assert list(entry.parent.iterdir()) == [entry]
    entry.write_bytes(entry.read_bytes()[:1000])
    assert read_set(entry) is None


def test_sets_are_made_once_a_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call with the same seed makes nothing, another seed does, and nobody minds a cache out of reach."""
    monkeypatch.setenv("FGL_SECURE_CACHE", str(tmp_path / "cache"))
    made: list[int] = []

    def make(seed: int, _root: Path | None) -> GraphSet:
        made.append(seed)
        return motif_mini(seed)

    for seed in (0, 0, 1):
        assert kept_set("Mini", make, seed, tmp_path).num_clients == 3
    assert made == [0, 1]
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FGL_SECURE_CACHE", str(tmp_path / "file"))
    assert kept_set("Mini", make, 2, None).num_clients == 3
