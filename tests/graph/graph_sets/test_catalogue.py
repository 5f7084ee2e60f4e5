"""Sets by name: the listing is right, and unknown names are refused."""

import pytest

from fgl_secure.errors import UnknownNameError
from fgl_secure.graph.graph_sets.catalogue import GraphSetDataset, available_sets, describe_sets, load_set
from tests.error_codes import about


@pytest.mark.parametrize("info", [info for info in describe_sets() if info.name.startswith("Motif")])
def test_generated_sets_are_as_listed(info: GraphSetDataset) -> None:
    """Clients, graphs, features, classes and shift are those of the listing."""
    sets = load_set(info.name.lower())
    assert (sets.name, sets.shift) == (info.name, info.shift)
    assert (sets.num_clients, sets.num_features, sets.num_classes) == (info.clients, info.features, info.classes)
    assert sets.num_graphs == info.clients * info.graphs


def test_names_and_descriptions() -> None:
    """Each available set has a description of one line."""
    concepts = ("Motif-basis-concept", "Motif-size-concept")
    assert available_sets()[:5] == ("Motif-mini", "Motif-basis", "Motif-size", *concepts)
    assert tuple(info.name for info in describe_sets()) == available_sets()
    assert all(info.description and "\n" not in info.description for info in describe_sets())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, check=about("graph set")):
        load_set("Motif")
