"""The methods side by side: each in the clear and secured, what it reaches, what it costs and what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from fgl_secure.auditing import Record, Report, Verdict
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.method import Method
from fgl_secure.graph import Data
from fgl_secure.methods.fed2gnn.configuration import Fed2GNN
from fgl_secure.methods.fedspray.configuration import FedSpray
from fgl_secure.methods.fedstruct.configuration import FedStruct
from fgl_secure.methods.fedvn.configuration import FedVN
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.training.loop import Progress

CLEAR = "plaintext"


@dataclass(frozen=True, slots=True)
class Compared:
    """What of a method's audit goes on the page.

    Attributes:
        method: with its choices.
        secured: the scheme of the secured run, beside which there is one in the clear.
        attacks: those that are run, each on both.
        data: what it is trained on; None takes what needs no download.
    """

    method: Method
    secured: str
    attacks: tuple[str, ...]
    data: Data | None = None


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
    Compared(HiFGL(epochs=20), "relay-coded", ("clear-values", "device-gradients")),
    Compared(FedStruct(epochs=20), "pairwise-masking", ("hop-shares", "structure-gradient-labels")),
    Compared(
        FedSpray(epochs=30),
        "pairwise-masking",
        ("proxy-counts", "proxy-singletons", "proxy-label-changes"),
        Data(partition="louvain"),
    ),
    Compared(
        Fed2GNN(epochs=60), "relay-coded", ("hop-feature-single", "hop-feature-differencing", "hop-feature-topology")
    ),
    Compared(FedVN(epochs=20), "pairwise-masking", ("virtual-node-labels", "virtual-node-clients")),
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
        seed: of everything.
        epochs: most training rounds; None takes those of each method.
        progress: given a run's name, what to call after each of its rounds.
    """
    for each in methods:
        method = each.method if epochs is None else replace(cast(Any, each.method), epochs=epochs)
        report = audit(method, each.data, (CLEAR, each.secured), each.attacks, seed=seed, progress=progress)
        yield line_of(each, report)


def line_of(compared: Compared, report: Report) -> Line:
    """Picks the two runs out of an audit."""
    sides = (_side(name, compared.attacks, report) for name in (CLEAR, compared.secured))
    return Line(compared.method.title, str(report.run["dataset"]), *sides)


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
