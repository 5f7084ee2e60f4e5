"""A silo holds its own part of a graph, and of others' nodes what its edges tell."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fgl_secure.errors import InputError, MalformedMessageError
from fgl_secure.training import parameters
from fgl_secure.training.parameters import draw_on, generator_state
from fgl_secure.training.presets import HONEST, Federation, Selection, preset
from fgl_secure.training.silo import Silo, facts_of
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities(devices=40, silos=4)


def test_shares_are_the_graph_cut_up() -> None:
    """Every node is in one share with its features, label and masks; every edge in the shares of its ends."""
    shares = [Silo.of(GRAPH, silo) for silo in range(4)]
    assert np.array_equal(np.sort(np.concatenate([share.nodes for share in shares])), np.arange(40))
    for silo, share in enumerate(shares):
        own = GRAPH.devices_of(silo)
        assert np.array_equal(share.features, GRAPH.features[own])
        assert np.array_equal(share.labels, GRAPH.labels[own])
        assert np.array_equal(share.test, GRAPH.test_mask[own])
        ends = GRAPH.silo_of[GRAPH.edges] == silo
        assert np.array_equal(share.edges, GRAPH.edges[:, ends.any(axis=0)])
    both = sum(share.edges.shape[1] for share in shares)
    assert both == GRAPH.edges.shape[1] + int(GRAPH.crosses_silos.sum())


def test_of_foreign_nodes_a_share_knows_owner_and_place() -> None:
    """Nothing has a row for them but the table of ends, which agrees with what their owners hold."""
    shares = [Silo.of(GRAPH, silo) for silo in range(4)]
    for share in shares:
        assert len(share.features) == len(share.labels) == len(share.nodes)
        for number, silo, place in share.foreign.tolist():
            assert silo != share.silo
            assert shares[silo].nodes[place] == number
        silos, places = share.owners(np.unique(share.edges))
        assert all(shares[s].nodes[p] == n for n, s, p in zip(np.unique(share.edges), silos, places, strict=True))


def test_a_share_goes_through_a_file(tmp_path: Path) -> None:
    """Written and read again it is what it was; other files are refused."""
    share, file = Silo.of(GRAPH, 2), tmp_path / "silo"
    share.save(file)
    found = Silo.load(file)
    assert found.facts == share.facts == facts_of(GRAPH)
    assert (found.facts.feature_bits, replace(share.facts, feature_bits=4).feature_bits) == (None, 4)
    replace(share, facts=replace(share.facts, feature_bits=4)).save(file)
    assert Silo.load(file).facts.feature_bits == 4
    assert all(
        np.array_equal(getattr(found, name), getattr(share, name))
        for name in ("nodes", "features", "labels", "train", "validation", "test", "edges", "foreign")
    )
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(MalformedMessageError):
        Silo.load(file)
    file.write_bytes(b"")
    with pytest.raises(InputError, check=about("silo")):
        Silo.load(file)


def test_shares_that_do_not_fit_together_are_refused() -> None:
    """Nodes of another number than the facts say, and edges with an end that nobody knows."""
    share = Silo.of(GRAPH, 0)
    with pytest.raises(InputError, check=about("silo")):
        replace(share, silo=4)
    with pytest.raises(InputError, check=about("edges")):
        replace(share, foreign=share.foreign[1:])


@pytest.mark.parametrize("before", [0, 1, 7])
def test_a_generator_goes_on_where_another_one_is(before: int) -> None:
    """Also with half a word in store, as after an odd number of small draws."""
    first, second = np.random.default_rng(1), np.random.default_rng([2, 3])
    first.integers(256, size=before, dtype=np.uint32)
    where = generator_state(first)
    assert (where.dtype, where.shape) == (np.dtype(np.uint64), (6,))
    draw_on(second, where)
    wanted = [first.integers(2**32, dtype=np.uint32), first.random(), first.permutation(20).tolist(), first.bytes(5)]
    assert [
        second.integers(2**32, dtype=np.uint32), second.random(), second.permutation(20).tolist(), second.bytes(5)
    ] == wanted  # fmt: skip
    first.random()
    draw_on(second, where)
    assert first.random() != second.random()


@pytest.mark.parametrize("large", [0, 2**26])
def test_large_arrays_are_not_copied(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor of one is of the same memory, without a warning that it may not be written; small ones are copied."""
    monkeypatch.setattr(parameters, "LARGE", large)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    values.setflags(write=False)
    found = parameters.as_shared_tensor(values, torch.device("cpu"))
    assert found.tolist() == values.tolist()
    assert (found.data_ptr() == values.ctypes.data) == (large == 0)


def test_honest_preset_is_the_same_for_all_data() -> None:
    """The honest preset chooses on validation data, federates for real and lets every neighbour speak."""
    assert preset("honest", "Cora") is preset("honest", "anything") is HONEST
    assert (HONEST.selection, HONEST.federation) == (Selection.VALIDATION, Federation.FEDAVG)
    assert not HONEST.split_restricted
    assert HONEST.layers_of == "literature"
    assert (HONEST.hidden, HONEST.epochs, HONEST.learning_rate, HONEST.decay_every, HONEST.decay) == (
        64,
        50,
        0.01,
        4,
        0.9,
    )


@pytest.mark.parametrize(
    ("dataset", "rate", "decay_every", "dropout", "hidden"),
    [("Cora", 0.005, 4, 0.0, 64), ("CiteSeer", 0.01, 16, 0.1, 64), ("PubMed", 0.1, 8, 0.0, 128)],
)
def test_public_code_preset_follows_the_public_code(
    dataset: str, rate: float, decay_every: int, dropout: float, hidden: int
) -> None:
    """It has the settings of each data set and every oddity of the code."""
    published = preset("public-code", dataset)
    assert (published.learning_rate, published.decay_every) == (rate, decay_every)
    assert (published.dropout, published.hidden) == (dropout, hidden)
    assert (published.selection, published.federation) == (Selection.TEST, Federation.SHARED)
    assert published.split_restricted
    assert published.layers_of == "public-code"
    assert (published.epochs, published.patience) == (1024, 16)


def test_paper_preset_follows_the_text() -> None:
    """Section 6.1's settings, all neighbours' messages, silos that step by themselves, and means over all devices."""
    text = preset("paper", "PubMed")
    assert text == replace(HONEST, name="paper", mean_over_devices=True, layers_of="paper")
    assert not HONEST.mean_over_devices


def test_public_code_preset_takes_coras_settings_elsewhere() -> None:
    """On a data set that the authors did not use the settings of Cora apply."""
    assert preset("public-code", "digits") == preset("public-code", "Cora")
