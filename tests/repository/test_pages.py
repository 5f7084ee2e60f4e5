"""Pages say of schemes and methods what the code says, and there is one for each."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from fgl_secure import schemes
from fgl_secure.methods import names
from tests.repository import page_tables

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = [path for path in sorted(DOCS.rglob("*.md")) if page_tables.SECTION.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", MADE, ids=lambda path: str(path.relative_to(DOCS)))
def test_sections_say_what_the_code_says(path: Path) -> None:
    """Run `python -m tests.repository.page_tables` where this fails, and read what changed."""
    text = path.read_text(encoding="utf-8")
    assert page_tables.page(text) == text


def test_a_section_that_promises_more_is_noticed() -> None:
    """A page that has a promise where the claim admits a leak is made anew."""
    text = (DOCS / "schemes" / "relay-coded.md").read_text(encoding="utf-8")
    broken = text.replace("| admitted |", "| promised |", 1)
    assert broken != text
    assert page_tables.page(broken) == text


@pytest.mark.parametrize("name", schemes.names())
def test_every_scheme_has_a_page(name: str) -> None:
    """It has what the scheme's claim says."""
    assert f"<!-- made: scheme {name} -->" in (DOCS / "schemes" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_every_method_has_a_page(name: str) -> None:
    """It has what the method's configuration says."""
    assert f"<!-- made: method {name} -->" in (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_warnings_about_pages_are_errors() -> None:
    """The site is built strictly, and not quietly: that drops warnings before they are counted."""
    (line,) = (line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "mkdocs build" in line)
    assert "--strict" in line
    assert not {"--quiet", "-q"} & set(line.split())
    checked = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["validation"]
    assert {level for kind in checked.values() for level in kind.values()} == {"warn"}


def test_every_page_is_in_the_site() -> None:
    """A page that the navigation lacks is found by nobody."""
    named = _pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert there - named == set()
    assert {page for page in named - there if not (ROOT / page).exists()} == set()


def _pages_of(nav: object) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    below = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(below, list | type({}.values()))
    return {page for each in below for page in _pages_of(each)}
