"""Audits of finished models: a model that remembers is found out, one that doesn't is not, nonsense is refused."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.attacks.outputs import ShadowTraining, audit_model, model_leakage, train_shadows
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph, load
from tests.error_codes import about

NODES = 240
QUICK = ShadowTraining(hidden=16, epochs=60, dropout=0.0, weight_decay=0.0)


def _graph(seed: int = 0) -> Graph:
    """Three communities with weak features, so that a model has to remember single nodes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, NODES)
    features = rng.standard_normal((NODES, 40)) + 0.3 * np.eye(40)[labels]
    ends = rng.integers(0, NODES, (2, 1200))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (rng.random(1200) < 0.2)]
    return Graph.from_arrays("communities", features, labels, np.concatenate([ends, ends[::-1]], axis=1))


GRAPH = _graph()
SHADOWS = train_shadows(GRAPH, 17, training=QUICK)
"""Of these the last is the attacked model."""


def _others() -> Any:
    return SHADOWS.select(np.arange(16))


def _target(features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """The last model, as a function of its input."""
    first, first_bias, second, second_bias = (torch.from_numpy(each[-1]) for each in SHADOWS.weights)
    adjacency = torch.eye(NODES)
    adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1
    scale = adjacency.sum(1).rsqrt()
    adjacency = scale[:, None] * adjacency * scale
    hidden = (adjacency @ (features.float() @ first) + first_bias).relu()
    return (adjacency @ (hidden @ second) + second_bias).softmax(1)


def test_a_model_that_remembers_its_nodes_shows_them() -> None:
    """Its own training nodes are told from others, other models' are not, and the split itself says nothing."""
    audit = audit_model(_target, GRAPH, SHADOWS.members[-1], shadows=_others())
    rows = {(row.attack, row.query): row for row in audit.membership if row.nodes == "all"}
    for name in ("LiRA online", "LiRA offline", "RMIA"):
        row = rows[name, "features"]
        assert row.power is not None
        assert row.power.auc_interval.low > 0.65, row
        assert row.null_auc is not None
        assert row.shadow_auc is not None
        assert abs(row.null_auc - 0.5) < 0.1
        assert row.shadow_auc > 0.7
    blind = rows["blind", "nothing"].power
    assert blind is not None
    assert blind.auc_interval.low < 0.55
    queries = {each.partition(", asked with ")[2] for each in audit.exceeds(0.6)}
    assert queries == {"features", "features and edges", "subgraphs"}
    subgraphs = next(row for row in audit.membership if row.attack == "G-BASE")
    assert subgraphs.power is not None
    assert subgraphs.null_auc is not None
    assert subgraphs.shadow_auc is not None
    assert abs(subgraphs.null_auc - 0.5) < 0.1
    assert subgraphs.shadow_auc > 0.7
    assert audit.worst.attack != "blind"
    assert audit.accuracy[0] > audit.accuracy[1]
    union = rows["union", "features"].union
    assert union is not None
    assert union[0.01].fpr <= 0.01


def test_a_model_of_other_nodes_shows_none() -> None:
    """The attacked model never saw the nodes that are called members: no area is certainly above 0.6."""
    audit = audit_model(_target, GRAPH, SHADOWS.members[0], shadows=_others())
    assert not audit.exceeds(0.6)


def test_a_split_that_shows_members_is_found_without_the_model() -> None:
    """Members are the nodes of high degree: the blind row says so, whatever the model answers."""
    degree = np.bincount(GRAPH.edges[1], minlength=NODES)
    audit = audit_model(np.full((NODES, 3), 1 / 3), GRAPH, degree > np.median(degree), shadows=_others())
    blind = audit.membership[0]
    assert blind.attack == "blind"
    assert blind.power is not None
    assert blind.power.auc_interval.low > 0.8
    assert not audit.exceeds()


def test_neighbours_have_close_answers() -> None:
    """Links are told from random pairs; a model that never heard of edges tells them no better than labels do."""
    links = audit_model(_target, GRAPH, SHADOWS.members[-1], shadows=_others()).links
    assert links["random"].interval.low > 0.5
    constant = audit_model(np.full((NODES, 3), 1 / 3), GRAPH, SHADOWS.members[-1], shadows=_others()).links
    assert {area.auc for area in constant.values()} == {0.5}


def test_figures_form_a_table() -> None:
    audit = audit_model(_target, GRAPH, np.flatnonzero(SHADOWS.members[-1]), shadows=_others())
    frame = audit.to_dataframe()
    columns = ["attack", "query", "nodes", "metric", "value", "low", "high", "fpr", "baseline", "null", "positive"]
    assert list(frame.columns) == columns
    controlled = frame[(frame.metric == "auc") & frame.null.notna()]
    assert len(controlled) == 9  # four attacks, asked with and without edges, and G-BASE
    assert (controlled.positive > controlled.null).all()
    assert len(frame) == len(audit.rows())
    assert ((frame.low <= frame.value) & (frame.value <= frame.high)).all()
    assert "16 shadow models" in repr(audit)
    assert "LiRA online" in repr(audit)


def test_a_call_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Finished batches are taken from the folder, unfinished files are not, and more models keep the first ones."""
    training = ShadowTraining(hidden=4, epochs=2)
    first = train_shadows(GRAPH, 16, training=training, folder=tmp_path)
    (stored,) = tmp_path.iterdir()
    changed = stored.stat().st_mtime_ns
    (tmp_path / f"{stored.stem}.1.tmp").write_bytes(b"half of a file")
    more = train_shadows(GRAPH, 20, training=training, folder=tmp_path)
    assert stored.stat().st_mtime_ns == changed
    assert np.array_equal(more.joined[:16], first.joined)
    again = train_shadows(GRAPH, 20, training=training)
    assert np.array_equal(again.joined, more.joined)
    other = train_shadows(GRAPH, 16, training=ShadowTraining(hidden=4, epochs=3), folder=tmp_path)
    assert not np.array_equal(other.joined, first.joined)


KILLED = """
import sys

from fgl_secure.attacks.outputs import ShadowTraining, train_shadows
from fgl_secure.graph import load

train_shadows(load("digits"), 48, training=ShadowTraining(hidden=4, epochs=20), folder=sys.argv[1])
"""


def test_a_killed_call_goes_on_where_it_was(tmp_path: Path) -> None:
    """The process is killed once its first batch is there; the next call keeps it and ends as one that never died."""
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    while not list(tmp_path.glob("shadows-*-0.npz")):
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    first = {path: path.stat().st_mtime_ns for path in tmp_path.glob("shadows-*.npz")}
    training = ShadowTraining(hidden=4, epochs=20)
    resumed = train_shadows(load("digits"), 48, training=training, folder=tmp_path)
    assert all(path.stat().st_mtime_ns == written for path, written in first.items())
    assert np.array_equal(resumed.joined, train_shadows(load("digits"), 48, training=training).joined)


def test_shadow_models_learn_what_a_model_of_pytorch_geometric_does() -> None:
    """Accuracy of shadow models is that of GCNConv layers, trained the same way on the same nodes' subgraphs."""
    nodes, classes = NODES, 3
    features = torch.from_numpy(np.array(GRAPH.features))
    labels = torch.from_numpy(np.array(GRAPH.labels))
    edges = np.array(GRAPH.edges)
    dense = torch.zeros(nodes, nodes)
    dense[edges[1], edges[0]] = 1
    expected = []
    for model in range(6):
        inside = torch.from_numpy(SHADOWS.members[model])
        weights = [
            torch.nn.init.xavier_uniform_(torch.empty(shape), generator=torch.Generator().manual_seed(model))
            for shape in ((40, 16), (16, classes))
        ]
        parameters = [*weights, torch.zeros(16), torch.zeros(classes)]
        for each in parameters:
            each.requires_grad_()
        adam = torch.optim.Adam(parameters, lr=0.01)

        def logits(chosen: torch.Tensor, parameters: list[torch.Tensor] = parameters) -> torch.Tensor:
            adjacency = dense * chosen * chosen[:, None] + torch.eye(nodes)
            scale = adjacency.sum(dim=1).rsqrt()
            adjacency = scale[:, None] * adjacency * scale
            hidden = torch.relu(adjacency @ features @ parameters[0] + parameters[2])
            return adjacency @ hidden @ parameters[1] + parameters[3]

        for _ in range(QUICK.epochs):
            loss = torch.nn.functional.cross_entropy(logits(inside)[inside], labels[inside])
            for each, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                each.grad = slope
            adam.step()
        right = logits(torch.ones(nodes)).argmax(dim=1) == labels
        expected.append([float(right[inside].float().mean()), float(right[~inside].float().mean())])
    right = SHADOWS.joined.argmax(axis=2) == GRAPH.labels
    found = [
        [right[model, inside].mean(), right[model, ~inside].mean()] for model, inside in enumerate(SHADOWS.members)
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(expected, axis=0), atol=0.05)


def test_models_of_a_graph_are_attacked_in_turn() -> None:
    """Means over models lie between the least and the largest, and models that remember exceed a low ceiling."""
    found = model_leakage(GRAPH, shadows=8, targets=4, training=QUICK)
    assert len(found.audits) == 4
    assert all(row["least"] <= row["mean"] <= row["largest"] for row in found.rows())
    means = {(row["attack"], row["query"]): row["mean"] for row in found.rows() if row["metric"] == "auc"}
    assert means["RMIA", "features"] > 0.65 > means["blind", "nothing"]
    assert "RMIA, asked with features" in found.exceeds(0.55)
    assert not found.exceeds(0.95)
    assert "RMIA" in repr(found)
    with pytest.raises(InputError, check=about("targets")):
        model_leakage(GRAPH, shadows=2, targets=4)


_UNIFORM = np.full((NODES, 3), 1 / 3)
_HALF = np.arange(NODES // 2)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (partial(audit_model, np.full((NODES, 3), np.nan), GRAPH, _HALF), "answers of predict"),
        (partial(audit_model, 2 * _UNIFORM, GRAPH, _HALF), "answers of predict"),
        (partial(audit_model, _UNIFORM[1:], GRAPH, _HALF), "answers of predict"),
        (partial(audit_model, _UNIFORM[:, :2], GRAPH, _HALF), "answers of predict"),
        (partial(audit_model, _UNIFORM, GRAPH, []), "members"),
        (partial(audit_model, _UNIFORM, GRAPH, np.ones(NODES, np.bool_)), "members"),
        (partial(audit_model, _UNIFORM, GRAPH, [NODES]), "members"),
        (partial(audit_model, _UNIFORM, GRAPH, np.ones(3, np.bool_)), "members"),
        (partial(audit_model, _UNIFORM, GRAPH, _HALF, shadows=1), "count"),
        (partial(audit_model, _UNIFORM, GRAPH, _HALF, shadows=1, neighbourhoods=-1), "neighbourhoods"),
        (partial(audit_model, _UNIFORM, GRAPH, _HALF, shadows=1, priors=np.full(NODES, 1.5)), "priors"),
        (partial(train_shadows, Graph.from_arrays("one", np.eye(5), np.zeros(5, int), [[0], [1]]), 2), "graph"),
        (partial(ShadowTraining, dropout=1.0), "dropout"),
        (partial(ShadowTraining, share=0.0), "share"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nonsense_is_refused(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(InputError, check=about(argument)):
        call()


def test_kinds_of_pairs_that_a_graph_lacks_are_left_out() -> None:
    """Nodes joined two by two: no two nodes are two hops apart."""
    ends = np.arange(NODES).reshape(2, -1)
    couples = Graph.from_arrays("couples", GRAPH.features, GRAPH.labels, np.concatenate([ends, ends[::-1]], axis=1))
    audit = audit_model(_UNIFORM, couples, _HALF, shadows=2, training=ShadowTraining(hidden=4, epochs=2))
    assert set(audit.links) == {"random", "same class"}


def test_a_graph_without_edges_is_asked_for_features_alone() -> None:
    empty = Graph.from_arrays("apart", GRAPH.features, GRAPH.labels, np.empty((2, 0), np.int64))
    audit = audit_model(_target, empty, SHADOWS.members[-1], shadows=2, training=ShadowTraining(hidden=4, epochs=2))
    assert {row.query for row in audit.membership} == {"nothing", "features"}
    assert audit.links == {}
