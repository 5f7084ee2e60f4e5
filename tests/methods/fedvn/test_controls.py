"""Runs of FedVN that attacks must break."""

import numpy as np

from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import FEDVN, FEDVN_SKEWED
from fgl_secure.methods.fedvn.audit_runs import CONTROLS


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
