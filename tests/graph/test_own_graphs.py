"""Bad graphs of a user's own, through the Python API."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.recorded import star_and_path
from tests.error_codes import about


def _data(**changes: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports are deprecated in torch
        from torch_geometric.data import Data

    ring = torch.arange(6)
    parts = {"x": torch.ones(6, 3), "y": ring % 2, "edge_index": torch.stack([ring, (ring + 1) % 6])}
    return Data(**{**parts, **changes})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_features_must_be_finite(bad: float) -> None:
    """A feature that is not a finite number is refused with its node."""
    features = torch.ones(6, 3)
    features[4, 1] = bad
    with pytest.raises(InputError, check=about("features")):
        FederatedGraph.from_pyg(_data(x=features), [0, 0, 0, 1, 1, 1])


def test_assignments_must_cover_every_node() -> None:
    """An assignment of the wrong length is refused with both lengths."""
    with pytest.raises(InputError, check=about("silo_of")):
        FederatedGraph.from_pyg(_data(), [0, 0, 1, 1, 1])


def test_silos_must_not_be_empty() -> None:
    """An assignment that skips a silo is refused with the silo that has no node."""
    with pytest.raises(InputError, check=about("silo_of")):
        FederatedGraph.from_pyg(_data(), [0, 0, 0, 2, 2, 2])


def test_silos_must_not_be_negative() -> None:
    """A negative silo is refused with the node that has it."""
    with pytest.raises(InputError, check=about("silo_of")):
        FederatedGraph.from_pyg(_data(), [0, 0, -1, 1, 1, 1])


def test_values_must_keep_the_bound() -> None:
    """A value beyond the fixed-point bound stops the exchange, and no code was sent."""
    graph = star_and_path()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    values = np.full((9, 2), 1.5)
    with pytest.raises(FieldRangeError, check=about("values")):
        exchange(graph, SecretMessagePassing(bound=1.0), channel, values)
    assert channel.transcript.message_count == 0


def test_fields_must_hold_the_sums() -> None:
    """A field that cannot hold four values of magnitude 1 is refused at set-up, before any message."""
    graph = star_and_path()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    with pytest.raises(FieldRangeError, match=r"must stay below p / 2 = 3\.5"):
        exchange(graph, SecretMessagePassing(PrimeField(7), bound=1.0), channel, np.ones((9, 2)))
    assert channel.transcript.message_count == 0
