"""Batches, and noise of gradients."""

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.dp.accountant import gaussian_epsilon
from fgl_secure.errors import InputError
from fgl_secure.methods.fedavg.audit_runs import full_batches, small_trees
from fgl_secure.methods.fedavg.program import GradientNoise
from tests.error_codes import about


def test_noise_has_the_stated_width_and_epsilon() -> None:
    """Entries differ from the cut gradient by Gaussian noise of width z C, and epsilon is the Gaussian's or more."""
    noise, rows = GradientNoise(0.5, clip=2.0), np.full((1, 10_000), 1.0, dtype=np.float32)
    moved = noise.applied(rows, SimulationCoins(0)) - 2.0 / 100
    assert abs(float(moved.std()) - 1.0) < 0.03
    assert abs(float(moved.mean())) < 0.04
    exact = gaussian_epsilon(0.5, 1e-5)
    assert exact < noise.epsilon(10_000, 1e-5) < 1.1 * exact


def test_batches_are_of_each_silos_own_labelled_nodes() -> None:
    """Every silo draws as many of its labelled nodes as asked for, and no more than there are."""
    graph = small_trees(0)
    for silo, batch in enumerate(full_batches(graph, 3, 1)):
        assert len(set(batch.tolist())) == 3
        assert set(graph.silo_of[batch]) == {silo}
    with pytest.raises(InputError, check=about("batch")):
        full_batches(graph, 9, 1)
