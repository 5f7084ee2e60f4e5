"""What relays see of hop sums: at which clients an unnamed node has neighbours, and what refusals leave of that."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.rooted_trees.relay_patterns import ClientsOfGroups
from fgl_secure.attacks.truth import neighbours_by_silo
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Phase, Recording, Role, Transcript
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims, measured
from tests.attacks.recorded import Run, random_graph, words
from tests.attacks.rooted_trees.test_hop_features import hiding, record_hops
from tests.methods.fed2gnn.test_fed2gnn_subjects import attached


class OfGroups(AttackConformance):
    """What all three attacks keep."""

    rests_on = ()  # where circuits get lost, the scheme has no sum

    def claims(self, guess: ClientsOfGroups) -> Claims:
        return Counter(
            (*tag, client)
            for tag, clients in zip(guess.tags.tolist(), guess.clients, strict=True)
            for client in np.flatnonzero(clients).tolist()
        )

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return record_hops(graph, values, scheme=hiding(1), **network)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        graph = random_graph(5, directed=False, pairs=22)
        return self.exchange(graph, words(graph.num_devices, 4), loss=loss, recording=recording)


class TestHopClients(OfGroups):
    attack: Attack[Any, Any] = named("hop-clients-relay")


class TestHopEdges(OfGroups):
    attack: Attack[Any, Any] = named("hop-edges-relay")


class TestHopDegrees(OfGroups):
    attack: Attack[Any, Any] = named("hop-degrees-relay")


def test_relays_rest_on_circuits() -> None:
    """Without them the other messages, of which there are some, say nothing to any of the three."""
    run = record_hops(attached(), scheme=hiding(1))
    kept = [batch for batch in run.transcript.messages if batch.phase is not Phase.CIRCUITS]
    view = Transcript(run.transcript.parties, messages=kept).views(Role.RELAY)
    assert view.received
    assert all(named(f"hop-{what}-relay").infer(view, run.public) is None for what in ("clients", "edges", "degrees"))


@pytest.mark.parametrize("k_min", [1, 3])
def test_groups_show_at_which_clients_a_node_has_neighbours(k_min: int) -> None:
    """Of every node whose sum is computed, and of no other."""
    run = record_hops(attached(), scheme=hiding(k_min))
    by_client = neighbours_by_silo(run.truth)
    enough = np.flatnonzero((by_client > 0).sum(axis=1) >= k_min)
    guess = named("hop-clients-relay").infer(run.transcript.views(Role.RELAY), run.public)
    assert guess is not None
    assert len(guess.tags) == 2 * len(enough)
    found = measured(named("hop-clients-relay"), run)["neighbouring clients"]
    assert found.value == 1 > found.prior
    assert measured(named("hop-edges-relay"), run)["neighbours by silo"].value == pytest.approx(
        (by_client[enough] <= 1).all(axis=1).mean()
    )
    assert measured(named("hop-degrees-relay"), run)["degrees"].value == pytest.approx(
        (by_client[enough].sum(axis=1) == (by_client[enough] > 0).sum(axis=1)).mean()
    )
