"""An audit under several seeds: the report of each, and means over seeds with their intervals.

from fgl_secure import audit_seeds
from fgl_secure.methods import FedAvg

reports = audit_seeds(FedAvg(epochs=5), "digits", ["plaintext", "pairwise-masking"], seeds=5, runs="runs.jsonl")
reports.to_dataframe().to_latex("findings.tex")
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

import numpy as np
from scipy.special import stdtrit

from fgl_secure.auditing.audit import ALL, audit, chosen_attacks
from fgl_secure.auditing.method import SEEDS, Method, Source, several
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report, dataframe, write_files
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.ledger import Key, LedgerEntry, Run, RunLedger, Watch, complete_runs, provenance
from fgl_secure.schemes import Assignment
from fgl_secure.training.loop import Progress

COLUMNS = ("method", "attack", "view", "metric", "protocol", "seeds", "mean", "deviation", "ci95_low", "ci95_high",
           "baseline", "violations")  # fmt: skip
"""Of a table over seeds."""


@dataclass(frozen=True, slots=True, repr=False)
class SeedReports:
    """What audits of one setting under several seeds found.

    Attributes:
        reports: one per seed, in the order of the seeds.
    """

    reports: tuple[Report, ...]

    @property
    def violations(self) -> tuple[Record, ...]:
        """The findings that violate a guarantee, of all seeds; each has its seed."""
        return tuple(record for report in self.reports for record in report.violations)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per attack, view, metric and protocol, with the names in `COLUMNS`.

        `seeds` counts the runs in which the figure was measured, and `violations` those in which it violates a
        guarantee. `mean`, `deviation` (of a sample) and the 95 % interval of the mean are over these seeds. The
        interval is Student's, which assumes roughly normal figures, within the range [-1, 1] of figures. One seed has
        neither deviation nor interval.
        """
        by_finding: dict[tuple[str, ...], list[Record]] = {}
        for report in self.reports:
            for record in report.records:
                if record.verdict.is_measured:
                    key = (str(report.run["method"]), record.attack, record.view, record.metric, record.protocol)
                    by_finding.setdefault(key, []).append(record)
        return [_row(key, records) for key, records in by_finding.items()]

    def to_dataframe(self) -> Any:  # pandas is optional
        """Return `rows` as a `pandas.DataFrame`, from which `to_csv` and `to_latex` make tables.

        Raises:
            InputError: pandas is not installed.
        """
        return dataframe(self.rows(), COLUMNS)

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Write `seeds.csv` and, per seed, a folder `seed-S` with its report.

        Returns:
            The paths, that of `seeds.csv` first.

        Raises:
            InputError: a folder is a file, cannot be made or cannot be written to.
        """
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows())
        paths = write_files(folder, {"seeds.csv": text.getvalue()})
        return paths + tuple(
            path for report in self.reports for path in report.write(Path(folder) / f"seed-{report.run['seed']}")
        )

    def __repr__(self) -> str:
        seeds = ", ".join(str(report.run["seed"]) for report in self.reports)
        return f"SeedReports(seeds {seeds}: {len(self.violations)} findings violate a guarantee)"


def _row(key: Sequence[str], records: Sequence[Record]) -> dict[str, Any]:
    values = [record.value for record in records]
    mean, n = fmean(values), len(values)
    deviation = stdev(values) if n > 1 else None
    half = None if deviation is None else float(stdtrit(n - 1, 0.975)) * deviation / sqrt(n)
    ends = (None, None) if half is None else (max(mean - half, -1.0), min(mean + half, 1.0))
    baseline = fmean(record.prior for record in records)
    violations = sum(record.violates_guarantee for record in records)
    return dict(zip(COLUMNS, (*key, n, mean, deviation, *ends, baseline, violations), strict=True))


def audit_each_seed(
    method: Method,
    data: Mapping[int, Source | str | None],
    schemes: Iterable[str | Assignment] | str | Assignment = (),
    attacks: Iterable[str] | str = ALL,
    *,
    device: str = "auto",
    command: Callable[[int], str] = str,
    runs: Path | None = None,
    watch: Watch | None = None,
    progress: Callable[[str], Progress] | None = None,
    thorough: bool = False,
) -> SeedReports:
    """Audit a method once per seed; see `fgl_secure.audit_seeds`.

    Args:
        method: as in `fgl_secure.auditing.audit.audit`.
        data: by seed, as there.
        schemes: as there.
        attacks: as there.
        device: as there.
        command: given a seed, how to repeat its audit, for the report.
        runs: file to which each finished seed is added, and from which equal ones are taken; None keeps nothing.
        watch: notified before and after each seed.
        progress: as there.
        thorough: as there.

    Returns:
        The reports, one per seed.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran.
    """
    named, wanted = several("schemes", schemes), chosen_attacks(attacks)
    ledger, jobs = RunLedger(runs), []
    for seed, source in data.items():
        plan = method.plan(source, named, seed=seed, device=device)  # all choices are checked before a first run
        key = {"of": "audit", **data_facts(plan.graph), "seed": seed, "device": device,
               "attacks": [item.card.name for item in wanted], "schemes": [item.name for item in plan.subjects],
               "thorough": thorough,
               **method_options(method), **provenance()}  # fmt: skip
        work = partial(_audit_to_json, method, source, named, attacks, seed=seed, device=device, command=command(seed),
                       progress=progress, thorough=thorough)  # fmt: skip
        jobs.append(Run(key, f"{method.title}, seed {seed}", (method.name,), work))
    entries = complete_runs(jobs, ledger, watch)
    if ledger.error is not None:
        raise ledger.error
    return SeedReports(tuple(Report.from_json(cast("dict[str, Any]", entry.found)) for entry in entries))


def _audit_to_json(*choices: Any, **rest: Any) -> object:
    return audit(*choices, **rest).to_json()


def checked_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return seeds 0 to n - 1 of a number n, or those that are given, each once.

    Raises:
        InputError: there is none, one is there twice, or one is no integer in 0..2^63 - 1.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        chosen = list(range(seeds))
    elif isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes):
        chosen = list(seeds)
    else:
        raise InputError(f"seeds must be a number or a list of integers; found {seeds!r}")
    invalid = next((seed for seed in chosen if type(seed) is not int or not 0 <= seed < SEEDS), None)
    if invalid is not None:
        raise InputError(f"seeds must be integers in 0..2^63 - 1; found {invalid!r}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"seeds must be at least one, each once; found {chosen}")
    return chosen


def data_facts(source: FederatedGraph) -> Key:
    """Return what data are, with a digest: a file or a caller's arrays may change under the same name."""
    graph = source.graph
    arrays = (graph.features, graph.edges, graph.labels, source.silo_of, source.train_mask)
    digest = sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]
    return {"dataset": graph.name, "partition": source.partition, "silos": source.num_silos, "digest": digest}


def method_options(method: Method) -> Mapping[str, object]:
    """Return a method's choices as JSON values by name, for a key of finished runs."""
    options = {option.name: getattr(method, option.name) for option in fields(cast(Any, method))}
    plain = bool | int | float | str | None
    return {"method": method.name} | {
        name: value if isinstance(value, plain) else repr(value) for name, value in options.items()
    }


def describe_entry(entry: LedgerEntry) -> str:
    """Return what one seed came to, on one line."""
    records = cast("Mapping[str, Any]", entry.found)["records"]
    return f"{len(records)} findings, {sum(record['violates_guarantee'] for record in records)} violate a guarantee"
