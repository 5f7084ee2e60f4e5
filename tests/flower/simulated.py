"""A run of secure aggregation in Flower's simulation engine; prints the last model as JSON."""

import json

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from tests.flower.fake_federation import app_of, record, update

NODES = 4


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


def run() -> None:
    """Mod and strategy, with a SuperNode a client."""
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
