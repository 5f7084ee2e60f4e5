"""Runs of FedVN that attacks must break."""

from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack, Reference, guess_of
from fgl_secure.attacks.virtual_node_clients import LinkedSummands, VirtualNodeClients
from fgl_secure.attacks.virtual_node_labels import ShareGuess, VirtualNodeLabels
from fgl_secure.attacks.virtual_node_population import POPULATION, PopulationGuess, VirtualNodePopulation
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.methods.fedvn.references import virtual_node_reference
from fgl_secure.runtime import Role

Any = ShareGuess | PopulationGuess | LinkedSummands


@pytest.mark.parametrize("attack", [VirtualNodeLabels(), VirtualNodePopulation(), VirtualNodeClients()])
def test_attacks_break_their_references_and_no_permuted_truth(attack: Attack[Any]) -> None:
    """Controls with the method's own model: the unprotected run is broken, and permuted truth is not."""
    run = virtual_node_reference(attack.card.reference)
    guess = guess_of(attack, run.transcript.views(Role.SERVER), run.public, run.auxiliary)
    assert guess is not None
    for found in attack.score(guess, run.truth):
        assert found.value / found.reachable >= attack.card.minimum
    for found in attack.score(guess, run.truth.permuted(1)):
        assert found.interval.low <= max(found.random, found.prior) + MARGIN


def test_labels_are_skewed_where_they_should_be() -> None:
    """The first label is the commonest of all, and every client has many more of one label than of the others."""
    truth = virtual_node_reference(Reference.FEDVN_SKEWED).truth
    assert truth.extra[POPULATION][:, 0].argmax() == 0
    shares = np.sort(truth.extra["label shares"], axis=1)
    assert (shares[:, -1] > 2 * shares[:, -2]).all()


def test_references_are_made_once_and_of_fedvn_alone() -> None:
    """A second look is the same run, and runs of other methods are not made here."""
    assert virtual_node_reference(Reference.FEDVN) is virtual_node_reference(Reference.FEDVN)
    with pytest.raises(KeyError):
        virtual_node_reference(Reference.FEDAVG)
