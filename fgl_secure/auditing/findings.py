"""The findings of a report in the order of its page: by what was read, one entry an attack, all schemes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fgl_secure.auditing import wording
from fgl_secure.auditing.plain import Json
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.schema import Findings

OTHER = "the graph and its partition"
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
        return max(self.records, key=lambda r: (r.contradicts_claim, -wording.SEVERITY.index(r.verdict), _gain(r)))

    @property
    def tone(self) -> str:
        """How it is shown: contradicted, found, quiet, or context."""
        record = self.headline
        if record.contradicts_claim:
            return "contradicted"
        if not record.verdict.is_measured:
            return "context"
        return "found" if record.verdict.is_exposure and record.controls_hold else "quiet"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, what that leaves open and what it contradicts, each sentence once."""
        said: list[str] = []
        for record in self.records:
            said += [record.finding, wording.limits(record), wording.knowledge(record)]
            said.append(wording.control_failures(record))
            if record.verdict.is_measured and record.in_the_clear is None:
                said.append(f"In the clear {wording.in_the_clear(record)}.")
        return tuple(dict.fromkeys(each for each in said if each))

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The promises that fell."""
        return tuple(dict.fromkeys(record.claim for record in self.records if record.contradicts_claim))


@dataclass(frozen=True)
class AttackEntry:
    """One attack under all schemes.

    Attributes:
        name: of the attack.
        about: what it is, as in `Findings.attacks`; empty where the report doesn't say.
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
    def found(self) -> bool:
        """Whether anything was read under any scheme."""
        return any(each.tone in ("contradicted", "found") for each in self.schemes)

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
        known = self.about.get("papers")
        return tuple((name, str(address)) for name, address in known.items()) if isinstance(known, dict) else ()


@dataclass(frozen=True, slots=True)
class Group:
    """The attacks on one secret.

    Attributes:
        secret: what they read.
        told: those that read something, the most serious first.
        quiet: those that did not, or that only say how much there is.
    """

    secret: str
    told: tuple[AttackEntry, ...]
    quiet: tuple[AttackEntry, ...]


def groups(report: Findings) -> tuple[Group, ...]:
    """All findings, by what was read; secrets of which something was read come first."""
    entries = [_entry(report, name) for name in dict.fromkeys(record.attack for record in report.records)]
    by_secret: dict[str, list[AttackEntry]] = {}
    for entry in sorted(entries, key=_seriousness):
        by_secret.setdefault(str(entry.about.get("secret", OTHER)), []).append(entry)
    return tuple(
        Group(secret, tuple(e for e in found if e.found), tuple(e for e in found if not e.found))
        for secret, found in by_secret.items()
    )


def _entry(report: Findings, name: str) -> AttackEntry:
    mine = [record for record in report.records if record.attack == name]
    about = report.attacks.get(name)
    return AttackEntry(
        name,
        about if isinstance(about, dict) else {},
        tuple(
            UnderScheme(scheme, tuple(wording.by_severity([r for r in mine if r.protocol == scheme])))
            for scheme in dict.fromkeys((*report.protocols, *(record.protocol for record in mine)))
            if any(record.protocol == scheme for record in mine)
        ),
    )


def _seriousness(entry: AttackEntry) -> tuple[int, float]:
    """Contradicted promises first, then what exceeds its prior most."""
    order = ("contradicted", "found", "quiet", "context")
    return (
        min(order.index(each.tone) for each in entry.schemes),
        -max(_gain(each.headline) for each in entry.schemes),
    )


def _gain(record: Record) -> float:
    return record.value - record.prior


def drawn(entries: Sequence[Group]) -> tuple[AttackEntry, ...]:
    """The attacks of the plot: those that read something."""
    return tuple(entry for group in entries for entry in group.told)
