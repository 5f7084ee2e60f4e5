from __future__ import annotations

from pathlib import Path

from fgl_secure.attacks.papers import PAPERS, papers
from fgl_secure.attacks.registry import IN_TREE, page_on

ROOT = Path(__file__).parents[2]

OF_THE_PROJECT = {
    "clear-values",
    "silo-pattern",
    "silent-partners",
    "silent-pairs",
    "message-counts-relay",
    "tag-matching",
    "share-differences",
    "proxy-label-changes",
}
"""Attacks whose source names no paper that has an address here."""


def test_attacks_link_to_their_papers() -> None:
    """Every attack that is from a paper, or against one, says where that can be read; each address is used."""
    linked = {each.card.name: papers(each.card.source) for each in IN_TREE}
    without = {name for name, found in linked.items() if not found}
    assert without <= OF_THE_PROJECT
    assert {address for found in linked.values() for address in found.values()} == set(PAPERS.values())


def test_names_inside_of_names_are_not_papers() -> None:
    """LLG is not DLG, iDLG is not DLG, and an address of one's own is taken as it is."""
    assert set(papers("iDLG (Zhao et al. 2020) and LLG (PoPETs 2022)")) == {"iDLG", "LLG"}
    assert papers("Someone 2030, https://example.org/paper") == {"example.org/paper": "https://example.org/paper"}
    assert papers("this project") == {}


def test_attacks_have_a_page() -> None:
    """Every attack of this package names a page of this project that exists."""
    assert all((ROOT / page_on(each)).is_file() for each in IN_TREE)
    assert all(page_on(each).endswith(".md") for each in IN_TREE)
