"""Figures on the public citation graphs."""

from pathlib import Path

import pytest

from fgl_secure.auditing import Record, Report, Verdict
from fgl_secure.auditing.audit import audit
from fgl_secure.graph import Data, degree_one_share, load
from fgl_secure.methods import HiFGL

ATTACKS = (
    "one-code-and-mu", "visible-devices", "visible-edges", "single-neighbour-device", "single-neighbour-silo",
)  # fmt: skip
"""What is asked about here; the golden figures of an audit have all attacks."""


@pytest.fixture(scope="module")
def cora(data_root: Path) -> Report:
    """The published scheme on Cora, five random silos."""
    return audit(HiFGL(epochs=1), Data("Cora", root=data_root), "secmp", ATTACKS, device="cpu")


def _one(report: Report, name: str, metric: str) -> Record:
    (record,) = [r for r in report.records if (r.attack, r.metric, r.protocol) == (name, metric, "secmp")]
    return record


def test_neighbours_embeddings_are_recovered_on_cora(cora: Report) -> None:
    """Break b recovers at least 99 % of the embeddings exactly in the field of 2^31 - 1 elements."""
    record = _one(cora, "one-code-and-mu", "exact recovery")
    assert record.value >= 0.99
    assert record.ci95.low >= 0.99
    assert record.verdict is Verdict.BROKEN
    assert record.contradicts_claim


def test_silos_see_the_boundary_of_cora(cora: Report) -> None:
    """eps_p is .954, and the request for parameters shows silos exactly that."""
    boundary = _one(cora, "boundary", "eps_p")
    assert boundary.value == pytest.approx(0.954, abs=0.01)
    assert _one(cora, "visible-devices", "vis_node").value == boundary.value


def test_devices_with_one_neighbour_are_exposed_on_cora(cora: Report, data_root: Path) -> None:
    """17.9 % of Cora's devices have one neighbour, and all of them are read."""
    share = degree_one_share(load("Cora", data_root))
    assert share == pytest.approx(0.179, abs=0.001)
    for who in ("device", "silo"):
        record = _one(cora, f"single-neighbour-{who}", "exposed devices")
        assert record.value == pytest.approx(share)
        exact = _one(cora, f"single-neighbour-{who}", "exact recovery")
        assert (exact.value, exact.n) == (1, 485)
        assert exact.contradicts_claim is (who == "silo")


def test_null_controls_sit_at_chance_on_cora(cora: Report) -> None:
    """All controls hold, and against permuted truth nothing comes near what was found."""
    measured = [record for record in cora.records if record.verdict.is_measured]
    assert measured
    for record in measured:
        assert record.controls_hold
        assert record.null_control is not None
        assert record.null_control <= max(record.random, record.prior) + 0.05


def test_cora_contradicts_three_promises(cora: Report) -> None:
    """What devices and silos may not read, and whom silos may not see; no message names a cross-silo edge."""
    broken = {record.claim for record in cora.contradictions if record.protocol == "secmp"}
    assert len(broken) == 3
    assert _one(cora, "visible-edges", "vis_edge").value == 0
