"""What an audit of Cora says that it would have caught is caught, and its intervals cover, in simulated audits.

`FGL_SECURE_GOLDEN=all` checks that the golden file is what the audit prints; here the table is compared with that file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgl_secure.auditing.audit import detectable
from fgl_secure.graph import Data, FederatedGraph
from fgl_secure.statistics.metrics import Proportion, wilson_interval
from tests.auditing.cora_limits import (
    CAUGHT,
    COVERED,
    FAMILIES,
    ROWS,
    Rng,
    Row,
    audited,
    caught,
    covered,
    exact_coverage,
    figure_of,
    independent_units,
    name_of,
    senders,
    silent,
)
from tests.golden.figures import read

DIFFERENT = list({(r["n"], str(r["arms"]), round(r["prior"], 4), round(r["alarms"], 4)): r for r in ROWS}.values())


def test_rows_are_those_that_the_audit_prints() -> None:
    """Every measured figure of the golden file, with its units, its prior and the size that it was printed with."""
    columns = ("scheme", "attack", "metric", "observer")
    findings = [row for row in read("Cora-audit-hifgl")["findings"] if row["verdict"] != "context"]
    golden = {tuple(row[column] for column in columns): row for row in findings}
    rows = {tuple(row[column] for column in columns): row for row in ROWS}
    assert rows.keys() == golden.keys()
    assert len(rows) == len(ROWS)
    for key, row in rows.items():
        assert row["n"] == golden[key]["n"]
        assert row["prior"] == pytest.approx(golden[key]["prior"])
        assert row["detectable"] == pytest.approx(golden[key]["detectable"]) == detectable(figure_of(row))


@pytest.mark.parametrize("row", DIFFERENT, ids=name_of)
def test_leaks_of_the_printed_size_are_caught(row: Row) -> None:
    """At this number of independent units and this prior, in 97 of 100 audits, and a smaller one is not."""
    plant, exact, prior = independent_units(row), row["arms"] is None, row["prior"]
    assert caught(audited(plant, row["detectable"]), prior, exact=exact) >= CAUGHT
    assert caught(audited(plant, prior + 0.6 * (row["detectable"] - prior)), prior, exact=exact) < CAUGHT


@pytest.mark.parametrize("row", DIFFERENT, ids=name_of)
def test_intervals_of_independent_units_cover(row: Row) -> None:
    """At this number of units, whatever the truth: next to nothing, the printed size, and nearly all. No sampling."""
    for truth in (0.003, row["detectable"], 0.9):
        assert exact_coverage(row, truth) >= 0.94


@pytest.fixture(scope="module")
def cora(data_root: Path) -> FederatedGraph:  # noqa: ARG001  # sets up a cache of its own
    """As the audit has it."""
    return Data("Cora").load(0)


@pytest.mark.parametrize("kind", FAMILIES)
def test_planted_on_cora_itself(cora: FederatedGraph, kind: str) -> None:
    """With the dependence that Cora has: the printed size is caught, and intervals cover a leak of that size."""
    plant = FAMILIES[kind](cora)
    figure = silent(plant)
    size = detectable(figure)
    assert size < 0.2
    found = audited(plant, size)
    assert caught(found, 0.0, exact=figure.exact) >= CAUGHT
    assert covered(found, size) >= COVERED


def test_every_kind_of_interval_of_the_audit_is_planted() -> None:
    """What is not independent is planted on the graph itself."""
    assert {row["kind"] for row in ROWS} == {"exact_proportion", *FAMILIES}


def test_the_old_rule_would_fail(cora: FederatedGraph) -> None:
    """Promises from n alone, as they once were, and intervals that count messages in place of senders, are refused."""
    row = next(row for row in ROWS if row["attack"] == "shared-mask")
    assert caught(audited(independent_units(row), 0.03), row["prior"], exact=True) < CAUGHT
    plant = senders(cora)

    def naive(rng: Rng, rate: float) -> Proportion:
        found, messages = plant(rng, rate), cora.edges.shape[1]
        return replace(found, interval=wilson_interval(found.value * messages, messages), n=messages)

    assert covered(audited(naive, 0.3), 0.3) < COVERED
