"""Methods side by side on one data set: in plaintext and under one scheme, what each reaches, costs and shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, cast

from fgl_secure import __version__
from fgl_secure.auditing import Report
from fgl_secure.auditing.audit import chosen_attacks, examine
from fgl_secure.auditing.html import environment
from fgl_secure.auditing.matrix import State
from fgl_secure.auditing.method import Method, Source
from fgl_secure.auditing.report import write_files
from fgl_secure.auditing.tables import UnderScheme, groups
from fgl_secure.auditing.wording import DASH, Score, bytes_text, figure, score_text, seconds_text
from fgl_secure.errors import FglSecureError, InputError
from fgl_secure.graph import Data, FederatedGraph
from fgl_secure.graph.data import GraphSets
from fgl_secure.graph.datasets import GraphSetDataset, find_dataset
from fgl_secure.host import library_settings
from fgl_secure.ledger import Key, LedgerEntry, Run, RunLedger, Watch, complete_runs, provenance
from fgl_secure.methods import method as method_of
from fgl_secure.methods import names
from fgl_secure.methods.seeds import checked_seeds, data_facts, method_options
from fgl_secure.schemes import TOPOLOGIES, assignment
from fgl_secure.threads import one_thread
from fgl_secure.training.loop import Progress, compute_device

CLEAR = "plaintext"

SECURED = ("relay-coded", "pairwise-masking")
"""Where no scheme is named: relays where sums are for clients or devices, masks that cancel where they are for the
server."""

TONES = ("violated", "found", "quiet")
"""The outcome of an attack, the worst first: it violates a guarantee, it recovered something, it recovered nothing."""


@dataclass(frozen=True, slots=True)
class AttackReading:
    """What one attack recovered under one scheme, in the seed and circumstance in which it did worst damage.

    Attributes:
        attack: its name.
        scheme: of the run, with what was special about it in brackets behind.
        metric: what is measured.
        value: the figure; 0 is nothing and 1 everything.
        low: lower end of its 95 % interval.
        high: upper end.
        prior: the figure of the best guess without having seen anything.
        n: units behind the figure, such as rows that were claimed.
        verdict: what the figure says.
        tone: one of `TONES`.
        seed: of the run.
    """

    attack: str
    scheme: str
    metric: str
    value: float
    low: float
    high: float
    prior: float
    n: int
    verdict: str
    tone: str
    seed: int

    @property
    def rank(self) -> tuple[int, float]:
        """The order of readings: violated guarantees first, then the largest excess over the prior."""
        return TONES.index(self.tone), self.prior - self.value


@dataclass(frozen=True, slots=True)
class _MethodUnderScheme:
    """A method under one scheme.

    Attributes:
        scheme: what it ran under.
        scores: on test data at the selected round, one a seed: fractions of right answers, or mean absolute errors.
        bytes: everything that was sent in a run, mean over seeds.
        seconds: of training, mean over seeds.
        readings: one for each attack that could read the run, the worst first.
        not_attacked: roles of parties that received messages, and from whose view no attack read the run.
    """

    scheme: str
    scores: tuple[float, ...]
    bytes: float
    seconds: float
    readings: tuple[AttackReading, ...]
    not_attacked: tuple[str, ...]

    @property
    def score(self) -> float:
        """The mean over seeds."""
        return fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """The sample standard deviation over seeds; None of one."""
        return stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def worst(self) -> AttackReading | None:
        """The first reading that recovered something; None if there is none."""
        return next((reading for reading in self.readings if reading.tone != "quiet"), None)

    @property
    def worst_excess(self) -> float:
        """How far the worst reading exceeds its prior, 0 if there is none."""
        return 0.0 if self.worst is None else max(self.worst.value - self.worst.prior, 0.0)


@dataclass(frozen=True, slots=True)
class _Line:
    """One method.

    Attributes:
        name: of the method.
        title: as its paper calls it.
        score: what its scores are.
        clear: in plaintext, as published.
        secured: under a scheme; None where that was the plain sum itself.
    """

    name: str
    title: str
    score: Score
    clear: _MethodUnderScheme
    secured: _MethodUnderScheme | None

    @property
    def sides(self) -> tuple[_MethodUnderScheme, ...]:
        """Both, the one in plaintext first."""
        return (self.clear,) if self.secured is None else (self.clear, self.secured)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """A method that doesn't fit.

    Attributes:
        name: of the method.
        title: as its paper calls it.
        reason: why, a sentence.
    """

    name: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class MethodComparison:
    """Methods on one data set.

    Attributes:
        run: the data set, its partition, seeds, version, and how to repeat it: JSON values.
        lines: one a method that fits.
        left_out: the others.
    """

    run: Mapping[str, Any]
    lines: tuple[_Line, ...]
    left_out: tuple[_LeftOut, ...]

    @property
    def violations(self) -> tuple[AttackReading, ...]:
        """Return the readings that violate a guarantee of a chosen scheme; unprotected runs only compare."""
        return tuple(r for line in self.lines for r in line.sides[-1].readings if r.tone == "violated")

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON values: scores are fractions or errors, times seconds."""
        return {
            "run": dict(self.run),
            "methods": [asdict(line) for line in self.lines],
            "left_out": [asdict(item) for item in self.left_out],
        }

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Writes compare.html, compare.json and compare.md into a folder, all or none; gives their paths.

        Raises:
            InputError: the folder can't be made or written to.
        """
        text = json.dumps(self.as_json(), ensure_ascii=False, indent=2) + "\n"
        texts = {"compare.html": render_html(self), "compare.json": text, "compare.md": render_markdown(self)}
        return write_files(folder, texts)

    def _repr_html_(self) -> str:
        """The table, as notebooks show it."""
        return _render(self, "compare_table.html.j2")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(line.title for line in self.lines)} on {self.run['dataset']})"


@library_settings()
@one_thread()
def compare(
    data: Source | str | None = None,
    schemes: Sequence[str] = SECURED,
    methods: Sequence[Method] = (),
    attacks: Sequence[str] = (),
    *,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    device: str = "auto",
    command: str = "",
    ledger: RunLedger | None = None,
    watch: Watch | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> MethodComparison:
    """Audits methods on one data set, each in plaintext and secured.

        from fgl_secure.methods.comparison import compare

        comparison = compare("digits", epochs=5)
        comparison.write("comparison")

    Args:
        data: name of a data set or path of a graph, a configuration such as `Data`, or a graph of the caller's own;
            None takes one that needs no download.
        schemes: each method runs under the first of them that serves it.
        methods: with their choices; all methods that there are, with their defaults, when empty.
        attacks: names; all that can read the runs when empty.
        seeds: of partition, split, initial weights and coins, one run of each method for each.
        epochs: most training rounds; None takes those of each method.
        device: where model compute runs: "auto", "cpu" or "cuda".
        command: how to repeat it, for the page.
        ledger: where finished runs are kept; those that are there aren't run again.
        watch: is told of each run.
        progress: given what is being done, in words, what to call after each step of it.

    Returns:
        The comparison, which `write` renders as a page.

    Raises:
        FglSecureError: a name doesn't exist or the data can't be loaded, before anything ran; or no method fits.
    """
    source = source_of(data)
    # Raises where a choice is none that there is.
    for text in schemes:
        assignment(text, tuple(TOPOLOGIES))
    chosen_attacks(attacks)
    if not schemes:
        raise InputError("schemes must be at least one; found none")
    checked_seeds(seeds)
    compute_device(device)
    known = {seed: _facts(source, seed) for seed in seeds}
    selection = [_with_epochs(item, epochs) for item in methods or [method_of(name)() for name in names()]]
    left, runs, fitting = list[_LeftOut](), list[Run](), list[Method]()
    for method in selection:
        try:
            scheme = fitting_scheme(method, source, schemes)
        except InputError as error:
            left.append(_LeftOut(method.name, method.title, str(error)))
            continue
        fitting.append(method)
        for seed in seeds:
            work = partial(_run_audit, method, source, scheme, tuple(attacks), seed, device, progress)
            runs.append(_run(method, scheme, tuple(attacks), seed, device, known[seed], work))
    if not runs:
        raise InputError(f"data must fit some method; {left[0].name} and all others don't: {left[0].reason}")
    lines, refused = _gather_lines(fitting, seeds, iter(complete_runs(runs, ledger or RunLedger(), watch)))
    left += refused
    if not lines:
        raise InputError(f"data must fit some method; {left[-1].name} and all others don't: {left[-1].reason}")
    facts = {key: value for key, value in known[seeds[0]].items() if key != "digest"}
    run = {**facts, "seeds": list(seeds), "epochs": epochs, "schemes": list(schemes), "attacks": list(attacks),
           "version": __version__, "command": command}  # fmt: skip
    return MethodComparison(run, tuple(lines), tuple(left))


def _gather_lines(
    methods: Sequence[Method], seeds: Sequence[int], entries: Iterator[LedgerEntry]
) -> tuple[list[_Line], list[_LeftOut]]:
    """A line for each method that could be run, of its runs under all seeds; and the others, with the reason."""
    lines, left = list[_Line](), list[_LeftOut]()
    for method in methods:
        founds = [cast("Mapping[str, Any]", next(entries).found) for _ in seeds]
        refused = next((result["refused"] for result in founds if "refused" in result), None)
        if refused is None:
            clear = side_of(founds, 0)
            assert clear is not None, "every audit has a run in the clear"
            lines.append(_Line(method.name, method.title, Score(founds[0]["score"]), clear, side_of(founds, 1)))
        else:
            left.append(_LeftOut(method.name, method.title, refused))
    return lines, left


def source_of(data: Source | str | None, root: Path | None = None) -> Source:
    """The data that a name stands for: one graph that is dealt to silos, or a set of many small ones.

    Args:
        data: a name, or data that are left as they are.
        root: folder of the raw data sets; None takes the environment's.
    """
    if data is None:
        return Data()
    if isinstance(data, str):
        return GraphSets(data, root) if isinstance(find_dataset(data), GraphSetDataset) else Data(data, root=root)
    return data


def fitting_scheme(method: Method, source: Source, schemes: Sequence[str]) -> str:
    """The first of some schemes that serves a method.

    Raises:
        InputError: none does, or the method is for other data; the message says why.
    """
    data_kinds: tuple[type, ...] = (Data, FederatedGraph) if method.data is Data else (method.data,)
    if not isinstance(source, data_kinds):
        needs = "one graph that is dealt to silos" if method.data is Data else "a set of many small graphs"
        raise InputError(f"data must be {needs} for {method.title}")
    refusals = []
    for text in schemes:
        try:
            assignment(text, method.topologies, method.usual)
        except InputError as error:
            refusals.append(error)
        else:
            return text
    raise refusals[0]


def _with_epochs(method: Method, epochs: int | None) -> Method:
    """The method with so many rounds, where it is one that says how many."""
    known = {field.name for field in fields(cast(Any, method))}
    return method if epochs is None or "epochs" not in known else replace(cast(Any, method), epochs=epochs)


def _facts(source: Source, seed: int) -> Key:
    """What the data are; see `data_facts`."""
    if isinstance(source, GraphSets):
        return {"dataset": source.load(seed).name, "partition": "as drawn"}
    graph = source if isinstance(source, FederatedGraph) else source.load(seed)
    if not graph.test_mask.any():
        raise InputError("masks.test must mark at least one node, methods are compared on test nodes; found none")
    return data_facts(graph)


def _run(
    method: Method,
    scheme: str,
    attacks: tuple[str, ...],
    seed: int,
    device: str,
    facts: Mapping[str, object],
    work: Callable[[], object],
) -> Run:
    key = {"of": "compare", **facts, "seed": seed, "scheme": scheme, "attacks": list(attacks), "device": device,
           **method_options(method), **provenance()}  # fmt: skip
    return Run(key, f"{method.title} on {facts['dataset']}, {scheme}, seed {seed}", (method.name, scheme), work)


def _run_audit(
    method: Method,
    source: Source,
    scheme: str,
    attacks: tuple[str, ...],
    seed: int,
    device: str,
    progress: Callable[[str], Progress] | None,
) -> dict[str, object]:
    """What one audit came to; why, where the method can't be run on these data."""
    try:
        plan = method.plan(source, (CLEAR, scheme), seed=seed, device=device)
        report = examine(plan, chosen_attacks(attacks), progress=progress)
    except FglSecureError as error:
        return {"refused": f"{error}{'' if seed == 0 else f' (seed {seed})'}"}
    accuracy, cost = _of(report.accuracy), _of(report.cost)
    sides = [
        {
            "scheme": name,
            "score": float(accuracy[name]["test"]),
            "bytes": int(cost[name]["bytes"] or 0),
            "seconds": float(cost[name]["seconds"]),
            "readings": [asdict(reading) for reading in _readings(report, name, seed)],
            "not_attacked": _not_attacked(report, name),
        }
        for name in accuracy
    ]
    return {"score": str(report.score), "sides": sides}


def _of(part: Any) -> dict[str, dict[str, Any]]:
    return dict(part["protocols"])


def _not_attacked(report: Report, name: str) -> list[str]:
    """Return the roles that received messages in a run, less those from whose view an attack read it.

    An attack that met no message that it could read has read the view all the same.
    """
    receivers = {item.receiver_role for item in report.exposures if item.protocol == name}
    measured = {item.attack for item in report.records if _belongs(item.protocol, name) and item.verdict.is_measured}
    attacks = cast("Mapping[str, Mapping[str, Any]]", report.attacks)
    observers = {str(about["observer"]) for attack, about in attacks.items() if attack in measured}
    unread = {cell.role for cell in report.matrix if cell.scheme == name and cell.state is State.NOT_APPLICABLE}
    return sorted(receivers - observers - unread)


def _readings(report: Report, name: str, seed: int) -> Iterator[AttackReading]:
    """Of each attack that could read the runs under a scheme, those in special circumstances included, the worst."""
    for group in groups(report):
        for entry in (*group.told, *group.quiet):
            entries = [under for under in entry.schemes if _belongs(under.scheme, name) and under.tone in TONES]
            result = [_reading(under, seed) for under in entries]
            if result:
                yield min(result, key=lambda item: item.rank)


def _belongs(scheme: str, name: str) -> bool:
    return scheme == name or scheme.startswith(f"{name}[")


def _reading(under: UnderScheme, seed: int) -> AttackReading:
    record = under.headline
    return AttackReading(
        record.attack,
        under.scheme,
        record.metric,
        record.value,
        record.ci95.low,
        record.ci95.high,
        record.prior,
        record.n,
        str(record.verdict),
        under.tone,
        seed,
    )


def side_of(founds: Sequence[Mapping[str, Any]], index: int) -> _MethodUnderScheme | None:
    """One side over all seeds.

    Args:
        founds: of each seed what its run came to.
        index: 0 in plaintext, 1 secured.
    """
    if any(len(result["sides"]) <= index for result in founds):
        return None
    sides = [result["sides"][index] for result in founds]
    readings: dict[str, AttackReading] = {}
    for reading in (AttackReading(**item) for side in sides for item in side["readings"]):
        known = readings.setdefault(reading.attack, reading)
        if reading.rank < known.rank:
            readings[reading.attack] = reading
    return _MethodUnderScheme(
        sides[0]["scheme"],
        tuple(side["score"] for side in sides),
        fmean(side["bytes"] for side in sides),
        fmean(side["seconds"] for side in sides),
        tuple(sorted(readings.values(), key=lambda item: item.rank)),
        tuple(sorted({role for side in sides for role in side["not_attacked"]})),
    )


COLUMNS = ("method", "scheme", "{score}", "sent", "time", "worst finding", "by attack", "baseline", "not attacked")


def render_html(comparison: MethodComparison) -> str:
    """The whole page as text; it loads nothing from outside itself."""
    run = comparison.run
    known = [(key, run.get(key)) for key in ("dataset", "partition", "silos", "epochs", "version")]
    subject = [*((key, str(value)) for key, value in known if value not in (None, ""))]
    subject.append(("seeds", ", ".join(map(str, run["seeds"])) or DASH))
    return _render(comparison, "compare.html.j2", summary=summary(comparison), subject=subject, command=run["command"])


def _render(comparison: MethodComparison, template: str, **rest: object) -> str:
    named = {"title": title(comparison), "columns": columns(comparison), "table": rows(comparison)}
    return environment().get_template(template).render(**named, left_out=comparison.left_out, **rest)


def render_markdown(comparison: MethodComparison) -> str:
    """The table, what was left out, and how to repeat it, for a pull request."""
    lines = [columns(comparison), ["---"] * len(COLUMNS), *(cells for _, cells in rows(comparison))]
    table = ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |" for cells in lines]
    left = [f"- {item.title} is left out: {item.reason}." for item in comparison.left_out]
    command = comparison.run["command"]
    repeat = ["", f"Repeat it: `{command}`"] if command else []
    return (
        "\n".join([f"# {title(comparison)}", "", summary(comparison), "", *table, "", *left, *repeat]).rstrip() + "\n"
    )


def title(comparison: MethodComparison) -> str:
    """The page's title."""
    return f"Methods on {comparison.run['dataset']}, unprotected and secured"


def summary(comparison: MethodComparison) -> str:
    """How many methods fit, what violates guarantees, and what was not attacked, in two sentences."""
    count, chosen = len(comparison.lines), [line.sides[-1] for line in comparison.lines]
    fell, read = len(comparison.violations), sum(side.worst is not None for side in chosen)
    open_ = sum(bool(side.not_attacked) for side in chosen)
    promises = f"{fell} findings violate" if fell > 1 else f"{'One' if fell else 'No'} finding violates"
    return (
        f"{count} of {count + len(comparison.left_out)} methods fit. {promises} a guarantee of a secured run; "
        f"attacks recovered something from {read} of {len(chosen)} secured runs; in {open_} of them parties of some "
        "role received messages and were not attacked."
    )


def columns(comparison: MethodComparison) -> list[str]:
    """Headings of the table."""
    scores = {str(line.score) for line in comparison.lines}
    return [item.format(score=" or ".join(sorted(scores)) or "score") for item in COLUMNS]


def rows(comparison: MethodComparison) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The lines of the table, two a method, each with its tone."""
    return tuple(
        (
            ("quiet" if side.worst is None else side.worst.tone),
            (
                line.title if not i else "",
                side.scheme,
                _score(line, side),
                bytes_text(side.bytes or None),
                seconds_text(side.seconds),
                *_worst(side),
                ", ".join(side.not_attacked),
            ),
        )
        for line in comparison.lines
        for i, side in enumerate(line.sides)
    )


def _score(line: _Line, side: _MethodUnderScheme) -> str:
    more = "" if side.deviation is None else f" ± {score_text(line.score, side.deviation)}"
    return score_text(line.score, side.score) + more


def _worst(side: _MethodUnderScheme) -> tuple[str, str, str]:
    """The worst reading, its attack and its prior; without one, whether attacks read the run and found nothing."""
    reading = side.worst
    if reading is None:
        return "nothing found" if side.readings else "not attacked", "", ""
    broken = ", violates the guarantee" if reading.tone == "violated" else ""
    return f"{figure(reading.value)} {reading.metric}{broken}", reading.attack, figure(reading.prior)
