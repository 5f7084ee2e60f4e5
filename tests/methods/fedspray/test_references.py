from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from fgl_secure.attacks.base import Reference
from fgl_secure.attacks.proxy_additions import adders
from fgl_secure.attacks.proxy_rows import ADDED, LABELLED, SINGLES
from fgl_secure.methods.fedspray.layout import ProxyLayout
from fgl_secure.methods.fedspray.nodes import summands
from fgl_secure.methods.fedspray.references import drawn_nodes, growing, proxy_reference


def test_one_client_adds_one_node_each_round() -> None:
    """Of two neighbouring rounds the later has one node more, of the client whose turn it is."""
    rounds = growing(drawn_nodes(1), 20, seed=1)
    truth = proxy_reference(Reference.FEDSPRAY_ROUNDS).truth
    assert all(len(after.nodes) == len(before.nodes) + 1 for before, after in pairwise(rounds))
    assert [number for number, _ in adders(truth)] == list(range(1, len(rounds)))
    assert np.isfinite(truth.extra[ADDED]).all(axis=2).sum() == len(rounds) - 1


def test_truth_is_that_of_the_nodes() -> None:
    """Counts add up to the nodes, and single proxies stand where there is one node."""
    held, truth = drawn_nodes(0), proxy_reference(Reference.FEDSPRAY).truth
    assert truth.extra[LABELLED].sum() == len(held.nodes)
    assert (np.isfinite(truth.extra[SINGLES]).all(axis=3) == (truth.extra[LABELLED] == 1)).all()
    assert all(len(batch.nodes) for batch in truth.batches)


def test_summands_are_numerators_and_denominators() -> None:
    """Shares sum to one, and a product over its share is the mean proxy of the class."""
    held, layout = drawn_nodes(0), ProxyLayout(3, 6, 8)
    rows = summands(held, layout, 10)
    assert rows[:, layout.shares].sum(axis=1) == pytest.approx(1)
    of_first = (held.clients == 0) & (held.classes == held.classes[0])
    kind = int(held.classes[0])
    product = rows[0, layout.proxies].reshape(6, 8)[kind]
    assert product / rows[0, layout.shares][kind] == pytest.approx(held.proxies[of_first].mean(axis=0))


def test_other_methods_are_not_its_matter() -> None:
    """A reference run of another method is not made here."""
    with pytest.raises(KeyError):
        proxy_reference(Reference.FEDAVG)
