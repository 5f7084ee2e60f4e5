"""FedSpray's one sum is FedAvg of the encoder and alignment of the proxies, whatever clients have."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.proxies.knowledge import ProxySlices
from fgl_secure.methods.fedspray.client import ProxyLayout, encoder_loss, fractions, network_loss, shares_of
from fgl_secure.training.server_sums import quotients

Seed = st.integers(0, 2**32 - 1)


def drawn_clients(seed: int, clients: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of nodes [K], counts of labels [K, C] with absent classes, and values of any kind by their generator."""
    draws = np.random.default_rng(seed)
    counts = draws.integers(0, 4, (clients, classes)) * draws.integers(0, 2, (clients, classes))
    counts[:, 0] += counts.sum(axis=1) == 0  # a client has a labelled node
    return draws.integers(1, 50, clients), counts, draws.uniform(-3, 3, (clients, 100))


def divided(terms: list[tuple[list[np.ndarray], np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Encoder [P] and proxies [C, d] as the server tells them of clients' fractions, on a grid of 40 bits."""
    rows = [np.rint(np.concatenate([*parts, below]) * 2.0**40).astype(np.int64) for parts, below in terms]
    lengths = [len(part) for part in terms[0][0]]
    found = quotients(np.sum(rows, axis=0), lengths)
    return found[: lengths[0]], found[lengths[0] :].reshape(len(lengths) - 1, -1)


@given(seed=Seed, clients=st.integers(1, 6), classes=st.integers(1, 5), width=st.integers(1, 4))
def test_the_sum_gives_equations_14_and_15(seed: int, clients: int, classes: int, width: int) -> None:
    """Encoder and proxies are the weighted means that the paper writes down, for all clients' numbers."""
    nodes, counts, values = drawn_clients(seed, clients, classes)
    encoders, proxies = values[:, :7], values[:, 7 : 7 + classes * width].reshape(clients, classes, width)
    shares = counts / counts.sum(axis=1, keepdims=True)
    proxies = proxies * (counts > 0)[..., None]
    terms = [fractions(encoders[k], nodes[k] / 1000, proxies[k], shares[k]) for k in range(clients)]
    encoder, means = divided(terms)
    omega = sum(nodes[k] / nodes.sum() * encoders[k] for k in range(clients))
    np.testing.assert_allclose(encoder, omega, atol=1e-8)
    for j in range(classes):
        a_j = sum(shares[k, j] for k in range(clients))
        expected = sum(shares[k, j] / a_j * proxies[k, j] for k in range(clients)) if a_j else np.full(width, np.nan)
        np.testing.assert_allclose(means[j], expected, atol=1e-8)


@given(seed=Seed)
def test_a_client_without_a_class_has_no_say_in_its_proxy(seed: int) -> None:
    """Whatever vector such a client puts in, its share of zero leaves a zero in its summand."""
    draws = np.random.default_rng(seed)
    (_, *parts), _ = fractions(np.zeros(2), 0.5, draws.normal(size=(3, 4)), np.array([0.25, 0.0, 0.75]))
    assert [part.any() for part in parts] == [True, False, True]


@given(p=st.integers(1, 50), classes=st.integers(1, 9), width=st.integers(1, 9))
def test_the_parts_of_a_summand_meet_end_to_end(p: int, classes: int, width: int) -> None:
    """Every entry belongs to one part, in the stated order, and attacks look in the same places."""
    layout = ProxyLayout(p, classes, width)
    parts = (
        layout.model, layout.proxies, layout.right, layout.loss, layout.weight, layout.shares, layout.validation_entry
    )  # fmt: skip
    places = np.concatenate([np.arange(layout.length)[part] for part in parts])
    np.testing.assert_array_equal(places, np.arange(layout.length - 1))
    seen = ProxySlices(p, classes, width)
    assert (seen.proxies, seen.shares) == (layout.proxies, layout.shares)


Counts = st.lists(st.integers(0, 400), min_size=1, max_size=8).filter(any).map(np.array)
Grid = st.integers(1, 5000)


@given(counts=Counts, grid=Grid)
def test_rounded_shares_add_up_to_one_and_lie_on_the_grid(counts: np.ndarray, grid: int) -> None:
    """Each is a multiple of the unit and off by less than that; an absent class keeps its zero."""
    units = shares_of(counts, grid) * grid
    np.testing.assert_allclose(units, np.rint(units), atol=1e-9)
    assert int(np.rint(units).sum()) == grid
    assert (np.abs(units - grid * counts / counts.sum()) < 1).all()
    assert not units[counts == 0].any()


@pytest.mark.parametrize(
    ("counts", "grid", "units"),
    [
        ([1, 1, 1], 10, [4, 3, 3]),
        ([2, 1], 4, [3, 1]),
        ([1, 2], 1024, [341, 683]),
        ([999, 1], 100, [100, 0]),
        ([3, 5], 8, [3, 5]),
    ],
)
def test_largest_remainders_get_what_is_missing(counts: list[int], grid: int, units: list[int]) -> None:
    """Of equal remainders that of the lower class; a rare class can lose all of its weight."""
    assert (shares_of(np.array(counts), grid) * grid).tolist() == units


def mean(counts: np.ndarray, proxies: np.ndarray, grid: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The proxies [C, d] after one round of clients with counts [K, C] and proxies [K, C, d]; shares."""
    shares = np.stack([shares_of(each, grid) for each in counts])
    terms = [fractions(np.zeros(1), 1.0, s, a) for s, a in zip(proxies, shares, strict=True)]
    above, below = (np.sum(each, axis=0) for each in ([t[0][1:] for t in terms], [t[1][1:, None] for t in terms]))
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0), shares


@given(seed=st.integers(0, 2**32 - 1), clients=st.integers(1, 6), grid=st.integers(8, 5000))
def test_equation_15_holds_with_rounded_shares_and_the_mean_moves_by_little(seed: int, clients: int, grid: int) -> None:
    """The mean is that of the rounded shares a'. With clients 1 to K that have the class it is off the exact one by at
    most K max |s_k - mean| / (grid sum a'), entry by entry."""
    draws = np.random.default_rng(seed)
    counts = draws.integers(0, 60, (clients, 3)) * draws.integers(0, 2, (clients, 3))
    counts[:, 0] += 1
    proxies = draws.normal(size=(clients, 3, 4))
    (found, rounded), (exact, _) = mean(counts, proxies, grid), mean(counts, proxies, None)
    for j in range(3):
        has, total = counts[:, j] > 0, rounded[:, j].sum()
        if not total:
            continue  # nobody's share is as large as a unit: the proxy stays
        weighted = sum(rounded[k, j] / total * proxies[k, j] for k in range(clients))
        np.testing.assert_allclose(found[j], weighted, atol=1e-12)
        bound = has.sum() * np.abs(proxies[has, j] - exact[j]).max(axis=0) / (grid * total)
        assert (np.abs(found[j] - exact[j]) <= bound + 1e-12).all()


def softmax(row: list[float]) -> list[float]:
    """Of one row of logits."""
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def kullback_leibler(target: list[float], learner: list[float]) -> float:
    """KL(target || learner) of two distributions."""
    return sum(t * math.log(t / q) for t, q in zip(target, learner, strict=True))


def logits(seed: int, nodes: int = 7, classes: int = 3) -> torch.Tensor:
    """Any scores."""
    return torch.tensor(np.random.default_rng(seed).normal(size=(nodes, classes)), dtype=torch.float64)


@pytest.mark.parametrize("taught", [None, [0, 1, 4, 6]])
def test_the_networks_loss_is_equations_5_to_7(taught: list[int] | None) -> None:
    """Mean cross-entropy over labelled nodes plus lambda_1 times the mean divergence of y from p over those taught."""
    scores, targets, labelled, labels = logits(0), torch.log_softmax(logits(1), dim=1), [0, 1, 4], [2, 0, 1]
    places = None if taught is None else torch.tensor(taught)
    found = network_loss(scores, torch.tensor(labelled), torch.tensor(labels), targets, places, 5.0)
    y, p = [softmax(row) for row in scores.tolist()], [softmax(row) for row in logits(1).tolist()]
    truth = sum(-math.log(y[i][label]) for i, label in zip(labelled, labels, strict=True)) / 3
    nodes = range(7) if taught is None else taught
    teaching = sum(kullback_leibler(p[i], y[i]) for i in nodes) / len(nodes)
    assert found.item() == pytest.approx(truth + 5 * teaching)


def test_the_encoders_loss_is_equations_11_to_13() -> None:
    """Mean cross-entropy of q plus lambda_2 times the mean divergence of p from y, over labelled nodes."""
    classified, projected, predicted, labels = logits(2, 4), logits(3, 4), logits(4, 4), [1, 1, 0, 2]
    logarithms = torch.log_softmax(predicted, dim=1)
    found = encoder_loss(classified, projected, torch.tensor(labels), logarithms, 0.5)
    p, q, y = ([softmax(row) for row in each.tolist()] for each in (classified, projected, predicted))
    truth = sum(-math.log(q[i][label]) for i, label in enumerate(labels)) / 4
    learning = sum(kullback_leibler(y[i], p[i]) for i in range(4)) / 4
    assert found.item() == pytest.approx(truth + 0.5 * learning)
