"""Training runs and comparisons of methods, for people."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rich import box
from rich.console import Console
from rich.table import Table

from fgl_secure.auditing.wording import Score, bytes_text, figure

if TYPE_CHECKING:
    from fgl_secure.auditing.privacy_cost import PrivacyCost
    from fgl_secure.auditing.train import TrainedRun
    from fgl_secure.ledger import LedgerEntry
    from fgl_secure.methods.comparison import MethodComparison
    from fgl_secure.methods.seeds import SeedReports
    from fgl_secure.training.loop import TrainingResult

_WIDTH = 120
"""Columns where the output is not a terminal."""
_STYLES = {"violated": "red", "found": "yellow", "quiet": "default"}
_RIGHT = (2, 3, 4, 7)


def describe(run: TrainedRun) -> str:
    """The figures of a training run."""
    plan, result = run.plan, run.result
    graph, accuracy, transcript = plan.graph, result.accuracy, result.transcript
    format_score = _percent if plan.score is Score.ACCURACY else _value
    per_silo = "  ".join(format_score(share) for share in accuracy.per_silo) or "known to each silo alone"
    rows = {
        "method": f"{plan.method}, {plan.backbone}, {plan.preset} preset",
        "graph": f"{graph.graph.name}, {graph.num_devices:,} devices, "
        f"{plan.messages:,} messages a layer, "
        f"{graph.num_silos} silos ({graph.partition})",
        "scheme": run.scheme,
        "test accuracy"
        if plan.score is Score.ACCURACY
        else "test error": f"{format_score(accuracy.test)} {plan.averaged}",
        "per silo": per_silo,
        "validation": format_score(accuracy.validation),
        "rounds": f"{result.rounds}, reported is round {result.selected_round}, {plan.chosen_on}",
        "messages": _format_count(transcript.message_count),
        "bytes": _format_count(transcript.byte_count),
        "seconds": f"{result.seconds:.2f}, {result.seconds_per_round:.4f} a round (median), on {plan.device}",
    }
    rows |= {} if run.privacy is None else _privacy_rows(run.privacy, result)
    rows |= {"hosted devices": "; ".join(run.hosted)} if run.hosted else {}
    return "\n".join(f"{name:<14} {text}" for name, text in rows.items())


def _privacy_rows(cost: PrivacyCost, result: TrainingResult) -> dict[str, str]:
    bound, one_run = cost.measured.bound, cost.measured.one_run
    also = "" if one_run is None else f"; at least {one_run.epsilon:.3f} ({one_run.method}, {one_run.n} canaries)"
    accuracy_loss = (cost.accuracy_without or 0.0) - (result.accuracy.test or 0.0)
    times = f"over {cost.releases} release{'' if cost.releases == 1 else 's'}"
    without, alone = cost.accuracy_without_features, cost.accuracy_without_edges
    baseline = "" if without is None else f"; {_percent(without)} without features (epsilon 0)"
    baseline += "" if alone is None else f"; {_percent(alone)} without edges"
    stopped = "; training stopped when it was spent" if result.budget_spent else ""
    return {
        "privacy": f"epsilon {cost.measured.claimed:.3f} at delta {cost.delta:g} of {cost.relation}, "
        f"{times}, by {cost.measured.accountant}{stopped}",
        "measured": f"epsilon is at least {bound.epsilon:.3f} ({bound.method}, {bound.n} canaries, "
        f"{bound.confidence:.0%} confidence){also}",
        "price": f"{100 * accuracy_loss:.2f} points of test accuracy; "
        f"{_percent(cost.accuracy_without)} without noise{baseline}",
    }


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.2%}"


def _format_count(number: int) -> str:
    """There is no run without messages, but there are runs whose messages no party has in full."""
    return f"{number:,}" if number else "not counted"


def _value(error: float | None) -> str:
    return "not measured" if error is None else f"{error:.4g}"


def describe_comparison(comparison: MethodComparison) -> str:
    """Title, table, what was left out and why; colours only on a terminal."""
    from fgl_secure.methods.comparison import columns, rows, summary, title

    tty, buffer = Console(), io.StringIO()
    console = Console(file=buffer, force_terminal=tty.is_terminal, width=tty.width if tty.is_terminal else _WIDTH)
    console.print(title(comparison), style="bold", markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for index, heading in enumerate(columns(comparison)):
        table.add_column(heading, justify="right" if index in _RIGHT else "left", overflow="fold")
    for tone, cells in rows(comparison):
        table.add_row(*(cell.replace("[", "\\[") for cell in cells), style=_STYLES[tone])
    console.print(table)
    console.print(summary(comparison), markup=False, highlight=False)
    for item in comparison.left_out:
        console.print(f"{item.title} is left out: {item.reason}.", markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def describe_seeds(reports: SeedReports) -> str:
    """Return the table over seeds: means with their 95 % intervals, and violations."""
    tty, buffer = Console(), io.StringIO()
    console = Console(file=buffer, force_terminal=tty.is_terminal, width=tty.width if tty.is_terminal else _WIDTH)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    headings = ("attack", "metric", "scheme", "seeds", "mean", "95 % interval", "baseline", "violations")
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index < 3 else "right", overflow="fold")
    for row in reports.rows():
        ends = "" if row["ci95_low"] is None else f"[{row['ci95_low']:.3f}, {row['ci95_high']:.3f}]"
        cells = (row["attack"], row["metric"], row["protocol"], row["seeds"], f"{row['mean']:.3f}", ends,
                 f"{row['baseline']:.3f}", row["violations"] or "")  # fmt: skip
        style = _STYLES["violated" if row["violations"] else "quiet"]
        table.add_row(*(str(cell).replace("[", "\\[") for cell in cells), style=style)
    console.print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def describe_entry(entry: LedgerEntry) -> str:
    """What one run came to, on one line."""
    result = cast("Mapping[str, Any]", entry.found)
    if "refused" in result:
        return f"left out, {result['refused']}"
    return "; ".join(
        f"{side['scheme']} {figure(side['score'])}, {bytes_text(side['bytes'])}" for side in result["sides"]
    )
