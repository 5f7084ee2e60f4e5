"""One finding of an audit: a figure, its baselines, its controls and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite

from fgl_secure.attacks.base import Alone
from fgl_secure.auditing.plain import Json, is_number
from fgl_secure.auditing.verdict import MARGIN, Verdict, judge
from fgl_secure.errors import InputError
from fgl_secure.statistics.intervals import Interval

__all__ = ["Interval", "Record", "Verdict", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one attack got out of one view of one run.

    Attributes:
        attack: name of the attack.
        view: whose view it read, for example "device" or "silo".
        coalition: who shared that view, in words.
        protocol: the protocol that ran.
        dataset: name of the data set.
        partition: how the graph was split, in words.
        metric: what `value` measures, for example "exact recovery" or "advantage".
        value: the figure, in [-1, 1].
        ci95: its 95 % interval; contains `value`.
        random: the figure of a uniformly random guess.
        prior: the figure of the best guess without the transcript, with the same knowledge.
        knowledge: how far the prior accounts for what the attack knows beside its view.
        in_the_clear: the same figure on a run of the same subject in which nothing is protected, the most that this
            attack finds there; None where nothing in the clear compares with what it reads.
        in_the_clear_verdict: what that figure says; None together with it.
        n: number of independent units (senders, nodes, clients) behind the figure, an effective one where units
            depend on each other.
        seed: of the run and the attack.
        positive_control: the same metric of the same attack on a run that must be broken; None when not applicable.
        positive_minimum: the floor that the positive control must reach.
        null_control: what the same attack gets right of this run when it is shown an independent one, of other coins
            and other inputs; None only for *context*.
        null_interval: 95 % interval of the null control; None together with it.
        detectable_advantage: the smallest true figure that the verdict rule calls a leak 99 times in 100, at this n
            and this prior; above 1 means that even a full break could have been missed.
        verdict: see `judge`.
        contradicts_claim: whether the figure contradicts what the protocol claims.
        finding: one plain sentence.
        claim: the sentence of the claim that is contradicted, or "".
    """

    attack: str
    view: str
    coalition: str
    protocol: str
    dataset: str
    partition: str
    metric: str
    value: float
    ci95: Interval
    random: float
    prior: float
    knowledge: Alone
    in_the_clear: float | None
    in_the_clear_verdict: Verdict | None
    n: int
    seed: int
    positive_control: float | None
    positive_minimum: float
    null_control: float | None
    null_interval: Interval | None
    detectable_advantage: float
    verdict: Verdict
    contradicts_claim: bool
    finding: str
    claim: str = ""

    def __post_init__(self) -> None:
        _check_record(self)

    @property
    def positive_holds(self) -> bool:
        """Whether the attack works where it must; True when no positive control applies."""
        return self.positive_control is None or self.positive_control >= self.positive_minimum

    @property
    def null_holds(self) -> bool:
        """Whether the attack is at chance without this run's messages; True when no null control applies.

        An independent run keeps sizes and class shares, so the prior is the chance level that it may reach. The control
        fails only when the whole interval lies more than .05 above the larger of random and prior: then something
        other than the messages gives the secret away.
        """
        return self.null_interval is None or self.null_interval.low <= max(self.random, self.prior) + MARGIN

    @property
    def controls_hold(self) -> bool:
        """Whether both controls hold; when False the figure is no evidence."""
        return self.positive_holds and self.null_holds

    @property
    def has_power(self) -> bool:
        """Whether the attack finds something on this subject in the clear; True where nothing there compares."""
        return self.in_the_clear_verdict is None or self.in_the_clear_verdict is not Verdict.NOT_DETECTED

    @property
    def could_tell(self) -> bool:
        """Whether the figure says something of a protocol, whichever way it came out."""
        return self.verdict.is_exposure or (self.has_power and self.detectable_advantage <= 1)

    def to_json(self) -> dict[str, Json]:
        """All fields as JSON values; intervals become [low, high]."""
        return {field.name: _field_to_json(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Record:
        """The inverse of `to_json`.

        Raises:
            InputError: for a missing or an unknown key, or a value that breaks a rule of the record.
        """
        known = {field.name for field in fields(cls)}
        if set(data) != known:
            raise InputError(
                f"a record must have the keys of `Record`; missing {sorted(known - set(data))}, "
                f"unknown {sorted(set(data) - known)}"
            )
        parsed: dict[str, object] = dict(data)
        parsed["ci95"] = _interval("ci95", data["ci95"])
        parsed["null_interval"] = (
            None if data["null_interval"] is None else _interval("null_interval", data["null_interval"])
        )
        parsed["verdict"] = _verdict("verdict", data["verdict"])
        clear = data["in_the_clear_verdict"]
        parsed["in_the_clear_verdict"] = None if clear is None else _verdict("in_the_clear_verdict", clear)
        parsed["knowledge"] = _knowledge(data["knowledge"])
        return cls(**parsed)  # type: ignore[arg-type]  # check_record looks at every type


def _field_to_json(value: object) -> Json:
    if isinstance(value, Interval):
        return [float(value.low), float(value.high)]
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else None


def _interval(name: str, data: Json) -> Interval:
    if not (isinstance(data, list) and len(data) == 2 and all(is_number(end) for end in data)):
        raise InputError(f"{name} must be [low, high]; found {data!r}")
    low, high = (float(str(end)) for end in data)
    return Interval(low, high)


def _verdict(name: str, data: Json) -> Verdict:
    try:
        return Verdict(str(data))
    except ValueError:
        raise InputError(f"{name} must be one of {', '.join(Verdict)}; found {data!r}") from None


def _knowledge(data: Json) -> Alone:
    try:
        return Alone(str(data))
    except ValueError:
        raise InputError(f"knowledge must be one of {', '.join(Alone)}; found {data!r}") from None


def _check_record(record: Record) -> None:
    """Raise an `InputError` that names the first field that breaks its rule."""
    _check_texts(record)
    _check_figures(record)
    _check_counts(record)
    _check_verdict(record)
    _check_null(record)
    _check_clear(record)


def _check_texts(record: Record) -> None:
    for name in ("attack", "view", "coalition", "protocol", "dataset", "partition", "metric", "finding", "claim"):
        value = getattr(record, name)
        if not isinstance(value, str):
            raise InputError(f"{name} must be text; found {value!r}")
        if not value.strip() and name != "claim":
            raise InputError(f"{name} must not be empty; found {value!r}")


def _check_figures(record: Record) -> None:
    for name in ("value", "random", "prior", "positive_minimum"):
        _check_unit_range(name, getattr(record, name))
    if record.positive_control is not None:
        _check_unit_range("positive_control", record.positive_control)
    delta = record.detectable_advantage
    if not (is_number(delta) and isfinite(delta) and delta >= 0):
        raise InputError(f"detectable_advantage must be finite and >= 0; found {delta!r}")
    if not isinstance(record.ci95, Interval) or not record.ci95.contains(record.value, 1e-9):
        raise InputError(f"ci95 must be an interval that contains value = {record.value}; found {record.ci95!r}")


def _check_counts(record: Record) -> None:
    for name in ("n", "seed"):
        value = getattr(record, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(f"{name} must be a whole number >= 0; found {value!r}")


def _check_null(record: Record) -> None:
    control, interval = record.null_control, record.null_interval
    if (control is None) != (interval is None):
        raise InputError(f"null_control and null_interval must come together; found {control!r} and {interval!r}")
    if control is None and record.verdict.is_measured:
        raise InputError(f"null_control must be given for the verdict {str(record.verdict)!r}; found None")
    if control is not None:
        _check_unit_range("null_control", control)
        if not isinstance(interval, Interval) or not interval.contains(control, 1e-9):
            raise InputError(f"null_interval must contain null_control = {control}; found {interval!r}")


def _check_clear(record: Record) -> None:
    """What is compared with, and what the prior rests on."""
    if not isinstance(record.knowledge, Alone):
        raise InputError(f"knowledge must be one of {', '.join(Alone)}; found {record.knowledge!r}")
    figure, verdict = record.in_the_clear, record.in_the_clear_verdict
    if (figure is None) != (verdict is None) or not isinstance(verdict, Verdict | None):
        raise InputError(f"in_the_clear and in_the_clear_verdict must come together; found {figure!r} and {verdict!r}")
    if figure is not None:
        _check_unit_range("in_the_clear", figure)


def _check_verdict(record: Record) -> None:
    if not isinstance(record.verdict, Verdict) or not isinstance(record.contradicts_claim, bool):
        raise InputError(
            f"verdict must be a Verdict and contradicts_claim a bool; found {record.verdict!r} and "
            f"{record.contradicts_claim!r}"
        )
    if record.contradicts_claim and not (record.verdict.is_exposure and record.claim.strip()):
        raise InputError(
            f"contradicts_claim needs the verdict broken or leaks, and the claim's sentence; found "
            f"{str(record.verdict)!r} and {record.claim!r}"
        )


def _check_unit_range(name: str, value: object) -> None:
    if not (is_number(value) and isfinite(value) and -1 <= value <= 1):
        raise InputError(f"{name} must be finite and in [-1, 1]; found {value!r}")
