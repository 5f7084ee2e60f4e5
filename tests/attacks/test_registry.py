from pathlib import Path

import pytest

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.registry import IN_TREE, PAPERS, attack, attacks, page_on, papers
from fgl_secure.errors import UnknownNameError

EXPECTED = {
    "clear-values", "one-code-and-mu", "all-codes", "small-field",
    "single-neighbour-silo", "single-neighbour-device", "visible-devices", "visible-edges", "shared-mask",
    "differencing-silo", "differencing-device", "fingerprint-silo", "fingerprint-device", "containment-silo",
    "containment-device", "device-gradients", "message-counts-silo", "message-counts-relay", "silo-pattern",
    "tag-matching", "silent-partners", "silent-pairs",
    "malicious-single-neighbour", "single-shares", "share-differences",
    "hop-shares", "hop-unfolding", "hop-fingerprint", "combined-columns", "query-rowspace",
    "hop-sum-rows", "hop-sum-edges", "hop-gradient-labels",
    "nsf-degrees", "nsf-ego-nets", "nsf-nearest", "nsf-assignment", "nsf-degree-hashing", "nsf-propagation",
    "nsf-walk-degrees", "nsf-walk-edges", "nsf-cosine-edges", "nsf-labels", "nsf-training-labels", "nsf-membership",
    "structure-gradient-labels", "structure-gradient-membership", "structure-gradient-neighbours",
    "proxy-classes", "proxy-counts", "proxy-partial-fractions", "proxy-singletons",
    "proxy-differencing", "proxy-label-changes", "proxy-membership",
    "hop-feature-single", "hop-feature-differencing", "hop-feature-topology", "hop-feature-edges",
    "virtual-node-labels", "virtual-node-population", "virtual-node-clients",
    "gradient-labels", "gradient-single-row", "gradient-single-neighbours", "gradient-span", "gradient-filter",
    "gradient-dlg", "gradient-idlg", "gradient-inverting", "gradient-joint",
    "sum-membership", "round-disaggregation",
}  # fmt: skip


def test_all_attacks_are_there() -> None:
    """Those on message passing, and those on shared structure and on updates, before those of installed packages."""
    assert set(list(attacks())[: len(EXPECTED)]) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_names_lead_to_their_attacks(name: str) -> None:
    """Every name leads to the attack that carries it on its card."""
    assert attack(name).card.name == name


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_cards_name_source_and_a_single_observer(name: str) -> None:
    """Every card says in words what the attack does and where it comes from, and one party of one role observes."""
    card = attack(name).card
    assert card.summary
    assert card.source
    assert card.coalition == {card.observer: 1}
    assert 0.5 < card.minimum <= 1


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    """An unknown attack is refused, and the message lists the first of those that exist."""
    with pytest.raises(UnknownNameError) as refused:
        attack("x-ray")
    assert all(name in str(refused.value) for name in [*list(attacks())[:20], "x-ray"])


def test_measurements_cannot_be_edited() -> None:
    """A measurement is frozen once made."""
    assert Measurement.__dataclass_params__.frozen  # type: ignore[attr-defined]


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
