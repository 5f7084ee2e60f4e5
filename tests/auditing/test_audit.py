from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.registry import attack, attacks
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report, render_json
from fgl_secure.auditing.schema import contradictions
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import FglSecureError, InputError, UnknownNameError
from fgl_secure.graph import Data, FederatedGraph, Graph, random_split
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.runtime import Circumstance
from fgl_secure.statistics import Interval

QUICK = HiFGL(epochs=1)
"""The embedded data set, one round."""

RECORD_KEYS = {
    "attack", "view", "coalition", "protocol", "dataset", "partition", "metric", "value", "ci95", "random", "prior",
    "n", "seed", "positive_control", "null_control", "verdict", "contradicts_claim", "knowledge", "in_the_clear",
    "in_the_clear_verdict",
}  # fmt: skip
READING = ("all-codes", "one-code-and-mu")


def _found(report: Report, name: str, protocol: str = "secmp") -> list[Record]:
    return [record for record in report.records if (record.attack, record.protocol) == (name, protocol)]


def test_json_has_the_keys_of_schema_two(demonstration: Report) -> None:
    """The report has the sections of schema 3, its records every key of it with values of the stated kinds."""
    data = json.loads(render_json(demonstration))
    assert data["schema"] == 3
    assert {"run", "accuracy", "cost", "records"} <= set(data)
    assert {"messages", "bytes", "rounds", "seconds"} <= set(data["cost"])
    assert {"test", "validation", "per_silo"} <= set(data["accuracy"])
    assert len(data["records"]) == len(demonstration.records) > 10
    for record in data["records"]:
        assert set(record) >= RECORD_KEYS
        low, high = record["ci95"]
        assert low <= record["value"] <= high
        assert isinstance(record["contradicts_claim"], bool)
        assert record["verdict"] in {"broken", "leaks", "not detected", "proved", "context"}


def test_run_says_how_to_repeat_it(demonstration: Report) -> None:
    """The section on the run names data, partition, protocols, seed, device and the command itself."""
    run = demonstration.run
    assert (run["dataset"], run["partition"], run["silos"], run["seed"]) == ("digits", "random", 5, 0)
    assert demonstration.protocols[:3] == ("secmp", "relay-coded", "plaintext")
    assert run["protocol"] == "secmp"
    assert (run["epochs"], run["device"]) == (1, "cpu")
    assert run["command"] == "fgl-secure audit --epochs 1"


def test_both_breaks_and_the_request_leak_contradict_the_claims(audited: Report) -> None:
    """Breaks a, b, c, e and f and what silos see contradict claims of the published scheme, with both controls."""
    found = contradictions(audited)
    assert {record.attack for record in found} == {
        *READING, "shared-mask", "small-field", "visible-devices", "differencing-silo", "differencing-device",
        "containment-silo",
    }  # fmt: skip
    for record in found:
        assert record.verdict.is_exposure
        assert record.controls_hold
        assert record.claim


@pytest.mark.parametrize("name", READING)
def test_single_messages_are_read_exactly(audited: Report, name: str) -> None:
    """Under both readings of who hands out mu every attacked embedding is recovered."""
    for protocol in ("secmp", "secmp[mu=target]"):
        for record in _found(audited, name, protocol):
            assert record.value == 1
            assert record.verdict is Verdict.BROKEN
    assert [record.metric for record in _found(audited, name)] == ["exact recovery", "exact gradients"]
    (forwarded,) = _found(audited, name, "secmp[mu=target]")
    assert "100.0% of all such messages" in forwarded.finding
    assert "100.0% of all such messages" not in _found(audited, name)[0].finding


def test_deviating_devices_contradict_no_claim_of_semi_honest_parties(audited: Report) -> None:
    """A device that departs from the protocol reads single rows exactly, which no claim speaks of."""
    (record,) = _found(audited, "malicious-single-neighbour")
    assert record.verdict is Verdict.BROKEN
    assert record.controls_hold
    assert not record.contradicts_claim


def test_knowledge_from_elsewhere_is_named(audited: Report) -> None:
    """A record of an attack that knows more than its view says what that is."""
    for record in audited.records:
        knows = attacks()[record.attack].card.auxiliary if record.attack in attacks() else ""
        assert ("; knows " in record.view) is bool(knows)
        assert record.view.endswith(knows)


def test_small_field_is_exact_on_whole_and_narrow_rows(audited: Report) -> None:
    """Brute force recovers every 0/1 row of 64 and of 16 columns in the field of 11 elements."""
    records = _found(audited, "small-field", "secmp[p=11]")
    assert [record.value for record in records] == [1, 1]
    assert len({record.view for record in records}) == 2


def test_visible_devices_equal_the_boundary(audited: Report) -> None:
    """What silos see by name is eps_p, the very quantity claimed to be 0; nothing if the target forwards mu."""
    (boundary,) = _found(audited, "boundary")
    seen = next(record for record in _found(audited, "visible-devices") if record.metric == "vis_node")
    assert seen.value == boundary.value
    assert boundary.verdict is Verdict.CONTEXT
    assert boundary.null_control is None
    assert all(record.value == 0 for record in _found(audited, "visible-devices", "secmp[mu=target]"))


def test_plaintext_contradicts_nothing_that_it_never_promised(demonstration: Report) -> None:
    """The oracle is read completely, and that contradicts nothing."""
    records = _found(demonstration, "clear-values", "plaintext")
    assert [(r.metric, r.value, r.verdict) for r in records] == [
        ("exact recovery", 1, Verdict.BROKEN),
        ("exact gradients", 1, Verdict.BROKEN),
    ]
    assert not any(record.contradicts_claim for record in demonstration.records if record.protocol == "plaintext")


def test_evidence_needs_both_controls(demonstration: Report) -> None:
    """Every measured figure carries a null control, a positive control that holds, and an interval."""
    for record in demonstration.records:
        if record.verdict.is_measured:
            assert record.positive_control is not None
            assert record.positive_control >= record.positive_minimum
            assert record.null_holds


def test_exposures_add_up_to_the_cost(demonstration: Report) -> None:
    """The table of who saw what sums to the messages and bytes of each protocol, and so do the phases."""
    costs: Any = demonstration.cost["protocols"]
    for protocol, cost in costs.items():
        rows = [row for row in demonstration.exposures if row.protocol == protocol]
        assert sum(row.messages for row in rows) == cost["messages"]
        assert sum(row.bytes for row in rows) == cost["bytes"] == sum(cost["bytes_by_phase"].values())
        assert cost["rounds"] == 1


def test_claims_cover_every_protocol_of_the_records(demonstration: Report) -> None:
    """Each protocol that a record speaks of is listed with what it protects, leaks and assumes."""
    assert {record.protocol for record in demonstration.records} <= set(demonstration.claims)


def test_equal_seeds_give_equal_records(audited: Report) -> None:
    """An audit with the same choices and seed finds the same, to the last digit."""
    again = audit(QUICK, schemes=("secmp",), command="another")
    assert again.records == audited.records
    assert again.accuracy == audited.accuracy
    assert again.exposures == audited.exposures


def test_another_seed_gives_another_run(audited: Report) -> None:
    """The seed reaches partition, weights and coins: another one gives other figures, and is recorded."""
    other = audit(QUICK, None, ("secmp",), ("all-codes",), seed=1)
    assert other.accuracy != audited.accuracy
    assert {record.seed for record in other.records} == {1}


def test_only_named_protocols_and_attacks_run(audited: Report) -> None:
    """A named protocol runs alone with its variants, named attacks alone with the context record."""
    few = audit(QUICK, None, ("secmp",), ("one-code-and-mu", "visible-edges"))
    assert few.run["protocols"] == ["secmp"]
    assert {record.attack for record in few.records} == {"boundary", "one-code-and-mu", "visible-edges"}
    assert set(few.records) <= set(audited.records)


def test_a_named_protocol_that_nothing_measured_is_refused() -> None:
    """An audit that could not have found anything says so instead of finding nothing."""
    with pytest.raises(InputError, match="attack must name at least one that can read a run of plaintext"):
        audit(QUICK, None, ("plaintext",), ("all-codes",))


def test_unknown_attacks_are_refused_before_anything_runs() -> None:
    """A wrong attack behind a right one stops the audit before the first round."""
    rounds: list[str] = []

    def progress(name: str) -> Any:
        return lambda done, most: rounds.append(name)  # noqa: ARG005

    with pytest.raises(UnknownNameError, match="attack must be one of clear-values"):
        audit(QUICK, None, ("secmp",), ("all-codes", "x-ray"), progress=progress)
    with pytest.raises(FglSecureError):
        audit(QUICK, Data(silos=0), ("secmp",), progress=progress)
    assert not rounds


def test_progress_counts_the_rounds_of_each_protocol() -> None:
    """Progress is asked for by what is done, and called after each round and at each attack."""
    calls: list[tuple[str, int, int]] = []

    def progress(name: str) -> Any:
        return lambda done, most: calls.append((name, done, most))

    audit(HiFGL(epochs=2), None, ("plaintext", "secmp"), ("visible-devices",), progress=progress)
    assert list(dict.fromkeys(calls)) == [
        step
        for name in ("plaintext", "secmp")
        for step in ((f"training under {name}", 1, 2), (f"training under {name}", 2, 2), (f"attacking {name}", 1, 1))
    ]


def test_declared_leaks_contradict_nothing_and_others_do() -> None:
    """Where splits leave devices with one neighbour, the silo's reading contradicts a claim and the device's not."""
    names = ("single-neighbour-device", "single-neighbour-silo")
    report = audit(HiFGL(preset="paper", epochs=1), None, "secmp", names)
    (device, share), (silo, same) = (_found(report, f"single-neighbour-{who}") for who in ("device", "silo"))
    assert share.value == same.value > 0.1
    assert (share.verdict, same.verdict) == (Verdict.CONTEXT, Verdict.CONTEXT)
    assert (device.value, device.verdict, silo.value, silo.verdict) == (1, Verdict.BROKEN, 1, Verdict.BROKEN)
    assert (device.contradicts_claim, silo.contradicts_claim) == (False, True)


def test_few_certain_readings_contradict_a_claim() -> None:
    """Ten devices of one neighbour among two hundred are enough: what is read exactly is read."""
    ring = np.arange(190)
    ends = np.concatenate([ring, np.arange(190, 200)])
    pairs = np.stack([ends, np.concatenate([np.roll(ring, -1), ring[:10]])])
    rows = np.random.default_rng(0).random((200, 8))
    graph = Graph.from_arrays("ring with ten leaves", rows, np.arange(200) % 3, np.hstack([pairs, pairs[::-1]]))
    federated = FederatedGraph.from_assignment(graph, np.arange(200) % 4, random_split(200, 0))
    report = audit(QUICK, federated, ("secmp",), ("single-neighbour-silo",))
    exact, share = _found(report, "single-neighbour-silo")
    assert (exact.value, exact.n, share.value) == (1, 10, 0.05)
    assert exact.contradicts_claim


class _Tampered(Attack[Any, Any]):
    """A working attack whose score is bent, under its own name."""

    def __init__(self, real: Attack[Any, Any], *, blind: bool) -> None:
        self._real, self._blind = real, blind

    @property
    def card(self) -> Any:
        return self._real.card

    def infer(self, view: Any, public: Any) -> Any:
        return self._real.infer(view, public)

    def score(self, guess: Any, truth: Any) -> tuple[Measurement, ...]:
        """Blind: misses on the reference run. Else: right whatever the truth."""
        found = self._real.score(guess, truth)
        if self._blind and truth is not CONTROLS[self.card.control]().truth(MessageTruth):
            return found
        value = 0.0 if self._blind else 1.0
        return tuple(replace(each, value=value, interval=Interval(value, value)) for each in found)


@pytest.mark.parametrize("blind", [True, False])
def test_no_contradiction_rests_on_a_failed_control(monkeypatch: pytest.MonkeyPatch, blind: bool) -> None:
    """An attack that misses its reference run, or finds the same without the run, contradicts nothing."""
    tampered = _Tampered(attack("all-codes"), blind=blind)
    monkeypatch.setattr("fgl_secure.attacks.registry.IN_TREE", (tampered,))
    report = audit(QUICK, None, ("secmp",), ("all-codes",))
    (record, *_) = _found(report, "all-codes")
    assert record.verdict is Verdict.BROKEN
    assert not record.controls_hold
    assert not record.contradicts_claim


def test_declared_circumstances_are_few() -> None:
    """Only attacks on sums, on features that all hold, and those of deviating devices rest on a circumstance."""
    limited = {name: each.card.circumstance for name, each in attacks().items()}
    expected = dict.fromkeys(attacks(), Circumstance.ANY)
    for who in ("device", "silo"):
        expected[f"single-neighbour-{who}"] = Circumstance.SINGLE_NEIGHBOUR
        expected[f"fingerprint-{who}"] = expected[f"containment-{who}"] = Circumstance.SPARSE_SUM
        expected[f"differencing-{who}"] = Circumstance.REPEATED_SUM
    expected["malicious-single-neighbour"] = Circumstance.MALICIOUS_DEVICE
    expected["nsf-cosine-edges"] = expected["nsf-walk-edges"] = Circumstance.SHARED_FEATURES
    for name in ("proxy-differencing", "proxy-label-changes", "proxy-membership"):
        expected[name] = Circumstance.REPEATED_SUM
    for name in ("hop-feature-differencing", "hop-feature-topology"):
        expected[name] = Circumstance.REPEATED_SUM
    expected["hop-feature-single"] = Circumstance.SINGLE_NEIGHBOUR
    assert limited == expected


def test_a_protocol_named_twice_runs_once(audited: Report) -> None:
    """Naming a protocol or an attack twice changes nothing."""
    twice = audit(QUICK, None, ("secmp", "secmp"), ("visible-devices", "visible-devices"))
    assert [r for r in audited.records if r.attack in ("boundary", "visible-devices")] == list(twice.records)
    assert twice.exposures == audited.exposures


def test_small_silos_keep_their_null_controls() -> None:
    """With many small silos the null controls hold, and the breaks still contradict the claims."""
    report = audit(QUICK, Data(silos=100), ("secmp",), ("all-codes",))
    assert all(record.controls_hold for record in report.records)


@pytest.mark.parametrize("silos", [1, 2])
def test_few_silos_are_audited_too(silos: int) -> None:
    """One silo has no foreign devices or crossing edges to find, and the audit says so without failing."""
    report = audit(QUICK, Data(silos=silos), ("secmp",), ("all-codes", "visible-devices", "visible-edges"))
    assert {record.value for record in _found(report, "all-codes")} == {1}
    if silos == 1:
        assert not any(record.value for record in report.records if record.attack.startswith("visible"))


@pytest.mark.parametrize(
    ("method", "data"), [(HiFGL("sage", epochs=1), Data()), (QUICK, Data(partition="louvain"))], ids=["sage", "louvain"]
)
def test_other_choices_are_broken_alike(method: HiFGL, data: Data) -> None:
    """GraphSAGE and Louvain silos are read by the same attacks, exactly."""
    report = audit(method, data, "secmp", READING[:1])
    records = _found(report, READING[0])
    assert len(records) == 2
    for record in records:
        assert record.value == 1
        assert record.contradicts_claim
