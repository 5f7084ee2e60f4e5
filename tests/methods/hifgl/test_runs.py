from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import Material, Reference, guess_of
from fgl_secure.attacks.registry import ATTACKS
from fgl_secure.graph import load
from fgl_secure.methods.fedavg.references import update_reference
from fgl_secure.methods.hifgl.runs import NARROW, WIDEST, reference_runs, variant_runs
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Step
from tests.attacks.recorded import federated

FIRST = Step(0, 0)


def test_every_reference_has_a_run() -> None:
    """Each reference of message passing has a run over three silos, with devices of few neighbours and of several."""
    runs = reference_runs()
    assert set(runs) == {which for which in Reference if not which.name.startswith("FED")}  # other methods' runs
    for run in runs.values():
        received = np.bincount(run.truth.edges[1])
        assert (received <= 2).sum() > 20
        assert received.max() > 5
        assert set(run.truth.silo_of) == {0, 1, 2}


def test_the_tree_has_single_and_many_neighbours() -> None:
    """The runs of single exchanges have devices with one neighbour, and with more than ten."""
    runs = reference_runs()
    for which in (Reference.PLAINTEXT, Reference.SECMP, Reference.SMALL_FIELD, Reference.SILO_PATH):
        received = np.bincount(runs[which].truth.edges[1])
        assert (received == 1).sum() > 20
        assert received.max() > 10


def test_neighbours_in_the_half_graphs_differ_in_degree() -> None:
    """In the run of static rows no two neighbours of a device have the same number of neighbours."""
    source, target = reference_runs()[Reference.STATIC].truth.edges
    pairs = np.stack([target, np.bincount(target)[source]])
    assert len(np.unique(pairs, axis=1).T) == len(source)


def test_reference_runs_repeat() -> None:
    """Two sets of reference runs hold the same payloads, bit for bit."""
    first, again = (reference_runs()[Reference.SECMP].transcript.messages for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert one.payload is not None
        assert other.payload is not None
        assert np.array_equal(one.payload, other.payload)


def test_only_the_small_field_is_read_by_brute_force() -> None:
    """The reference run in the field of 11 elements is material for brute force, single exchanges for all else."""
    material = {which: run.material for which, run in reference_runs().items()}
    assert material.pop(Reference.SMALL_FIELD) is Material.FEATURES
    special = {Reference.STATIC: Material.STATIC, Reference.DROP_OUTS: Material.DROP_OUTS,
               Reference.DEVIATING: Material.DEVIATION}  # fmt: skip
    assert {which: material.pop(which) for which in special} == special
    assert set(material.values()) == {Material.TRAINING}


@pytest.mark.parametrize("delivery", MuDelivery)
def test_the_published_scheme_varies_in_field_and_delivery(delivery: MuDelivery) -> None:
    """Its variants are the paper's field on 0/1 rows, and the other reading of who hands out mu.

    The few features of this graph are not exchanged a second time as the narrow ones.
    """
    ring = np.arange(6)
    graph = federated(np.stack([ring, (ring + 1) % 6]), ring % 2)
    runs = list(variant_runs(SecretMessagePassing(delivery=delivery), graph, 0))
    assert [run.public.modulus for run in runs] == [11, 2**31 - 1]
    assert [run.material for run in runs] == [Material.FEATURES, Material.TRAINING]
    assert ("mu=target" in runs[1].protocol) is (delivery is MuDelivery.SILO)


def test_variants_exchange_binary_rows_of_the_stated_widths() -> None:
    """In the small field rows are 0/1, as wide as the features and 16 columns; elsewhere up to 64 columns."""
    digits = load("digits")
    graph = federated(digits.edges, np.arange(digits.num_nodes) % 3)
    wide = np.tile(np.linspace(0, 1, graph.num_devices, dtype=np.float32)[:, None], 80)
    graph = replace(graph, graph=replace(graph.graph, features=wide))
    whole, narrow, other = variant_runs(SecretMessagePassing(), graph, 0)
    assert [run.truth.embeddings[FIRST].shape[1] for run in (whole, narrow, other)] == [80, NARROW, WIDEST]
    for run in (whole, narrow):
        assert set(np.unique(run.truth.embeddings[FIRST])) == {0, 1}


def test_plaintext_has_no_variants() -> None:
    """The oracle is run as it is."""
    graph = federated([[0, 1], [1, 0]], [0, 1])
    assert not list(variant_runs(Plaintext(), graph, 0))


def test_every_reference_of_updates_has_a_run() -> None:
    """Each reference of federated averaging is made once, and an attack that stands on it can read it."""
    for each in ATTACKS.values():
        if each.card.reference.name.startswith("FEDAVG"):
            run = update_reference(each.card.reference)
            assert run is update_reference(each.card.reference)
            view = run.transcript.views(each.card.observer)
            assert guess_of(each, view, run.public, run.auxiliary) is not None
