from __future__ import annotations

import pytest

from fgl_secure.attacks.base import Measurement
from fgl_secure.attacks.registry import attack, attacks
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
    """An unknown attack is refused, and the message lists all that exist."""
    with pytest.raises(UnknownNameError) as refused:
        attack("x-ray")
    assert all(name in str(refused.value) for name in [*EXPECTED, "x-ray"])


def test_measurements_cannot_be_edited() -> None:
    """A measurement is frozen once made."""
    assert Measurement.__dataclass_params__.frozen  # type: ignore[attr-defined]
