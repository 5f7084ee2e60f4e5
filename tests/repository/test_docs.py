"""Examples in the documentation run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WHOLE = ("fedstruct.md",)
"""Pages whose examples stand alone; the others show pieces of programs."""


@pytest.mark.parametrize("page", WHOLE)
def test_examples_print_what_they_say(page: str) -> None:
    """Each example runs in a fresh interpreter and prints what the comment behind its last line says."""
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert examples
    for example in examples:
        said = example.strip().splitlines()[-1].split("#")[1].strip()
        run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True, cwd=ROOT)
        assert run.stdout.strip() == said
