"""FedStar as it is audited: what the server reads in the clear, and what claims say under a scheme."""

from dataclasses import replace

import pytest

from fgl_reproduction.methods import FedStar
from fgl_reproduction.methods.fedstar.audit_target import claim_of, reference
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Role, Secret


def regular() -> FederatedGraph:
    """Clients of two degrees each, a third of whose nodes validate."""
    graph = reference()
    held = graph.labels * 0 + 1 > 0
    held[::3] = False
    return replace(graph, train_mask=held, validation_mask=~held, test_mask=~held & False)


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of both demonstrated schemes, one round."""
    return audit(FedStar(epochs=1), regular(), device="cpu", command="fgl-secure audit fedstar")


def test_degrees_are_read_in_the_clear_and_not_from_sums(report: Report) -> None:
    """Of any two clients; of the sum nothing that holds for one and not for another."""
    found = {each.protocol: each for each in report.records if each.attack == "encoder-degrees"}
    assert found["plaintext"].value == 1
    assert found["plaintext"].verdict.is_measured
    assert found["pairwise-masking"].value == 0


def test_nothing_contradicts_a_claim(report: Report) -> None:
    """And attacks break what they must break."""
    assert tuple(report.claims) == FedStar.demonstrated
    assert not report.violations
    assert all(record.controls_hold for record in report.records if record.verdict.is_measured)


def test_encoders_are_promised_to_be_hidden_by_a_scheme_alone() -> None:
    """From the server; the degrees of all clients together are not, and two clients know each other's."""
    claim = claim_of(PairwiseMasking(), 5)
    assert claim.broken_by(Secret.SUMMAND, {Role.SERVER: 1}, Circumstance.ANY)
    assert not claim.broken_by(Secret.DEGREE, {Role.SERVER: 1}, Circumstance.ANY)
    assert not claim_of(Plaintext(), 5).guarantees
    assert not claim_of(PairwiseMasking(), 2).broken_by(Secret.SUMMAND, {Role.SILO: 1}, Circumstance.ANY)
