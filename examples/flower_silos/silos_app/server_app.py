"""The server's side: a mailbox that leads sums, and knows neither the graph nor the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fgl_secure.flower.mailbox import Reports, SiloMailbox, fresh_session

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs all turns; prints what came of it, also of a run that stops, and writes `result` if one is named."""
    from silos_app import task  # noqa: PLC0415

    config = context.run_config
    run = task.run_of(config)
    mailbox = SiloMailbox(grid, run.server(fresh_session()), run.parties, float(config["timeout"]))
    try:
        mailbox.run()
    finally:
        _tell(mailbox.finished, str(config["result"]))


def _tell(reports: Reports, result: str) -> None:
    if reports:
        report = reports[0]
        print(f"losses {report['losses'].round(4).tolist()}, accuracy on test nodes {float(report['test']):.3f}")
    if result:
        outcome = {f"{silo}/{name}": value for silo, item in reports.items() for name, value in item.items()}
        with Path(result).open("wb") as file:
            np.savez(file, allow_pickle=False, **outcome)
