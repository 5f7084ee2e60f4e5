"""The client's side: a plain Flower app, and one line that puts secure aggregation around it."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fgl_secure.flower import SecureAggregationMod

app = ClientApp(mods=[SecureAggregationMod(min_clients=4, min_threshold=3, metrics=["train-loss"])])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Trains on this SuperNode's silo, named by `partition-id` in its node configuration."""
    # Imported here because four of a round's five messages need no torch, and each starts a process of its own.
    from digits_app import task  # noqa: PLC0415

    arrays = {name: array.numpy() for name, array in message.content.array_records["arrays"].items()}
    silos = int(context.node_config.get("num-partitions", context.run_config["num-clients"]))
    trained = task.train(arrays, int(context.node_config["partition-id"]), silos)
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(value) for name, value in trained.arrays.items()}),
            "metrics": MetricRecord({"num-examples": trained.examples, "train-loss": trained.loss}),
        }
    )
    return Message(content, reply_to=message)
