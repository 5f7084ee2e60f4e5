"""Which degrees a client's nodes have, from the structure encoder that it sends.

The encoder begins with a linear map of a one-hot degree. The row of its weight for a degree that no node near a
labelled one has gets no gradient: a first step of Adam moves each of its entries against its own sign, by weight decay,
or not at all without any. A row with a gradient has entries that go the other way. Of the sum over all clients the same
signs say whether most clients have the degree, which is the best that can be said of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, InformedAttack, Measurement, Truth
from fgl_secure.attacks.truth import shift_rows
from fgl_secure.attacks.updates import sums_of, vectors_of
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

Marks = NDArray[np.bool_]

STRUCTURE_ENCODERS = "structure encoders"
"""Scenario: a round after which clients average encoders of structure."""

FEDSTAR = "fedstar in the clear, clients of regular graphs"
"""Control, as FedStar makes it."""


TOLD = "degrees told"


@dataclass(frozen=True, slots=True, eq=False)
class EncoderStart:
    """What the server hands out before the round.

    Attributes:
        start: float64 [degrees, hidden], the weight of the one-hot degree.
        place: where it lies among the entries of an encoder.
    """

    start: Floats
    place: slice


@dataclass(frozen=True, slots=True, eq=False)
class DegreeTruth(Truth):
    """Bool [clients, degrees], which degrees the nodes have that a client's first step reaches."""

    present: Marks

    def permute(self, seed: int) -> DegreeTruth:  # noqa: ARG002  # clients move on by one
        """Every client's degrees at the next client."""
        return replace(self, present=shift_rows(self.present))


@dataclass(frozen=True, slots=True, eq=False)
class GuessedDegrees:
    """Which degrees clients are believed to have: clients int64 [k], bool [k, degrees]."""

    clients: Ids
    present: Marks


class EncoderDegrees(InformedAttack[GuessedDegrees, EncoderStart, DegreeTruth]):
    """Signs of the steps of the map that an encoder begins with."""

    card = Card(
        "encoder-degrees",
        "the server tells from the structure encoder that a client sends which degrees its nodes have",
        "zero gradients of inputs that do not occur; FedStar (AAAI 2023, "
        "https://arxiv.org/abs/2211.12814) section 4.2 shares the encoder",
        Role.SERVER,
        Secret.SUMMAND,
        STRUCTURE_ENCODERS,
        FEDSTAR,
        auxiliary="where the encoder begins, which the server hands out",
        truth=DegreeTruth,
        knowledge=EncoderStart,
        page="reproduction/docs/fedstar.md",
        tells_nothing="where all begin says nothing of where steps on own nodes led",
    )

    def infer_with(self, view: View, public: PublicParameters, known: EncoderStart) -> GuessedDegrees | None:  # noqa: ARG002  # needs no parameter
        """Of every client by its own encoder, or else of all by their mean; None without either."""
        silos = view.parties.counts.get(Role.SILO, 0)
        sent, total = vectors_of(view).get(0), sums_of(view).get(0)
        if sent is not None:
            clients, rows = sent
            weighed = rows[:, -1] > 0
            return GuessedDegrees(clients[weighed], find_moved(rows[weighed], known))
        if total is None:
            return None
        return GuessedDegrees(np.arange(silos, dtype=np.int64), np.repeat(find_moved(total, known), silos, axis=0))

    def score(self, guess: GuessedDegrees, truth: DegreeTruth) -> tuple[Measurement, ...]:
        """How often two clients are told apart of which one has a degree, with a bootstrap over the one that has it.

        It is the share of pairs that are told the right way round less that of the wrong way round; what is said of all
        clients alike is worth 0.
        """
        actual, said = truth.present[guess.clients], guess.present.astype(np.int64)
        having, lacking, degree = np.nonzero(actual[:, None] & ~actual[None, :])
        if not len(degree):
            return ()
        sign = said[having, degree] - said[lacking, degree]
        halves = np.concatenate([sign > 0, sign >= 0])  # a pair that is not told apart is half right
        share = clustered_proportion(halves, np.tile(guess.clients[having], 2), seed=0)
        finding = (
            f"{int((sign > 0).sum()):,} of {len(sign):,} times the server tells which of two clients has a degree that "
            f"the other lacks, and {int((sign < 0).sum()):,} times the wrong one."
        )
        return (Measurement.of_area(TOLD, share.value, share.interval, share.n, finding),)


def find_moved(rows: Floats, start: EncoderStart) -> Marks:
    """Which rows of the weight went elsewhere than against their own signs.

    Args:
        rows: float64 [k, P + 1], encoders times a weight, and the weight.
        start: where they began.

    Returns:
        bool [k, degrees].
    """
    weights = (rows[:, :-1] / rows[:, -1:])[:, start.place].reshape(len(rows), *start.start.shape)
    along = (weights - start.start) * np.sign(start.start)
    return np.asarray((along > ROUNDING).any(axis=2))


ROUNDING = 1e-6
"""What single precision and the grid of sums may move an entry by; a step is a thousandth or more."""
