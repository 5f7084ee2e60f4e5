"""Properties of a client's graph from what the client sends after training: class shares, density and homophily.

A server that sees a client's update trains shadow clients of its own and learns the map from updates to properties
(Ganju et al., CCS 2018). An active server sends a model whose weights are nearly zero: it answers alike for all nodes,
so that the change of the last bias is a function of the class shares alone (after EC-LDA, arXiv:2505.15140, 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import softmax

from fgl_secure.algebra.checks import as_floats
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph
from fgl_secure.statistics.metrics import Interval, mean_interval
from fgl_secure.typing import Floats, Ids

Train = Callable[[Graph, int], ArrayLike]
"""Trains one client on its graph under a seed, and returns what it sends as one vector."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Of ridge regressions."""
QUANTILES = np.linspace(0, 1, 41)
"""Of the entries of an update."""
GROUPS = 2
"""Parts of the attacker's graph; each shadow client is drawn from one."""
LEAST_KEPT = 0.2
"""The least share of its edges inside a class, and of those across, that a drawn client keeps."""
SHARES, DENSITY, HOMOPHILY = "class shares", "edges per node", "homophily"


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """How close guesses of a property are.

    Attributes:
        name: of the property.
        error: mean over clients; of class shares the total variation distance, else the absolute difference.
        interval: 95 %, over clients, by Student's t.
        baseline: error of the mean of shadow clients.
        null: error where shadow clients' properties are shuffled.
        positive: error on shadow clients, by regressions without those that share nodes with them.
        clients: number of clients.
    """

    name: str
    error: float
    interval: Interval
    baseline: float
    null: float
    positive: float
    clients: int

    @property
    def is_inferred(self) -> bool:
        """Whether the error is certainly below the baseline."""
        return self.interval.high < self.baseline


@dataclass(frozen=True, slots=True, repr=False)
class PropertyAudit:
    """What was inferred about clients from their updates.

    Attributes:
        rows: one for each property.
        shadows: number of shadow clients.
        summed: number of clients in each update that the server sees.
    """

    rows: tuple[PropertyRow, ...]
    shadows: int
    summed: int

    def __repr__(self) -> str:
        sums = f"sums of {self.summed} clients" if self.summed > 1 else "single updates"
        lines = [f"Property audit: {sums}, {self.shadows} shadow clients"]
        for row in self.rows:
            low, high = row.interval.low, row.interval.high
            figures = f"error {row.error:.3f} ({low:.3f}-{high:.3f}), baseline {row.baseline:.3f}"
            lines.append(f"{row.name:<16}{figures}, null {row.null:.3f}, positive {row.positive:.3f}")
        return "\n".join(lines)


def audit_properties(
    train: Train, graph: Graph, clients: Sequence[Graph], *, shadows: int = 100, summed: int = 1, seed: int = 0
) -> PropertyAudit:
    """Infer properties of clients from their updates by shadow clients.

    The attacker is a server that has a graph of its own, and knows how clients train and how many nodes they have.

    Args:
        train: trains a client, shadow clients as well.
        graph: the attacker's, disjoint from the clients' and with their features and classes.
        clients: graphs of the attacked clients, at least 3.
        shadows: number of shadow clients, at least 10.
        summed: number of clients whose mean update the server sees, the attacked one among them.
        seed: of shadow clients, of training, and of the others in a sum.

    Returns:
        A row each for class shares, edges per node and homophily.

    Raises:
        InputError: there are too few clients or shadows, `summed` exceeds the clients, or updates differ in length or
            are not finite.

    Examples:
        >>> from fgl_secure.graph import load
        >>> digits = load("digits")
        >>> send_counts = lambda client, seed: np.bincount(client.labels, minlength=10) / client.num_nodes
        >>> audit = audit_properties(send_counts, digits, draw_clients(digits, 10, seed=1))
        >>> audit.rows[0].is_inferred
        True
    """
    if len(clients) < 3 or shadows < 10:
        raise InputError(f"clients must be at least 3, and shadows at least 10; found {len(clients)} and {shadows}")
    most = min(len(clients), shadows // GROUPS)
    if not 1 <= summed <= most:
        raise InputError(f"summed must be in 1..{most}, the clients and half of the shadows; found {summed}")
    rng = np.random.default_rng([seed, 4])
    parts = np.array_split(rng.permutation(graph.num_nodes), GROUPS)
    groups, size = np.arange(shadows) % GROUPS, round(float(np.mean([each.num_nodes for each in clients])))
    apart = [
        iter(draw_clients(induced_graph(graph, part), -(-shadows // GROUPS), nodes=size, seed=seed + number))
        for number, part in enumerate(parts)
    ]
    shadow_clients = [next(apart[group]) for group in groups.tolist()]
    seen, truth = _observe(train, clients, np.zeros(len(clients), np.int64), summed, seed, graph.num_classes)
    taught, properties = _observe(train, shadow_clients, groups, summed, seed + len(clients), graph.num_classes)
    if seen.shape[1] != taught.shape[1]:
        raise InputError(f"updates must have one length; found {seen.shape[1]} and {taught.shape[1]}")
    guess, left_out = infer_properties(taught, properties, seen, groups)
    null, _ = infer_properties(taught, rng.permutation(properties), seen, groups)
    mean = np.broadcast_to(properties.mean(axis=0), truth.shape)
    errors, baseline, without, positive = (
        _errors(one, other) for one, other in ((guess, truth), (mean, truth), (null, truth), (left_out, properties))
    )
    rows = tuple(
        PropertyRow(
            name, float(error.mean()), mean_interval(error), float(baseline[name].mean()), float(without[name].mean()),
            float(positive[name].mean()), len(clients),
        )
        for name, error in errors.items()
    )  # fmt: skip
    return PropertyAudit(rows, shadows, summed)


def draw_clients(graph: Graph, count: int, *, nodes: int | None = None, seed: int = 0) -> list[Graph]:
    """Draw graphs of clients with class shares, densities and homophily of their own.

    A client draws class shares uniformly, seeds by them, and takes the neighbours of each seed until it is large
    enough. Of the edges between its nodes it keeps a random share inside classes and another one across.

    Args:
        graph: of which parts are drawn; clients may overlap.
        count: number of clients.
        nodes: of each client; a tenth of the graph's unless given, and at least 10.
        seed: of the draw.

    Raises:
        InputError: the graph has fewer labelled nodes than a client needs.
    """
    labelled = np.flatnonzero(graph.labels >= 0)
    size = max(graph.num_nodes // 10, 10) if nodes is None else nodes
    if not 2 <= size <= len(labelled):
        raise InputError(f"nodes must be in 2..{len(labelled)}, the labelled nodes of the graph; found {size}")
    ones = np.ones(graph.edges.shape[1], dtype=np.int8)
    near = sparse.csr_array((ones, (graph.edges[0], graph.edges[1])), shape=(graph.num_nodes, graph.num_nodes))
    return [_draw(graph, labelled, near, size, np.random.default_rng([seed, 1, each])) for each in range(count)]


def _draw(graph: Graph, labelled: Ids, near: sparse.csr_array, size: int, rng: np.random.Generator) -> Graph:
    labels = graph.labels[labelled]
    weights = rng.dirichlet(np.ones(graph.num_classes))[labels] / np.bincount(labels)[labels]
    order = labelled[np.argsort(rng.exponential(size=len(labels)) / np.maximum(weights, 1e-12))]
    nodes = dict.fromkeys([int(order[0])])
    for node in order.tolist():
        around = near.indices[near.indptr[node] : near.indptr[node + 1]]
        nodes |= dict.fromkeys([node, *around[graph.labels[around] >= 0].tolist()])
        if len(nodes) >= size:
            break
    client = induced_graph(graph, np.array(list(nodes)[:size]))
    ends = client.edges[:, client.edges[0] < client.edges[1]]
    inside, across = rng.uniform(LEAST_KEPT, 1, 2)
    alike = client.labels[ends[0]] == client.labels[ends[1]]
    remaining = ends[:, rng.random(ends.shape[1]) < np.where(alike, inside, across)]
    edges = np.concatenate([remaining, remaining[::-1]], axis=1)
    return Graph.from_arrays(graph.name, client.features, client.labels, edges)


def induced_graph(graph: Graph, nodes: Ids) -> Graph:
    """Return the subgraph of some nodes, in ascending order."""
    chosen, place = np.sort(nodes), np.full(graph.num_nodes, -1)
    place[chosen] = np.arange(len(chosen))
    ends = place[graph.edges]
    edges = ends[:, (ends >= 0).all(axis=0)]
    return Graph.from_arrays(graph.name, graph.features_of(chosen), graph.labels[chosen], edges)


def properties_of(graph: Graph, classes: int) -> Floats:
    """Properties of a graph.

    Args:
        graph: with labels.
        classes: number of classes in all graphs.

    Returns:
        float64 [classes + 2]: class shares, edges per node, and the share of edges inside a class (0 without edges).
    """
    labels = graph.labels[graph.labels >= 0]
    shares = np.bincount(labels, minlength=classes) / max(len(labels), 1)
    first, second = graph.labels[graph.edges]
    alike = float((first == second).mean()) if len(first) else 0.0
    return np.array([*shares, graph.edges.shape[1] / 2 / graph.num_nodes, alike])


def infer_properties(updates: ArrayLike, properties: ArrayLike, seen: ArrayLike, groups: Ids) -> tuple[Floats, Floats]:
    """Guess properties by ridge regressions on updates, or on quantiles of their entries.

    Args:
        updates: float [s, p], of shadow clients.
        properties: float [s, q], of shadow clients.
        seen: float [k, p], updates of attacked clients.
        groups: int64 [s]; shadow clients of two groups have no node in common. For each property the regression is
            taken that has the least error on groups left out.

    Returns:
        float64 [k, q], guesses; and float64 [s, q], what each shadow client is guessed, with its group left out.
    """
    rows, targets, others = (np.asarray(each, dtype=np.float64) for each in (updates, properties, seen))
    best = np.full(targets.shape[1], np.inf)
    guesses, left_out = np.empty((len(others), targets.shape[1])), np.empty_like(targets)
    for view in (lambda x: x, lambda x: np.quantile(x, QUANTILES, axis=1).T):
        mine, theirs = view(rows), view(others)
        for penalty in PENALTIES:
            predicted = np.empty_like(targets)
            for group in np.unique(groups):
                inside = groups == group
                predicted[inside] = _ridge(mine[~inside], targets[~inside], mine[inside], penalty)
            missed = ((predicted - targets) ** 2).sum(axis=0)
            better = missed < best
            best = np.where(better, missed, best)
            left_out[:, better] = predicted[:, better]
            guesses[:, better] = _ridge(mine, targets[:, better], theirs, penalty)
    return guesses, left_out


def _ridge(rows: Floats, targets: Floats, others: Floats, penalty: float) -> Floats:
    """Predictions for other rows."""
    center, deviation = rows.mean(axis=0), rows.std(axis=0)
    scale = np.maximum(deviation, max(float(deviation.mean()), 1e-12))  # what hardly varies here may vary there
    rows, others, mean = (rows - center) / scale, (others - center) / scale, targets.mean(axis=0)
    gram = rows @ rows.T / rows.shape[1]
    dual = np.linalg.solve(gram + penalty * np.eye(len(rows)), targets - mean)
    return np.asarray(others @ (rows.T @ dual) / rows.shape[1] + mean)


def flatten_model(state: Mapping[str, Any], factor: float = 1e-6) -> dict[str, Any]:
    """Return a model that answers alike for all nodes: what an active server sends.

    Args:
        state: tensors by name.
        factor: by which all are multiplied.
    """
    return {name: value * factor for name, value in state.items()}


def label_shares(before: ArrayLike, after: ArrayLike, rate: float, steps: int = 1) -> Floats:
    """Solve for a client's class shares from the last bias of a flattened model, before and after training.

    Each step of gradient descent on the mean cross-entropy moves the bias by rate times the shares less the answers.

    Args:
        before: float [c], the bias that was sent.
        after: float [c], the bias that came back.
        rate: learning rate, above 0.
        steps: of gradient descent on all training nodes, without momentum.

    Returns:
        float64 [c], from 0 to 1, with sum 1.

    Raises:
        InputError: shapes differ, or the rate or the number of steps is not above 0.

    Examples:
        >>> label_shares([0.0, 0.0], [0.05, -0.05], rate=0.1)
        array([1., 0.])
    """
    start, end = as_floats(before, "before"), as_floats(after, "after")
    if start.shape != end.shape or start.ndim != 1:
        raise InputError(f"after must be a vector as long as before; found shapes {end.shape} and {start.shape}")
    if not rate > 0 or steps < 1:
        raise InputError(f"rate must be above 0, and steps at least 1; found {rate} and {steps}")
    moved = (end - start) / rate
    shares = np.full(len(start), 1 / len(start))
    for _ in range(1 if steps == 1 else 200):
        bias, answers = start.copy(), np.zeros(len(start))
        for _ in range(steps):
            answer = softmax(bias)
            answers, bias = answers + answer, bias + rate * (shares - answer)
        shares = shares + (moved - (bias - start) / rate) / steps
    shares = np.clip(shares, 0, 1)
    return np.asarray(shares / shares.sum())


def answer_spread(answers: ArrayLike) -> float:
    """Return how far answers to single nodes are from their mean, which is near 0 for a flattened model.

    A client that looks at the answers for its own nodes before it trains can refuse a model whose spread is far below
    that of the last one.

    Args:
        answers: float [n, c], probabilities.

    Returns:
        The mean total variation distance, 0 to 1.

    Examples:
        >>> answer_spread([[0.5, 0.5], [0.5, 0.5]])
        0.0
    """
    rows = as_floats(answers, "answers")
    return float(np.abs(rows - rows.mean(axis=0)).sum(axis=1).mean() / 2)


def _observe(
    train: Train, clients: Sequence[Graph], groups: Ids, summed: int, seed: int, classes: int
) -> tuple[Floats, Floats]:
    """What the server sees of each client, in sums with others of its group, [k, p]; and its properties, [k, q]."""
    sent = [np.asarray(train(client, seed + number), dtype=np.float64).ravel() for number, client in enumerate(clients)]
    if len({len(each) for each in sent}) > 1 or not all(np.isfinite(each).all() for each in sent):
        raise InputError("train must return finite updates of one length; found others")
    updates, rng = np.stack(sent), np.random.default_rng([seed, 3])
    seen = np.empty_like(updates)
    for number in range(len(clients)):
        alike = np.flatnonzero(groups == groups[number])
        others = rng.permutation(alike[alike != number])[: summed - 1]
        seen[number] = updates[[number, *others]].mean(axis=0)
    return seen, np.stack([properties_of(client, classes) for client in clients])


def _errors(guess: Floats, truth: Floats) -> dict[str, Floats]:
    """By property: float64 [k], the error of each guess."""
    apart = np.abs(guess - truth)
    return {SHARES: apart[:, :-2].sum(axis=1) / 2, DENSITY: apart[:, -2], HOMOPHILY: apart[:, -1]}
