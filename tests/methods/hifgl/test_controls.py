from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.gradients.knowledge import UPDATES
from fgl_secure.attacks.message_passing.knowledge import (
    DEVIATION,
    DROP_OUTS,
    SECMP_DEVIATING,
    SECMP_DROP_OUTS,
    SECMP_STATIC,
    SILENCE,
    SILENT_SENDERS,
    SMALL_FEATURES,
    SMALL_FIELD,
    STATIC_ROWS,
    TRAINING,
)
from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.graph import load
from fgl_secure.methods.fedavg.audit_runs import CONTROLS as UPDATE_CONTROLS
from fgl_secure.methods.hifgl.audit_runs import NARROW, WIDEST, variant_runs
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Step
from tests.attacks.recorded import federated

FIRST = Step(0, 0)


def test_every_reference_has_a_run() -> None:
    """Each reference of message passing has a run over three silos, with devices of few neighbours and of several."""
    wanted = {each.card.control for each in attacks().values() if each.card.truth is MessageTruth}
    assert set(CONTROLS) == wanted
    for make in CONTROLS.values():
        truth = make().truth(MessageTruth)
        received = np.bincount(truth.edges[1])
        assert (received <= 2).sum() > 20
        assert received.max() > 5
        assert set(truth.silo_of) == {0, 1, 2}


def test_only_the_small_field_is_read_by_brute_force() -> None:
    """The reference run in the field of 11 elements is material for brute force, single exchanges for all else."""
    material = {which: make().scenario for which, make in CONTROLS.items()}
    assert material.pop(SMALL_FIELD) is SMALL_FEATURES
    special = {SECMP_STATIC: STATIC_ROWS, SECMP_DROP_OUTS: DROP_OUTS, SILENT_SENDERS: SILENCE,
               SECMP_DEVIATING: DEVIATION}  # fmt: skip
    assert {which: material.pop(which) for which in special} == special
    assert set(material.values()) == {TRAINING}


@pytest.mark.parametrize("delivery", MuDelivery)
def test_the_published_scheme_varies_in_field_and_delivery(delivery: MuDelivery) -> None:
    """Its variants are the paper's field on 0/1 rows, and the other reading of who hands out mu.

    The few features of this graph are not exchanged a second time as the narrow ones.
    """
    ring = np.arange(6)
    graph = federated(np.stack([ring, (ring + 1) % 6]), ring % 2)
    runs = list(variant_runs(SecretMessagePassing(delivery=delivery), graph, 0))
    assert [run.public.modulus for run in runs] == [11, 2**31 - 1]
    assert [run.scenario for run in runs] == [SMALL_FEATURES, TRAINING]
    assert ("mu=target" in runs[1].protocol) is (delivery is MuDelivery.SILO)


def test_variants_exchange_binary_rows_of_the_stated_widths() -> None:
    """In the small field rows are 0/1, as wide as the features and 16 columns; elsewhere up to 64 columns."""
    digits = load("digits")
    graph = federated(digits.edges, np.arange(digits.num_nodes) % 3)
    wide = np.tile(np.linspace(0, 1, graph.num_devices, dtype=np.float32)[:, None], 80)
    graph = replace(graph, graph=replace(graph.graph, stored=wide))
    whole, narrow, other = variant_runs(SecretMessagePassing(), graph, 0)
    assert [run.truth(MessageTruth).embeddings[FIRST].shape[1] for run in (whole, narrow, other)] == [
        80,
        NARROW,
        WIDEST,
    ]
    for run in (whole, narrow):
        assert set(np.unique(run.truth(MessageTruth).embeddings[FIRST])) == {0, 1}


def test_plaintext_has_no_variants() -> None:
    """The oracle is run as it is."""
    graph = federated([[0, 1], [1, 0]], [0, 1])
    assert not list(variant_runs(Plaintext(), graph, 0))


def test_every_reference_of_updates_has_a_run() -> None:
    """Each reference of federated averaging is made once, and is for the attack that stands on it.

    That the attack reads it is what `AttackConformance.test_breaks_its_control` says of each.
    """
    for each in attacks().values():
        if each.card.scenario == UPDATES:
            run = UPDATE_CONTROLS[each.card.control]()
            assert run is UPDATE_CONTROLS[each.card.control]()
            assert run.is_for(each)
