"""The server's side: FedAvg as it is, inside a strategy that never sees a client's update."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fgl_secure.flower import SecureAggregationStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Trains for `num-server-rounds` rounds, prints the accuracy, and writes `result` if one is named."""
    from digits_app import task  # noqa: PLC0415  # torch takes seconds

    config = context.run_config
    clients = int(config["num-clients"])
    fedavg = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    strategy = SecureAggregationStrategy(
        fedavg,
        threshold=int(config["threshold"]),
        bound=8.0,
        metrics=("train-loss",),
        stage_timeout=float(config["timeout"]),
        grace=float(config["grace"]),
        run_config=config,
    )
    initial = ArrayRecord({name: Array(value) for name, value in task.initial().items()})
    rounds, timeout = int(config["num-server-rounds"]), float(config["timeout"])
    result = strategy.start(grid, initial, num_rounds=rounds, timeout=timeout)
    arrays = {name: array.numpy() for name, array in result.arrays.items()}
    print(f"accuracy on all digits: {task.accuracy(arrays):.3f}")
    if config["result"]:
        report = [{"clients": r.clients, "included": len(r.included)} for r in strategy.rounds]
        contents = {"__rounds__": np.array(json.dumps(report)), **arrays}
        with Path(str(config["result"])).open("wb") as file:
            np.savez(file, allow_pickle=False, **contents)
