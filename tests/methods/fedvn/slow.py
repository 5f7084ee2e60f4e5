"""FedVN's equations computed node by node and graph by graph, with no regard for time."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.graph.graph_sets import GraphSet
from fgl_secure.methods.fedvn.models import EPSILON, BatchNorm, GraphEncoder, Linear, NormalisedGINLayer, VirtualUpdate
from fgl_secure.methods.fedvn.preset import Injection

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Virtual:
    """What is added to a plain graph: Q [M, d], scores [n, M] by node of the batch, and where they enter."""

    nodes: Reals
    scores: Reals
    injection: Injection


def slow_embeddings(encoder: GraphEncoder, sets: GraphSet, ids: list[int], virtual: Virtual | None = None) -> Reals:
    """Embeddings of the nodes of some graphs, in the order of the graphs, without dropout."""
    nodes = [node for graph in ids for node in np.flatnonzero(sets.graph_of == graph)]
    owner = [place for place, graph in enumerate(ids) for _ in np.flatnonzero(sets.graph_of == graph)]
    place = {node: number for number, node in enumerate(nodes)}
    types = np.zeros(sets.edges.shape[1], dtype=np.int64) if sets.edge_types is None else sets.edge_types
    edges = list(zip(*sets.edges.tolist(), types.tolist(), strict=True))
    neighbours = [[(place[u], bond) for u, v, bond in edges if v == node] for node in nodes]
    inputs = _array(encoder.input)
    h = [inputs @ np.append(sets.features[node].astype(np.float64), 1.0) for node in nodes]
    state = [list(virtual.nodes) for _ in ids] if virtual else []
    last = len(encoder.layers) - 1
    for number, layer in enumerate(encoder.layers):
        assert isinstance(layer, NormalisedGINLayer)
        told = [_from_virtual(virtual, v, state[owner[v]]) for v in range(len(nodes))] if virtual else []
        before = h
        if virtual and virtual.injection is Injection.INPUT:
            h = [own + extra for own, extra in zip(h, told, strict=True)]
        bonds = _array(encoder.bonds[number]) if encoder.bonds else None
        messages = [
            [h[u] if bonds is None else np.maximum(h[u] + bonds[bond], 0) for u, bond in neighbours[v]]
            for v in range(len(nodes))
        ]
        heard = [own + sum(received, np.zeros_like(own)) for own, received in zip(h, messages, strict=True)]
        h = _rows(layer.outer, _affine(layer.second, _relu(_rows(layer.inner, _affine(layer.first, heard)))))
        h = _relu(h) if number < last else h
        if virtual and virtual.injection is Injection.OUTPUT:
            h = [own + extra for own, extra in zip(h, told, strict=True)]
        if virtual and number < last:
            update = encoder.updates[number]
            assert isinstance(update, VirtualUpdate)
            state = _next_state(update, virtual, before, owner, state)
    return np.stack(h)


def _from_virtual(virtual: Virtual, v: int, state: list[Reals]) -> Reals:
    return sum((virtual.scores[v, m] * state[m] for m in range(len(state))), np.zeros_like(state[0]))


def _next_state(
    update: VirtualUpdate, virtual: Virtual, h: list[Reals], owner: list[int], state: list[list[Reals]]
) -> list[list[Reals]]:
    heard = [
        [
            own + sum((virtual.scores[v, m] * h[v] for v in range(len(h)) if owner[v] == graph), np.zeros_like(own))
            for m, own in enumerate(each)
        ]
        for graph, each in enumerate(state)
    ]
    inner = _relu(_rows(update.inner, [np.concatenate(_affine(update.first, each)) for each in heard]))
    number = len(state[0])
    second = [np.concatenate(_affine(update.second, np.split(each, number))) for each in inner]
    return [np.split(each, number) for each in _relu(_rows(update.outer, second))]


def _affine(layer: Linear, rows: list[Reals]) -> list[Reals]:
    weight, bias = _array(layer.weight), _array(layer.bias)
    return [weight @ row + bias for row in rows]


def _rows(norm: BatchNorm, rows: list[Reals]) -> list[Reals]:
    mean = sum(rows[1:], rows[0]) / len(rows)
    variance = sum(((row - mean) ** 2 for row in rows[1:]), (rows[0] - mean) ** 2) / len(rows)
    return [(row - mean) / np.sqrt(variance + EPSILON) * _array(norm.weight) + _array(norm.bias) for row in rows]


def _relu(rows: list[Reals]) -> list[Reals]:
    return [np.maximum(row, 0) for row in rows]


def _array(values: torch.Tensor) -> Reals:
    return values.detach().double().numpy()


def slow_decoupling(virtual: Reals) -> float:
    """Eq. 7, with the correlation of two virtual nodes written out; undefined ones count as 0."""
    total, number = 0.0, len(virtual)
    for first in virtual:
        for second in virtual:
            if first.std() > 0 and second.std() > 0:
                covariance = float(np.mean((first - first.mean()) * (second - second.mean())))
                total += (covariance / (first.std() * second.std())) ** 2
    return total / number**2


def slow_contrast(scores: list[Reals], local: Reals, everywhere: Reals, tau: float) -> float:
    """Eq. 8 as it stands: scores holds [nodes, M] of each graph."""
    terms = []
    for each in scores:
        own = sum(each[1:], each[0])
        near, far = np.exp(_cosine(own, local) / tau), np.exp(_cosine(own, everywhere) / tau)
        terms.append(-np.log(near / (near + far)))
    return float(np.mean(terms))


def _cosine(first: Reals, second: Reals) -> float:
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))
