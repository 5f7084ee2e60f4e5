"""The lines that the page has for other libraries' loops, run as they stand there in stand-ins of these loops."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fgl_secure import SecureAggregator
from fgl_secure.coins import SimulationCoins

PAGE = Path(__file__).parents[2] / "docs" / "partial_participation.md"
CLIENTS, DRAWN = 6, 4


def lines_for(library: str, *arguments: str) -> Callable[..., None]:
    """The first block of code behind a library's name, as a function of the names that it uses."""
    text = PAGE.read_text(encoding="utf-8").split(f"**{library}.**")[1]
    body = text.split("```\n")[1]
    found: dict[str, Any] = {}
    exec(f"def aggregate({', '.join(arguments)}):\n" + textwrap.indent(body, "    "), found)  # noqa: S102  # our page
    function: Callable[..., None] = found["aggregate"]
    return function


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


class Task:
    """What OpenFGL and FedGB call a task: a model, and as many samples as it trains on."""

    def __init__(self, seed: int, num_samples: int) -> None:
        self.model, self.num_samples = network(), num_samples
        draw = torch.Generator().manual_seed(seed)
        self.x = torch.randn(max(num_samples, 2), 5, generator=draw)
        self.y = (self.x[:, 0] > 0).long()

    def train(self) -> None:
        """A few steps that make parameters grow from round to round."""
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(self.model(self.x), self.y)
            loss.backward()
            optimizer.step()


def plain(server: Any) -> None:
    """FedAvg as both libraries have it: parameters weighted by samples, over the clients that were drawn."""
    pool = server.message_pool
    sent = [pool[f"client_{i}"] for i in pool["sampled_clients"]]
    weights = [each["num_samples"] for each in sent]
    for place, parameter in enumerate(server.task.model.parameters()):
        parameter.data = sum(
            w * each["weight"][place].detach() for w, each in zip(weights, sent, strict=True)
        ) / sum(weights)  # fmt: skip


def after_rounds(aggregate: Callable[[Any], None], samples: list[int], rounds: int = 4) -> list[torch.Tensor]:
    """The server's parameters after rounds of a loop in the shape of OpenFGL's trainer."""
    torch.manual_seed(0)
    draw, pool = torch.Generator().manual_seed(1), dict[str, Any]()
    tasks = [Task(client, count) for client, count in enumerate(samples)]
    aggregator = SecureAggregator.for_clients(DRAWN, coins=SimulationCoins(2))
    server = SimpleNamespace(task=Task(9, 4), message_pool=pool, aggregator=aggregator)
    for _ in range(rounds):
        pool["sampled_clients"] = sorted(torch.randperm(len(tasks), generator=draw)[:DRAWN].tolist())
        for client in pool["sampled_clients"]:
            task = tasks[client]
            for mine, shared in zip(task.model.parameters(), server.task.model.parameters(), strict=True):
                mine.data.copy_(shared)
            task.train()
            pool[f"client_{client}"] = {
                "num_samples": task.num_samples,
                "weight_names": [name for name, _ in task.model.named_parameters()],
                "weight": list(task.model.parameters()),
            }
        aggregate(server)
    return [parameter.detach().clone() for parameter in server.task.model.parameters()]


@pytest.mark.parametrize(("library", "samples"), [("OpenFGL", [9, 20, 7, 30, 12, 8]), ("FedGB", [9, 20, 0, 30, 12, 8])])
def test_the_lines_for_message_pools_train_the_same_model(library: str, samples: list[int]) -> None:
    """Four rounds with four of six clients drawn end at the plain loop's parameters."""
    secured, expected = after_rounds(lines_for(library, "self"), samples), after_rounds(plain, samples)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(secured, expected, strict=True))
    unweighted = after_rounds(plain, [10] * CLIENTS)  # the control: other data end elsewhere
    assert not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(secured, unweighted, strict=True))


class Trainer:
    """A FedGraph trainer behind a stand-in of a Ray handle."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = network()
        self.get_params = SimpleNamespace(remote=lambda: tuple(self.model.parameters()))


def test_the_lines_for_fedgraph_average_the_trainers_that_were_drawn() -> None:
    """The server's model is the mean over those drawn, and not over all."""
    trainers, chosen = [Trainer(seed) for seed in range(CLIENTS)], [0, 2, 3, 5]
    aggregator = SecureAggregator.for_clients(DRAWN, coins=SimulationCoins(2))
    server = SimpleNamespace(trainers=trainers, model=network(), aggregator=aggregator)
    ray = SimpleNamespace(get=list)
    lines_for("FedGraph", "self", "ray", "selected_trainers_indices")(server, ray, chosen)
    for place, parameter in enumerate(server.model.parameters()):
        held = torch.stack([list(each.model.parameters())[place] for each in trainers])
        assert torch.allclose(parameter, held[chosen].mean(dim=0), atol=1e-6)
        assert place in (2, 3) or not torch.allclose(parameter, held.mean(dim=0), atol=1e-3)
