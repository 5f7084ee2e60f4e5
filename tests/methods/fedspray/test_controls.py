from itertools import pairwise

import numpy as np
import pytest

from fgl_secure.attacks.proxies.additions import adders
from fgl_secure.attacks.proxies.knowledge import FEDSPRAY, FEDSPRAY_ROUNDS
from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.methods.fedspray.audit_runs import CONTROLS, drawn_nodes, growing, summands
from fgl_secure.methods.fedspray.client import ProxyLayout


def test_one_client_adds_one_node_each_round() -> None:
    """Of two neighbouring rounds the later has one node more, of the client whose turn it is."""
    rounds = growing(drawn_nodes(1), 20, seed=1)
    truth = CONTROLS[FEDSPRAY_ROUNDS]().truth(ProxyTruth)
    assert all(len(after.nodes) == len(before.nodes) + 1 for before, after in pairwise(rounds))
    assert [number for number, _ in adders(truth)] == list(range(1, len(rounds)))
    assert np.isfinite(truth.added).all(axis=2).sum() == len(rounds) - 1


def test_truth_is_that_of_the_nodes() -> None:
    """Counts add up to the nodes, and single proxies stand where there is one node."""
    held, truth = drawn_nodes(0), CONTROLS[FEDSPRAY]().truth(ProxyTruth)
    assert truth.labelled.sum() == len(held.nodes)
    assert (np.isfinite(truth.singles).all(axis=3) == (truth.labelled == 1)).all()
    assert (truth.sizes == truth.labelled.sum(axis=2)).all()
    assert truth.sizes.all()


def test_summands_are_numerators_and_denominators() -> None:
    """Shares sum to one, and a product over its share is the mean proxy of the class."""
    held, layout = drawn_nodes(0), ProxyLayout(3, 6, 8)
    rows = summands(held, layout, 10)
    assert rows[:, layout.shares].sum(axis=1) == pytest.approx(1)
    of_first = (held.clients == 0) & (held.classes == held.classes[0])
    kind = int(held.classes[0])
    product = rows[0, layout.proxies].reshape(6, 8)[kind]
    assert product / rows[0, layout.shares][kind] == pytest.approx(held.proxies[of_first].mean(axis=0))
