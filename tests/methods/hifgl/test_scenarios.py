from collections.abc import Callable

import numpy as np
import pytest

from fgl_secure.attacks.gradients.knowledge import UPDATES
from fgl_secure.attacks.message_passing.knowledge import (
    DEVIATION,
    DROP_OUTS,
    SILENCE,
    SMALL_FEATURES,
    STATIC_ROWS,
    TRAINING,
    PublicRows,
)
from fgl_secure.attacks.message_passing.sums import PARTICIPANTS
from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL
from fgl_secure.methods.fedavg.audit_runs import CONTROLS as UPDATE_CONTROLS
from fgl_secure.methods.hifgl import audit_runs
from fgl_secure.methods.hifgl.audit_runs import (
    deviating_run,
    drop_out_run,
    releasing_graph,
    silent_run,
    special_runs,
    variant_runs,
)
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Phase, Role
from fgl_secure.training.parties import neighbour_sums
from tests.attacks.recorded import federated, random_graph, words
from tests.graphs import two_communities


def sparse_graph() -> FederatedGraph:
    """24 devices in three silos with 0/1 features."""
    graph = random_graph(3, directed=False)
    return graph.with_features(words(24, 30))


def test_static_rows_of_wide_graphs_are_of_some_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a bound of all messages' numbers some devices with their neighbours take part, and the run says so."""
    graph, scheme = sparse_graph(), RelayCoded()
    numbers = graph.edges.shape[1] * graph.features.shape[1]
    monkeypatch.setattr(audit_runs, "MOST_RELEASED", numbers)
    monkeypatch.setattr(audit_runs, "SAMPLED", 10 * graph.features.shape[1])
    assert releasing_graph(graph, 0) is graph
    (whole,) = special_runs(scheme, graph, 0, {STATIC_ROWS}, releasing_graph(graph, 0))
    monkeypatch.setattr(audit_runs, "MOST_RELEASED", numbers - 1)
    some = releasing_graph(graph, 0)
    (run,) = special_runs(scheme, graph, 0, {STATIC_ROWS}, some)
    assert 1 < some.num_devices < graph.num_devices
    assert run.what == f"{whole.what}, of {some.num_devices} devices drawn with neighbours"
    assert np.array_equal(run.knows(PublicRows).rows, some.features)


def test_an_audit_of_a_wide_graph_has_null_controls_of_the_same_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses of the other run, on redealt inputs, can be scored: neighbourhoods there would be of other sizes."""
    monkeypatch.setattr(audit_runs, "MOST_RELEASED", 1)
    monkeypatch.setattr(audit_runs, "SAMPLED", 12 * 8)
    attacks = ("containment-device", "fingerprint-device")
    for seed in range(2):
        report = audit(HiFGL(epochs=1), two_communities(24), "relay-coded", attacks, seed=seed, device="cpu")
        found = [record for record in report.records if "devices drawn with neighbours" in record.view]
        assert {record.attack for record in found} == set(attacks)


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing(), RelayCoded(k_min=1, profile=Profile.SHOWN)])
def test_absent_devices_send_nothing_and_are_noted(scheme: Scheme) -> None:
    """In every round the messages and the notes are those of the devices that are present, at both observers."""
    graph = sparse_graph()
    run = drop_out_run(scheme, graph, 0, rounds=4, presence=0.6)
    assert run is not None
    assert run.scenario is DROP_OUTS
    carrying = (Phase.VALUES, Phase.CODES, Phase.SHARE_HEADERS)
    for role in (Role.DEVICE, Role.SILO):
        noted = run.transcript.views(role).own(PARTICIPANTS)
        assert [rows.step.round for rows in noted] == [0, 1, 2, 3]
        for rows in noted:
            sent = [b for b in run.transcript.messages if b.phase in carrying and b.step == rows.step]
            assert set(sent[0].senders.tolist()) == set(rows.values[:, 1].tolist())
            assert 0 < len(rows.values) < graph.edges.shape[1]
    secrets = list(run.truth(MessageTruth).embeddings.values())
    assert len(secrets) == 4
    assert all(np.array_equal(secrets[0], other) for other in secrets)


def test_devices_drop_out_behind_silos() -> None:
    """Rows of absent devices don't reach their silos, circuits are opened anew, and sums are without them."""
    scheme, graph = RelayCoded(k_min=1), sparse_graph()
    run, rules = drop_out_run(scheme, graph, 0), scheme.partnering(neighbour_sums(graph))
    assert run is not None
    assert rules is not None
    opened = [batch for batch in run.transcript.messages if batch.phase is Phase.REOPENING]
    assert opened
    for number in range(10):
        of_round = [batch for batch in run.transcript.messages if batch.step.round == number]
        there, rest = divmod(sum(b.messages for b in of_round if b.phase is Phase.SHARES), rules.most)
        assert rest == 0
        assert there
    assert {each.scenario for each in special_runs(scheme, graph, 0)} == {STATIC_ROWS, DROP_OUTS, SILENCE}


@pytest.mark.parametrize("make", [drop_out_run, silent_run])
def test_a_run_and_its_null_control_have_equally_many_rows(
    monkeypatch: pytest.MonkeyPatch, make: Callable[..., RecordedRun | None]
) -> None:
    """Draws from a large graph have one size; a null control is scored on the other's truth."""
    graph = sparse_graph()
    monkeypatch.setattr(audit_runs, "DROPPING_AMONG", graph.num_devices // 3)
    monkeypatch.setattr(audit_runs, "SILENT_AMONG", graph.num_devices // 3)
    runs = [make(RelayCoded(k_min=1), graph, seed) for seed in range(3)]
    (devices,) = {len(run.truth(MessageTruth).silo_of) for run in runs if run is not None}
    assert devices < graph.num_devices


@pytest.mark.parametrize("read", [set(), {DROP_OUTS, DEVIATION}, {TRAINING}, {SMALL_FEATURES}])
def test_nothing_is_run_that_no_attack_reads(read: set[str]) -> None:
    scheme, graph = SecretMessagePassing(), sparse_graph()
    runs = [*special_runs(scheme, graph, 0, read), *variant_runs(scheme, graph, 0, read)]
    assert {run.scenario for run in runs} == read


def test_an_audit_by_one_attack_makes_no_run_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the audited run, nor for its null control, nor in the clear; figures are those of a whole audit."""
    whole = audit(HiFGL(epochs=1), two_communities(24), "secmp", ("visible-devices", "containment-silo"), device="cpu")
    for name in ("static_run", "drop_out_run", "silent_run", "deviating_run"):
        monkeypatch.setattr(audit_runs, name, lambda *_, **__: pytest.fail("no attack reads it"))
    one = audit(HiFGL(epochs=1), two_communities(24), "secmp", "visible-devices", device="cpu")
    found = [each for each in whole.records if each.attack == "visible-devices"]
    assert found
    assert [each for each in one.records if each.attack == "visible-devices"] == found


def test_the_published_scheme_has_all_three() -> None:
    """Static rows, drop-outs and deviating devices, in this order, each repeatable to the bit."""
    first, again = (list(special_runs(SecretMessagePassing(), sparse_graph(), 1)) for _ in range(2))
    assert [run.scenario for run in first] == [STATIC_ROWS, DROP_OUTS, DEVIATION]
    for one, other in zip(first, again, strict=True):
        for a, b in zip(one.transcript.messages, other.transcript.messages, strict=True):
            assert a.payload is not None
            assert b.payload is not None
            assert np.array_equal(a.payload, b.payload)


def test_deviation_changes_aggregates_alone() -> None:
    """Up to the codes the run is as it should be, and what a deviating device gets back is one neighbour's row."""
    graph = sparse_graph()
    run = deviating_run(SecretMessagePassing(), graph, 0)
    assert run is not None
    phases = [batch.phase for batch in run.transcript.messages]
    assert phases[-3:] == [Phase.CODES, Phase.AGGREGATE, Phase.DECODED]
    codes, aggregates, _ = run.transcript.messages[-3:]
    assert codes.payload is not None
    assert aggregates.payload is not None
    singles = {row.tobytes() for row in codes.payload}
    assert all(row.tobytes() in singles for row in aggregates.payload)


@pytest.mark.parametrize("delivery", MuDelivery)
def test_the_published_scheme_varies_in_field_and_delivery(delivery: MuDelivery) -> None:
    """Its variants are the paper's field on 0/1 rows, and the other reading of who hands out mu.

    The few features of this graph are not exchanged a second time as the narrow ones.
    """
    ring = np.arange(6)
    graph = federated(np.stack([ring, (ring + 1) % 6]), ring % 2)
    runs = list(variant_runs(SecretMessagePassing(delivery=delivery), graph, 0))
    assert [run.public.modulus for run in runs] == [11, 2**31 - 1]
    assert [run.scenario for run in runs] == [SMALL_FEATURES, TRAINING]
    assert ("mu=target" in runs[1].protocol) is (delivery is MuDelivery.SILO)


def test_every_reference_of_updates_has_a_run() -> None:
    """Each reference of federated averaging is made once, and is for the attack that stands on it.

    That the attack reads it is what `AttackConformance.test_breaks_its_control` says of each.
    """
    for each in attacks().values():
        if each.card.scenario == UPDATES:
            run = UPDATE_CONTROLS[each.card.control]()
            assert run is UPDATE_CONTROLS[each.card.control]()
            assert run.is_for(each)
