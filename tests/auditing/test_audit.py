from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.attacks.registry import attack, attacks
from fgl_secure.attacks.structure.knowledge import StructureCircumstance
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import FglSecureError, InputError, UnknownNameError
from fgl_secure.graph import Data, FederatedGraph, Graph, datasets, random_split
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.runtime import Circumstance
from fgl_secure.statistics.metrics import Interval
from tests.error_codes import about
from tests.graphs import joined_digits

QUICK = HiFGL(epochs=1)
"""The embedded data set, one round."""

READING = ("all-codes", "one-code-and-mu")


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """A fifth of the embedded data set, joined as all of it is."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "load_digits_graph", lambda: joined_digits(360))
        yield


def _found(report: Report, name: str, protocol: str = "secmp") -> list[Record]:
    return [record for record in report.records if (record.attack, record.protocol) == (name, protocol)]


def test_a_named_protocol_that_nothing_measured_is_refused() -> None:
    """An audit that could not have found anything says so instead of finding nothing."""
    with pytest.raises(InputError, check=about("attack")):
        audit(QUICK, None, ("plaintext",), ("all-codes",))


def test_unknown_attacks_are_refused_before_anything_runs() -> None:
    """A wrong attack behind a right one stops the audit before the first round."""
    rounds: list[str] = []

    def progress(name: str) -> Any:
        return lambda done, most: rounds.append(name)  # noqa: ARG005

    with pytest.raises(UnknownNameError, check=about("attack")):
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
    """Where splits leave devices with one neighbour, the silo's reading violates a guarantee and the device's not."""
    names = ("single-neighbour-device", "single-neighbour-silo")
    report = audit(HiFGL(preset="public-code", epochs=1), None, "secmp", names)
    (device, share), (silo, same) = (_found(report, f"single-neighbour-{who}") for who in ("device", "silo"))
    assert share.value == same.value > 0.1
    assert (share.verdict, same.verdict) == (Verdict.CONTEXT, Verdict.CONTEXT)
    assert (device.value, device.verdict, silo.value, silo.verdict) == (1, Verdict.BROKEN, 1, Verdict.BROKEN)
    assert (device.violates_guarantee, silo.violates_guarantee) == (False, True)


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
    assert exact.violates_guarantee


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
    """An attack that misses its reference run, or finds the same without the run, violates nothing."""
    tampered = _Tampered(attack("all-codes"), blind=blind)
    monkeypatch.setattr("fgl_secure.attacks.registry.IN_TREE", (tampered,))
    report = audit(QUICK, None, ("secmp",), ("all-codes",))
    (record, *_) = _found(report, "all-codes")
    assert record.verdict is Verdict.BROKEN
    assert not record.controls_hold
    assert not record.violates_guarantee


def test_declared_circumstances_are_few() -> None:
    """Only attacks on sums, on features that all hold, and those of deviating devices rest on a circumstance."""
    limited = {name: each.card.circumstance for name, each in attacks().items()}
    expected = dict.fromkeys(attacks(), str(Circumstance.ANY))
    for who in ("device", "silo"):
        expected[f"single-neighbour-{who}"] = Circumstance.SINGLE_NEIGHBOUR
        expected[f"fingerprint-{who}"] = expected[f"containment-{who}"] = Circumstance.SPARSE_SUM
        expected[f"differencing-{who}"] = Circumstance.REPEATED_SUM
    expected["malicious-single-neighbour"] = Circumstance.MALICIOUS_DEVICE
    expected["nsf-cosine-edges"] = expected["nsf-walk-edges"] = StructureCircumstance.SHARED_FEATURES
    for name in ("proxy-differencing", "proxy-label-changes", "proxy-membership"):
        expected[name] = Circumstance.REPEATED_SUM
    for name in ("hop-feature-differencing", "hop-feature-topology"):
        expected[name] = Circumstance.REPEATED_SUM
    expected["hop-feature-single"] = Circumstance.SINGLE_NEIGHBOUR
    expected["silent-pairs"] = expected["silent-partners"] = Circumstance.DROP_OUT
    assert limited == expected


def test_small_silos_keep_their_null_controls() -> None:
    report = audit(QUICK, Data(silos=60), ("secmp",), ("all-codes",))
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
        assert record.violates_guarantee
