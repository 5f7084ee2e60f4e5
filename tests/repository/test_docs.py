"""Examples in the documentation run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

ROOT = Path(__file__).parents[2]

WHOLE = ("fedstruct.md", "secure_aggregation.md")
"""Pages whose examples stand alone; the others show pieces of programs."""


RUN = """
import contextlib, io, json, sys
said = []
for example in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(example, "<example>", "exec"), {"__name__": "__main__"})
    said.append(out.getvalue().strip())
print(json.dumps(said))
"""
"""Loading torch takes longer than any example, so those of a page share an interpreter, and nothing else."""


@pytest.mark.parametrize("page", WHOLE)
def test_examples_print_what_they_say(page: str) -> None:
    """Each example runs under names of its own and prints what the comment behind its last line says."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert examples
    said = [example.strip().splitlines()[-1].split("#")[1].strip() for example in examples]
    command = [sys.executable, "-c", RUN]
    run = subprocess.run(command, input=json.dumps(examples), capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(run.stdout) == said


def test_the_lines_of_the_readme_wrap_a_loop_over_pyg_models() -> None:
    """They run as they stand, and give the model the weighted mean of the states within the stated error."""
    with warnings.catch_warnings():  # of its own making
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.data import Data
        from torch_geometric.nn import GraphSAGE
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = (
        each for each in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "SecureAggregator" in each
    )
    torch.manual_seed(0)
    clients = [
        Data(x=torch.randn(size, 6), edge_index=torch.randint(size, (2, 60)), y=torch.randint(3, (size,)))
        for size in (10, 30, 25, 40)
    ]

    def train_locally(model: torch.nn.Module, client: Any) -> dict[str, torch.Tensor]:
        own = deepcopy(model)
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)
        loss = functional.cross_entropy(own(client.x, client.edge_index), client.y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        return own.state_dict()

    model = GraphSAGE(6, 8, 2, 3, norm="batch_norm")
    names: dict[str, Any] = {"model": model, "clients": clients, "train_locally": train_locally, "rounds": 2}
    exec(lines, names)  # noqa: S102  # our own README
    weights = torch.tensor([len(client.y) for client in clients], dtype=torch.float64)
    for name, found in model.state_dict().items():
        plain = sum(w * state[name].double() for w, state in zip(weights, names["states"], strict=True)) / weights.sum()
        assert float((found.double() - plain).abs().max()) <= names["aggregator"].last_round.error_bound[name], name
