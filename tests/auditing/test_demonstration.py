"""The audit of the embedded data set: once of the schemes that `fgl-secure audit` shows, once of the published one.

All tests that read either of the two are here, so that each is run once.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fgl_secure.attacks.registry import attacks
from fgl_secure.auditing import wording
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.records import GAME, Record
from fgl_secure.auditing.report import Report, render_json
from fgl_secure.auditing.terminal import LINES
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.auditing.wording import figure, with_interval
from fgl_secure.graph import datasets
from fgl_secure.methods import HiFGL
from tests.auditing.test_terminal import printed
from tests.graphs import joined_digits

QUICK = HiFGL(epochs=1)
"""One round."""


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """A fifth of the embedded data set, joined as all of it is: as much is to be found in it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "load_digits_graph", lambda: joined_digits(360))
        yield


RECORD_KEYS = {
    "attack", "view", "coalition", "protocol", "dataset", "partition", "metric", "value", "ci95", "random", "prior",
    "n", "seed", "positive_control", "null_control", "verdict", "violates_guarantee", "knowledge", "in_the_clear",
    "in_the_clear_verdict",
}  # fmt: skip
READING = ("all-codes", "one-code-and-mu")


def _found(report: Report, name: str, protocol: str = "secmp") -> list[Record]:
    return [record for record in report.records if (record.attack, record.protocol) == (name, protocol)]


def _measured(report: Report, name: str, protocol: str) -> list[Record]:
    return [record for record in _found(report, name, protocol) if record.verdict.is_measured]


@pytest.fixture(scope="module")
def demonstration() -> Report:
    """What an audit of the embedded data set says after one round when no scheme is named."""
    return audit(QUICK, device="cpu", command="fgl-secure audit --epochs 1")


@pytest.fixture(scope="module")
def audited() -> Report:
    """What such an audit of the published scheme says."""
    return audit(QUICK, schemes=("secmp",), device="cpu", command="fgl-secure audit --epochs 1 --scheme secmp")


def test_json_has_the_keys_of_schema_two(demonstration: Report) -> None:
    """The report has the sections of schema 3, its records every key of it with values of the stated kinds."""
    data = json.loads(render_json(demonstration))
    assert data["schema"] == 4
    assert {"run", "accuracy", "cost", "records"} <= set(data)
    assert {"messages", "bytes", "rounds", "seconds"} <= set(data["cost"])
    assert {"test", "validation", "per_silo"} <= set(data["accuracy"])
    assert len(data["records"]) == len(demonstration.records) > 10
    for record in data["records"]:
        assert set(record) >= RECORD_KEYS
        low, high = record["ci95"]
        assert low <= record["value"] <= high
        assert isinstance(record["violates_guarantee"], bool)
        assert record["verdict"] in {"broken", "leaks", "not detected", "context"}


def test_run_says_how_to_repeat_it(demonstration: Report) -> None:
    """The section on the run names data, partition, protocols, seed, device and the command itself."""
    run = demonstration.run
    assert (run["dataset"], run["partition"], run["silos"], run["seed"]) == ("digits", "random", 5, 0)
    assert demonstration.protocols[:3] == ("secmp", "relay-coded", "plaintext")
    assert run["protocol"] == "secmp"
    assert (run["epochs"], run["device"]) == (1, "cpu")
    assert run["command"] == "fgl-secure audit --epochs 1"


def test_both_breaks_and_the_request_leak_contradict_the_claims(audited: Report) -> None:
    found = audited.violations
    assert {record.attack for record in found} == {
        *READING, "shared-mask", "small-field", "visible-devices", "differencing-silo", "differencing-device",
        "containment-silo", "game-embedding-silo", "game-embedding-device", "game-foreign-node-silo",
        "game-cross-edge-silo",
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
    assert not record.violates_guarantee


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
    """The oracle is read completely, and that violates nothing."""
    records = _found(demonstration, "clear-values", "plaintext")
    assert [(r.metric, r.value, r.verdict) for r in records] == [
        ("exact recovery", 1, Verdict.BROKEN),
        ("exact gradients", 1, Verdict.BROKEN),
    ]
    assert not any(record.violates_guarantee for record in demonstration.records if record.protocol == "plaintext")


def test_evidence_needs_both_controls(demonstration: Report) -> None:
    """Every measured figure carries a null control, a positive control that holds, and an interval.

    Games have none: leaks that they must find are planted into the source (tests/planted).
    """
    for record in demonstration.records:
        if record.verdict.is_measured and record.metric != GAME:
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


def test_equal_seeds_give_equal_records(audited: Report, demonstration: Report) -> None:
    """Two audits with the same choices and seed find the same of a scheme, to the last digit, with others or alone."""

    def of_secmp(rows: Any) -> list[Any]:
        return [row for row in rows if row.protocol.split("[")[0] == "secmp"]

    assert of_secmp(demonstration.records) == list(audited.records)
    both: Any = (demonstration.accuracy["protocols"], audited.accuracy["protocols"])
    assert both[0]["secmp"] == both[1]["secmp"]
    assert of_secmp(demonstration.exposures) == list(audited.exposures)


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


def test_a_protocol_named_twice_runs_once(audited: Report) -> None:
    """Naming a protocol or an attack twice changes nothing."""
    twice = audit(QUICK, None, ("secmp", "secmp"), ("visible-devices", "visible-devices"))
    assert [r for r in audited.records if r.attack in ("boundary", "visible-devices")] == list(twice.records)
    assert twice.exposures == audited.exposures


def test_a_real_audit_fills_it(demonstration: Report) -> None:
    """Of the published scheme four promises fall, of its repair none, and plaintext promises nothing."""
    of = {name: [c for c in demonstration.matrix if c.scheme == name] for name in ("secmp", "relay-coded", "plaintext")}
    states = {name: [cell.state for cell in cells] for name, cells in of.items()}
    assert len({len(cells) for cells in of.values()}) == 1
    assert states["secmp"].count(State.VIOLATED) == 4
    assert State.VIOLATED not in states["relay-coded"]
    assert set(states["relay-coded"]) == {State.NOT_VIOLATED, State.DECLARED}
    assert set(states["plaintext"]) == {State.NO_GUARANTEE}
    fell = {attack for cell in demonstration.matrix if cell.state is State.VIOLATED for attack in cell.attacks}
    assert fell == {record.attack for record in demonstration.records if record.violates_guarantee}


def test_nothing_in_the_clear_makes_nothing_found_mean_nothing(demonstration: Report) -> None:
    """Digits have no weights to tell apart: fingerprinting finds nothing there, whatever the protocol."""
    for protocol in ("secmp", "relay-coded", "plaintext"):
        (record,) = _measured(demonstration, "fingerprint-device", protocol)
        assert (record.verdict, record.in_the_clear_verdict) == (Verdict.NOT_DETECTED, Verdict.NOT_DETECTED)
        assert not record.has_power
        assert not record.is_conclusive
        assert record.in_the_clear is not None
        said = f"Says nothing: unprotected, too, it finds nothing on this subject ({record.in_the_clear:.3f})."
        assert wording.limits(record) == said


def test_something_in_the_clear_makes_it_mean_something(demonstration: Report) -> None:
    """Where silos read neighbours' rows in the clear they see every one of them, and under the repair none."""
    for record in _measured(demonstration, "visible-devices", "relay-coded"):
        assert record.verdict is Verdict.NOT_DETECTED
        assert record.in_the_clear == 1
        assert record.is_conclusive
        assert wording.limits(record).startswith("Would have caught")


def test_what_reads_one_scheme_alone_has_no_counterpart(demonstration: Report) -> None:
    """Codes and shares exist under their scheme only, and the report says so."""
    for name, protocol in (("all-codes", "secmp"), ("single-shares", "relay-coded")):
        for record in _measured(demonstration, name, protocol):
            assert record.in_the_clear is None
            assert record.in_the_clear_verdict is None
            assert wording.in_the_clear(record) == "nothing compares with what it reads"
            assert record.has_power


def test_runs_in_the_clear_are_made_where_none_is_audited(audited: Report, demonstration: Report) -> None:
    """An audit of one scheme compares with the same figures as one that has plaintext in it."""
    for name in ("containment-device", "fingerprint-device", "visible-devices"):
        alone, together = (_measured(report, name, "secmp") for report in (audited, demonstration))
        assert [each.in_the_clear for each in alone] == [each.in_the_clear for each in together]
        assert None not in [each.in_the_clear for each in alone]
    assert audited.run["protocols"] == ["secmp"]


def test_plaintext_is_compared_with_itself(demonstration: Report) -> None:
    """What is in the clear finds as much as there is to be found, by either way."""
    for record in demonstration.records:
        if record.protocol == "plaintext" and record.verdict.is_measured:
            assert record.in_the_clear is not None
            assert record.in_the_clear >= record.value


def test_the_picture_is_short_and_whole(demonstration: Report) -> None:
    """In 80 columns a real audit of three schemes takes 25 lines with those on its files, and says what fell."""
    lines = printed(demonstration).splitlines()
    assert len(lines) <= LINES - 2
    assert lines[1].split() == ["hidden", "from", "secmp", "relay-coded", "plaintext"]
    assert any(line.startswith("secmp: 4 guarantees violated, by ") for line in lines)
    assert not any("relay-coded" in line and "violated" in line for line in lines)


def test_figures_are_never_cut(demonstration: Report) -> None:
    """In 80 columns and in a pipe each figure stands on one line with its metric, its interval and prior."""
    text = printed(demonstration, verbose=True)
    assert text.count("baseline") >= len(demonstration.run["protocols"])  # type: ignore[arg-type]
    for record in demonstration.records:
        figures = (f"  {record.verdict}", record.metric.split()[0], with_interval(record), figure(record.prior))
        assert any(all(each in line for each in figures) for line in text.splitlines())
