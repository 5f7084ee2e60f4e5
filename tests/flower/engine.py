"""Runs in Flower's simulation engine: HiFGL with silos and relays, then secure aggregation; prints JSON."""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import fgl_secure
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.programs import train_on_flower
from fgl_secure.flower.recorded_run import read_run
from fgl_secure.flower.recorder import FOLDER_KEY, SEED_KEY, RecordingGrid
from fgl_secure.methods import HiFGL
from fgl_secure.training.loop import TrainingResult
from tests.flower.fake_federation import record, update
from tests.graphs import two_communities

NODES = 4
SCHEME = "relay-coded[k_min=1,graph-shown],server=pairwise-masking"


def figures(result: TrainingResult) -> list[object]:
    return [result.losses, result.selected_round, result.accuracy.test, result.accuracy.validation]


def recording_app(folder: str) -> ClientApp:
    """An app whose nodes record; node i answers i everywhere with weight i + 1."""

    def configure(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """The engine gives nodes no configuration of their own, as an operator does."""
        context.node_config.update({FOLDER_KEY: folder, SEED_KEY: 0})
        return call_next(message, context)

    app = ClientApp(mods=[configure, SecureAggregationMod()])

    @app.train()
    def _train(message: Message, context: Context) -> Message:
        index = int(context.node_config["partition-id"])
        return Message(update(np.full(3, index), index + 1), reply_to=message)

    return app


def run_secure_aggregation(folder: str) -> None:
    """Two rounds of FedAvg with mod and strategy, and a SuperNode a client; prints model and record."""
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, _context: Context) -> None:
        inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=NODES, min_available_nodes=NODES)
        strategy = SecureAggregationStrategy(inner, threshold=3, bound=8.0, skip_failed_rounds=False)
        recording = RecordingGrid(grid, Path(folder))
        result = strategy.start(recording, record(np.zeros(3)), num_rounds=2, timeout=120.0)
        included = [len(report.included) for report in strategy.rounds]
        print(json.dumps({"model": result.arrays["w"].numpy().tolist(), "included": included}), flush=True)

    run_simulation(
        server_app=server,
        client_app=recording_app(folder),
        num_supernodes=NODES,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False},
        },
    )
    transcript = read_run(Path(folder))
    batches = [
        [batch.phase.label, batch.step.round, *(int(end) for ends in (batch.senders, batch.receivers) for end in ends)]
        for batch in transcript.messages
    ]
    print(json.dumps({"recorded": batches, "incidents": len(transcript.incidents)}), flush=True)


if __name__ == "__main__":
    method, graph = HiFGL(epochs=1), two_communities(devices=24, silos=3)
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        found = figures(train_on_flower(method, graph, SCHEME, device=device, timeout=600.0).result)
        expected = figures(fgl_secure.train(method, graph, SCHEME, device=device).result)
        print(json.dumps({device: {"found": found, "expected": expected}}), flush=True)
    with tempfile.TemporaryDirectory() as records:
        run_secure_aggregation(records)
