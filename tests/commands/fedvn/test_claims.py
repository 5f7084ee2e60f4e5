"""What FedVN claims."""

from __future__ import annotations

import pytest

from fgl_secure.commands.fedvn.claims import claim_of
from fgl_secure.protocols.staged.registry import STAGED, staged
from fgl_secure.runtime import Circumstance, Role, Secret

SERVER = {Role.SERVER: 1}


def test_nothing_is_promised_in_the_clear() -> None:
    """The paper leaves open what summands tell, and that they tell something is declared."""
    claim = claim_of(None, 5)
    assert not claim.guarantees
    assert {leak.secret for leak in claim.leaks_by_design} == {Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY}


@pytest.mark.parametrize("scheme", [name for name in STAGED if name != "plaintext"])
@pytest.mark.parametrize("secret", [Secret.SUMMAND, Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY])
def test_findings_about_one_client_contradict_a_scheme(scheme: str, secret: Secret) -> None:
    """Whoever hides summands hides what they tell of one client."""
    assert claim_of(staged(scheme), 5).broken_by(secret, SERVER, Circumstance.ANY) is not None


@pytest.mark.parametrize("scheme", [name for name in STAGED if name != "plaintext"])
def test_what_the_sum_tells_is_declared(scheme: str) -> None:
    """How often a label occurs at all clients together is no contradiction."""
    claim = claim_of(staged(scheme), 5)
    assert claim.broken_by(Secret.LABEL, SERVER, Circumstance.ANY) is None
    assert Secret.LABEL in {leak.secret for leak in claim.leaks_by_design}


def test_two_clients_know_each_other_s_part() -> None:
    """With two clients the mean tells each of them the other's summand, and the claim says so."""
    for clients, told in ((2, True), (3, False)):
        claim = claim_of(staged("lightsecagg"), clients)
        anyhow = [leak for leak in claim.leaks_by_design if leak.circumstance is Circumstance.ANY]
        assert ((Secret.SUMMAND, Role.SILO) in {(leak.secret, leak.role) for leak in anyhow}) is told
