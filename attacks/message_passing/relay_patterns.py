"""What relays see of the graph by the pattern of circuits: groups, silos that hand rows over, and rows that miss.

A relay of named senders sees sender x group: the adjacency matrix of the graph with its columns shuffled. On an
undirected graph device u and its group have the same neighbourhood, once as senders to the group and once as groups
that u sends to. Colour refinement (Weisfeiler and Leman 1968) from the degrees on therefore gives both the same colour,
and where a colour is unique the group has a name. Fresh pseudonyms do not help: the pattern is the same.

Where devices are unnamed a relay still sees from which silo each circuit of a group comes. Where silos hand over the
circuits of their own devices alone, the counts of other silos in a group are the numbers of the target's neighbours
there, however many dummies the target adds, as those come from its own silo.

A relay that sees a step before silos know that it is complete sees which circuits fall silent together: those of one
device, one in the group of each of its partners and the rest in its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges, score_claimed_edges
from fgl_secure.attacks.message_passing.knowledge import (
    FRESH_TAGS,
    NOT_SILENT,
    OWN_SILOS,
    SILENCE,
    SILENT_SENDERS,
    TRAINING,
    SilentDevices,
)
from fgl_secure.attacks.recovery import largest_share, share_of_numbers, share_right
from fgl_secure.attacks.truth import MessageTruth, neighbours_by_silo
from fgl_secure.runtime import Circumstance, Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View
from fgl_secure.typing import Flags, Ids

CIRCUITS = "circuits"
"""Name of what a relay learns of circuits that are opened to it: who hands rows over, the place, and the group."""


@dataclass(frozen=True, slots=True, eq=False)
class _Colours:
    """Stable colours of devices, int64 [n], and of tags, int64 [t], on one palette."""

    devices: Ids
    tags: Ids


def refine(incidence: sparse.csr_array, devices: Ids, tags: Ids) -> _Colours:
    """Refines colours until they are stable: a device by those of its tags, a tag by those of its senders.

    Multisets of colours are compared by sums of random 64-bit words, which differ but with probability 2^-64.

    Args:
        incidence: 0/1 [n, t], who sends under which tag.
        devices: int64 [n], what is known of each device from the start, beside its degree.
        tags: int64 [t], the same of each tag, on the same palette.
    """
    rng = np.random.default_rng(0)
    forth, back = incidence.astype(np.uint64), incidence.T.tocsr().astype(np.uint64)
    n = incidence.shape[0]
    colour = np.unique(np.concatenate([devices, tags]), return_inverse=True)[1]
    count = 0
    while int(colour.max(initial=-1)) + 1 > count:
        count = int(colour.max()) + 1
        words = rng.integers(0, 2**63, size=count, dtype=np.uint64)
        around = np.concatenate([forth @ words[colour[n:]], back @ words[colour[:n]]])
        colour = np.unique(np.stack([colour.astype(np.uint64), around]), axis=1, return_inverse=True)[1].ravel()
    return _Colours(colour[:n], colour[n:])


def certain_edges(incidence: sparse.csr_array, colours: _Colours) -> tuple[Ids, Ids]:
    """Edges that hold however the tags of one colour belong to the devices of that colour.

    A sender under *all* tags of a colour is a neighbour of all its devices; where the colour is unique, that is one
    tag and one device. Colours with unlike numbers of tags and devices say nothing.

    Returns:
        int64 [k] senders and int64 [k] receivers, device indices.
    """
    n, t = incidence.shape
    count = 1 + max(int(colours.devices.max(initial=-1)), int(colours.tags.max(initial=-1)))
    tags_of, devices_of = (np.bincount(colour, minlength=count) for colour in (colours.tags, colours.devices))
    by_colour = (incidence.astype(np.int64) @ _membership(colours.tags, t, count)).tocoo()
    equal = (by_colour.data == tags_of[by_colour.col]) & (tags_of == devices_of)[by_colour.col]
    sends = sparse.csr_array(
        (np.ones(int(equal.sum()), dtype=np.int64), (by_colour.row[equal], by_colour.col[equal])), shape=(n, count)
    )
    edges = (sends @ _membership(colours.devices, n, count).T.tocsr()).tocoo()
    return edges.row.astype(np.int64), edges.col.astype(np.int64)


def claimed_edges(forward: sparse.csr_array, answering: NDArray[np.bool_] | None = None) -> tuple[Ids, Ids]:
    """The edges that a forward pass gives away, with what the backward pass shows of who has a tag at all.

    Where sums over fewer than k_min messages are refused, most devices of low degree have no tag. Those that have one
    send gradients back, if to any party with k_min messages of its own; the tags of the others are those under which no
    such sender is seen. Between the former and the remaining tags the pattern is symmetric again.

    Args:
        forward: 0/1 [n, t], who sends under which tag in a forward pass.
        answering: bool [n], who sends in the backward pass; None where there is none.

    Returns:
        int64 [k] senders and int64 [k] receivers, device indices.
    """
    n, t = forward.shape
    rows, columns = np.arange(n), np.arange(t)
    if answering is not None and t:
        least = int(forward.sum(axis=0).min())
        able = np.asarray(forward.sum(axis=1) >= least)
        rows, columns = np.flatnonzero(answering), np.flatnonzero(forward[able].sum(axis=0))
    core = forward[rows][:, columns]
    colours = refine(core, np.zeros(len(rows), dtype=np.int64), np.zeros(len(columns), dtype=np.int64))
    node_names = _Colours(np.full(n, -1, dtype=np.int64), colours.tags)
    node_names.devices[rows] = colours.devices
    rest = int(max(colours.devices.max(initial=-1), colours.tags.max(initial=-1))) + 1
    node_names.devices[node_names.devices < 0] = rest  # without a tag in the core, so in no colour of one
    return certain_edges(forward[:, columns], node_names)


class _TagMatching(Attack[ClaimedEdges, MessageTruth]):
    """A relay matches tags to devices in the first round."""

    card = Card(
        "tag-matching",
        "a relay matches fresh tags to devices by the pattern of who sends under which",
        "colour refinement (Weisfeiler and Leman 1968) on the senders and tags of one pass",
        Role.RELAY, Secret.CROSS_EDGE, TRAINING, FRESH_TAGS, minimum=0.9, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ClaimedEdges | None:  # noqa: ARG002  # needs no parameter
        forward, backward = (_from_devices(view, item) for item in (Direction.FORWARD, Direction.BACKWARD))
        if not forward:
            return None
        relays = np.unique(np.concatenate([batch.observers for batch in forward]))
        result = [_at_relay(forward, backward, relay, view) for relay in relays.tolist()]
        sources, targets = (np.concatenate(ends) for ends in zip(*result, strict=True))
        devices = view.parties.ids(Role.DEVICE)
        return ClaimedEdges(devices[sources], devices[targets])

    def score(self, guess: ClaimedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        return score_claimed_edges(guess, truth, crossing=True)


def _membership(colour: Ids, size: int, count: int) -> sparse.csr_array:
    ones: NDArray[Any] = np.ones(size, dtype=np.int64)
    return sparse.csr_array((ones, (np.arange(size), colour)), shape=(size, count))


def _from_devices(view: View, direction: Direction) -> list[ReceivedRows]:
    """The first circuits of a pass that devices opened in their own names."""
    batches = [batch for batch in view.messages(Phase.CIRCUITS, direction=direction) if "pseudonym" in batch.fields]  # type: ignore[operator]
    first = min(((batch.step.round, batch.step.layer) for batch in batches), default=None)
    return [batch for batch in batches if (batch.step.round, batch.step.layer) == first]


def _at_relay(forward: list[ReceivedRows], backward: list[ReceivedRows], relay: int, view: View) -> tuple[Ids, Ids]:
    sender, words = _received_messages(forward, relay, view)
    tags, tag = np.unique(words, axis=0, return_inverse=True)
    shape = (view.parties.counts[Role.DEVICE], len(tags))
    incidence = sparse.csr_array((np.ones(len(sender), dtype=np.int64), (sender, tag.ravel())), shape=shape)
    incidence.data[:] = 1  # a message that is sent again counts once
    back, _ = _received_messages(backward, relay, view)
    answering = np.bincount(back, minlength=shape[0]) > 0
    return claimed_edges(incidence, answering if len(back) else None)


def _received_messages(batches: list[ReceivedRows], relay: int, view: View) -> tuple[Ids, Ids]:
    """What one relay got: int64 [m] device indices of the senders, and int64 [m, 2] pseudonyms of groups."""
    senders, words = [np.empty(0, dtype=np.int64)], [np.empty((0, 2), dtype=np.int64)]
    for batch in batches:
        is_own = batch.observers == relay
        senders.append(view.parties.index_of(batch.senders[is_own], Role.DEVICE))
        words.append(batch["pseudonym"][is_own])
    return np.concatenate(senders), np.concatenate(words)


def _opened(view: View) -> dict[int, Ids]:
    """By relay, the circuits of the first opening: int64 [m, 4], the silo that hands rows over, place, and group."""
    circuits: dict[int, Ids] = {}
    for rows in view.own(CIRCUITS):
        for relay in np.unique(rows.owners).tolist():
            circuits.setdefault(relay, np.asarray(rows.values)[rows.owners == relay])
    return circuits


@dataclass(frozen=True, slots=True, eq=False)
class _Patterns:
    """What one relay counts by group."""

    tags: Ids  # int64 [t, 2]
    counts: Ids  # int64 [t, s], circuits of each from each silo


class _SiloPattern(Attack[_Patterns, MessageTruth]):
    """A relay counts the circuits of each group by silo."""

    card = Card(
        "silo-pattern",
        "a relay counts, by silo, the circuits of each group: the unnamed target's neighbours in other silos",
        "what silos that forward for their own devices alone leave of the graph",
        Role.RELAY, Secret.CROSS_EDGE, TRAINING, OWN_SILOS, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> _Patterns | None:  # noqa: ARG002  # needs no parameter
        result = [_count_patterns(circuits, view) for circuits in _opened(view).values()]
        if not sum(len(item.tags) for item in result):
            return None
        return _Patterns(*(np.concatenate([getattr(item, name) for item in result]) for name in ("tags", "counts")))

    def score(self, guess: _Patterns, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of groups whose counts are right for the device behind, of those that have a neighbour abroad.

        Whose a group is the relay does not know: that is looked up, and the device's own silo left out, whose count
        holds dummies. The prior gives all the most frequent counts.
        """
        known = dict(zip(map(tuple, truth.tags[:, 1:].tolist()), truth.tags[:, 0].tolist(), strict=True))
        guesses = np.array([known.get(tag, -1) for tag in map(tuple, guess.tags.tolist())], dtype=np.int64)
        actual = neighbours_by_silo(truth)
        is_named = guesses >= 0
        is_named[is_named] = actual[guesses[is_named]].any(axis=1)
        if not is_named.any():
            return ()
        actual_counts, width = actual[guesses[is_named]], guess.counts.shape[1]
        counts = guess.counts[is_named]
        counts[np.arange(len(counts)), truth.silo_of[guesses[is_named]]] = 0
        right = (np.pad(actual_counts, ((0, 0), (0, width - actual_counts.shape[1]))) == counts).all(axis=1)
        text = "groups show in which silos, and how many, neighbours an unnamed device has."
        return (share_right("neighbours by silo", right, guesses[is_named], text, prior=largest_share(actual_counts)),)


def _count_patterns(circuits: Ids, view: View) -> _Patterns:
    """What one relay counts of circuits that silos hand over."""
    tags, of_each = np.unique(circuits[:, 2:], axis=0, return_inverse=True)
    counts = np.zeros((len(tags), view.parties.counts[Role.SILO]), dtype=np.int64)
    np.add.at(counts, (of_each.ravel(), view.parties.index_of(circuits[:, 0], Role.SILO)), 1)
    return _Patterns(tags, counts)


Guess = TypeVar("Guess")

_KNOWS = "which devices fall silent in a step"
_TELLS_NOTHING = "who is silent is drawn without regard to how many partners a device has"
_SOURCE = "which rows of relay-coded are missing together when relays see a step that is not complete"


@dataclass(frozen=True, slots=True, eq=False)
class _CountedPartners:
    """Numbers of partners."""

    devices: Ids  # int64 [k], party identifiers
    counts: Ids  # int64 [k]


@dataclass(frozen=True, slots=True, eq=False)
class _JudgedPairs:
    """Pairs of devices, and whether they are said to be partners."""

    ends: Ids  # int64 [2, k], party identifiers
    joined: Flags  # bool [k]


class _SilentDevices(InformedAttack[Guess, SilentDevices, MessageTruth], Generic[Guess]):
    """What both attacks do: every relay looks by itself at what is missing in each round."""

    def infer_with(self, view: View, public: PublicParameters, known: SilentDevices) -> Guess | None:  # noqa: ARG002
        """Looks at every relay alone; None where silos don't hand rows of unnamed devices to relays."""
        rounds = range(len(known.by_round))
        return self._read(
            [_missing(view, relay, circuits, rounds) for relay, circuits in _opened(view).items()], known.by_round
        )

    @abstractmethod
    def _read(self, missing: list[dict[int, Counter[int]]], silent: Ids) -> Guess | None:
        """What follows from the numbers of missing rows by round and group, of each relay."""


class _SilentPartners(_SilentDevices[_CountedPartners]):
    """A relay counts the groups that lack a row when one device is silent: its partners', and its own."""

    card = Card(
        "silent-partners",
        "a relay counts the groups that lack a row in the step in which one device is silent: its partners'",
        _SOURCE,
        Role.RELAY, Secret.DEGREE, SILENCE, SILENT_SENDERS, Circumstance.DROP_OUT, auxiliary=_KNOWS, truth=MessageTruth,
        knowledge=SilentDevices, tells_nothing=_TELLS_NOTHING,
    )  # fmt: skip

    def _read(self, missing: list[dict[int, Counter[int]]], silent: Ids) -> _CountedPartners | None:
        result = [
            (device, max(len(groups) - 1, 0))
            for at_relay in missing
            for device, groups in _alone(at_relay, silent).items()
        ]
        return _CountedPartners(*np.array(result, dtype=np.int64).T) if result else None

    def score(self, guess: _CountedPartners, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of silent devices whose number of partners is right; the prior is the most frequent number."""
        device = truth.parties.index_of(guess.devices, Role.DEVICE)
        actual = np.bincount(truth.edges[1], minlength=len(truth.silo_of))[device]
        text = "numbers of partners of silent devices are counted right."
        return (share_of_numbers("partners", guess.counts, actual, device, text),)


class _SilentPairs(_SilentDevices[_JudgedPairs]):
    """A relay looks whether one device's own group lacks a row when the other is silent."""

    card = Card(
        "silent-pairs",
        "a relay compares which groups lack rows when one of two devices is silent, and when the other is",
        _SOURCE,
        Role.RELAY, Secret.CROSS_EDGE, SILENCE, SILENT_SENDERS, Circumstance.DROP_OUT, auxiliary=_KNOWS,
        truth=MessageTruth, knowledge=SilentDevices, tells_nothing=_TELLS_NOTHING,
    )  # fmt: skip

    def _read(self, missing: list[dict[int, Counter[int]]], silent: Ids) -> _JudgedPairs | None:
        result = []
        for at_relay in missing:
            alone = _alone(at_relay, silent)
            result += [
                (one, other, _own_group(alone[other]) in alone[one])
                for one, other in silent.tolist()
                if {one, other} <= alone.keys()
            ]
        if not result:
            return None
        one, other, joined = np.array(result, dtype=np.int64).T
        return _JudgedPairs(np.stack([one, other]), joined == 1)

    def score(self, guess: _JudgedPairs, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of pairs of which it is rightly said whether they are partners; the prior says one of all."""
        one, other = truth.parties.index_of(guess.ends.ravel(), Role.DEVICE).reshape(2, -1)
        n = len(truth.silo_of)
        actual = np.isin(one * n + other, truth.edges[0] * n + truth.edges[1])
        right = guess.joined == actual
        prior = largest_share(actual[:, None].astype(np.int64))
        text = "Of {} pairs it is said rightly whether they are partners."
        return (share_right("pairs", right, one, text, random=0.5, prior=prior),)


def _own_group(groups: Counter[int]) -> int:
    """The group that lacks most rows: a silent device's own, to which its dummies go."""
    return max(groups, key=lambda group: groups[group], default=-1)


def _alone(missing: Mapping[int, Counter[int]], silent: Ids) -> dict[int, Counter[int]]:
    """What is missing by device, of those that are silent alone in a round."""
    return {
        int(silent[number, 0]): groups
        for number, groups in missing.items()
        if silent[number, 0] != NOT_SILENT and silent[number, 1] == NOT_SILENT
    }


def _missing(view: View, relay: int, circuits: Ids, rounds: range) -> dict[int, Counter[int]]:
    """By round, how many rows are missing at one relay by group, of those over circuits of the first opening."""
    names, absent = circuits[:, 0] << 32 | circuits[:, 1], dict[int, Counter[int]]()
    by_round: dict[int, list[Any]] = {}
    for rows in view.messages(Phase.SHARES, direction=Direction.FORWARD):
        mask = rows.receivers == relay
        if mask.any():
            place = np.asarray(rows["slot"])[mask].astype(np.int64)
            by_round.setdefault(rows.step.round, []).append(rows.senders[mask] << 32 | place)
    for number, parts in by_round.items():
        if number in rounds:
            absent[number] = Counter(circuits[~np.isin(names, np.concatenate(parts)), 2].tolist())
    return absent


ATTACKS: tuple[Attack[Any, Any], ...] = (_TagMatching(), _SiloPattern(), _SilentPartners(), _SilentPairs())
