"""Labels come back with gradients to nodes that have a single foreign neighbour, and to no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.structure.scope import StructureTruth
from fgl_secure.attacks.structure.structure_gradients import HopGradientLabels
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.structure import Hopwise
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording, Role, Transcript
from fgl_secure.training.parties import hierarchy_of, note_own_graph
from fgl_secure.training.silo import Silo
from tests.attacks.recorded import both_ways, federated
from tests.attacks.structure.hop_runs import scale_free
from tests.methods.fedstruct.passes import passed

ATTACK = HopGradientLabels()
CLASSES = 4


def labelled(graph: FederatedGraph, share: float = 0.5) -> FederatedGraph:
    """The graph with other labels, and with so many of its nodes in training."""
    rng = np.random.default_rng(1)
    labels, train = rng.integers(CLASSES, size=graph.num_devices), rng.random(graph.num_devices) < share
    return replace(graph, graph=replace(graph.graph, labels=labels), train_mask=train)


def recorded(graph: FederatedGraph, scheme: Scheme) -> Transcript:
    """One forward and backward pass of soft-max regression on structure embeddings."""
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    note_own_graph(channel, graph)
    start = np.random.default_rng(0).normal(size=(graph.num_devices, CLASSES)).astype(np.float32)

    def loss(logits: torch.Tensor, silo: Silo) -> torch.Tensor:
        train = torch.tensor(silo.train)
        return functional.cross_entropy(logits[train], torch.tensor(silo.labels)[train], reduction="sum")

    passed(graph, {"neighbours": scheme}, channel, start, lambda talk: Hopwise(talk, 3), loss, crossing=True)
    return channel.transcript


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)], ids=str)
def test_every_label_that_it_names_is_right(scheme: Scheme) -> None:
    """Under any scheme that answers single neighbours the labels of labelled ones are read without a mistake."""
    graph = labelled(scale_free(120, 2, 1))
    run = recorded(graph, scheme)
    guess = ATTACK.infer(run.views(Role.SILO), PublicParameters())
    assert guess is not None
    assert len(guess.nodes) > 20
    assert graph.train_mask[guess.nodes].all()
    assert np.array_equal(guess.values, graph.labels[guess.nodes])


def test_permuted_labels_are_read_as_often_as_by_chance() -> None:
    """The null control: against labels that are shuffled among a client's nodes it is not better than the prior."""
    graph = labelled(scale_free(240, 2, 1))
    run = recorded(graph, Plaintext())
    guess = ATTACK.infer(run.views(Role.SILO), PublicParameters())
    assert guess is not None
    (found,) = ATTACK.score(guess, StructureTruth.of(run.parties, graph))
    (null,) = ATTACK.score(guess, StructureTruth.of(run.parties, graph).permuted(3))
    assert found.value == 1
    assert null.interval.low <= null.prior + 0.05


def test_sums_of_three_neighbours_leave_nothing_to_read() -> None:
    """With k_min 3 no gradient comes back by way of a single neighbour."""
    graph = labelled(scale_free(120, 2, 1))
    guess = ATTACK.infer(
        recorded(graph, RelayCoded(k_min=3, profile=Profile.SHOWN)).views(Role.SILO), PublicParameters()
    )
    assert guess is not None
    assert len(guess.nodes) == 0
    assert ATTACK.score(guess, StructureTruth.of(hierarchy_of(graph), graph)) == ()


def test_neighbours_without_a_label_are_left_alone() -> None:
    """Of a pair across two clients only the labelled end is read."""
    graph = federated(both_ways([(0, 1)]), [0, 1])
    graph = replace(graph, train_mask=np.array([True, False]))
    guess = ATTACK.infer(recorded(graph, Plaintext()).views(Role.SILO), PublicParameters())
    assert guess is not None
    assert guess.nodes.tolist() == [0]


def test_an_empty_run_gives_no_guess() -> None:
    """Nothing comes from a view without gradients."""
    graph = scale_free(20, 2, 1)
    assert ATTACK.infer(Transcript(hierarchy_of(graph)).views(Role.SILO), PublicParameters()) is None


def test_it_is_registered() -> None:
    """The attack is found by its name."""
    assert type(attacks()["hop-gradient-labels"]) is HopGradientLabels
