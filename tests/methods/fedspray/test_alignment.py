"""FedSpray's one sum is FedAvg of the encoder and alignment of the proxies, whatever clients have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.proxies.knowledge import ProxySlices
from fgl_secure.errors import InputError
from fgl_secure.methods.fedspray.client import ProxyLayout, fractions
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
        layout.model, layout.proxies, layout.right, layout.loss, layout.weight, layout.shares, layout.scored
    )  # fmt: skip
    places = np.concatenate([np.arange(layout.length)[part] for part in parts])
    np.testing.assert_array_equal(places, np.arange(layout.length - 1))
    seen = ProxySlices(p, classes, width)
    assert (seen.proxies, seen.shares) == (layout.proxies, layout.shares)


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_an_empty_part_is_refused(wrong: tuple[int, int, int]) -> None:
    """No parameters, no classes and no columns raise by name."""
    with pytest.raises(InputError):
        ProxyLayout(*wrong)
