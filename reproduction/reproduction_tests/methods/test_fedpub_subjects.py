"""FED-PUB as it is audited: what attacks read in the clear, and what claims say under a scheme."""

import pytest

from fgl_reproduction.methods import FedPub
from fgl_reproduction.methods.fedpub.audit_target import claim_of
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Role, Secret
from tests.methods.fed2gnn.small import some_digits

METHOD = FedPub(epochs=1)


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of both demonstrated schemes, one round."""
    return audit(METHOD, some_digits(300, 4), device="cpu", command="fgl-secure audit fedpub")


def _figures(report: Report, protocol: str) -> dict[str, float]:
    return {record.attack: record.value for record in report.records if record.protocol == protocol}


def test_models_are_read_in_the_clear_and_not_from_sums(report: Report) -> None:
    assert _figures(report, "plaintext")["weighted-models"] == 1
    assert _figures(report, "pairwise-masking")["weighted-models"] == 0


def test_embeddings_tell_the_same_under_every_scheme(report: Report) -> None:
    clear, masked = (_figures(report, name)["functional-embeddings"] for name in ("plaintext", "pairwise-masking"))
    assert clear == masked


def test_nothing_contradicts_a_claim(report: Report) -> None:
    """And attacks break what they must break."""
    assert tuple(report.claims) == FedPub.demonstrated
    assert not report.violations
    assert all(record.controls_hold for record in report.records if record.verdict.is_measured)


@pytest.mark.parametrize("scheme", [PairwiseMasking(), Ckks()])
def test_models_are_promised_to_be_hidden_from_one_client_alone(scheme: PairwiseMasking | Ckks) -> None:
    """From the server, and from a client but for its sum; two clients that pool have two sums."""
    claim = claim_of(scheme, PairwiseMasking(), 10)
    assert claim.broken_by(Secret.SUMMAND, {Role.SERVER: 1}, Circumstance.ANY)
    assert claim.broken_by(Secret.SUMMAND, {Role.SILO: 1}, Circumstance.ANY)
    assert not claim.broken_by(Secret.SUMMAND, {Role.SILO: 2}, Circumstance.ANY)
    assert not claim.broken_by(DataSecret.LABEL_SHARES, {Role.SILO: 1}, Circumstance.ANY)


def test_nothing_is_promised_in_the_clear() -> None:
    claim = claim_of(Plaintext(), Plaintext(), 5)
    assert not claim.guarantees
    assert {leak.secret for leak in claim.leaks_by_design} == {Secret.SUMMAND, DataSecret.LABEL_SHARES}


def test_a_scheme_for_figures_of_its_own_is_named() -> None:
    (subject,) = METHOD.plan(schemes="clients=pairwise-masking,server=lightsecagg").subjects
    assert subject.name == "clients=pairwise-masking,server=lightsecagg"
    (usual,) = METHOD.plan(schemes="server=lightsecagg").subjects
    assert usual.name == "clients=pairwise-masking,server=lightsecagg"
