"""A report as rows: promises by scheme, findings by what was read, scores, costs and who saw what.

Terminal, page, Markdown and JUnit's XML all show these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from fgl_secure.auditing import wording
from fgl_secure.auditing.matrix import Cell, State
from fgl_secure.runtime import SecretKind

if TYPE_CHECKING:
    from fgl_secure.auditing.records import Json, Record
    from fgl_secure.auditing.report import Report

MEANING: Mapping[State, str] = MappingProxyType({
    State.VIOLATED: "an attack recovered, or a game distinguished, what the scheme guarantees to hide",
    State.DECLARED: "the scheme declares this leakage; the figure is what an attack reached",
    State.NOT_VIOLATED: "guaranteed, and attacks and games that could have violated it did not",
    State.NOT_APPLICABLE: "guaranteed, and in a game no message reached these parties",
    State.NOT_TESTED: "guaranteed, and no attack or game here could have violated it",
    State.NO_GUARANTEE: "nothing is guaranteed; the figure is what an attack reached",
})  # fmt: skip

_EXAMPLES = 4
"""Names of attacks in one cell; the rest is counted."""


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One promise under each scheme.

    Attributes:
        secret: what may be hidden, in full.
        role: from whom.
        cells: one a scheme, in the order of `schemes`.
    """

    secret: SecretKind
    role: str
    cells: tuple[Cell, ...]

    @property
    def short(self) -> str:
        """The secret in few words."""
        return self.secret.short

    @property
    def parties(self) -> str:
        """The role in the plural: from whom."""
        return f"{self.role}s"

    @property
    def is_quiet(self) -> bool:
        """Whether no cell of it says more than what is promised."""
        return all(
            cell.state in (State.NOT_APPLICABLE, State.NOT_TESTED, State.NO_GUARANTEE) and cell.value is None
            for cell in self.cells
        )


def schemes(report: Report) -> tuple[str, ...]:
    """The columns."""
    return tuple(dict.fromkeys(cell.scheme for cell in report.matrix))


def rows(report: Report) -> tuple[ClaimRow, ...]:
    """The rows, in the order of the report."""
    keys = dict.fromkeys((cell.secret, cell.role) for cell in report.matrix)
    return tuple(
        ClaimRow(secret, role, tuple(item for item in report.matrix if (item.secret, item.role) == (secret, role)))
        for secret, role in keys
    )


def cell_text(cell: Cell) -> str:
    """Return a state, `declared leakage 0.963, baseline 0.856`; figures are for what is not guaranteed."""
    if cell.figures is None:
        return str(cell.state)
    value, baseline = map(wording.figure, cell.figures)
    return f"{cell.state} {value}, baseline {baseline}"


def join_names(attacks: Sequence[str]) -> str:
    """Names of attacks, the first few of many."""
    more = len(attacks) - _EXAMPLES
    examples = attacks if more <= 1 else attacks[:_EXAMPLES]
    return ", ".join(examples) + (f" and {more} more" if more > 1 else "")


_OTHER = "the graph and its partition"
"""What is read by what is no attack."""


@dataclass(frozen=True, slots=True)
class UnderScheme:
    """What one attack found under one scheme.

    Attributes:
        scheme: name of the run, or of a variant.
        records: its figures, the worst verdict first.
    """

    scheme: str
    records: tuple[Record, ...]

    @property
    def headline(self) -> Record:
        """The figure that stands for the others: of the worst verdict the one that exceeds its prior most."""
        return max(self.records, key=lambda r: (r.violates_guarantee, -wording.SEVERITY.index(r.verdict), _gain(r)))

    @property
    def tone(self) -> str:
        """How it is shown: violated, found, quiet, or context."""
        record = self.headline
        if record.violates_guarantee:
            return "violated"
        if not record.verdict.is_measured:
            return "context"
        return "found" if record.verdict.is_exposure and record.controls_hold else "quiet"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, what that leaves open and what it violates, each sentence once."""
        sentences: list[str] = []
        for record in self.records:
            sentences += [record.finding, wording.limits(record), wording.knowledge(record)]
            sentences.append(wording.control_failures(record))
            if record.verdict.is_measured and record.in_the_clear is None:
                sentences.append(f"Unprotected {wording.in_the_clear(record)}.")
        return tuple(dict.fromkeys(item for item in sentences if item))

    @property
    def violated_claims(self) -> tuple[str, ...]:
        """The promises that fell."""
        return tuple(dict.fromkeys(record.claim for record in self.records if record.violates_guarantee))


@dataclass(frozen=True)
class AttackEntry:
    """One attack under all schemes.

    Attributes:
        name: of the attack.
        about: what it is, as in `Report.attacks`; empty where the report doesn't say.
        schemes: what it found, in the order of the report.
    """

    name: str
    about: Mapping[str, Json]
    schemes: tuple[UnderScheme, ...]

    @property
    def anchor(self) -> str:
        """Of its place on the page."""
        return "attack-" + "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in self.name)

    @cached_property
    def has_exposure(self) -> bool:
        """Whether anything was read under any scheme."""
        return any(scheme.tone in ("violated", "found") for scheme in self.schemes)

    @property
    def needs(self) -> str:
        """What the attacker has to have, as a sentence."""
        if not self.about:
            return f"{self.schemes[0].records[0].view}; {self.schemes[0].records[0].coalition}".capitalize() + "."
        observer, knows, when = (str(self.about[key]) for key in ("observer", "knows", "circumstance"))
        return (
            f"What one {observer} was sent{f', and {knows}' if knows else ''}"
            f"{'' if when == 'any' else f'; works where {when}'}."
        )

    @property
    def papers(self) -> tuple[tuple[str, str], ...]:
        """Names and addresses of the papers that it is from."""
        papers = self.about.get("papers")
        return tuple((name, str(address)) for name, address in papers.items()) if isinstance(papers, dict) else ()


@dataclass(frozen=True, slots=True)
class _Group:
    """The attacks on one secret.

    Attributes:
        secret: what they read.
        told: those that read something, the most serious first.
        quiet: those that did not, or that only say how much there is.
    """

    secret: str
    told: tuple[AttackEntry, ...]
    quiet: tuple[AttackEntry, ...]


def groups(report: Report) -> tuple[_Group, ...]:
    """All findings, by what was read; secrets of which something was read come first."""
    entries = [_entry(report, name) for name in dict.fromkeys(record.attack for record in report.records)]
    by_secret: dict[str, list[AttackEntry]] = {}
    for entry in sorted(entries, key=_seriousness):
        by_secret.setdefault(str(entry.about.get("secret", _OTHER)), []).append(entry)
    return tuple(
        _Group(secret, tuple(e for e in result if e.has_exposure), tuple(e for e in result if not e.has_exposure))
        for secret, result in by_secret.items()
    )


def _entry(report: Report, name: str) -> AttackEntry:
    records = [record for record in report.records if record.attack == name]
    about = report.attacks.get(name)
    return AttackEntry(
        name,
        about if isinstance(about, dict) else {},
        tuple(
            UnderScheme(scheme, tuple(wording.by_severity([r for r in records if r.protocol == scheme])))
            for scheme in dict.fromkeys((*report.protocols, *(record.protocol for record in records)))
            if any(record.protocol == scheme for record in records)
        ),
    )


def _seriousness(entry: AttackEntry) -> tuple[int, float]:
    """Violated guarantees first, then what exceeds its prior most."""
    order = ("violated", "found", "quiet", "context")
    return (min(order.index(item.tone) for item in entry.schemes), -max(_gain(item.headline) for item in entry.schemes))


def _gain(record: Record) -> float:
    return record.value - record.prior


def by_protocol(report: Report, table: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The part of `accuracy` or `cost` of each protocol, in the report's order."""
    inner = table.get("protocols")
    parts = dict(inner) if isinstance(inner, Mapping) else {}
    parts.setdefault(report.audited_protocol, table)
    order = [name for name in report.protocols if name in parts]
    return {name: parts[name] for name in dict.fromkeys([*order, *parts])}


def accuracy_rows(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """Label and one text a protocol: test, validation and each silo; silos that a protocol lacks show a dash."""
    parts = by_protocol(report, report.accuracy).values()
    silos = [part["per_silo"] if isinstance(part["per_silo"], list) else [] for part in parts]
    most = max(map(len, silos))
    columns = [
        [part["test"], part["validation"], *shares, *[None] * (most - len(shares))]
        for part, shares in zip(parts, silos, strict=True)
    ]
    labels = ["Test, all silos", "Validation, all silos", *(f"Test, silo {index + 1}" for index in range(most))]
    return [
        (label, tuple(wording.score_text(report.score, value) for value in values))
        for label, values in zip(labels, zip(*columns, strict=True), strict=True)
    ]


def cost_rows(report: Report) -> list[tuple[bool, tuple[str, ...]]]:
    """By protocol a row a phase, summed over roles, then its whole run: whether it is that, and its cells."""
    rows: list[tuple[bool, tuple[str, ...]]] = []
    for name, part in by_protocol(report, report.cost).items():
        exposures = [row for row in report.exposures if row.protocol == name]
        for phase in dict.fromkeys(row.phase for row in exposures):
            counts = [(row.messages, row.bytes) for row in exposures if row.phase == phase]
            messages, size = (sum(column) for column in zip(*counts, strict=True))
            rows.append((False, (name, phase, wording.count_text(messages), wording.bytes_text(size), "", "")))
        rows.append((True, (name, "whole run", *_costs(part))))
    return rows


def overview(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """By protocol: test score, messages, size, rounds and seconds of the whole run."""
    scores, costs = by_protocol(report, report.accuracy), by_protocol(report, report.cost)
    return [
        (name, (wording.score_text(report.score, scores.get(name, {}).get("test")), *_costs(costs.get(name, {}))))
        for name in dict.fromkeys((*scores, *costs))
    ]


def _costs(part: Mapping[str, object]) -> tuple[str, str, str, str]:
    return (
        wording.count_text(part.get("messages")),
        wording.bytes_text(part.get("bytes")),
        wording.count_text(part.get("rounds")),
        wording.seconds_text(part.get("seconds")),
    )
