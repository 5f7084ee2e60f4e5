from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.structure.columns import ColumnDirections, CombinedColumns
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.adjacency_powers import adjacency_powers, combined_adjacency
from fgl_secure.runtime import Role, Step
from tests.attacks.conformance import Claims
from tests.attacks.recorded import Run
from tests.attacks.structure.hop_runs import Network, StructureConformance, record_exchange, record_rows, scale_free

HOPS = 4


class TestCombinedColumns(StructureConformance):
    attack: Attack[tuple[ColumnDirections, ...], Any] = CombinedColumns()
    rests_on = ()

    def recorded(self, graph: FederatedGraph, network: Network) -> Run:
        return record_exchange(graph, HOPS, network)

    def claims(self, guess: tuple[ColumnDirections, ...]) -> Claims:
        """Which nodes a client sees in the same direction: cosines above .99."""
        found: Claims = Counter()
        for seen in guess:
            alike = (seen.directions @ seen.directions.T).tocoo()
            high = alike.data > 0.99
            found.update(zip(alike.row[high].tolist(), alike.col[high].tolist(), strict=True))
        return found

    def test_needs_the_combined_rows_alone(self) -> None:
        """A client that holds no power sees the same as one that holds all."""
        graph = scale_free(120, 3)
        combined = combined_adjacency(adjacency_powers(graph.graph, HOPS))
        assert self.read(record_rows(graph, "combined rows", Step(0), combined)) == self.read(
            record_exchange(graph, HOPS)
        )

    def test_own_nodes_have_no_direction(self) -> None:
        """Columns of a client's own nodes are left out: its own edges are no secret."""
        run = record_exchange(scale_free(120, 3), HOPS)
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        for seen in guess:
            lengths = np.sqrt(np.asarray(seen.directions.multiply(seen.directions).sum(axis=1)).ravel())
            assert not lengths[run.graph.silo_of == seen.client].any()
            assert lengths[lengths > 0] == pytest.approx(1)

    def test_rows_of_chance_tell_nothing(self) -> None:
        """The broken twin: rows with the pattern of another graph rank edges no better than chance."""
        graph, other = scale_free(200, 3, seed=1), scale_free(200, 3, seed=2)
        shuffled = np.random.default_rng(0).permutation(200)
        power = adjacency_powers(other.graph, HOPS)[-1][shuffled][:, shuffled]
        run = record_rows(graph, "combined rows", Step(0), power)
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        assert all(found.interval.low < 0.05 for found in self.attack.score(guess, run.truth))
