"""The five lines around a training loop: the same models, within the stated error."""

import warnings
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.coins import SimulationCoins
from tests.aggregation.trees import exact, exact_mean

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import BatchNorm, GCNConv


class Network(nn.Module):
    """Two graph convolutions as in PyG's tutorial, and a batch norm for its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = GCNConv(6, 8), BatchNorm(8), GCNConv(8, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(self.norm(self.first(x, edges)).relu(), edges)
        return out


def trained(start: dict[str, Any], seed: int, epochs: int) -> dict[str, Any]:
    """One client's local training on a graph of its own."""
    draw, model = torch.Generator().manual_seed(seed), Network()
    model.load_state_dict(start)
    x, edges = torch.randn(20, 6, generator=draw), torch.randint(20, (2, 60), generator=draw)
    y, optimizer = torch.randint(3, (20,), generator=draw), torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss: Any = nn.functional.cross_entropy(model(x, edges), y)
        loss.backward()
        optimizer.step()
    return model.state_dict()


def off_by(mean: dict[str, Any], states: list[dict[str, Any]], weights: list[float]) -> dict[str, Fraction]:
    """How far each tensor is from the exact mean."""
    return {
        name: max(abs(a - b) for a, b in zip(exact(value), exact_mean([s[name] for s in states], weights), strict=True))
        for name, value in mean.items()
    }


@pytest.mark.parametrize("scheme", ["pairwise-masking", "ckks-shared-key"])
def test_a_fedavg_loop_over_pyg_models_is_wrapped(scheme: str) -> None:
    """Three rounds of FedAvg, buffers and all, with weights and a drop-out: each mean is within the stated error."""
    more: dict[str, Any] = {"bound": 16.0} if scheme == "ckks-shared-key" else {}
    aggregator = SecureAggregator.for_clients(
        4, scheme, threshold=3, integers=IntegerRule.ROUND, coins=SimulationCoins(0), **more
    )
    torch.manual_seed(0)
    state: dict[str, Any] = Network().state_dict()
    for round_ in range(3):
        states = [trained(state, client, epochs=1 + client % 2) for client in range(4)]
        dropped = {round_} if round_ else set()
        state = aggregator.mean(states, weights=[20, 15, 10, 5], dropped=dropped)
        left = [client for client in range(4) if client not in dropped]
        record = aggregator.last_round
        assert record is not None
        assert record.included == tuple(left)
        off = off_by(state, [states[i] for i in left], [20.0 - 5 * i for i in left])
        assert all(off[name] <= Fraction(record.error_bound[name]) for name in off)
        assert max(record.error_bound[name] for name in off if "num_batches" not in name) < 1e-4
        Network().load_state_dict(state)


def test_the_wrong_mean_is_not_within_the_stated_error() -> None:
    """The check above can fail: a mean with other weights is far outside of what is stated."""
    torch.manual_seed(0)
    start = Network().state_dict()
    states = [trained(start, client, epochs=1) for client in range(3)]
    aggregator = SecureAggregator.for_clients(3, "plaintext", coins=SimulationCoins(0))
    mean = aggregator.mean(states, weights=[1, 1, 2])
    record = aggregator.last_round
    assert record is not None
    off = off_by(mean, states, [1.0, 1.0, 1.0])
    assert off["first.lin.weight"] > 100 * Fraction(record.error_bound["first.lin.weight"])
