"""Runs in Flower's simulation engine: HiFGL with silos and relays, then secure aggregation; prints JSON."""

import json

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import fgl_secure
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.programs import train_on_flower
from fgl_secure.methods import HiFGL
from fgl_secure.training.loop import TrainingResult
from tests.flower.fake_federation import app_of, record, update
from tests.graphs import two_communities

NODES = 4
SCHEME = "relay-coded[k_min=1,graph-shown],server=pairwise-masking"


def figures(result: TrainingResult) -> list[object]:
    return [result.losses, result.selected_round, result.accuracy.test, result.accuracy.validation]


def train(_message: Message, context: Context) -> RecordDict:
    """Node i answers i everywhere with weight i + 1."""
    index = int(context.node_config["partition-id"])
    return update(np.full(3, index), index + 1)


def serve(grid: Grid, _context: Context) -> None:
    """Two rounds of FedAvg under secure aggregation."""
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=NODES, min_available_nodes=NODES)
    strategy = SecureAggregationStrategy(inner, threshold=3, bound=8.0, skip_failed_rounds=False)
    result = strategy.start(grid, record(np.zeros(3)), num_rounds=2, timeout=120.0)
    included = [len(report.included) for report in strategy.rounds]
    print(json.dumps({"model": result.arrays["w"].numpy().tolist(), "included": included}), flush=True)


def run_secure_aggregation() -> None:
    """Mod and strategy, with a SuperNode a client; prints the last model as JSON."""
    server = ServerApp()
    server.main()(serve)
    run_simulation(
        server_app=server,
        client_app=app_of(SecureAggregationMod(), train),
        num_supernodes=NODES,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
        },
    )


if __name__ == "__main__":
    method, graph = HiFGL(epochs=1), two_communities(devices=24, silos=3)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        found = figures(train_on_flower(method, graph, SCHEME, device=device, timeout=600.0).result)
        expected = figures(fgl_secure.train(method, graph, SCHEME, device=device).result)
        print(json.dumps({device: {"found": found, "expected": expected}}), flush=True)
    run_secure_aggregation()
