"""Figures on pages come from one results file, docs/results/figures.toml.

`section` writes the table of an entry, with what to read it beside and the command that repeats it. Other blocks of a
page name their entries in a comment (`<!-- from: NAME NAME -->`), and `faults` says which of their figures no such
entry has.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "results" / "figures.toml"
FROM = re.compile(r"<!-- from: ([\w -]+?) -->")
NOT_MEASURED = "<!-- not measured -->"
"""Before a block whose figures are settings, examples or arithmetic."""

_UNIT = r"%|ms|s|min|kB|MB|GB|GiB|points?"
_FIGURE = re.compile(
    rf"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?:,? (?:and|to|of|/) \d[\d,]*(?:\.\d+)?)*\s?(?:{_UNIT})(?!\w)"
    r"|(?<![\w.,-])\d+\.\d\d+(?![\w.])|\b\d[\d,]* of \d[\d,]*\b"
)
"""A number with a unit, a decimal with two places or more, or a count out of a count."""
_DECIMAL = re.compile(r"(?<![\w.,-])\d+\.\d+(?![\w.])")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NO_FIGURE = re.compile(
    r"\b95 % interval|\d+ of \d+ clients a round"
    r"|(?:Python|Flower|arXiv|version|License|with|sections?) [\d.]+(?: (?:and|to) [\d.]+)?"
)
"""Confidence levels, samples of clients, versions and numbers of papers."""


@cache
def entries() -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of the results file by name."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def section(name: str) -> Iterator[str]:
    """Yield an entry's table or output, what to read it beside, and its command, as lines of Markdown."""
    entry = entries()[name]
    if "rows" in entry:
        header, *rows = entry["rows"]
        for row in (header, ["---"] * len(header), *rows):
            yield f"| {' | '.join(row)} |"
    else:
        yield f"```text\n{entry['output'].strip()}\n```"
    yield ""
    yield f"Runs: {entry['n']}. Interval: {entry['interval']}. Baseline: {entry['baseline']}."
    yield ""
    yield from _command(entry)


def values() -> Iterator[list[str]]:
    """Yield a row for each figure that prose states: what, value, runs, interval, baseline, command."""
    for entry in entries().values():
        command = f"`{entry['command']}`" if "command" in entry else entry["no_command"]
        for what, value in entry.get("values", {}).items():
            own = {"value": value} if isinstance(value, str) else value
            cells = {"n": entry["n"], "interval": entry["interval"], "baseline": entry["baseline"], **own}
            measured = f"{entry['setting']}; {cells['n']}"
            yield [what, cells["value"], measured, cells["interval"], cells["baseline"], command]


def _command(entry: Mapping[str, Any]) -> Iterator[str]:
    if "command" not in entry:
        yield f"No command prints it: {entry['no_command']}."
    elif entry["command"].startswith("python benchmarks/"):
        yield f"`{entry['command']}` (in a checkout)"
    else:
        yield f"```sh\n{entry['command']}\n```"


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of a page that people write, and the comment before each; no code, no generated section."""
    text = re.sub(r"<!-- made: .*?<!-- end -->|^```.*?^```", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        said, _, rest = block.strip().rpartition("-->")
        yield f"{said}-->" if said else "", re.sub(r"`[^`\n]+`|\]\([^)]*\)", "X", rest)


def figures(text: str, *, decimals: bool) -> list[str]:
    """Return the figures of a text, as their numbers; with every decimal, or with those of two places or more."""
    text = _NO_FIGURE.sub("", text)
    found = [*_FIGURE.findall(text), *(_DECIMAL.findall(text) if decimals else ())]
    return [number.strip(",") for figure in found for number in _NUMBER.findall(figure)]


def faults(text: str) -> list[str]:
    """Return each figure of a page that is in no entry that its block names, with the begin of the block."""
    result = []
    for comment, block in blocks(text):
        names = [name for hit in FROM.findall(comment) for name in hit.split()]
        known = {number for name in names for number in _numbers(name)}
        if NOT_MEASURED not in comment:
            stated = figures(block, decimals=bool(names))
            result += [f"{figure}: {block.strip()[:60]}" for figure in stated if figure not in known]
    return result


@cache
def _numbers(name: str) -> frozenset[str]:
    entry = entries()[name]
    texts = [str(value) for key, value in entry.items() if key not in {"rows", "values"}]
    texts += [cell for row in entry.get("rows", ()) for cell in row]
    texts += [str(part) for pair in entry.get("values", {}).items() for part in pair]
    return frozenset(number.strip(",") for text in texts for number in _NUMBER.findall(text))
