"""Audits under several seeds: means, intervals, tables and runs that go on."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from fgl_secure import audit, audit_seeds
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.errors import InputError
from fgl_secure.methods import FedAvg
from fgl_secure.methods.seeds import COLUMNS, SeedReports
from fgl_secure.statistics.metrics import Interval
from tests.auditing.samples import RECORD, REPORT
from tests.error_codes import about
from tests.graphs import two_communities

VALUES = (0.5, 0.75, 0.25, 0.9)
ATTACKS = ["gradient-labels"]


def of_values(*values: float) -> SeedReports:
    """One finding per seed, the last of which violates nothing."""
    records = [replace(RECORD, value=value, prior=value / 2, ci95=Interval(0.0, 1.0)) for value in values]
    records[-1] = replace(records[-1], violates_guarantee=False, claim="")
    unmeasured = replace(records[0], metric="other", verdict=Verdict.CONTEXT, violates_guarantee=False, claim="")
    return SeedReports(
        tuple(
            replace(REPORT, run={**REPORT.run, "method": "m", "seed": seed}, records=(record, unmeasured))
            for seed, record in enumerate(records)
        )
    )


def test_means_have_student_intervals() -> None:
    """Against scipy's distribution; findings that were not measured are left out."""
    (row,) = of_values(*VALUES).rows()
    low, high = stats.t.interval(0.95, 3, sum(VALUES) / 4, stats.sem(VALUES))
    assert (row["ci95_low"], row["ci95_high"]) == pytest.approx((low, min(high, 1)))
    assert row["deviation"] == pytest.approx(stats.tstd(VALUES))
    assert (row["seeds"], row["mean"], row["baseline"], row["violations"]) == pytest.approx((4, 0.6, 0.3, 3))


def test_one_seed_has_no_interval() -> None:
    (row,) = of_values(0.5).rows()
    assert row["mean"] == 0.5
    assert row["deviation"] is row["ci95_low"] is row["ci95_high"] is None


def test_intervals_stay_in_the_range_of_figures() -> None:
    (row,) = of_values(0.0, 1.0).rows()
    assert (row["ci95_low"], row["ci95_high"]) == (-1, 1)


def test_tables_are_written(tmp_path: Path) -> None:
    """A table over seeds, and each seed's report in its folder."""
    written = of_values(*VALUES).write(tmp_path)
    assert {path.parent.name for path in written[1:]} == {f"seed-{seed}" for seed in range(4)}
    with written[0].open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert tuple(row) == COLUMNS
    assert float(row["mean"]) == pytest.approx(0.6)
    assert of_values(*VALUES).to_dataframe()["mean"].tolist() == pytest.approx([0.6])


def test_finished_seeds_are_not_run_again(tmp_path: Path) -> None:
    """Reports are those of single audits; a later call runs the seeds that are missing alone."""
    done: list[str] = []

    def watch(phase: str) -> Any:
        done.append(phase)
        return lambda _step, _most: None

    choices: dict[str, Any] = {"runs": tmp_path / "runs.jsonl", "progress": watch}
    first = audit_seeds(FedAvg(epochs=1), two_communities(), "pairwise-masking", ATTACKS, seeds=[4], **choices)
    phases = len(done)
    both = audit_seeds(FedAvg(epochs=1), two_communities(), "pairwise-masking", ATTACKS, seeds=[4, 5], **choices)
    assert len(done) == 2 * phases
    assert [report.run["seed"] for report in both.reports] == [4, 5]
    assert both.reports[0].to_json() == first.reports[0].to_json()
    single = audit(FedAvg(epochs=1), two_communities(), "pairwise-masking", ATTACKS, seed=5, progress=False)
    assert both.reports[1].records == single.records


@pytest.mark.parametrize("seeds", [0, -1, True, 1.5, "3", [], [1, 1], [-1], [0.5], [2**63]])
def test_seeds_that_are_none_are_refused(seeds: Any) -> None:
    with pytest.raises(InputError, check=about("seeds")):
        audit_seeds(FedAvg(epochs=1), seeds=seeds)
