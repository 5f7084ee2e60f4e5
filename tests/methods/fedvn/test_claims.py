"""What FedVN claims."""

import pytest

from fgl_secure.methods.fedvn.audit_target import claim_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Role, Secret
from fgl_secure.schemes import names, server_scheme

SERVER = {Role.SERVER: 1}


def test_nothing_is_promised_in_the_clear() -> None:
    """The paper leaves open what summands tell, and that they tell something is declared."""
    claim = claim_of(Plaintext(), 5)
    assert not claim.guarantees
    assert {leak.secret for leak in claim.leaks_by_design} == {Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY}


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
@pytest.mark.parametrize("secret", [Secret.SUMMAND, Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY])
def test_findings_about_one_client_contradict_a_scheme(scheme: str, secret: Secret) -> None:
    """Whoever hides summands hides what they tell of one client."""
    assert claim_of(server_scheme(scheme), 5).broken_by(secret, SERVER, Circumstance.ANY) is not None


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
def test_what_the_sum_tells_is_declared(scheme: str) -> None:
    """How often a label occurs at all clients together is no contradiction."""
    claim = claim_of(server_scheme(scheme), 5)
    assert claim.broken_by(Secret.LABEL, SERVER, Circumstance.ANY) is None
    assert Secret.LABEL in {leak.secret for leak in claim.leaks_by_design}


@pytest.mark.parametrize("secret", [Secret.SUMMAND, Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY])
def test_two_clients_know_each_other_s_part(secret: Secret) -> None:
    """With two clients the mean tells each of them the other's summand and all it tells, and the claim says so."""
    for clients, told in ((2, True), (3, False)):
        claim = claim_of(server_scheme("lightsecagg"), clients)
        anyhow = [leak for leak in claim.leaks_by_design if leak.circumstance is Circumstance.ANY]
        assert ((secret, Role.SILO) in {(leak.secret, leak.role) for leak in anyhow}) is told


@pytest.mark.parametrize("scheme", [name for name in names("server") if name != "plaintext"])
@pytest.mark.parametrize("secret", [Secret.LABEL_SHARES, Secret.CLIENT_IDENTITY])
@pytest.mark.parametrize("clients", [2, 5])
def test_two_clients_must_be_left(scheme: str, secret: Secret, clients: int) -> None:
    """With all others but one on its side, a server takes them from the sum: that is promised under no scheme."""
    claim = claim_of(server_scheme(scheme), clients)
    promised = [each for each in claim.guarantees if each.secret is secret]
    assert promised
    assert all(each.coalition.get(Role.SILO, 0) <= clients - 2 for each in promised)
    for coalition in ({Role.SERVER: 1, Role.SILO: clients - 1}, {Role.SILO: clients - 1}):
        assert claim.broken_by(secret, coalition, Circumstance.ANY) is None


def test_a_server_and_all_clients_but_two_are_promised_against() -> None:
    """Where a scheme holds against so many, what their sum hides of the two that are left is promised."""
    claim = claim_of(server_scheme("pairwise-masking[threshold=4]"), 5)
    assert claim.broken_by(Secret.LABEL_SHARES, {Role.SERVER: 1, Role.SILO: 3}, Circumstance.ANY) is not None
