"""What the exchange of structure gives away on the public citation graphs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.structure.hop_sums import leaking_although_allowed
from fgl_secure.graph import FederatedGraph, SplitMasks, load, partition
from fgl_secure.graph.structure_features import adjacency_powers, normalised_adjacency
from fgl_secure.runtime import Step
from tests.attacks.conformance import guess_on
from tests.attacks.recorded import Run
from tests.attacks.structure.structure_runs import record_exchange, record_hopwise, record_queries, record_rows

CLIENTS = 10
KEPT = 30


@dataclass(frozen=True, slots=True)
class Setting:
    """A graph, how it is dealt to ten clients, and the powers that are combined, as in the paper's Table 5."""

    name: str
    how: str
    hops: int = 10

    def graph(self, root: Path) -> FederatedGraph:
        graph = load(self.name, root)
        everyone, nobody = (np.full(graph.num_nodes, each) for each in (True, False))
        assigned = partition(self.how, graph, CLIENTS, 0)
        return FederatedGraph.from_assignment(graph, assigned, SplitMasks(everyone, nobody, nobody))

    def combined(self, graph: FederatedGraph) -> sparse.csr_array:
        """The mean of the powers, each pruned to its 30 largest entries a row."""
        first = normalised_adjacency(graph.graph)
        power, total = first, first
        for _ in range(self.hops - 1):
            power = _largest_of_rows(sparse.csr_array(first @ power))
            total = total + power
        return sparse.csr_array(total / self.hops)


CORA, CORA_LOUVAIN = Setting("Cora", "random"), Setting("Cora", "louvain")


def test_single_shares_tell_half_of_the_edges_for_certain(data_root: Path) -> None:
    """Every claim from single shares is right, and 52 % of Cora's edges between other clients are claimed."""
    found = _figures(named("hop-shares"), record_exchange(CORA.graph(data_root)))
    assert found["precision"] == 1
    assert found["recall"] == pytest.approx(0.52, abs=0.01)


def test_two_powers_tell_more_for_certain(data_root: Path) -> None:
    """Shares of the second and third power give 15 % of Cora's edges between other clients on Louvain communities."""
    found = _figures(named("hop-unfolding"), record_exchange(CORA_LOUVAIN.graph(data_root), 3))
    assert found["precision"] == 1
    assert found["recall"] == pytest.approx(0.150, abs=0.002)


def test_summed_rows_tell_a_third_of_the_edges(data_root: Path) -> None:
    """Rows of the second power alone, with errors of 1e-6, tell 35 % of Cora's edges at 95 % precision or better."""
    graph = CORA.graph(data_root)
    rows = adjacency_powers(graph.graph, 2)[1]
    rows.data += np.random.default_rng(0).uniform(-1e-6, 1e-6, len(rows.data))
    found = _figures(named("hop-fingerprint"), record_rows(graph, "hop rows", Step(0, layer=2), rows))
    assert found["recall"] == pytest.approx(0.347, abs=0.01)
    assert found["precision"] >= 0.955


def test_combined_rows_rank_edges_and_answers_expose_nodes(data_root: Path) -> None:
    """Columns of the combined rows rank Cora's edges above random pairs with an AUC of .93 on a random partition.

    Of the pairs of clients that obey the paper's count at 10 % labels, 96 % expose a node.
    """
    graph = CORA.graph(data_root)
    combined = CORA.combined(graph)
    found = _figures(named("combined-columns"), record_rows(graph, "combined rows", Step(0), combined))
    assert (found["AUC gain over random pairs"] + 1) / 2 == pytest.approx(0.927, abs=0.015)
    assert (found["AUC gain over two-hop pairs"] + 1) / 2 == pytest.approx(0.787, abs=0.015)
    run = record_queries(graph, combined, _labelled(graph, 0.1), [_embeddings(graph)])
    guess = guess_on(named("query-rowspace"), run)
    found = {each.metric: each.value for each in named("query-rowspace").score(guess, run.truth)}
    assert found["exact recovery"] == 1
    assert found["nodes exposed"] == pytest.approx(0.042, abs=0.02)
    leaks, obeying = leaking_although_allowed(guess)
    assert leaks / obeying == pytest.approx(0.96, abs=0.02)


def test_hopwise_sums_leave_single_neighbours(data_root: Path) -> None:
    """Where nobody holds a power, 9 % of foreign neighbours are read on Cora and 1 edge in 2,000."""
    graph = CORA.graph(data_root)
    run = record_hopwise(graph, _embeddings(graph).astype(np.float64), 6)
    assert _figures(named("hop-sum-rows"), run)["nodes exposed"] == pytest.approx(0.0885, abs=0.002)
    assert 0 < _figures(named("hop-sum-edges"), run)["recall"] < 0.001


def _figures(attack: Attack[Any, Any], run: Run) -> dict[str, float]:
    guess = guess_on(attack, run)
    return {found.metric: found.value for found in attack.score(guess, run.truth)}


def _labelled(graph: FederatedGraph, share: float) -> NDArray[np.int64]:
    return np.flatnonzero(np.random.default_rng(0).random(graph.num_devices) < share)


def _embeddings(graph: FederatedGraph) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(graph.num_devices, 7)).astype(np.float32)


def _largest_of_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """The 30 largest entries of each row."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((-matrix.data, row))
    kept = order[np.arange(len(order)) - matrix.indptr[row[order]] < KEPT]
    return sparse.csr_array((matrix.data[kept], (row[kept], matrix.indices[kept])), shape=matrix.shape)
