"""What an audit says of inverted gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.gradient_matching.joint import likeliest_edges
from fgl_secure.attacks.gradient_matching.reconstruction import Floats, Ids, Reconstruction
from fgl_secure.attacks.gradient_matching.scores import class_means, matched, recovered
from fgl_secure.attacks.gradient_matching.views import Exhibit
from fgl_secure.attacks.truth import Truth
from fgl_secure.statistics.metrics import clustered_proportion

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """What was made of each gradient.

    Attributes:
        exhibits: the gradients.
        found: a reconstruction of each.
    """

    exhibits: tuple[Exhibit, ...]
    found: tuple[Reconstruction, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """A reconstruction in the order of the truth: devices int64 [m], rows [m, d], order int64 [m], batch b."""

    devices: Ids
    rows: Floats
    order: Ids
    batch: int


def aligned_with(guess: Inverted, truth: Truth) -> list[Aligned]:
    """Every reconstruction in the order of the devices that its field is made of."""
    return [_aligned(exhibit, found, truth) for exhibit, found in zip(guess.exhibits, guess.found, strict=True)]


def _aligned(exhibit: Exhibit, found: Reconstruction, truth: Truth) -> Aligned:
    devices = np.empty(exhibit.seen.field.nodes, dtype=np.int64)
    devices[exhibit.place] = np.concatenate([truth.fields[int(client)] for client in exhibit.clients])
    order = matched(found.features, truth.features[devices], exhibit.seen.field.batch)
    return Aligned(devices, found.features[order], order, exhibit.seen.field.batch)


def rows_recovered(aligned: list[Aligned], truth: Truth) -> Measurement:
    """The share of batch nodes whose rows are right up to half a step of grey."""
    hits = [recovered(each.rows[: each.batch], truth.features[each.devices[: each.batch]]) for each in aligned]
    usual = [recovered(_prior(each, truth), truth.features[each.devices[: each.batch]]) for each in aligned]
    told = "rows of nodes in batches are found with every entry right within 1/32."
    return _share("rows recovered", hits, float(np.concatenate(usual).mean()), 0.0, told)


def nodes_told(aligned: list[Aligned], truth: Truth) -> Measurement:
    """The share of batch nodes that a public list of all rows would tell by what was found."""
    hits = [_own_nearest(each.rows[: each.batch], each, truth) for each in aligned]
    usual = [_own_nearest(_prior(each, truth), each, truth) for each in aligned]
    told = "nodes in batches have no other node's row nearer to what was found than their own."
    random = 1 / len(truth.features)
    return _share("nodes told by their rows", hits, float(np.concatenate(usual).mean()), random, told)


def edges_found(guess: Inverted, aligned: list[Aligned]) -> Measurement | None:
    """The share of edges among as many pairs of largest weight; None where no field has any.

    Counted are edges that some average on the way to the batch depends on: the others leave no trace in a gradient. The
    prior is to join the nodes of the batch with each other and with all others first, or any at random if that is
    better.
    """
    hits, usual, density = [], [], []
    for exhibit, found, each in zip(guess.exhibits, guess.found, aligned, strict=True):
        field, weights = exhibit.seen.field, found.adjacency
        if weights is None or not field.pairs:
            continue
        there = np.triu(field.adjacency * field.averaged(exhibit.seen.model.reach), 1) > 0
        hits.append(likeliest_edges(weights[np.ix_(each.order, each.order)], field.pairs)[there])
        usual.append(likeliest_edges(_around_batch(field.nodes, field.batch), field.pairs)[there])
        density.append(np.full(len(hits[-1]), 2 * field.pairs / (field.nodes * (field.nodes - 1))))
    if not sum(len(each) for each in hits):
        return None
    told = "edges that a gradient depends on are among as many pairs of largest weight as there are edges."
    prior, random = float(np.concatenate(usual).mean()), float(np.concatenate(density).mean())
    return _share("edges found", hits, prior, random, told)


def _around_batch(nodes: int, batch: int) -> Floats:
    """Float64 [m, m]: how many ends of each pair are in the batch."""
    inside = (np.arange(nodes) < batch).astype(np.float64)
    return np.add.outer(inside, inside)


def _share(metric: str, hits: list[Bools], prior: float, random: float, told: str) -> Measurement:
    """The share of hits, whose units come in clusters: those of one gradient. A prior is no worse than chance."""
    hit, cluster = np.concatenate(hits), np.repeat(np.arange(len(hits)), [len(each) for each in hits])
    share = clustered_proportion(hit, cluster, seed=0)
    finding = f"{int(hit.sum()):,} of {len(hit):,} {told}"
    return Measurement(metric, share.value, share.interval, share.n, random, max(prior, random), 1.0, True, finding)


def _prior(each: Aligned, truth: Truth) -> Floats:
    """The mean row of each batch node's class: the best guess of who knows labels and public rows."""
    return class_means(truth.features, truth.labels, truth.labels[each.devices[: each.batch]])


def _own_nearest(rows: Floats, each: Aligned, truth: Truth) -> Bools:
    """Bool [b]: whether no row of another node is nearer to each row than the node's own."""
    apart = cdist(rows, truth.features, "sqeuclidean")
    own = apart[np.arange(each.batch), each.devices[: each.batch]]
    return np.asarray(own <= apart.min(axis=1))
