"""FedStruct on the command line: choices, claims, audits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fgl_secure.algebra import MERSENNE_31, MERSENNE_61
from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.structure.knowledge import FEDSTRUCT, FEDSTRUCT_HOPWISE, FEDSTRUCT_LOUVAIN, FEDSTRUCT_QUERIES
from fgl_secure.audit import Report, Verdict, contradictions
from fgl_secure.cli.main import BAD_INPUT, CONTRADICTED, OK, main
from fgl_secure.commands.audit import audit
from fgl_secure.commands.options import Options
from fgl_secure.commands.plans import planned
from fgl_secure.commands.privacy import PrivacyChoice
from fgl_secure.dp import Unit
from fgl_secure.errors import FglSecureError
from fgl_secure.methods.fedstruct.choice import ExchangeName, StructureChoice
from fgl_secure.methods.fedstruct.claims import claim_of
from fgl_secure.methods.fedstruct.controls import CONTROLS
from fgl_secure.methods.fedstruct.exchange import FeatureSharing, GradientDelivery, HopwiseExchange, RowExchange
from fgl_secure.protocols.hop_adjacency import Pruning
from fgl_secure.protocols.registry import Parameters
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.runtime import Circumstance, Role, Secret
from tests.attacks.structure.hop_runs import scale_free
from tests.graphs import two_communities

STRUCTURE = {
    FEDSTRUCT, FEDSTRUCT_LOUVAIN, FEDSTRUCT_QUERIES, FEDSTRUCT_HOPWISE,
}  # fmt: skip
ON_STRUCTURE = [name for name, each in attacks().items() if each.card.control in STRUCTURE]


def options(**structure: object) -> Options:
    chosen = replace(StructureChoice(hops=2), **structure)  # type: ignore[arg-type]  # fields by name
    return Options(method="fedstruct", epochs=1, device="cpu", structure=chosen)


@pytest.mark.parametrize("name", ON_STRUCTURE)
def test_every_attack_on_structure_breaks_its_reference(name: str) -> None:
    """The run in the clear that each attack refers to is broken, so that finding nothing elsewhere means something."""
    each = attacks()[name]
    run = CONTROLS[each.card.control]()
    guess = run.guess(each)
    assert guess is not None
    for found in run.score(each, guess):
        assert found.value >= each.card.minimum * found.reachable, found.metric


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of four exchanges of a small graph of the caller's own."""
    names = ("plaintext", "pairwise-masking", "ckks", "hopwise")
    chosen = replace(options(exchanges=names, hops=3), parameters=Parameters(k_min=1))
    return audit(chosen, graph=scale_free(120, 4), command="fgl-secure audit --method fedstruct")


def test_edges_are_found_in_terms_and_in_their_sums(report: Report) -> None:
    """Single terms give most edges away; sums under masks or encryption still give the fingerprint something."""
    for protocol, attack in (("plaintext", "hop-shares"), ("plaintext", "hop-fingerprint"),
                             ("pairwise-masking", "hop-fingerprint"), ("ckks", "hop-fingerprint")):  # fmt: skip
        recall = next(r for r in report.records if (r.protocol, r.attack, r.metric) == (protocol, attack, "recall"))
        assert recall.value > recall.prior + 0.05


def test_hiding_terms_leaves_nothing_for_the_attack_on_terms(report: Report) -> None:
    """There is no row of the attack on single terms where none is seen."""
    assert {r.protocol for r in report.records if r.attack == "hop-shares"} == {"plaintext"}
    assert not [r for r in report.records if r.protocol.startswith("hopwise") and r.attack.startswith("hop-f")]


def test_what_is_published_is_contradicted_and_what_is_ours_is_not(report: Report) -> None:
    """The paper's promise about terms falls; the other claims name what attacks find."""
    assert {record.protocol for record in contradictions(report)} == {"plaintext"}


def test_encryption_changes_no_figure_of_what_clients_hold(report: Report) -> None:
    """The attacks on sums find the same under CKKS as under masks: both give the exact sum."""
    by_protocol = {
        protocol: {(r.attack, r.metric): r.value for r in report.records if r.protocol == protocol}
        for protocol in ("ckks", "pairwise-masking")
    }
    assert by_protocol["ckks"] == pytest.approx(by_protocol["pairwise-masking"], abs=0.02)


def test_verdicts_come_with_controls(report: Report) -> None:
    """Every measured finding has a positive and a null control that hold."""
    measured = [record for record in report.records if record.verdict is not Verdict.CONTEXT]
    assert measured
    assert all(record.controls_hold for record in measured)


def test_owner_addressed_delivery_takes_the_gradient_from_the_server() -> None:
    """With delivery to owners no attack of the server has anything to read, and the claim promises it."""
    chosen = options(exchanges=("pairwise-masking",), delivery=GradientDelivery.OWNER)
    found = audit(chosen, graph=two_communities(devices=60, silos=3))
    assert not [record for record in found.records if record.attack.startswith("structure-gradient")]
    sealed = claim_of(RowExchange(delivery=GradientDelivery.OWNER), "hop2vec")
    assert sealed.broken_by(Secret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is not None


def test_claims_follow_the_choice() -> None:
    """Sharing, delivery and features decide what is promised and what is admitted."""
    published = claim_of(RowExchange(), "degree")
    assert published.broken_by(Secret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is not None
    assert published.broken_by(Secret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is None
    queries = claim_of(RowExchange(sharing=FeatureSharing.QUERIES, rule=None), "hop2vec")
    assert queries.broken_by(Secret.STRUCTURE_FEATURE, {Role.SILO: 1}, Circumstance.ANY) is not None
    hopwise = claim_of(HopwiseExchange(RelayCoded()), "hop2vec")
    assert hopwise.broken_by(Secret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is None
    assert hopwise.broken_by(Secret.EMBEDDING, {Role.RELAY: 1}, Circumstance.ANY) is not None


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda: options(features="magic"), "features must be one of hop2vec"),
        (lambda: options(exchanges=("magic",)), "exchange must be one of plaintext, ckks"),
        (lambda: options(hops=0), "hops must be at least 1; found 0"),
        (lambda: options(kept=0), "kept must be at least 1; found 0"),
        (lambda: options(most_leverage=0.0), "most_leverage must lie"),
        (lambda: replace(options(), silos=1), "silos must be at least 2 for fedstruct; found 1"),
        (lambda: replace(options(exchanges=("pairwise-masking",)), silos=2), "silos must be at least 3 for pairwise-m"),
        (lambda: replace(options(), static_first_layer=True), "static_first_layer must be left out"),
        (lambda: replace(options(), privacy=PrivacyChoice(1.0, 1e-5, Unit.EDGE, 1.0, None, None)), "dp_epsilon"),
        (lambda: replace(options(), method="magic"), "method must be one of hifgl, fedstruct"),
        (lambda: options(exchanges=("hopwise",), kept=5), "kept must go with an exchange other than hopwise; found 5"),
        (lambda: options(exchanges=("hopwise",), delivery=GradientDelivery.OWNER), "delivery must go with .*owner"),
        (lambda: options(pooled=True), "pooled must go with sharing by queries; found it set"),
        (lambda: options(most_leverage=0.5), "tau must go with sharing by queries; found 0.5"),
        (lambda: options(sharing=FeatureSharing.QUERIES, counting=True, most_leverage=0.5), "tau must go with queries"),
        (lambda: options(pruning=Pruning.NONE, kept=5), "kept must go with pruning; found 5"),
        (lambda: replace(options(exchanges=("ckks",)), parameters=Parameters(T=2)), "T must go with a hopwise"),
        (lambda: replace(options(exchanges=("ckks",)), parameters=Parameters(k_min=4)), "k_min must go with a hopwise"),
    ],
)  # fmt: skip
def test_bad_choices_are_refused_before_anything_runs(change: Callable[[], Options], rule: str) -> None:
    """Each message names the argument and the rule."""
    with pytest.raises(FglSecureError, match=rule):
        planned(change())


def test_protocols_are_for_the_hopwise_exchange() -> None:
    """A protocol is refused, known or not, where no exchange runs under one."""
    for protocol in ("secmp", "magic"):
        with pytest.raises(FglSecureError, match=f"protocol must go with a hopwise exchange; found {protocol}"):
            planned(options(exchanges=("ckks",)), (protocol,))


def test_names_tell_what_differs_from_the_default() -> None:
    """A label has the sharing, the audit and the delivery in it."""
    chosen = StructureChoice(sharing=FeatureSharing.QUERIES, delivery=GradientDelivery.OWNER, pooled=True)
    exchange = chosen.exchange(ExchangeName.CKKS, "plaintext", Parameters())
    assert chosen.name_of(exchange, "ckks") == "ckks[queries,tau=0.9,pooled,to owners]"
    hopwise = StructureChoice().exchange(ExchangeName.HOPWISE, "relay-coded", Parameters())
    assert StructureChoice().name_of(hopwise, "hopwise") == f"hopwise[relay-coded[p={MERSENNE_61}]]"


def test_structure_embeddings_have_room_unless_a_field_was_chosen() -> None:
    """Hopwise sums take a large field and bound; a bound or a field of the caller's own stays."""
    roomy = StructureChoice().exchange(ExchangeName.HOPWISE, "relay-coded", Parameters())
    chosen = StructureChoice().exchange(ExchangeName.HOPWISE, "relay-coded", Parameters(bound=4.0))
    assert isinstance(roomy, HopwiseExchange)
    assert isinstance(chosen, HopwiseExchange)
    assert (roomy.sums.public.modulus, chosen.sums.public.modulus) == (MERSENNE_61, MERSENNE_31)


def test_training_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """`train fedstruct --json` names the exchange and its figures."""
    words = ["train", "fedstruct", "--exchange", "pairwise-masking", "--epochs", "1", "--hops", "2", "--json"]
    assert main(words) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["protocol"] == "pairwise-masking"
    assert found["method"] == "fedstruct"
    assert 0 <= found["accuracy"]["test"] <= 1


def test_training_wants_one_exchange(capsys: pytest.CaptureFixture[str]) -> None:
    """Two exchanges are one too many for train."""
    assert main(["train", "fedstruct", "--exchange", "ckks", "--exchange", "plaintext"]) == BAD_INPUT
    assert "exchange must be given once" in capsys.readouterr().err


def test_an_audit_of_the_published_exchange_exits_with_a_contradiction(tmp_path: Path) -> None:
    """`audit --method fedstruct --exchange plaintext` exits 3, because terms in the clear tell edges."""
    words = ["audit", "--method", "fedstruct", "--exchange", "plaintext", "--epochs", "1", "--hops", "2",
             "--attack", "hop-shares", "--out", str(tmp_path / "report")]  # fmt: skip
    assert main(words) == CONTRADICTED
