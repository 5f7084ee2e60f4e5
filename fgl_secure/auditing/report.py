"""The report of an audit: the run, who saw what, the findings and what each protocol claims, written all or none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from fgl_secure import __version__
from fgl_secure.attacks.base import Attack, Card, DataSecret
from fgl_secure.attacks.registry import page_on, papers
from fgl_secure.auditing.html import render_html, render_matrix
from fgl_secure.auditing.matrix import Cell, matrix
from fgl_secure.auditing.plan import AuditPlan
from fgl_secure.auditing.plot import plot_findings
from fgl_secure.auditing.records import Json, Record, check_types, plain_mapping
from fgl_secure.auditing.texts import render_junit, render_markdown
from fgl_secure.auditing.wording import Score
from fgl_secure.ceilings import LINKS_AUC, MEMBERSHIP_AUC, MEMBERSHIP_TPR, Bounded, exceeded
from fgl_secure.config_fields import toml_lines
from fgl_secure.errors import InputError
from fgl_secure.runtime import Circumstance, Claim, Guarantee
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import LAST_ROUND

_SCHEMA = 4
"""4: states and `violates_guarantee` in the field's words. 3: a matrix of what became of each promise, and what the
attacks are. 2: records say what the prior rests on (`knowledge`) and what is found unprotected (`in_the_clear`); null
controls are independent runs. 1: they did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """One row of the table who saw what.

    Attributes:
        protocol: the protocol that ran.
        phase: the phase of the messages, all layers and rounds together.
        sender_role: who sent them.
        receiver_role: who received, and so saw, them.
        messages: how many.
        bytes: their payload, in bytes.
        content: what they hold, in plain words.
    """

    protocol: str
    phase: str
    sender_role: str
    receiver_role: str
    messages: int
    bytes: int
    content: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report:
    """Everything that an audit has to say. The mappings are copied into plain JSON values on construction.

    Attributes:
        run: what was run: dataset, partition, silos, protocols, preset, method, backbone, epochs, seed, device,
            version, command and the like; `protocol` names the audited one, `score` the kind of the numbers in
            `accuracy`, that of `Score` (accuracy where it is left out).
        accuracy: test, validation and per_silo of the audited protocol, fractions in [0, 1], or errors in the unit of
            the targets, or None for not measured; "protocols" maps each protocol's name to the same three.
        cost: messages, bytes, rounds and seconds of the audited protocol; "protocols" likewise.
        matrix: what schemes promise to hide, and what became of each promise; see `fgl_secure.auditing.matrix`.
        records: the findings.
        attacks: by name of an attack: summary (how it works), source, papers (name to address), page, observer, secret,
            circumstance and knows; may lack those of some records.
        exposures: who saw what.
        claims: protocol name to protects, tested (what some figure could have violated), leaks_by_design, assumes
            (lists of sentences) and source (text or list).
        notes: sentences that a reader should know.
    """

    run: Mapping[str, object]
    accuracy: Mapping[str, object]
    cost: Mapping[str, object]
    matrix: tuple[Cell, ...] = ()
    records: tuple[Record, ...] = ()
    attacks: Mapping[str, object] = field(default_factory=dict)
    exposures: tuple[Exposure, ...] = ()
    claims: Mapping[str, object]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("run", "accuracy", "cost", "attacks", "claims"):
            object.__setattr__(self, name, plain_mapping(getattr(self, name), name))

    @property
    def protocols(self) -> tuple[str, ...]:
        """Every protocol that the report speaks of, those of the run first."""
        names = self.run.get("protocols", ())
        ordered = [str(name) for name in names] if isinstance(names, list) else []
        ordered += [record.protocol for record in self.records]
        ordered += [exposure.protocol for exposure in self.exposures]
        return tuple(dict.fromkeys([*ordered, *self.claims]))

    @property
    def audited_protocol(self) -> str:
        """The protocol that the top level of `accuracy` and `cost` speaks of."""
        protocols = self.protocols
        return str(self.run.get("protocol", protocols[-1] if protocols else "the run"))

    @property
    def violations(self) -> tuple[Record, ...]:
        """The findings that violate what their protocol claims."""
        return tuple(record for record in self.records if record.violates_guarantee)

    def bounded(self) -> Iterator[Bounded]:
        """Yield the figures that ceilings are compared with: those of attacks on the finished model."""
        secrets = {name: about["secret"] for name, about in self.attacks.items() if isinstance(about, dict)}
        for record in self.records:
            secret, low = secrets.get(record.attack), record.ci95.low
            what = f"{record.attack} under {record.protocol}, {record.metric}"
            if secret == DataSecret.LINK:
                yield Bounded(LINKS_AUC, what, (1 + low) / 2)
            elif secret == DataSecret.MEMBER:
                is_area = record.metric.startswith("AUC")
                yield Bounded(MEMBERSHIP_AUC, what, (1 + low) / 2) if is_area else Bounded(MEMBERSHIP_TPR, what, low)

    @property
    def above_ceilings(self) -> Mapping[str, tuple[str, ...]]:
        """By metric that has a ceiling, the findings that are certainly above it."""
        ceilings = self.run.get("ceilings")
        return exceeded(self, cast("dict[str, float]", ceilings)) if isinstance(ceilings, dict) else {}

    @property
    def score(self) -> Score:
        """What the numbers in `accuracy` are."""
        return Score(str(self.run.get("score", Score.ACCURACY)))

    def to_json(self) -> dict[str, Json]:
        """The report as JSON values of the layout; holds no NaN."""
        return {
            "schema": _SCHEMA,
            "run": plain_mapping(self.run, "run"),
            "matrix": [cell.to_json() for cell in self.matrix],
            "accuracy": plain_mapping(self.accuracy, "accuracy"),
            "cost": plain_mapping(self.cost, "cost"),
            "records": [record.to_json() for record in self.records],
            "attacks": plain_mapping(self.attacks, "attacks"),
            "exposures": [asdict(exposure) for exposure in self.exposures],
            "claims": plain_mapping(self.claims, "claims"),
            "notes": list(self.notes),
        }

    def write(self, folder: Path | str) -> tuple[Path, ...]:
        """Write the report into `folder`, which is made when missing; see `write_files`.

        report.html is for people, report.json for programs, report.md for a pull request, report.xml, in the format of
        JUnit, for a CI server. run.toml repeats the run, if options of the command line can: `run["options"]` has them.
        All are rendered before anything is written.

        Returns:
            The paths of the files, that of report.html first.

        Raises:
            InputError: when the folder is a file, cannot be made or cannot be written to.
        """
        texts = {
            "report.html": render_html(self),
            "report.json": render_json(self),
            "report.md": render_markdown(self),
            "report.xml": render_junit(self),
            **_run_file(self.run),
        }
        return write_files(folder, texts)

    @classmethod
    def read(cls, path: Path | str) -> Report:
        """Return the report that `write` wrote.

            Report.read("report").to_dataframe().query("verdict == 'broken'")

        Args:
            path: of report.json, or of its folder.

        Raises:
            InputError: it can't be read, or was written by a version with another layout.
        """
        try:
            place = Path(path)
            return cls.from_json(json.loads((place / "report.json" if place.is_dir() else place).read_text("utf-8")))
        except (OSError, TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            raise InputError(
                f"path must be a report.json of layout {_SCHEMA}, or its folder; found {path} ({error})"
            ) from error

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Report:
        """Return the report of which `to_json` gave the values.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: they are none of this layout.
        """
        rest = {name: value for name, value in values.items() if name != "schema"}
        if values["schema"] != _SCHEMA:
            raise ValueError("its layout is another version's")
        for exposure in values["exposures"]:
            check_types(Exposure, exposure)
        rest["matrix"] = tuple(map(Cell.from_json, values["matrix"]))
        rest["records"] = tuple(map(Record.from_json, values["records"]))
        rest["exposures"] = tuple(Exposure(**exposure) for exposure in values["exposures"])
        return cls(**{**rest, "notes": tuple(values["notes"])})

    def to_dataframe(self) -> Any:  # pandas is optional
        """Return the findings as a `pandas.DataFrame`, a row per figure and a column per field of `Record`.

        The first column is the method. Intervals become two columns, such as `ci95_low` and `ci95_high`.

        Raises:
            InputError: pandas is not installed.
        """
        rows, columns = [], ["method", *(field.name for field in fields(Record))]
        for name in ("ci95", "null_interval"):
            index = columns.index(name)
            columns[index : index + 1] = [f"{name}_low", f"{name}_high"]
        for record in self.records:
            row: dict[str, object] = {"method": self.run.get("method"), **record.to_json()}
            for name in ("ci95", "null_interval"):
                row[f"{name}_low"], row[f"{name}_high"] = cast("list[float] | None", row.pop(name)) or (None, None)
            rows.append(row)
        return dataframe(rows, columns)

    def plot(self) -> Any:  # matplotlib is optional
        """Return the findings as a `matplotlib.figure.Figure`; see `fgl_secure.auditing.plot.plot_findings`.

            Report.read("report").plot().savefig("findings.pdf")

        Raises:
            InputError: matplotlib is not installed, or nothing was measured.
        """
        return plot_findings(self.records)

    def __repr__(self) -> str:
        fell = len(self.violations)
        return f"Report({', '.join(self.protocols)}: {len(self.records)} findings, {fell} of them violate a guarantee)"

    def _repr_html_(self) -> str:
        """The matrix, as notebooks show it."""
        return render_matrix(self)


def dataframe(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Any:  # pandas is optional
    """Return rows as a `pandas.DataFrame`.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        from pandas import DataFrame  # noqa: PLC0415  # optional
    except ImportError as error:
        raise InputError(
            "pandas must be installed for to_dataframe: pip install 'fgl-secure[tables]'; found none"
        ) from error
    return DataFrame(list(rows), columns=list(columns))


def render_json(report: Report) -> str:
    """The report as indented JSON text with a final newline; NaN and infinities cannot occur."""
    return json.dumps(report.to_json(), allow_nan=False, ensure_ascii=False, indent=2) + "\n"


def write_files(folder: Path | str, texts: Mapping[str, str]) -> tuple[Path, ...]:
    """Write files into a folder, which is made when missing: all or none.

    They are written beside their places and then moved there, so a failure leaves the folder as it was and a reader
    never meets half a file.

    Args:
        folder: where.
        texts: by name.

    Raises:
        InputError: when the folder is a file, cannot be made or cannot be written to.
    """
    try:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _replace_all({folder / name: text for name, text in texts.items()})
    except (OSError, TypeError) as error:
        raise InputError(f"folder must be a directory that can be written to; found {folder} ({error})") from error
    return tuple(folder / name for name in texts)


def _run_file(run: Mapping[str, object]) -> dict[str, str]:
    """Return run.toml by its name; nothing for a run that no options of the command line repeat."""
    options = run.get("options")
    if not isinstance(options, dict):
        return {}
    head = f"# fgl-secure {__version__}; repeat it with: fgl-secure audit {options['method']} --config run.toml"
    return {"run.toml": "\n".join([head, *toml_lines(options)]) + "\n"}


def _utf_8(text: str) -> bytes:
    """A text as bytes; names of files, whose bytes Python keeps as surrogates in a C locale, are what they were."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode("utf-8")


def _replace_all(texts: dict[Path, str]) -> None:
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in texts}
    try:
        for path, text in texts.items():
            beside[path].write_bytes(_utf_8(text))
        for path in texts:
            os.replace(beside[path], path)
    finally:
        for path in beside.values():
            path.unlink(missing_ok=True)


def report_of(
    plan: AuditPlan,
    results: Mapping[str, TrainingResult],
    records: list[Record],
    attacks: tuple[Attack[Any, Any], ...],
    games: Mapping[str, Card],
    unseen: Mapping[str, set[str]],
    command: str,
) -> Report:
    """The report of an audit.

    Args:
        plan: what was run.
        results: of the trainings, by name of the run, the main one first.
        records: the findings.
        attacks: the attacks that were to be tried.
        games: what each game is, by name.
        unseen: by name of a run, the games in which no message reached the observers.
        command: how to repeat it.
    """
    cards = {**{item.card.name: item.card for item in attacks}, **games}
    main, tested = next(iter(results)), promises_tested(plan, records, cards)
    at_work = {record.attack for record in records}
    working_attacks = tuple(item for item in attacks if item.card.name in at_work)
    return Report(
        run={
            "protocol": main,
            "protocols": list(results),
            "method": plan.method,
            "backbone": plan.backbone,
            "dataset": plan.graph.graph.name,
            "devices": plan.graph.num_devices,
            "messages_per_layer": plan.messages,
            "partition": plan.graph.partition,
            "silos": plan.graph.num_silos,
            "preset": plan.preset,
            "epochs": plan.epochs,
            "chosen_on": plan.chosen_on,
            "seed": plan.seed,
            "device": str(plan.device),
            "score": str(plan.score),
            "version": __version__,
            "command": command,
        },
        accuracy={
            **accuracy_figures(results[main]),
            "protocols": {name: accuracy_figures(result) for name, result in results.items()},
        },
        cost={
            **cost_figures(results[main]),
            "protocols": {name: cost_figures(result) for name, result in results.items()},
        },
        matrix=matrix({subject.name: subject.claims for subject in plan.subjects}, records, cards, unseen),
        records=tuple(records),
        attacks={
            **{item.card.name: _about(item.card, page_on(item)) for item in working_attacks},
            **{name: _about(card) for name, card in games.items() if name in at_work},
        },
        exposures=tuple(
            Exposure(
                protocol=name,
                phase=traffic.phase.label,
                sender_role=str(traffic.sender_role),
                receiver_role=str(traffic.receiver_role),
                messages=traffic.messages,
                bytes=traffic.bytes,
                content=traffic.phase.content,
            )
            for name, result in results.items()
            for traffic in result.transcript.traffic()
        ),
        claims={
            name: {**_claim(claim), "tested": tested.get(name, [])}
            for subject in plan.subjects
            for name, claim in subject.claims.items()
        },
        notes=_notes(plan),
    )


def promises_tested(plan: AuditPlan, records: list[Record], cards: Mapping[str, Card]) -> dict[str, list[str]]:
    """By scheme, the sentences of its claim that some figure could have violated.

    That takes an attack on what is promised, by those against whom, with controls that hold, enough units for a full
    break to be seen, and something that the attack finds on this subject in plaintext.
    """
    claims = {name: claim for subject in plan.subjects for name, claim in subject.claims.items()}
    result: dict[str, dict[str, None]] = {}
    for record in records:
        card, claim = cards.get(record.attack), claims.get(record.protocol)
        able = record.verdict.is_measured and record.controls_hold and record.is_conclusive
        if card is None or claim is None or not able or card.circumstance is Circumstance.MALICIOUS_DEVICE:
            continue
        borne = claim.borne_on(card.secret, card.coalition, card.circumstance)
        result.setdefault(record.protocol, {}).update((sentence(item), None) for item in borne)
    return {name: list(sentences) for name, sentences in result.items()}


def _about(card: Card, page: str = "") -> dict[str, object]:
    """What an attack or a game is, for readers who have never heard of it."""
    return {
        "summary": card.summary,
        "source": card.source,
        "papers": papers(card.source),
        "page": page,
        "observer": str(card.observer),
        "secret": str(card.secret),
        "circumstance": str(card.circumstance),
        "knows": card.auxiliary,
    }


def _claim(claim: Claim) -> dict[str, object]:
    return {
        "protects": [sentence(guarantee) for guarantee in claim.guarantees],
        "leaks_by_design": [leak.statement for leak in claim.leaks_by_design],
        "assumes": list(claim.assumptions),
        "source": "; ".join(dict.fromkeys(guarantee.source for guarantee in claim.guarantees)) or "none",
    }


def sentence(guarantee: Guarantee) -> str:
    """A promise with its source, as claims and findings quote it."""
    return f"{guarantee.statement} ({guarantee.source})"


def _notes(plan: AuditPlan) -> tuple[str, ...]:
    rounds = plan.subjects[0].attacked_rounds
    rounds_text = "the first round" if rounds == 1 else f"the first {rounds} rounds"
    return (
        f"Attacks read what was sent in {rounds_text} of training and what parties are left with in the end; messages "
        "and bytes are counted over all rounds.",
        "Masks come from repeatable simulation coins, so that every figure can be repeated; training outside an audit "
        "takes them from the operating system.",
        *([f"Reported round: {plan.chosen_on}."] if plan.chosen_on.endswith(LAST_ROUND) else []),
        *plan.notes,
        "Every party attacks alone, with what was sent to it and what it drew itself. All parties run in one process.",
        "An attack that finds no message that it can use under a protocol has no row there.",
    )


def accuracy_figures(result: TrainingResult) -> dict[str, object]:
    """Test and validation accuracy, pooled and per silo, at the selected round."""
    return {
        "test": result.accuracy.test,
        "validation": result.accuracy.validation,
        "per_silo": list(result.accuracy.per_silo),
        "selected_round": result.selected_round,
    }


def cost_figures(result: TrainingResult) -> dict[str, object]:
    """Messages, bytes, rounds and seconds; where they went, by phase. None where they cannot be counted."""
    phases: dict[str, int] = {}
    for traffic in result.transcript.traffic():
        phases[traffic.phase.label] = phases.get(traffic.phase.label, 0) + traffic.bytes
    return {
        "messages": result.transcript.message_count or None,
        "bytes": result.transcript.byte_count or None,
        "rounds": result.rounds,
        "seconds": result.seconds,
        "seconds_per_round": result.seconds_per_round,
        "bytes_by_phase": phases,
    }
