from __future__ import annotations

import pytest

from fgl_secure.commands.fedspray.claims import claim_of
from fgl_secure.protocols.staged.registry import STAGED, staged
from fgl_secure.runtime import Circumstance, Role, Secret

SERVER = {Role.SERVER: 1}
SCHEMES = [name for name in STAGED if name != "plaintext"]
ANY, REPEATED = Circumstance.ANY, Circumstance.REPEATED_SUM


def test_in_the_clear_only_the_paper_s_promise_stands() -> None:
    """Averages are said to be irreversible; of classes and shares nothing is promised, and their exposure declared."""
    claim = claim_of(None, 5)
    broken = claim.broken_by(Secret.STRUCTURE_FEATURE, SERVER, ANY)
    assert broken is not None
    assert "4.5.1" in broken.source
    assert claim.broken_by(Secret.CLASS_PRESENCE, SERVER, ANY) is None
    assert {leak.secret for leak in claim.leaks_by_design} >= {Secret.CLASS_PRESENCE, Secret.LABEL_SHARES}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_promises_what_is_part_of_a_summand(name: str) -> None:
    """Which classes a client has, and its shares, are hidden as far as its summand is."""
    claim = claim_of(staged(name), 5)
    for secret in (Secret.SUMMAND, Secret.CLASS_PRESENCE, Secret.LABEL_SHARES):
        assert claim.broken_by(secret, SERVER, ANY) is not None


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_declares_what_sums_tell(name: str) -> None:
    """What shows in an exact sum, or in how it changes, is no contradiction."""
    claim = claim_of(staged(name), 5)
    assert claim.broken_by(Secret.STRUCTURE_FEATURE, SERVER, ANY) is None
    assert claim.broken_by(Secret.LABEL_SHARES, SERVER, REPEATED) is None
    assert claim.broken_by(Secret.TRAINING_NODE, SERVER, REPEATED) is None


def test_two_clients_hide_nothing_from_each_other() -> None:
    """Of two clients each subtracts its own part; of three none can."""
    for clients, declared in ((2, True), (3, False)):
        leaks = claim_of(staged("ckks"), clients).leaks_by_design
        statements = [leak.statement for leak in leaks if leak.role is Role.SILO]
        assert any("of two clients" in each for each in statements) is declared


def test_two_clients_must_be_left() -> None:
    """With all others but one on its side, a server takes them from the sum and has the last one's summand."""
    for clients, others in ((2, 1), (3, 2)):
        claim = claim_of(staged("pairwise-masking"), clients)
        assert claim.broken_by(Secret.CLASS_PRESENCE, {Role.SERVER: 1, Role.SILO: others}, ANY) is None
        assert claim.broken_by(Secret.CLASS_PRESENCE, SERVER, ANY) is not None
