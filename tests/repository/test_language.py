"""Pages are written for strangers: short sentences with an actor, and figures that can be read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgl_secure import schemes
from fgl_secure.auditing import Verdict
from fgl_secure.auditing.matrix import State
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Role

ROOT = Path(__file__).parents[2]
LONGEST = 30
"""Words of a sentence outside tables and code."""
MOST_WORDS = 35_000
BANNED = r"nobody|somebody|everybody|whoever|anybody|one's|by way of|by the clock|leave away"
NOT_YET: frozenset[str] = frozenset()
"""Pages that are not yet written so; each must still have a fault, so that the list only shrinks."""

_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_BARE_FRACTION = re.compile(r"(?<![\w.\d])\.\d")


def sentences(text: str) -> list[str]:
    """Sentences of a page, without tables, code and targets of links."""
    made = re.sub(r"<!-- made: .*?<!-- end -->", "\n\n", text, flags=re.DOTALL)
    fenced = re.sub(r"^```.*?^```", "\n\n", made, flags=re.DOTALL | re.MULTILINE)
    lines = ["" if line.lstrip().startswith(("|", "#", "<!--")) else line for line in fenced.splitlines()]
    prose = _LINK.sub(r"\1", re.sub(r"`[^`]+`", "X", "\n".join(lines))).replace("**", "")
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", prose)
    return [
        each for block in blocks for each in re.split(r"(?<=[.!?:;])\s+(?=[A-Z*\"(X])", " ".join(block.split())) if each
    ]


def faults(text: str) -> list[str]:
    """What a page has that a stranger stumbles over."""
    prose = sentences(text)
    found = [f"{len(each.split())} words: {each}" for each in prose if len(each.split()) > LONGEST]
    found += [f"{hit[0]}: {each}" for each in prose for hit in re.finditer(rf"\b({BANNED})\b", each, re.IGNORECASE)]
    outside_code = re.sub(r"^```.*?^```|`[^`\n]+`", "", text, flags=re.DOTALL | re.MULTILINE)
    found += [f"no leading zero: {line}" for line in outside_code.splitlines() if _BARE_FRACTION.search(line)]
    return found


def test_pages_stay_short() -> None:
    """All words of README and docs together, without generated sections and the bars of tables."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in pages() if not page.startswith("reproduction/")]
    written = [re.sub(r"<!-- made: .*?<!-- end -->", "", text, flags=re.DOTALL).replace("|", " ") for text in texts]
    assert sum(len(text.split()) for text in written) <= MOST_WORDS


def pages() -> list[str]:
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "reproduction").rglob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


@pytest.mark.parametrize("page", pages())
def test_pages_are_written_for_strangers(page: str) -> None:
    """One idea a sentence, an actor, and leading zeros."""
    found = faults((ROOT / page).read_text(encoding="utf-8"))
    if page in NOT_YET:
        assert found, "take it off the list"
    else:
        assert not found, "\n".join(found)


def metrics(value: object) -> Iterator[str]:
    """Yield the metric of each finding in a file of golden figures."""
    if isinstance(value, dict):
        yield from [value["metric"]] if "metric" in value else []
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from metrics(part)


def test_words_of_reports_are_in_the_glossary() -> None:
    """States, verdicts, schemes, sums, roles, and the metrics of all audits of which figures are kept."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"\*\*`?([^*`]+)`?\*\*", text))
    files = list((ROOT / "tests" / "golden" / "files").glob("*audit-*.json"))
    words = {metric for file in files for metric in metrics(json.loads(file.read_text(encoding="utf-8")))}
    assert "advantage" in words
    words |= {
        *map(str, State),
        *map(str, Verdict),
        *map(str, Role),
        *schemes.names(),
        CLIENTS,
        MEMBERS,
        NEIGHBOURS,
        SERVER,
    }
    assert words - explained == set()


@pytest.mark.parametrize("text", ["Nobody learns it.", "It is .5 there.", "| a | .5 |", " ".join(["word"] * 31) + "."])
def test_faults_are_found(text: str) -> None:
    assert faults(text)


def test_code_tables_and_links_are_no_sentences() -> None:
    long = " ".join(["word"] * 40)
    assert not faults(f"See [it]({'x' * 9}.5.md).\n\n```sh\n{long} .5\n```\n\n| {long} |\n\n`{long}`\n")
