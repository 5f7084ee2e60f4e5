"""The losses of Eqs. 7 and 8."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fgl_secure.methods.fedvn.models import contrast_loss, decoupling_loss, penalties, task_loss
from tests.methods.fedvn.slow import Reals, slow_contrast, slow_decoupling

ENTRIES = st.integers(-64, 64).map(lambda value: value / 16)  # exact sums: equal entries have no variance
SCORES = st.floats(0.05, 0.95)


@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 6)), elements=ENTRIES))
def test_decoupling_is_the_mean_squared_correlation(virtual: Reals) -> None:
    """Eq. 7, where a virtual node with equal entries correlates with nothing."""
    assert float(decoupling_loss(torch.from_numpy(virtual))) == pytest.approx(slow_decoupling(virtual), abs=1e-9)


def test_decoupling_is_zero_at_the_start_and_pulls_nowhere() -> None:
    """At Q = 0, where the correlation matrix is undefined, loss and gradient are 0 and not NaN."""
    virtual = torch.zeros(4, 6, requires_grad=True)
    loss = decoupling_loss(virtual)
    (gradient,) = torch.autograd.grad(loss, virtual)
    assert float(loss.detach()) == 0
    assert torch.equal(gradient, torch.zeros(4, 6))


def test_a_floor_keeps_the_pull_on_short_virtual_nodes_within_bounds() -> None:
    """Without one the gradient grows as virtual nodes shrink; with one it shrinks with them."""
    draws = torch.Generator().manual_seed(2)
    direction = torch.randn(3, 6, generator=draws)

    def pull(length: float, floor: float) -> float:
        virtual = (length * direction).requires_grad_()
        (gradient,) = torch.autograd.grad(decoupling_loss(virtual, floor), virtual)
        return float(gradient.norm())

    assert pull(1e-6, 1e-12) > 1000 * pull(1e-2, 1e-12)
    assert pull(1e-6, 0.01) < pull(1e-4, 0.01)
    assert pull(1.0, 0.01) == pytest.approx(pull(1.0, 1e-12))


def test_decoupling_says_nothing_about_a_single_virtual_node() -> None:
    """With M = 1 the loss is 1 and its gradient is 0 (appendix E.3)."""
    virtual = torch.randn(1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    loss = decoupling_loss(virtual)
    (gradient,) = torch.autograd.grad(loss, virtual)
    assert float(loss.detach()) == pytest.approx(1)
    assert float(gradient.abs().max()) < 1e-12


@given(st.data(), st.integers(1, 4), st.sampled_from([0.1, 0.5, 1.0]))
def test_contrast_is_the_formula_written_out(data: st.DataObject, number: int, tau: float) -> None:
    """Eq. 8, graph by graph."""
    graphs = data.draw(
        st.lists(arrays(np.float64, st.tuples(st.integers(1, 5), st.just(number)), elements=SCORES), min_size=1)
    )
    local, everywhere = (data.draw(arrays(np.float64, number, elements=SCORES)) for _ in range(2))
    sums = torch.from_numpy(np.stack([each.sum(axis=0) for each in graphs]))
    found = contrast_loss(sums, torch.from_numpy(local), torch.from_numpy(everywhere), tau)
    assert float(found) == pytest.approx(slow_contrast(graphs, local, everywhere, tau), abs=1e-9)


def test_a_value_is_scored_by_its_error_and_a_label_by_being_right() -> None:
    """Squared error trains and absolute error scores values; cross-entropy trains labels."""
    outputs, values = torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])
    assert float(task_loss(outputs, values)) == pytest.approx(2.5)
    assert penalties(outputs, values).tolist() == [1, 2]
    scores, labels = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1])
    assert float(task_loss(scores, labels)) == pytest.approx(np.log(1 + np.exp(-1)) / 2 + np.log(1 + np.exp(1)) / 2)
    assert penalties(scores, labels).tolist() == [1, 0]
