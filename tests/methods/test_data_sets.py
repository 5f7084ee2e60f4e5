"""Every listed data set under every method's defaults, small: it runs, or the error names a bound that works."""

import os
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure import train
from fgl_secure.errors import InputError
from fgl_secure.graph.datasets import available, load
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, HiFGL
from fgl_secure.methods.fed2gnn import audit_target
from tests.methods.fed2gnn.small import hurried_preset

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data

NODES, COLUMNS = 80, 200
"""Of a small data set."""
DIGITS = 200
"""Nodes of the digits, which have few neighbours: among fewer no node has what Fed2GNN's relays add up."""
METHODS: dict[str, Any] = {
    "hifgl": HiFGL,
    "fedstruct": FedStruct,
    "fedspray": FedSpray,
    "fed2gnn": Fed2GNN,
    "fedavg": FedAvg,
}
DIRECTED = {("fedstruct", "Chameleon"), ("fed2gnn", "Chameleon")}
"""Methods that want every edge in both directions, and a data set whose links have one."""
ONE_WAY = {("hifgl", "Chameleon")}
"""Here relays are let see the graph: the error says how."""
DENSE = {("hifgl", "Photo"): {"nodes": 200, "columns": 745}}
"""Where values are beyond the default bound, with as many nodes as that takes."""
LARGE = {"Physics": "loading Physics takes 2.6 GB"}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, whose bounds are tested, are the same after a few passes of Fed2GNN's decoders."""
    monkeypatch.setattr(audit_target, "fed2gnn_preset", hurried_preset)


needs_data = pytest.mark.skipif(
    not os.environ.get("FGL_SECURE_DATA"), reason="FGL_SECURE_DATA doesn't name a folder with the raw public data"
)


@cache
def small(name: str, nodes: int, columns: int = COLUMNS) -> Data:
    """The nodes with most neighbours, all edges between them, and the columns with the largest values and sums."""
    graph = load(name)
    kept = np.sort(np.argsort(-np.bincount(graph.edges[1], minlength=len(graph.labels)), kind="stable")[:nodes])
    new = np.full(len(graph.labels), -1)
    new[kept] = np.arange(len(kept))
    edges, features = new[graph.edges], graph.features[kept]
    largest = np.lexsort((features.sum(axis=0), np.abs(features).max(axis=0)))[::-1][:columns]
    _, labels = np.unique(graph.labels[kept], return_inverse=True)
    return Data(
        x=torch.tensor(features[:, np.sort(largest)]),
        y=torch.tensor(labels),
        edge_index=torch.tensor(edges[:, (edges >= 0).all(axis=0)]),
    )


def runs(method: Any, data: Data, *scheme: str) -> None:
    """An epoch under the method's defaults, or under another scheme."""
    found = train(method(epochs=1), data, *scheme, silos=5).accuracy.test
    assert found is not None
    assert 0 <= found <= 1


def some(dataset: str, **size: int) -> Data:
    """Part of a data set, of a usual size unless one is given; too large ones are skipped."""
    if dataset in LARGE:
        pytest.skip(LARGE[dataset])
    return small(dataset, **(size or {"nodes": DIGITS if dataset == "digits" else NODES}))


def refuses_directed(method: Any, data: Data) -> None:
    """It wants every edge in both directions, and says so."""
    with pytest.raises(InputError, match="must have every edge in both directions"):
        runs(method, data)


OF_ONE = [(method, dataset) for method in METHODS for dataset in ("PubMed", "Chameleon") if method != "hifgl"]
"""Other methods, whose sums have more room than HiFGL's rows, on features in fractions and on a directed graph."""


@needs_data
@pytest.mark.parametrize(("method", "dataset"), [*(("hifgl", each) for each in available()), *OF_ONE])
def test_a_data_set_runs_under_defaults(method: str, dataset: str) -> None:
    data = some(dataset, **DENSE.get((method, dataset), {}))
    if (method, dataset) in DIRECTED:
        refuses_directed(METHODS[method], data)
        return
    if (method, dataset) in ONE_WAY:
        with pytest.raises(InputError, match=r"take relay-coded\[graph-shown\]"):
            runs(METHODS[method], data)
        runs(METHODS[method], data, "relay-coded[graph-shown]")
        return
    runs(METHODS[method], data)
