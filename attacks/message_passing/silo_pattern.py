"""Which silos have a device's neighbours: what relays can count where devices are unnamed and silos forward for them.

A relay sees from which silo each message under a tag came; where messages have labels, one fetch names those of a sum.
Where silos forward what their own devices send, and nothing else, the counts of other silos under a tag are the numbers
of the target's neighbours there, however many messages without meaning the target adds, as those come from its own
silo. One step tells all of it, and the same pattern comes back in every other, which links a device's tags.

So the first step is read alone. Where silos mix, several can't be intersected: tags or labels, numbers, seeds and
places are new ones in each, and so is the silo by way of which a message goes. Nothing says which tags of two steps are
one device's, and if something did, counts would add up to as much from any silo (tests try both).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.knowledge import OWN_SILOS, TRAINING
from fgl_secure.attacks.message_passing.labels import by_fetch
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Ids = NDArray[np.int64]

CARRYING = (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS)


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """What one relay counts under tags.

    Attributes:
        tags: int64 [t, 2].
        counts: int64 [t, s], messages under each from each silo.
    """

    tags: Ids
    counts: Ids


class SiloPattern(Attack[Patterns, MessageTruth]):
    """A relay counts messages under each tag by silo."""

    card = Card(
        "silo-pattern",
        "a relay counts, by silo, the messages under each tag: the unnamed target's neighbours in other silos",
        "what silos that forward for their own devices alone leave of the graph",
        Role.RELAY, Secret.CROSS_EDGE, TRAINING, OWN_SILOS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Patterns | None:  # noqa: ARG002  # needs no parameter
        """Counts in the first forward step, at every relay alone; what others would add is said above."""
        sent = [batch for phase in CARRYING for batch in _first(view, phase)]
        relays = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *(batch.receivers for batch in sent)]))
        found = [_counted(sent, relay, view) for relay in relays.tolist()]
        if not sum(len(each.tags) for each in found):
            return None
        return Patterns(*(np.concatenate([getattr(each, name) for each in found]) for name in ("tags", "counts")))

    def score(self, guess: Patterns, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of tags whose counts are right for the device behind, of those that have a neighbour abroad.

        Whose a tag is the relay does not know: that is looked up, and the device's own silo left out, whose count holds
        messages without meaning. The prior gives all the most frequent counts.
        """
        known = dict(zip(map(tuple, truth.tags[:, 1:].tolist()), truth.tags[:, 0].tolist(), strict=True))
        named = np.array([known.get(tag, -1) for tag in map(tuple, guess.tags.tolist())], dtype=np.int64)
        actual = _neighbours_by_silo(truth)
        shown = named >= 0
        shown[shown] = actual[named[shown]].any(axis=1)
        if not shown.any():
            return ()
        theirs, width = actual[named[shown]], guess.counts.shape[1]
        counts = guess.counts[shown]
        counts[np.arange(len(counts)), truth.silo_of[named[shown]]] = 0
        right = (np.pad(theirs, ((0, 0), (0, width - theirs.shape[1]))) == counts).all(axis=1)
        share = clustered_proportion(right, named[shown], seed=0)
        finding = (
            f"{int(right.sum()):,} of {len(right):,} tags show in which silos, and how many, neighbours an unnamed "
            "device has."
        )
        prior = largest_share(theirs)
        return (Measurement.of_share("neighbours by silo", share, finding, prior=prior),)


def _counted(batches: list[ReceivedRows], relay: int, view: View) -> Patterns:
    """What one relay counts of messages that came from silos."""
    ids = view.parties.ids(Role.SILO)
    mine = [(batch, (batch.receivers == relay) & np.isin(batch.senders, ids)) for batch in batches]
    silos = np.concatenate([view.parties.index_of(batch.senders[here], Role.SILO) for batch, here in mine])
    words = [by_fetch(np.asarray(batch["tag"])[here], view, relay, batch.step) for batch, here in mine]
    tags, of_each = np.unique(np.concatenate(words), axis=0, return_inverse=True)
    counts = np.zeros((len(tags), len(ids)), dtype=np.int64)
    np.add.at(counts, (of_each.ravel(), silos), 1)
    return Patterns(tags, counts)


def _first(view: View, phase: Phase) -> list[ReceivedRows]:
    """What relays got in the first forward step of a layer."""
    found = [
        batch
        for batch in view.messages(phase, direction=Direction.FORWARD)
        if batch.step.layer >= 0 and not batch.step.evaluation
    ]
    first = min(((batch.step.round, batch.step.layer) for batch in found), default=None)
    return [batch for batch in found if (batch.step.round, batch.step.layer) == first]


def _neighbours_by_silo(truth: MessageTruth) -> Ids:
    """int64 [n, s], neighbours of each device in each silo; 0 in its own."""
    (sources, targets), silo_of = truth.edges, truth.silo_of
    counts = np.zeros((len(silo_of), int(silo_of.max()) + 1), dtype=np.int64)
    np.add.at(counts, (targets, silo_of[sources]), 1)
    counts[np.arange(len(silo_of)), silo_of] = 0
    return counts
