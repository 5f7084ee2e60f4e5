"""Products with sparse matrices: right, differentiable, and the same bits in every run."""

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.training.sparse_products import SparseMatrix, product, to_torch

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))
on_every_device = pytest.mark.parametrize("device", ["cpu", CUDA])
NODES, EDGES, WIDTH = 400, 20_000, 16
"""More numbers than torch adds up with one thread."""


@pytest.fixture
def threads() -> Iterator[None]:
    """Several, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def drawn_edges() -> NDArray[np.int64]:
    """Some nodes have many neighbours, one has none, and pairs repeat."""
    draws = np.random.default_rng(0)
    return np.stack([draws.integers(NODES, size=EDGES), (NODES - 1) * draws.random(EDGES) ** 3 // 1]).astype(np.int64)


def drawn_rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows to add up, and weights of what comes out, float32."""
    draws = torch.Generator().manual_seed(0)
    h, weights = (torch.randn(NODES, WIDTH, generator=draws) for _ in range(2))
    return h, weights


def sums_and_gradient(sums: Callable[[torch.Tensor], torch.Tensor], device: str) -> torch.Tensor:
    """The sums, and below them the gradient of the weighted sum of all of them."""
    h, weights = (each.to(device).requires_grad_() for each in drawn_rows())
    found = sums(h)
    (slope,) = torch.autograd.grad((found * weights).sum(), h)
    return torch.cat([found.detach(), slope])


@on_every_device
def test_sums_over_neighbours(device: str) -> None:
    """Forward and backward are those of adding rows up by index, in float64."""
    edges = drawn_edges()
    source, target = torch.from_numpy(edges)
    h, weights = (each.double() for each in drawn_rows())
    empty = torch.zeros_like(h)
    wanted = torch.cat([empty.index_add(0, target, h[source]), empty.index_add(0, source, weights[target])])
    found = sums_and_gradient(SparseMatrix.of_edges(edges, NODES, torch.device(device)), device)
    assert torch.allclose(found.cpu().double(), wanted, rtol=1e-4, atol=1e-3)


@on_every_device
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (4, 3)])
def test_matrices_with_nothing_in_them(shape: tuple[int, int], device: str) -> None:
    matrix = to_torch(sparse.csr_array(shape, dtype=np.float32), torch.device(device))
    assert torch.equal(product(matrix, torch.ones(shape[1], 2, device=device)).cpu(), torch.zeros(shape[0], 2))


@on_every_device
@pytest.mark.usefixtures("threads")
def test_sums_are_the_same_in_every_run(device: str) -> None:
    sums = SparseMatrix.of_edges(drawn_edges(), NODES, torch.device(device))
    assert not differ(sums, device, runs=100)


@on_every_device
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="threads take turns on one core")
@pytest.mark.usefixtures("threads")
def test_sums_by_index_are_not(device: str) -> None:
    """The test above tells such sums, which FedAvg once had."""
    source, target = torch.from_numpy(drawn_edges()).to(device)
    assert differ(lambda h: torch.zeros_like(h).index_add(0, target, h[source]), device, runs=5000)


def differ(sums: Callable[[torch.Tensor], torch.Tensor], device: str, *, runs: int) -> bool:
    """Whether one of so many runs differs from the first."""
    first = sums_and_gradient(sums, device)
    return any(not torch.equal(sums_and_gradient(sums, device), first) for _ in range(runs))
