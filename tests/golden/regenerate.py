"""Writes golden files anew: `python -m tests.golden.regenerate [NAME]...`, with NAME as the start of a case's name.

Without a name all cases run, those on public data only where FGL_SECURE_DATA names their folder. What changed is for
the author to read in `git diff`, and to explain in the commit.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.commands import CASES, figures_of
from tests.golden.figures import FOLDER, Figures, as_text, key_of, read


def main(starts: Sequence[str]) -> None:
    """Runs the cases whose names start with one of some words, or all, and puts their figures into the files."""
    reachable = {name: case for name, case in CASES.items() if not case.public or os.environ.get("FGL_SECURE_DATA")}
    chosen = [name for name in reachable if not starts or name.startswith(tuple(starts))]
    if not chosen:
        sys.exit(f"names must start like one of {', '.join(reachable)}; found {' '.join(starts)}")
    for name in chosen:
        start = time.perf_counter()
        with TemporaryDirectory() as folder:
            _put(CASES[name].file, figures_of(name, Path(folder)))
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)


def _put(file: str, found: Figures) -> None:
    """Replaces the tables of a file; of training runs, which share one, the row of the case."""
    path = FOLDER / f"{file}.json"
    kept = dict(read(file)) if path.exists() and "training" in found else {}
    for table, rows in found.items():
        new = {key_of(table, row) for row in rows}
        kept[table] = [*(row for row in kept.get(table, ()) if key_of(table, row) not in new), *rows]
    FOLDER.mkdir(exist_ok=True)
    path.write_text(as_text(kept), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
