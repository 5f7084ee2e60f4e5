"""Every block of a page is of a language that is checked: Python runs, and commands are there."""

import importlib.util
import re
import shlex
import subprocess
import warnings
from pathlib import Path

import pytest

from tests.repository import blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "reproduction/**/*.md")
    for path in ROOT.glob(pattern)
    if blocks.blocks(path.read_text(encoding="utf-8"))
)
ALONE = (
    "docs/add_noise.md",
    "docs/deploy_processes.md",
    "docs/many_clients.md",
    "docs/partial_participation.md",
    "docs/secure_aggregation.md",
    "docs/small_updates.md",
    "docs/sparse_updates.md",
)
"""Pages whose blocks stand alone, and print what they say: test_docs.py runs them."""
TEN_LINES = "docs/in_ten_lines.md"
"""Its blocks stand alone as well, each of ten lines at most."""
PIECES = ("docs/partial_participation.md",)
"""Pages with lines for other people's loops, in blocks without a language, which no file here runs as they stand."""
LANGUAGES = {"python", "sh", "text"}
OURS = {"fgl-secure"}
OTHERS = {"export", "flwr"}
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


def python_pages() -> list[str]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        if page not in (*ALONE, TEN_LINES) and any(language == "python" for language, _ in blocks.blocks(text)):
            found.append(page)
    return found


def wrong_languages(text: str, *, pieces: bool = False) -> list[str]:
    """Languages of blocks that nothing checks."""
    return [
        language for language, _ in blocks.blocks(text) if language not in LANGUAGES and not (pieces and not language)
    ]


def wrong_commands(script: str, folder: Path) -> list[str]:
    """Lines of a shell script that call what is not there; those of our own program are parsed by test_docs.py."""
    return [
        line for line in script.splitlines() if line.strip() and not _is_there(shlex.split(line, comments=True), folder)
    ]


def _is_there(words: list[str], folder: Path) -> bool:
    if not words or words[0] in OURS | OTHERS:
        return True
    if words[0] == "make":
        return {word for word in words[1:] if "=" not in word} <= TARGETS
    if words[0] == "pytest":
        return all((ROOT / word).exists() for word in words[1:] if not word.startswith("-"))
    if words[:2] == ["python", "-m"]:
        return importlib.util.find_spec(words[2]) is not None
    return words[0] == "python" and (folder / words[1]).exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("page", python_pages())
def test_python_of_pages_runs(page: str) -> None:
    """From top to bottom, with stand-ins for what the reader has."""
    assert blocks.fault_of(page) == ""


def test_each_part_takes_ten_lines() -> None:
    """Every block of that page stands alone."""
    parts = blocks.blocks((ROOT / TEN_LINES).read_text(encoding="utf-8"))
    assert len(parts) == 9
    for _, content in parts:
        assert len([line for line in content.splitlines() if line.strip()]) <= 10
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of libraries, when they are imported
            assert blocks.fault(f"```python\n{content}\n```\n", blocks.GRAPHS) == ""


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_a_language_that_is_checked(page: str) -> None:
    """A block without one would be run by nobody; what is only shown says `text`."""
    assert wrong_languages((ROOT / page).read_text(encoding="utf-8"), pieces=page in PIECES) == []


@pytest.mark.parametrize("page", PAGES)
def test_shell_of_pages_calls_what_is_there(page: str) -> None:
    """Targets of make, modules and files; bash reads every script."""
    for language, content in blocks.blocks((ROOT / page).read_text(encoding="utf-8")):
        if language == "sh":
            subprocess.run(["bash", "-n"], input=content, text=True, check=True)
            assert wrong_commands(content, (ROOT / page).parent) == []


@pytest.mark.parametrize("broken", ["1 / 0", "from fgl_secure import nobody", "raise SystemExit(0)", "data ="])
def test_a_block_that_fails_is_noticed(broken: str) -> None:
    """Whatever it fails by, and wherever it stands on its page."""
    assert blocks.fault("```python\nfirst = 1\n```\n") == ""
    assert broken in blocks.fault(f"```python\nfirst = 1\n```\n```python\n{broken}\n```\n")


def test_a_page_that_comes_to_something_else_is_noticed() -> None:
    """What must hold behind its blocks is run with their names."""
    assert blocks.fault("```python\nfirst = 1\n```\n", behind="assert first == 1") == ""
    assert "AssertionError" in blocks.fault("```python\nfirst = 1\n```\n", behind="assert first == 2")


def test_languages_and_commands_that_nothing_checks_are_refused() -> None:
    assert wrong_languages("```\na\n```\n```ruby\nb\n```\n```text\nc\n```\n") == ["", "ruby"]
    script = "make check\nmake nothing\npython -m tests.nothing\npytest tests/nothing.py\nruby x\n"
    assert wrong_commands(script, ROOT) == script.splitlines()[1:]
