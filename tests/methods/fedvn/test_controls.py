"""Runs of FedVN that attacks must break."""

from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, FEDVN_SKEWED
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.methods.fedvn.audit_runs import CONTROLS


@pytest.mark.parametrize(
    "attack", [named("virtual-node-labels"), named("virtual-node-population"), named("virtual-node-clients")]
)
def test_attacks_break_their_references_and_no_permuted_truth(attack: Attack[Any, Any]) -> None:
    """Controls with the method's own model: the unprotected run is broken, and permuted truth is not."""
    run = CONTROLS[attack.card.control]()
    guess = run.guess(attack)
    assert guess is not None
    for found in run.score(attack, guess):
        assert found.value / found.reachable >= attack.card.minimum
    for found in run.score(attack, guess, 1):
        assert found.interval.low <= max(found.random, found.prior) + MARGIN


def test_labels_are_skewed_where_they_should_be() -> None:
    """The first label is the commonest of all, and every client has many more of one label than of the others."""
    truth = CONTROLS[FEDVN_SKEWED]().truth(VirtualNodeTruth)
    assert truth.population is not None
    assert truth.label_shares is not None
    assert truth.population.argmax() == 0
    shares = np.sort(truth.label_shares, axis=1)
    assert (shares[:, -1] > 2 * shares[:, -2]).all()


def test_controls_are_made_once() -> None:
    """A second look is the same run."""
    assert CONTROLS[FEDVN]() is CONTROLS[FEDVN]()
