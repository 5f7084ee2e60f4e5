"""One finding of an audit: a figure, its baselines, its controls and what they say; and what JSON holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from fgl_secure.attacks.base import KnowledgeBaseline
from fgl_secure.auditing.verdict import MARGIN, Verdict
from fgl_secure.errors import InputError
from fgl_secure.statistics.metrics import Interval

GAME = "distinguished"
"""The metric of a game: 1 where the observers can tell two inputs apart, else 0."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def plain(value: object, where: str) -> Json:
    """A deep copy of `value` made of dict, list, str, int, float, bool and None alone.

    Args:
        value: mappings with text keys, lists, tuples, numpy arrays and scalars of these.
        where: the name of the value, for the message.

    Raises:
        InputError: for NaN, an infinity, a key that is no text, or any other type.
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), where)
    if isinstance(value, Mapping):
        return plain_mapping(value, where)
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | int):
        return str(value) if isinstance(value, str) else int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    raise InputError(f"{where} must be text, a finite number, a truth value or None; found {value!r}")


def plain_mapping(value: object, where: str) -> dict[str, Json]:
    """Like `plain`, for a value that must be a mapping with text keys.

    Raises:
        InputError: as `plain`, and when the value is no mapping.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"{where} must be a mapping; found {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{where} must have text keys; found {key!r}")
    return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is an int or a float, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _interval(ends: list[float]) -> Interval:
    return Interval(*ends)


_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
"""By annotation of a field, the types of its value in JSON."""


def check_types(kind: type[Any], values: Mapping[str, Any]) -> None:
    """Check values that were read from JSON against the annotations of a dataclass; others are not looked at.

    Raises:
        ValueError: a value has another type.
    """
    for field in fields(kind):
        parts, value = str(field.type).split(" | "), values.get(field.name)
        allowed_types = tuple(item for part in parts for item in _KINDS.get(part, ()))
        if not allowed_types or (value is None and ("None" in parts or field.name not in values)):
            continue
        if not isinstance(value, allowed_types) or (isinstance(value, bool) and bool not in allowed_types):
            raise ValueError(f"{field.name} must be of type {field.type}; found {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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
            attack finds there; None where nothing in plaintext compares with what it reads.
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
        violates_guarantee: whether the figure violates what the protocol claims.
        finding: one plain sentence.
        claim: the sentence of the claim that is violated, or "".

    Raises:
        InputError: A figure of the attack lies out of range or outside its interval, or a text is empty.
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
    knowledge: KnowledgeBaseline
    in_the_clear: float | None = None
    in_the_clear_verdict: Verdict | None = None
    n: int
    seed: int
    positive_control: float | None = None
    positive_minimum: float = 0.0
    null_control: float | None = None
    null_interval: Interval | None = None
    detectable_advantage: float
    verdict: Verdict
    violates_guarantee: bool = False
    finding: str
    claim: str = ""

    def __post_init__(self) -> None:
        for name in ("attack", "protocol", "metric", "finding"):
            if not str(getattr(self, name)).strip():
                raise InputError(f"{name} must not be empty; found {getattr(self, name)!r}")
        for name in (
            "value",
            "random",
            "prior",
            "in_the_clear",
            "positive_control",
            "positive_minimum",
            "null_control",
        ):
            figure = getattr(self, name)
            if figure is not None and not (is_number(figure) and isfinite(figure) and -1 <= figure <= 1):
                raise InputError(f"{name} must be finite and in [-1, 1]; found {figure!r}")
        if not self.ci95.contains(self.value, 1e-9):
            raise InputError(f"ci95 must contain value = {self.value}; found {self.ci95!r}")
        if self.verdict.is_measured and self.null_interval is None:
            raise InputError(f"null_control must be given for the verdict {str(self.verdict)!r}; found None")
        if self.violates_guarantee and not (self.verdict.is_exposure and self.claim.strip()):
            raise InputError(
                f"violates_guarantee must come with the verdict broken or leaks and the claim's sentence; found "
                f"{str(self.verdict)!r} and {self.claim!r}"
            )

    def __repr__(self) -> str:
        text = f"{self.attack} under {self.protocol}: {self.metric} {self.value:.3f}, prior {self.prior:.3f}"
        return f"Record({text}, {self.verdict}{', violates a guarantee' if self.violates_guarantee else ''})"

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
        """Whether the attack finds something on this subject in plaintext; True where nothing there compares."""
        return self.in_the_clear_verdict is not Verdict.NOT_DETECTED

    @property
    def is_conclusive(self) -> bool:
        """Whether the figure says something of a protocol, whichever way it came out."""
        return self.verdict.is_exposure or (self.has_power and self.detectable_advantage <= 1)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """Return the record of which `to_json` gave these values.

        Raises:
            ValueError: a value has another type.
        """
        check_types(cls, values)
        kinds: dict[str, Callable[[Any], Any]] = {
            "ci95": _interval,
            "null_interval": _interval,
            "knowledge": KnowledgeBaseline,
            "verdict": Verdict,
            "in_the_clear_verdict": Verdict,
        }
        converted = {name: None if values[name] is None else kind(values[name]) for name, kind in kinds.items()}
        return cls(**{**values, **converted})

    def to_json(self) -> dict[str, Json]:
        """All fields as JSON values; intervals become [low, high]."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {
            name: plain([value.low, value.high] if isinstance(value, Interval) else value, name)
            for name, value in values
        }
