"""FedGCN as it is audited: what attacks read in the clear, and what claims say under a scheme."""

import pytest

from fgl_reproduction.methods import FedGCN
from fgl_reproduction.methods.fedgcn.audit_target import claim_of
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.report import Report
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Circumstance, Role, Secret
from tests.methods.fed2gnn.test_fed2gnn_subjects import attached

METHOD = FedGCN(epochs=1)
SHOWN = RelayCoded(profile=Profile.SHOWN)


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of both demonstrated protocols, one round."""
    return audit(METHOD, attached(), device="cpu", command="fgl-secure audit fedgcn")


def _figures(report: Report, protocol: str) -> dict[tuple[str, str], float]:
    chosen = [record for record in report.records if record.protocol.startswith(protocol)]
    return {(record.attack, record.metric): record.value for record in chosen}


def test_single_neighbours_are_read_in_the_clear_and_not_under_the_scheme(report: Report) -> None:
    """Rows of features as they are: the sum of one client is one row at most nodes, and never under the scheme."""
    clear, hidden = _figures(report, "plaintext"), _figures(report, "relay-coded")
    name = ("hop-feature-single", "nodes with one at a client")
    assert clear["hop-feature-single", "exact recovery"] == 1
    assert clear[name] > 0.5
    assert hidden[name] == 0
    assert ("hop-feature-single", "exact recovery") not in hidden


def test_nothing_contradicts_a_claim(report: Report) -> None:
    """What subtraction tells is declared."""
    assert [name.split("[")[0] for name in report.claims] == list(FedGCN.demonstrated)
    assert not report.violations


def test_relays_list_clients_around_nodes_where_the_scheme_declares_it(report: Report) -> None:
    """With a baseline, and with the figure of a run in which no sum is refused; a run in the clear has no relays."""
    found = {each.attack: each for each in report.records if each.attack.endswith("-relay") and "hop-" in each.attack}
    assert set(found) == {"hop-clients-relay", "hop-edges-relay", "hop-degrees-relay"}
    for record in found.values():
        assert record.protocol.startswith("relay-coded")
        assert record.controls_hold
        assert record.in_the_clear is not None
    assert found["hop-clients-relay"].value == found["hop-clients-relay"].in_the_clear == 1
    cells = {(cell.secret, cell.role): cell for cell in report.matrix if cell.scheme.startswith("relay-coded")}
    for secret in (Secret.FOREIGN_NODE, Secret.CROSS_EDGE, Secret.DEGREE):
        assert cells[secret, "relay"].state is State.DECLARED
        assert bool(cells[secret, "relay"].figures) is (secret is not Secret.DEGREE)


def test_sums_are_promised_where_small_ones_are_refused_alone() -> None:
    """In the clear nothing; of one client, that relays and the server learn no row; of three, no row of any client."""
    clear = claim_of(Plaintext(), Plaintext(), 5, 2)
    assert not clear.guarantees
    one = claim_of(RelayCoded(k_min=1, profile=Profile.SHOWN), PairwiseMasking(), 5, 2)
    assert {each.secret for each in one.guarantees} == {Secret.EMBEDDING, Secret.SUMMAND}
    assert Circumstance.SINGLE_NEIGHBOUR in {leak.circumstance for leak in one.leaks_by_design}
    three = claim_of(SHOWN, PairwiseMasking(), 5, 2)
    assert DataSecret.NODE_FEATURES in {each.secret for each in three.guarantees}


def test_two_hops_give_more_away_and_two_clients_each_other() -> None:
    one, two = (claim_of(SHOWN, PairwiseMasking(), 5, hops).leaks_by_design for hops in (1, 2))
    assert {leak.secret for leak in two} - {leak.secret for leak in one} == {DataSecret.FOREIGN_EDGE}
    pair = claim_of(SHOWN, PairwiseMasking(), 2, 1).leaks_by_design
    assert (Secret.SUMMAND, Role.SILO) in {(leak.secret, leak.role) for leak in pair}
