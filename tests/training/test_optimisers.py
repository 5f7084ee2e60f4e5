"""Optimisers without the compiler: the steps are PyTorch's, and the compiler isn't there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fgl_secure.training.optimisers import SGD, Adam

SETTINGS: tuple[dict[str, Any], ...] = ({}, {"weight_decay": 0.1}, {"foreach": True}, {"fused": True})


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (SGD, torch.optim.SGD)])
def test_steps_are_pytorch_s_to_the_bit(
    ours: type[torch.optim.Optimizer], theirs: type[torch.optim.Optimizer], settings: dict[str, Any]
) -> None:
    """Through losses, and through a state that goes to another optimiser half-way; no step keeps a graph."""
    ends = []
    for kind in (ours, theirs):
        weights = torch.nn.Parameter(torch.arange(5.0))
        first, second = (kind([weights], lr=0.1, **settings) for _ in range(2))  # type: ignore[call-arg]
        for optimiser in (first, second):
            if optimiser is second:
                second.load_state_dict(first.state_dict())
            for turn in range(3):
                optimiser.zero_grad()
                assert weights.grad is None
                (weights * turn).sin().sum().backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        assert weights.is_leaf
        ends.append(weights.detach())
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], torch.arange(5.0))


def test_training_loads_no_compiler() -> None:
    """A process that trains has no TorchDynamo, which takes longer to load than the first epoch."""
    code = (
        "import sys; from fgl_secure.cli.main import main; from fgl_secure.graph import datasets\n"
        "from tests.graphs import first_digits\n"
        "datasets.load_digits_graph = lambda: first_digits(300)\n"
        "for method in ('hifgl', 'fedgcn', 'fedstruct', 'fedspray'):\n"
        "    assert main(['train', method, '--epochs', '1', '-q']) == 0\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
