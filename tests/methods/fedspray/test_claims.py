import pytest

from fgl_secure.methods.fedspray.audit_target import claim_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Role, Secret
from fgl_secure.schemes import names, server_scheme
from fgl_secure.training.server_sums import promises

SERVER = {Role.SERVER: 1}
SCHEMES = [name for name in names("server") if name != "plaintext"]
ANY, REPEATED = Circumstance.ANY, Circumstance.REPEATED_SUM


def test_in_the_clear_only_the_paper_s_promise_stands() -> None:
    """Averages are said to be irreversible; of classes and shares nothing is promised, and their exposure declared."""
    claim = claim_of(Plaintext(), 5)
    broken = claim.broken_by(Secret.STRUCTURE_FEATURE, SERVER, ANY)
    assert broken is not None
    assert "4.5.1" in broken.source
    assert claim.broken_by(Secret.CLASS_PRESENCE, SERVER, ANY) is None
    assert {leak.secret for leak in claim.leaks_by_design} >= {Secret.CLASS_PRESENCE, Secret.LABEL_SHARES}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_promises_summands_and_nothing_of_their_parts(name: str) -> None:
    """One sum of fractions can tell every client's counts, so that neither shares nor classes are promised."""
    claim = claim_of(server_scheme(name), 5)
    inner = promises(server_scheme(name), 5)
    assert inner is not None
    assert claim.guarantees == inner.guarantees
    assert claim.broken_by(Secret.SUMMAND, SERVER, ANY) is not None
    declared = {(leak.secret, leak.role, leak.circumstance) for leak in claim.leaks_by_design}
    for secret in (Secret.CLASS_PRESENCE, Secret.LABEL_SHARES):
        assert claim.broken_by(secret, SERVER, ANY) is None
        assert (secret, Role.SERVER, ANY) in declared


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_declares_what_sums_tell(name: str) -> None:
    """What shows in an exact sum, or in how it changes, is no contradiction."""
    claim = claim_of(server_scheme(name), 5)
    assert claim.broken_by(Secret.STRUCTURE_FEATURE, SERVER, ANY) is None
    assert claim.broken_by(Secret.LABEL_SHARES, SERVER, REPEATED) is None
    assert claim.broken_by(Secret.TRAINING_NODE, SERVER, REPEATED) is None


def test_two_clients_hide_nothing_from_each_other() -> None:
    """Of two clients each subtracts its own part; of three none can."""
    for clients, declared in ((2, True), (3, False)):
        leaks = claim_of(server_scheme("ckks-shared-key"), clients).leaks_by_design
        statements = [leak.statement for leak in leaks if leak.role is Role.SILO]
        assert any("of two clients" in each for each in statements) is declared
