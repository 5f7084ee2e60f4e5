"""FedStruct on the command line: choices, claims, audits."""

import json
from pathlib import Path

import pytest

from fgl_secure.algebra import MERSENNE_31, MERSENNE_61
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.cli.main import BAD_INPUT, CONTRADICTED, OK, main
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.graph import Data
from fgl_secure.methods import FedStruct
from fgl_secure.methods.fedstruct.audit_target import FedStructSubject, claim_of, exchange_of, name_of
from fgl_secure.methods.fedstruct.exchange import FeatureSharing, GradientDelivery, HopwiseExchange, RowExchange
from fgl_secure.methods.fedstruct.preset import Stepping
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Circumstance, Role, Secret
from fgl_secure.schemes import assignment
from tests.attacks.structure.structure_runs import scale_free
from tests.error_codes import about
from tests.graphs import two_communities

QUICK = FedStruct(epochs=1, hops=2)


def exchange(text: str, method: FedStruct = QUICK) -> RowExchange | HopwiseExchange:
    """What a scheme makes of the exchange of structure."""
    return exchange_of(method, assignment(text, FedStruct.topologies, method.usual))


def test_weights_models_and_steps_reach_the_preset() -> None:
    """From the configuration; the hops are those of the last weight, and what does not go together is refused."""
    made = FedStruct(
        epochs=1, betas="1,-0.5,0.25", structure_model="none", stepping="descent", rate=0.5, structure_rate=2.0
    )
    plan = made.plan(two_communities(), ["clients=plaintext"])
    subject = plan.subjects[0]
    assert isinstance(subject, FedStructSubject)
    preset = subject.preset
    assert (preset.hops, preset.betas, preset.structure_hidden) == (2, (1.0, -0.5, 0.25), None)
    assert (preset.stepping, preset.learning_rate, preset.structure_rate) == (Stepping.DESCENT, 0.5, 2.0)
    with pytest.raises(InputError, check=about("betas")):
        FedStruct(epochs=1, hops=3, betas="1,1").plan(two_communities(), ["clients=plaintext"])
    with pytest.raises(InputError, check=about("betas")):
        FedStruct(betas="1;1")
    with pytest.raises(InputError, check=about("rate")):
        FedStruct(rate=0.0)
    with pytest.raises(InputError, check=about("structure_model and structure_rate")):
        FedStruct(features="degree", structure_model="none")


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of four exchanges of a small graph of the caller's own."""
    schemes = ("plaintext", "pairwise-masking", "ckks", "relay-coded[k_min=1]")
    return audit(FedStruct(epochs=1, hops=3), scale_free(120, 4), schemes, command="fgl-secure audit fedstruct")


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
    assert {record.protocol for record in report.contradictions} == {"plaintext"}


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
    chosen = FedStruct(epochs=1, hops=2, delivery="owner")
    found = audit(chosen, two_communities(devices=60, silos=3), "pairwise-masking")
    assert not [record for record in found.records if record.attack.startswith("structure-gradient")]
    sealed = claim_of(RowExchange(delivery=GradientDelivery.OWNER), "hop2vec", 5)
    assert sealed.broken_by(Secret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is not None


def test_claims_follow_the_choice() -> None:
    """Sharing, delivery and features decide what is promised and what is admitted."""
    published = claim_of(RowExchange(), "degree", 5)
    assert published.broken_by(Secret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is not None
    assert published.broken_by(Secret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is None
    queries = claim_of(RowExchange(sharing=FeatureSharing.QUERIES, rule=None), "hop2vec", 5)
    assert queries.broken_by(Secret.STRUCTURE_FEATURE, {Role.SILO: 1}, Circumstance.ANY) is not None
    hopwise = claim_of(HopwiseExchange(RelayCoded(profile=Profile.SHOWN)), "hop2vec", 5)
    assert hopwise.broken_by(Secret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is None
    assert hopwise.broken_by(Secret.EMBEDDING, {Role.RELAY: 1}, Circumstance.ANY) is not None


@pytest.mark.parametrize(
    ("choices", "rule"),
    [
        ({"features": "magic"}, "features"),
        ({"hops": 0}, "hops"),
        ({"kept": 0}, "kept"),
        ({"tau": 0.0}, "tau"),
        ({"pooled": True}, "pooled"),
        ({"tau": 0.5}, "tau"),
        ({"least_nodes": 4}, "least_nodes"),
        ({"sharing": "queries", "count_queries": True, "tau": 0.5}, "tau"),
        ({"pruning": "none", "kept": 5}, "kept"),
        ({"sharing": "everybody"}, "sharing"),
    ],
    ids=str,
)
def test_bad_choices_are_refused_when_they_are_made(choices: dict[str, object], rule: str) -> None:
    with pytest.raises(InputError, check=about(rule)):
        FedStruct(**choices)  # type: ignore[arg-type]  # one of several


@pytest.mark.parametrize(
    ("method", "silos", "scheme", "rule"),
    [
        (QUICK, 1, "ckks", "silos"),
        (QUICK, 2, "pairwise-masking", "silos"),
        (FedStruct(kept=5), 5, "relay-coded", "kept"),
        (FedStruct(delivery="owner"), 5, "relay-coded", "delivery"),
        (QUICK, 5, "magic", "scheme"),
        (QUICK, 5, "ckks-shared-key", "scheme"),
        (QUICK, 5, "neighbours=ckks", "scheme"),
        (QUICK, 5, "clients=plaintext,server=ckks", "scheme"),
        (QUICK, 5, "ckks[T=2]", "ckks"),
        (QUICK, 5, "ckks,relay-coded", "scheme"),
    ],
)
def test_runs_that_cannot_be_are_refused_before_anything_runs(
    method: FedStruct, silos: int, scheme: str, rule: str
) -> None:
    with pytest.raises(FglSecureError, check=about(rule)):
        method.plan(Data(silos=silos), [scheme])


def test_choices_of_terms_go_with_a_hopwise_exchange_beside_them() -> None:
    """Where one run of several exchanges terms, what is chosen about terms has its use."""
    assert len(FedStruct(epochs=1, hops=2, kept=5).plan(None, ["plaintext", "relay-coded"]).subjects) == 2


def test_names_tell_what_differs_from_the_default() -> None:
    """A label has the sharing, the audit and the delivery in it."""
    chosen = FedStruct(sharing="queries", delivery="owner", pooled=True)
    assert name_of(exchange("ckks", chosen)) == "ckks[queries,tau=0.9,pooled,to owners]"
    assert name_of(exchange("relay-coded")) == f"hopwise[relay-coded[p={MERSENNE_61},graph-shown]]"


def test_the_topology_says_how_structure_is_exchanged() -> None:
    """Terms for clients, embeddings for neighbours; a name that serves both is for terms."""
    assert isinstance(exchange("plaintext"), RowExchange)
    assert isinstance(exchange("neighbours=plaintext"), HopwiseExchange)


def test_a_scheme_for_the_server_may_be_named() -> None:
    """It adds up what the server is told; else that is masked, unless terms are in the clear."""
    assert exchange("plaintext").gradients is None
    assert exchange("ckks").gradients == PairwiseMasking()
    masked = exchange("clients=plaintext,server=pairwise-masking")
    assert isinstance(masked, RowExchange)
    assert (masked.terms, masked.gradients, masked.k_min) == (None, PairwiseMasking(), 2)
    clear = exchange("clients=ckks,server=plaintext")
    assert isinstance(clear, RowExchange)
    assert clear.k_min == 1
    assert name_of(clear) == "ckks[server=plaintext]"
    hopwise = exchange("neighbours=relay-coded,server=lightsecagg")
    assert isinstance(hopwise, HopwiseExchange)
    assert isinstance(hopwise.gradients, LightSecAgg)
    assert name_of(hopwise).endswith(",server=lightsecagg]")


def test_structure_embeddings_have_room_unless_a_field_was_chosen() -> None:
    """Hopwise sums take a large field and bound; a bound or a field of the caller's own stays."""
    roomy, chosen = exchange("relay-coded"), exchange("relay-coded[bound=4]")
    assert isinstance(roomy, HopwiseExchange)
    assert isinstance(chosen, HopwiseExchange)
    assert (roomy.sums.public.modulus, chosen.sums.public.modulus) == (MERSENNE_61, MERSENNE_31)


def test_training_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """`train fedstruct --json` names the exchange and its figures."""
    words = ["train", "fedstruct", "--scheme", "pairwise-masking", "--epochs", "1", "--hops", "2", "--json"]
    assert main(words) == OK
    found = json.loads(capsys.readouterr().out)
    assert found["protocol"] == "pairwise-masking"
    assert found["method"] == "fedstruct"
    assert 0 <= found["accuracy"]["test"] <= 1


def test_training_wants_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs are one too many for train."""
    assert main(["train", "fedstruct", "--scheme", "ckks", "--scheme", "plaintext"]) == BAD_INPUT
    assert "scheme must be given once" in capsys.readouterr().err


def test_an_audit_of_the_published_exchange_exits_with_a_contradiction(tmp_path: Path) -> None:
    """`audit fedstruct --scheme plaintext` exits 3, because terms in the clear tell edges."""
    words = ["audit", "fedstruct", "--scheme", "plaintext", "--epochs", "1", "--hops", "2",
             "--attack", "hop-shares", "--out", str(tmp_path / "report")]  # fmt: skip
    assert main(words) == CONTRADICTED
