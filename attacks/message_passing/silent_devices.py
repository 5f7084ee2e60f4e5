"""What relays count when devices fall silent: how many partners a silent device has, and whether two are partners.

Where relays are not to see the graph, every sum has D messages. The messages of one device are missing together, one
in the sum of each of its partners, so a relay that counts what is missing in a step has the number of partners. Two
partners that fall silent together lack no message of each other's in a sum that is asked for: less is missing then
than in two steps in which one of them is silent alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, InformedAttack, Measurement
from fgl_secure.attacks.message_passing.knowledge import NOT_SILENT, SILENCE, SILENT_SENDERS, SilentDevices
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import largest_share
from fgl_secure.runtime import Circumstance, Direction, Phase, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import clustered_proportion

Flags = NDArray[np.bool_]
Ids = NDArray[np.int64]
Guess = TypeVar("Guess")

_CARRYING = (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS)
_KNOWS = "which devices fall silent in a step"
_TELLS_NOTHING = "who is silent is drawn without regard to how many partners a device has"
_SOURCE = "which messages of relay-coded are missing together when a device drops out"


@dataclass(frozen=True, slots=True, eq=False)
class CountedPartners:
    """Numbers of partners.

    Attributes:
        devices: int64 [k], party identifiers.
        counts: int64 [k].
    """

    devices: Ids
    counts: Ids


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPairs:
    """Pairs of devices, and whether they are said to be partners.

    Attributes:
        ends: int64 [2, k], party identifiers.
        joined: bool [k].
    """

    ends: Ids
    joined: Flags


class _SilentDevices(InformedAttack[Guess, SilentDevices, MessageTruth], Generic[Guess]):
    """What both attacks do: every relay counts by itself what is missing in each round."""

    def infer_with(self, view: View, public: PublicParameters, known: SilentDevices) -> Guess | None:  # noqa: ARG002
        """Counts at every relay alone; None where silos don't hand messages of unnamed devices to relays."""
        relays = np.unique(np.concatenate([_NONE, *(rows.receivers for rows in view.messages(Phase.FETCH))]))
        rounds = range(len(known.by_round))
        missing = [{n: count for n, count in _missing(view, relay).items() if n in rounds} for relay in relays.tolist()]
        return self._read(missing, known.by_round)

    @abstractmethod
    def _read(self, missing: list[dict[int, int]], silent: Ids) -> Guess | None:
        """What follows from the numbers of missing messages by round, of each relay."""


_NONE: Ids = np.empty(0, dtype=np.int64)


class SilentPartners(_SilentDevices[CountedPartners]):
    """A relay counts the messages that are missing when one device is silent: one for each partner."""

    card = Card(
        "silent-partners",
        "a relay counts the messages that are missing in the step in which one device is silent: its partners",
        _SOURCE,
        Role.RELAY, Secret.DEGREE, SILENCE, SILENT_SENDERS, Circumstance.DROP_OUT, auxiliary=_KNOWS, truth=MessageTruth,
        knowledge=SilentDevices, tells_nothing=_TELLS_NOTHING,
    )  # fmt: skip

    def _read(self, missing: list[dict[int, int]], silent: Ids) -> CountedPartners | None:
        found = [pair for counts in missing for pair in _alone(counts, silent).items()]
        return CountedPartners(*np.array(found, dtype=np.int64).T) if found else None

    def score(self, guess: CountedPartners, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of silent devices whose number of partners is right; the prior is the most frequent number."""
        device = truth.parties.index_of(guess.devices, Role.DEVICE)
        actual = np.bincount(truth.edges[1], minlength=len(truth.silo_of))[device]
        right = guess.counts == actual
        share = clustered_proportion(right, device, seed=0)
        finding = f"{int(right.sum()):,} of {len(right):,} numbers of partners of silent devices are counted right."
        prior, random = largest_share(actual[:, None]), 1 / max(int(actual.max(initial=1)), 1)
        return (Measurement.of_share("partners", share, finding, random=random, prior=prior),)


class SilentPairs(_SilentDevices[JudgedPairs]):
    """A relay compares what is missing when two devices are silent together with what is missing when each is alone."""

    card = Card(
        "silent-pairs",
        "a relay compares what is missing when two devices are silent and when each is: less for partners",
        _SOURCE,
        Role.RELAY, Secret.CROSS_EDGE, SILENCE, SILENT_SENDERS, Circumstance.DROP_OUT, auxiliary=_KNOWS,
        truth=MessageTruth, knowledge=SilentDevices, tells_nothing=_TELLS_NOTHING,
    )  # fmt: skip

    def _read(self, missing: list[dict[int, int]], silent: Ids) -> JudgedPairs | None:
        found = []
        for counts in missing:
            alone = _alone(counts, silent)
            found += [
                (one, other, together < alone[one] + alone[other])
                for number, together in counts.items()
                if {one := int(silent[number, 0]), other := int(silent[number, 1])} <= alone.keys()
            ]
        if not found:
            return None
        one, other, joined = np.array(found, dtype=np.int64).T
        return JudgedPairs(np.stack([one, other]), joined == 1)

    def score(self, guess: JudgedPairs, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of pairs of which it is rightly said whether they are partners; the prior says one of all."""
        one, other = truth.parties.index_of(guess.ends.ravel(), Role.DEVICE).reshape(2, -1)
        n = len(truth.silo_of)
        actual = np.isin(one * n + other, truth.edges[0] * n + truth.edges[1])
        right = guess.joined == actual
        share = clustered_proportion(right, one, seed=0)
        finding = f"Of {int(right.sum()):,} of {len(right):,} pairs it is said rightly whether they are partners."
        prior = largest_share(actual[:, None].astype(np.int64))
        return (Measurement.of_share("pairs", share, finding, random=0.5, prior=prior),)


def _alone(counts: Mapping[int, int], silent: Ids) -> dict[int, int]:
    """How many messages are missing by device, of those that are silent alone in a round."""
    return {
        int(silent[number, 0]): missing
        for number, missing in counts.items()
        if silent[number, 0] != NOT_SILENT and silent[number, 1] == NOT_SILENT
    }


def _missing(view: View, relay: int) -> dict[int, int]:
    """By round, the messages that are missing in the sums that one relay is asked for."""
    tags, shown = _words(view, relay, _CARRYING, "tag"), _words(view, relay, (Phase.FETCH,), "opening")
    messages = max((int(np.unique(each, return_counts=True)[1].max()) for each in tags.values()), default=0)
    return {number: _lacking(tags[number], each, messages) for number, each in shown.items() if number in tags}


def _words(view: View, relay: int, phases: tuple[Phase, ...], name: str) -> dict[int, Ids]:
    """By round, the first words of what a relay is sent by silos in forward steps: 63 random bits tell all apart."""
    silos, found = view.parties.ids(Role.SILO), dict[int, list[Any]]()
    for phase in phases:
        for rows in view.messages(phase, direction=Direction.FORWARD):
            mine = (rows.receivers == relay) & np.isin(rows.senders, silos)
            if mine.any():
                found.setdefault(rows.step.round, []).append(np.asarray(rows[name])[mine][..., 0])
    return {number: np.concatenate(each) for number, each in found.items()}


def _lacking(tags: Ids, shown: Ids, messages: int) -> int:
    """Messages that are missing in one round.

    Args:
        tags: int64 [m], tags or labels of the messages that are there.
        shown: int64 [f, k], for each sum that is asked for what opens its tag, or its labels.
        messages: D, how many each has under its tag.
    """
    there = np.isin(shown, tags)
    if there.any():  # labels, which fetches name
        return int((~there).sum())
    counts = np.sort(np.unique(tags, return_counts=True)[1])
    # The sum of a silent device lacks most messages. One with D partners lacks none, and is taken for one with D - 1.
    unasked = max(len(counts) - len(shown), 0)
    return int((messages - counts[unasked:]).sum())
