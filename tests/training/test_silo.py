"""A silo holds its own part of a graph, and of others' nodes what its edges tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.errors import InputError, MalformedMessageError
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
