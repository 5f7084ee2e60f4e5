"""What all parties of Secret Message Passing know before a message is sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.stepwise import SumTerms
from fgl_secure.protocols.topology import Route
from fgl_secure.runtime import PAYLOAD, Direction, Messages, Step

Ids = NDArray[np.int64]

DIRECTIONS = (Direction.FORWARD, Direction.BACKWARD)
NEVER = -1


class MuDelivery(StrEnum):
    """Who hands mu to a source: the paper says both."""

    SILO = "silo"
    """The source asks the target's silo (4.2.3 step 1b; Algorithm 1, line 7)."""
    TARGET = "target"
    """The target device passes its silo's mu on (A.4.1, item 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Parameters and routes.

    Attributes:
        field: of the codes.
        T: masks.
        delivery: who hands mu to a source.
        terms: who sends what to whom; rows are no wider than masks are drawn.
        routes: every message of both passes.
        silos: int64 [S], ascending identifiers of all silos.
        shared: whether both passes use the same ordered pairs of parties, so that mu is where the other needs it.
    """

    field: PrimeField
    T: int
    delivery: MuDelivery
    terms: SumTerms
    routes: dict[Direction, Route]
    silos: Ids
    shared: bool

    @classmethod
    def of(cls, field: PrimeField, T: int, delivery: MuDelivery, terms: SumTerms) -> Setting:
        """Works out routes and silos."""
        g = terms.topology.grouping
        routes = Route.both_ways(g)
        silos = np.unique(np.concatenate([g.row_custodian, g.group_custodian]))
        return cls(field, T, delivery, terms, routes, silos, _same_messages(*routes.values()))

    @property
    def width(self) -> int:
        """Coordinates that masks are drawn for."""
        return self.terms.topology.width

    @property
    def tapes(self) -> tuple[int, ...]:
        """Leading axes of every field."""
        return self.terms.tapes

    @property
    def points(self) -> int:
        """Interpolation points of a silo: T + 1 alphas and T + 1 betas."""
        return 2 * self.T + 2

    @property
    def mu_width(self) -> int:
        """Elements of one silo's mu on the wire."""
        return self.points + self.T * self.width

    def slot(self, step: Step) -> int:
        """Which of two places the mu of a pass is kept in."""
        return 0 if self.shared else DIRECTIONS.index(step.direction)

    def is_empty(self, step: Step) -> bool:
        """Whether nobody sends anything."""
        return not len(self.routes[step.direction].senders)


def check_elements(setting: Setting, messages: Messages, *item: int | None) -> None:
    """Raises unless every message carries field elements of a shape; shows no value.

    Args:
        setting: of the run.
        messages: on as many tapes as the run has.
        item: of one message's payload; None for 1 to `width` coordinates.

    Raises:
        MalformedMessageError: another type or shape, or a value is no element.
    """
    payload, field = messages[PAYLOAD], setting.field
    shape = payload.shape[len(setting.tapes) + 1 :]
    fits = len(shape) == len(item) and all(
        1 <= found <= setting.width if wanted is None else found == wanted
        for found, wanted in zip(shape, item, strict=True)
    )
    if payload.dtype != field.dtype or not fits:
        wanted = [f"1..{setting.width}" if size is None else size for size in item]
        raise MalformedMessageError(
            f"{messages.phase.label} must be {field.dtype} {wanted} a message; found {payload.dtype} {list(shape)}"
        )
    unsigned = payload.view(f"u{payload.itemsize}")  # in which a negative number is beyond all elements
    if payload.size and int(unsigned.max()) >= field.modulus:
        raise MalformedMessageError(f"{messages.phase.label} must carry elements of the field; at least one is none")


def check_points(setting: Setting, messages: Messages) -> None:
    """Raises MalformedMessageError unless the points of every mu are all distinct, as interpolation needs them."""
    points = np.sort(messages[PAYLOAD][..., : setting.points], axis=-1)
    if (points[..., 1:] == points[..., :-1]).any():
        raise MalformedMessageError("interpolation points of a silo must be all distinct; at least two are not")


def fetches(setting: Setting, rounds: Ids, step: Step) -> bool:
    """Whether mu travels in a step: once a round for each set of messages (Algorithm 1, lines 6 and 7).

    Args:
        setting: of the run.
        rounds: int64 [2], the round in which mu travelled last, by slot.
        step: at hand.
    """
    return not setting.is_empty(step) and int(rounds[setting.slot(step)]) != step.round


def _same_messages(forward: Route, backward: Route) -> bool:
    highest = 1 + max((int(ids.max()) for ids in (forward.senders, forward.receivers) if len(ids)), default=0)
    pairs = [np.unique(route.senders * highest + route.receivers) for route in (forward, backward)]
    return bool(np.array_equal(pairs[0], pairs[1]))
