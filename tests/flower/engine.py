"""Runs in Flower's simulation engine: Fed2GNN with silos and relays, then secure aggregation; prints JSON."""

import json

import torch

import fgl_secure
from fgl_secure.flower.programs import train_on_flower
from fgl_secure.methods import Fed2GNN
from fgl_secure.training.loop import TrainingResult
from tests.flower import simulated
from tests.graphs import two_communities


def figures(result: TrainingResult) -> list[object]:
    return [result.losses, result.selected_round, result.accuracy.test, result.accuracy.validation]


if __name__ == "__main__":
    method, graph = Fed2GNN(epochs=1, hops=1, neighbours=4), two_communities(devices=36, silos=4)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        found = figures(train_on_flower(method, graph, device=device, timeout=600.0).result)
        expected = figures(fgl_secure.train(method, graph, device=device).result)
        print(json.dumps({device: {"found": found, "expected": expected}}), flush=True)
    simulated.run()
