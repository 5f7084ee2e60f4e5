from pathlib import Path

import pytest

from fgl_secure.attacks.registry import IN_TREE, PAPERS, attack, attacks, page_on, papers
from fgl_secure.errors import UnknownNameError


def test_names_lead_to_attacks_whose_cards_say_what_they_do() -> None:
    """Those of this package come first; a card has summary and source, and one party of one role observes."""
    assert list(attacks())[: len(IN_TREE)] == [each.card.name for each in IN_TREE]
    assert len(IN_TREE) > 70
    for name in list(attacks())[: len(IN_TREE)]:
        card = attack(name).card
        assert card.name == name
        assert card.summary
        assert card.source
        assert card.coalition == {card.observer: 1}
        assert 0.5 < card.minimum <= 1


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as refused:
        attack("x-ray")
    assert all(name in str(refused.value) for name in [*list(attacks())[:20], "x-ray"])


ROOT = Path(__file__).parents[2]

OF_THE_PROJECT = {
    "clear-values",
    "silo-pattern",
    "silent-partners",
    "silent-pairs",
    "message-counts-relay",
    "tag-matching",
    "hop-clients-relay",
    "hop-edges-relay",
    "hop-degrees-relay",
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
    assert all((ROOT / page_on(each)).is_file() for each in IN_TREE)
    assert all(page_on(each).endswith(".md") for each in IN_TREE)
