"""Known answers, as JSON files that name their source."""

import json
from pathlib import Path
from typing import Any


def load(name: str) -> Any:
    """The content of one file of this folder."""
    return json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
