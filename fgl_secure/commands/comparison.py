"""The methods side by side: each in the clear and secured, what it reaches, what it costs and what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fgl_secure.audit import Record, Report, Verdict
from fgl_secure.commands.audit import audit
from fgl_secure.commands.method_pages import METHOD_PAGES
from fgl_secure.commands.options import Options
from fgl_secure.methods.fedstruct.choice import StructureChoice
from fgl_secure.training.loop import Progress


@dataclass(frozen=True, slots=True)
class Compared:
    """What of a method's audit goes on the page.

    Attributes:
        options: the choices of the audit.
        clear: the protocol, exchange or scheme of the run in the clear.
        secured: that of the secured run.
        attacks: those that are run, each on both.
    """

    options: Options
    clear: str
    secured: str
    attacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one attack reads.

    Attributes:
        attack: its name.
        metric: what is measured.
        value: the figure; None where there was nothing to read.
        prior: the figure of the best guess without having seen anything.
        n: units behind the figure, such as rows that were claimed.
        verdict: what the figure says; None where there is none.
    """

    attack: str
    metric: str
    value: float | None
    prior: float | None
    n: int
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Side:
    """One run of a method.

    Attributes:
        scheme: what it ran under.
        accuracy: on test data at the selected round, a fraction.
        bytes: everything that was sent.
        seconds: of training.
        readings: one for each attack.
    """

    scheme: str
    accuracy: float
    bytes: int
    seconds: float
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One method.

    Attributes:
        title: as its paper calls it.
        dataset: what it was trained on.
        clear: in the clear, as published.
        secured: under a scheme that protects it.
    """

    title: str
    dataset: str
    clear: Side
    secured: Side


FIVE = (
    Compared(Options("hifgl", epochs=20), "plaintext", "relay-coded", ("clear-values", "device-gradients")),
    Compared(
        Options("fedstruct", epochs=20, structure=StructureChoice(exchanges=("plaintext", "pairwise-masking"))),
        "plaintext",
        "pairwise-masking",
        ("hop-shares", "structure-gradient-labels"),
    ),
    Compared(
        Options("fedspray", partition="louvain", epochs=30),
        "plaintext",
        "pairwise-masking",
        ("proxy-classes", "proxy-singletons", "proxy-label-changes"),
    ),
    Compared(
        Options("fed2gnn", epochs=60),
        "plaintext",
        "relay-coded",
        ("hop-feature-single", "hop-feature-differencing", "hop-feature-topology"),
    ),
    Compared(
        Options("fedvn", dataset="Motif-mini", backbone="gin", epochs=20),
        "plaintext",
        "pairwise-masking",
        ("virtual-node-labels", "virtual-node-clients"),
    ),
)
"""The five methods on data that needs no download."""


def compare(
    methods: tuple[Compared, ...] = FIVE,
    *,
    seed: int = 0,
    epochs: int | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Iterator[Line]:
    """Audits one method after the other.

    Args:
        methods: what is compared.
        seed: of everything, as in `Options`.
        epochs: most training rounds; None takes those of each method's options.
        progress: given a protocol's name, what to call after each of its rounds.
    """
    for each in methods:
        options = replace(each.options, seed=seed, epochs=epochs or each.options.epochs)
        yield line_of(each, audit(options, attacks=each.attacks, progress=progress))


def line_of(compared: Compared, report: Report) -> Line:
    """Picks the two runs out of an audit."""
    title = next(page.title for page in METHOD_PAGES if page.name == compared.options.method)
    sides = (_side(name, compared.attacks, report) for name in (compared.clear, compared.secured))
    return Line(title, str(report.run["dataset"]), *sides)


def _side(prefix: str, attacks: tuple[str, ...], report: Report) -> Side:
    accuracy, cost = _of(report.accuracy), _of(report.cost)
    name = next(name for name in accuracy if name.split("[")[0] == prefix)
    readings = tuple(_reading(attack, name, report) for attack in attacks)
    return Side(name, float(accuracy[name]["test"]), int(cost[name]["bytes"]), float(cost[name]["seconds"]), readings)


def _of(part: Any) -> dict[str, dict[str, Any]]:
    return dict(part["protocols"])


def _reading(attack: str, name: str, report: Report) -> Reading:
    """The figure of an attack that is furthest above its prior, over all runs under the scheme."""
    found = [each for each in report.records if each.attack == attack and _belongs(each, name)]
    measured = [each for each in found if each.verdict is not Verdict.CONTEXT]
    if not measured:
        return Reading(attack, "", None, None, 0, None)
    best = max(measured, key=lambda each: each.value - each.prior)
    return Reading(attack, best.metric, best.value, best.prior, best.n, best.verdict)


def _belongs(record: Record, name: str) -> bool:
    return record.protocol == name or record.protocol.startswith(f"{name}[")
