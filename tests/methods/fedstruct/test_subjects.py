"""FedStruct on the command line: choices, claims, audits."""

import pytest

from fgl_secure.algebra import MERSENNE_31, MERSENNE_61
from fgl_secure.attacks.base import DataSecret, Measurement
from fgl_secure.attacks.registry import attack as named
from fgl_secure.auditing.audit import audit
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
from tests.error_codes import about
from tests.graphs import two_communities
from tests.methods.fed2gnn.test_fed2gnn_subjects import attached

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


def test_owner_addressed_delivery_takes_the_gradient_from_the_server() -> None:
    chosen = FedStruct(epochs=1, hops=2, delivery="owner")
    attacks = ("structure-gradient-labels", "structure-gradient-neighbours", "nsf-labels")
    found = audit(chosen, two_communities(devices=60, silos=3), "pairwise-masking", attacks)
    assert not [record for record in found.records if record.attack.startswith("structure-gradient")]
    sealed = claim_of(RowExchange(delivery=GradientDelivery.OWNER), "hop2vec", 5)
    assert sealed.broken_by(DataSecret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is not None


def test_claims_follow_the_choice() -> None:
    """Sharing, delivery and features decide what is promised and what is admitted."""
    published = claim_of(RowExchange(), "degree", 5)
    assert published.broken_by(DataSecret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is not None
    assert published.broken_by(DataSecret.LABEL, {Role.SERVER: 1}, Circumstance.ANY) is None
    queries = claim_of(RowExchange(sharing=FeatureSharing.QUERIES, rule=None), "hop2vec", 5)
    assert queries.broken_by(DataSecret.STRUCTURE_FEATURE, {Role.SILO: 1}, Circumstance.ANY) is not None
    hopwise = claim_of(HopwiseExchange(RelayCoded(profile=Profile.SHOWN)), "hop2vec", 5)
    assert hopwise.broken_by(DataSecret.FOREIGN_EDGE, {Role.SILO: 1}, Circumstance.ANY) is None
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


def test_names_tell_what_differs_from_the_default() -> None:
    chosen = FedStruct(sharing="queries", delivery="owner", pooled=True)
    assert name_of(exchange("ckks", chosen)) == "ckks[queries,tau=0.9,pooled,to owners]"
    assert name_of(exchange("relay-coded")) == f"hopwise[relay-coded[p={MERSENNE_61},graph-shown]]"


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


@pytest.mark.parametrize("k_min", [1, 3])
def test_relays_of_hopwise_sums_are_attacked_as_those_of_hifgl(k_min: int) -> None:
    """Edges by the pattern of senders and groups, and degrees by counts; no other party is in that run."""
    scheme = f"relay-coded[k_min={k_min}]"
    (subject,) = FedStruct(epochs=1).plan(attached(), (scheme,), seed=0, device="cpu").subjects
    _, at_relays = subject.record_runs(0)
    found: dict[tuple[str, str], Measurement] = {}
    for name in ("tag-matching", "message-counts-relay"):
        guess = at_relays.guess(named(name))
        assert guess is not None
        found |= {(name, each.metric): each for each in at_relays.measure(named(name), guess)}
    recall, degrees = found["tag-matching", "recall"], found["message-counts-relay", "degrees"]
    assert found["tag-matching", "precision"].value == 1
    assert recall.value > 10 * recall.prior
    assert degrees.value > degrees.prior
    assert (recall.value == degrees.value == 1) is (k_min == 1)
    for name in ("clear-values", "visible-devices", "visible-edges", "message-counts-silo"):
        assert at_relays.guess(named(name)) is None


def test_there_are_no_relays_to_attack_in_the_clear() -> None:
    (subject,) = FedStruct(epochs=1).plan(attached(), ("neighbours=plaintext",), seed=0, device="cpu").subjects
    assert len(list(subject.record_runs(0))) == 1
