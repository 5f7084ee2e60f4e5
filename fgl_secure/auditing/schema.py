"""What an audit reports: the run, who saw what, the findings, and what each protocol claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from fgl_secure.auditing.matrix import Cell
from fgl_secure.auditing.plain import Json, is_number, plain_mapping
from fgl_secure.auditing.records import Record
from fgl_secure.errors import InputError

SCHEMA = 3
"""3: a matrix of what became of each promise, and what the attacks are. 2: records say what the prior rests on
(`knowledge`) and what is found in the clear (`in_the_clear`); null controls are independent runs. 1: they did not."""

ACCURACY_KEYS = ("test", "validation", "per_silo")
COST_KEYS = ("messages", "bytes", "rounds", "seconds")
ATTACK_KEYS = ("summary", "source", "papers", "page", "observer", "secret", "circumstance", "knows")
CLAIM_KEYS = ("protects", "tested", "leaks_by_design", "assumes", "source")


class Score(StrEnum):
    """What tells how well a method does."""

    ACCURACY = "accuracy"
    """A share, and more is better."""
    ABSOLUTE_ERROR = "mean absolute error"
    """In the unit of the targets, and less is better."""


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

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("messages", "bytes"):
                if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                    raise InputError(f"{each.name} must be a whole number >= 0; found {value!r}")
            elif not isinstance(value, str):
                raise InputError(f"{each.name} must be text; found {value!r}")

    def to_json(self) -> dict[str, Json]:
        """All fields as JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
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
        claims: protocol name to protects, tested (what some figure could have contradicted), leaks_by_design, assumes
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
        if self.run.get("score", Score.ACCURACY) not in tuple(Score):
            raise InputError(f"run.score must be one of {', '.join(Score)}; found {self.run['score']!r}")
        _check_table("accuracy", self.accuracy, ACCURACY_KEYS)
        _check_table("cost", self.cost, COST_KEYS)
        for protocol, claim in self.claims.items():
            _check_claim(f"claims.{protocol}", claim)
        for name, attack in self.attacks.items():
            _check_attack(f"attacks.{name}", attack)
        _check_rows(self)

    @property
    def protocols(self) -> tuple[str, ...]:
        """Every protocol that the report speaks of, those of the run first."""
        named = self.run.get("protocols", ())
        ordered = [str(name) for name in named] if isinstance(named, list) else []
        ordered += [record.protocol for record in self.records]
        ordered += [exposure.protocol for exposure in self.exposures]
        return tuple(dict.fromkeys([*ordered, *self.claims]))

    @property
    def audited(self) -> str:
        """The protocol that the top level of `accuracy` and `cost` speaks of."""
        known = self.protocols
        return str(self.run.get("protocol", known[-1] if known else "the run"))

    @property
    def score(self) -> Score:
        """What the numbers in `accuracy` are."""
        return Score(str(self.run.get("score", Score.ACCURACY)))

    def to_json(self) -> dict[str, Json]:
        """The report as JSON values of the layout `SCHEMA`; holds no NaN."""
        return {
            "schema": SCHEMA,
            "run": plain_mapping(self.run, "run"),
            "matrix": [cell.to_json() for cell in self.matrix],
            "accuracy": plain_mapping(self.accuracy, "accuracy"),
            "cost": plain_mapping(self.cost, "cost"),
            "records": [record.to_json() for record in self.records],
            "attacks": plain_mapping(self.attacks, "attacks"),
            "exposures": [exposure.to_json() for exposure in self.exposures],
            "claims": plain_mapping(self.claims, "claims"),
            "notes": list(self.notes),
        }


def contradictions(report: Findings) -> tuple[Record, ...]:
    """The findings that contradict what their protocol claims."""
    return tuple(record for record in report.records if record.contradicts_claim)


def _check_table(name: str, table: Mapping[str, object], keys: tuple[str, ...]) -> None:
    """`table` and each table under its "protocols" hold every one of `keys`, as numbers or None."""
    inner = table.get("protocols", {})
    if not isinstance(inner, Mapping):
        raise InputError(f"{name}.protocols must be a mapping; found {inner!r}")
    for where, row in [(name, table), *((f"{name}.protocols.{key}", row) for key, row in inner.items())]:
        if not isinstance(row, Mapping):
            raise InputError(f"{where} must be a mapping; found {row!r}")
        missing = [key for key in keys if key not in row]
        if missing:
            raise InputError(f"{where} must have the keys {', '.join(keys)}; missing {', '.join(missing)}")
        for key in keys:
            _check_numbers(f"{where}.{key}", row[key])


def _check_numbers(where: str, value: object) -> None:
    items = value if where.endswith(".per_silo") else [value]
    if not isinstance(items, list):
        raise InputError(f"{where} must be a list; found {value!r}")
    for item in items:
        if item is not None and not is_number(item):
            raise InputError(f"{where} must hold numbers or None; found {item!r}")


def _check_claim(where: str, claim: object) -> None:
    if not isinstance(claim, Mapping) or not set(claim) <= set(CLAIM_KEYS):
        raise InputError(f"{where} must be a mapping with keys among {', '.join(CLAIM_KEYS)}; found {claim!r}")
    for key, statements in claim.items():
        if key == "source" and isinstance(statements, str):
            continue
        if not isinstance(statements, list) or not all(isinstance(item, str) for item in statements):
            raise InputError(f"{where}.{key} must be a list of sentences; found {statements!r}")


def _check_attack(where: str, attack: object) -> None:
    if not isinstance(attack, Mapping) or set(attack) != set(ATTACK_KEYS):
        raise InputError(f"{where} must be a mapping with the keys {', '.join(ATTACK_KEYS)}; found {attack!r}")
    for key, value in attack.items():
        if key != "papers" and not isinstance(value, str):
            raise InputError(f"{where}.{key} must be text; found {value!r}")
    papers = attack["papers"]
    if not isinstance(papers, Mapping) or not all(str(address).startswith("https://") for address in papers.values()):
        raise InputError(f"{where}.papers must map names to addresses that begin with https://; found {papers!r}")


def _check_rows(report: Findings) -> None:
    wanted = (("matrix", Cell), ("records", Record), ("exposures", Exposure), ("notes", str))
    for name, kind in wanted:
        rows = getattr(report, name)
        if not isinstance(rows, tuple) or not all(isinstance(row, kind) for row in rows):
            raise InputError(f"{name} must be a tuple of {kind.__name__}; found {rows!r}")
