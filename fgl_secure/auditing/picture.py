"""The matrix of a report in words: rows by promise, columns by scheme; shared by terminal, page and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fgl_secure.auditing.matrix import Cell, State
from fgl_secure.auditing.schema import Findings
from fgl_secure.auditing.wording import figure
from fgl_secure.runtime import Secret

SHORT: Mapping[str, str] = MappingProxyType({
    Secret.EMBEDDING: "a device's row",
    Secret.FOREIGN_NODE: "foreign neighbours",
    Secret.CROSS_EDGE: "cross-silo edges",
    Secret.DEGREE: "degrees",
    Secret.PARAMETER_GRADIENT: "a device's gradient",
    Secret.FOREIGN_EDGE: "others' edges",
    Secret.LABEL: "others' labels",
    Secret.IDENTITY: "who is who",
    Secret.STRUCTURE_FEATURE: "structure features",
    Secret.SUMMAND: "a client's vector",
    Secret.TRAINING_NODE: "training nodes",
    Secret.NODE_FEATURES: "features of a node",
    Secret.CLASS_PRESENCE: "classes at a client",
    Secret.LABEL_SHARES: "label counts",
    Secret.CLIENT_IDENTITY: "who sent an update",
})  # fmt: skip
"""Secrets in the few words that a column has room for."""

MEANING: Mapping[State, str] = MappingProxyType({
    State.CONTRADICTED: "an attack read what the scheme promises to hide",
    State.ADMITTED: "the scheme says that it leaks this; the figure is what was read",
    State.KEPT: "promised, and attacks that could have contradicted it did not",
    State.UNREAD: "promised, and the attacks on it met no message that they could read",
    State.UNTESTED: "promised, and no attack here could have contradicted it",
    State.NO_CLAIM: "nothing is promised; the figure is what was read",
})  # fmt: skip

EXAMPLES = 4
"""Names of attacks in one cell; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One promise under each scheme.

    Attributes:
        secret: what may be hidden, in full.
        role: from whom.
        cells: one a scheme, in the order of `schemes`.
    """

    secret: str
    role: str
    cells: tuple[Cell, ...]

    @property
    def short(self) -> str:
        """The secret in few words."""
        return SHORT.get(self.secret, self.secret)

    @property
    def parties(self) -> str:
        """The role in the plural: from whom."""
        return f"{self.role}s"

    @property
    def is_quiet(self) -> bool:
        """Whether no cell of it says more than what is promised."""
        return all(
            each.state in (State.UNREAD, State.UNTESTED, State.NO_CLAIM) and each.value is None for each in self.cells
        )


def schemes(report: Findings) -> tuple[str, ...]:
    """The columns."""
    return tuple(dict.fromkeys(cell.scheme for cell in report.matrix))


def rows(report: Findings) -> tuple[Row, ...]:
    """The rows, in the order of the report."""
    keys = dict.fromkeys((cell.secret, cell.role) for cell in report.matrix)
    return tuple(
        Row(secret, role, tuple(each for each in report.matrix if (each.secret, each.role) == (secret, role)))
        for secret, role in keys
    )


def cell_text(cell: Cell) -> str:
    """What became of a promise, `admitted 0.532`; what was read is given where nothing is promised against it."""
    shown = cell.value is not None and cell.state in (State.ADMITTED, State.NO_CLAIM)
    return f"{cell.state} {figure(cell.value)}" if shown and cell.value is not None else str(cell.state)


def named(attacks: Sequence[str]) -> str:
    """Names of attacks, the first few of many."""
    more = len(attacks) - EXAMPLES
    shown = attacks if more <= 1 else attacks[:EXAMPLES]
    return ", ".join(shown) + (f" and {more} more" if more > 1 else "")


def fallen(report: Findings) -> tuple[Cell, ...]:
    """The cells that are contradicted."""
    return tuple(cell for cell in report.matrix if cell.state is State.CONTRADICTED)


def tally(cells: Iterable[Cell]) -> dict[State, int]:
    """How many cells there are of each state, those of none left out."""
    states = [cell.state for cell in cells]
    return {state: states.count(state) for state in State if state in states}
