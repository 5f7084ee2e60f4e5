"""FedSage+ as it is audited: rows that are read in the clear, and what claims say under a scheme."""

import numpy as np
import pytest

from fgl_reproduction.methods import FedSage
from fgl_reproduction.methods.fedsage.audit_target import FedSageSubject, claim_of
from fgl_secure.attacks.base import DataSecret
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Circumstance, Role, Secret
from tests.methods.fed2gnn.small import some_digits

METHOD = FedSage(epochs=1, generator_rounds=1)


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of both demonstrated schemes, one round of each kind."""
    return audit(METHOD, some_digits(120, 3), device="cpu", command="fgl-secure audit fedsage")


def test_rows_are_read_in_the_clear_and_not_under_the_scheme(report: Report) -> None:
    """The gradients that the paper sends so that features stay tell rows exactly, but for a few ill-conditioned
    systems that processors differ in; their sum tells none."""
    chosen = [record for record in report.records if record.attack == "generator-gradient-rows"]
    found = {record.protocol: record.value for record in chosen}
    assert found["plaintext"] > 0.95
    assert found["pairwise-masking"] == 0


def test_nothing_contradicts_a_claim(report: Report) -> None:
    """What clients tell each other is declared."""
    assert list(report.claims) == list(FedSage.demonstrated)
    assert not report.violations


def test_gradients_are_promised_to_be_hidden_under_schemes_alone() -> None:
    """In the clear nothing is; under masks a single gradient, from clients and from the server, never the features."""
    clear = claim_of(Plaintext(), Plaintext(), 5)
    assert not clear.guarantees
    masked = claim_of(PairwiseMasking(), PairwiseMasking(), 5)
    assert masked.borne_on(Secret.SUMMAND, {Role.SILO: 1}, Circumstance.ANY)
    assert masked.borne_on(Secret.SUMMAND, {Role.SERVER: 1}, Circumstance.ANY)
    for claim in (clear, masked, claim_of(Ckks(), PairwiseMasking(), 5)):
        told = {leak.secret for leak in claim.leaks_by_design if leak.role is Role.SILO}
        assert {DataSecret.NODE_FEATURES, Secret.DEGREE, DataSecret.FOREIGN_EDGE} <= told
        assert not claim.borne_on(DataSecret.NODE_FEATURES, {Role.SILO: 1}, Circumstance.ANY)


def test_of_two_clients_each_has_the_others_model() -> None:
    """Whatever adds models up."""
    pair = claim_of(Plaintext(), PairwiseMasking(), 2)
    assert not pair.borne_on(Secret.SUMMAND, {Role.SILO: 1}, Circumstance.ANY)


def test_schemes_are_named_for_gradients_and_models() -> None:
    named = ["plaintext", "ckks", "clients=pairwise-masking,server=lightsecagg", "server=ckks-shared-key"]
    subjects = METHOD.plan(some_digits(80, 4), named).subjects
    assert [each.name for each in subjects] == [
        "plaintext", "ckks", "clients=pairwise-masking,server=lightsecagg",
        "clients=pairwise-masking,server=ckks-shared-key",
    ]  # fmt: skip


def test_an_independent_subject_has_other_rows_at_each_client() -> None:
    """As many nodes and clients; whoever knows a client's rows of one knows none of the other."""
    graph = some_digits(120, 3)
    (subject,) = METHOD.plan(graph, ["plaintext"]).subjects
    other = subject.independent(1)
    assert isinstance(other, FedSageSubject)
    assert other.name == subject.name
    for silo in range(3):
        rows, moved = (each.features[each.devices_of(silo)] for each in (graph, other.graph))
        assert not (rows[:, None] == moved[None]).all(axis=2).any() or len(np.unique(graph.features, axis=0)) < 120
