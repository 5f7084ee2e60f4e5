"""Whose tag is it: matching unnamed targets to named senders by the pattern of who sends under which tag.

A relay sees sender x tag: the adjacency matrix of the graph with its columns shuffled. On an undirected graph device
u and its tag have the same neighbourhood, once as senders under the tag and once as tags that u sends under. Colour
refinement (Weisfeiler and Leman 1968) from the degrees on therefore gives both the same colour, and where a colour is
unique the tag has a name. Fresh tags in every step do not help: the pattern is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges, score_claimed_edges
from fgl_secure.attacks.message_passing.knowledge import FRESH_TAGS, TRAINING
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.runtime import Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, View

Ids = NDArray[np.int64]

NAMING = (Phase.SHARE_HEADERS, Phase.SHARE_SEEDS)


@dataclass(frozen=True, slots=True, eq=False)
class Colours:
    """Stable colours of devices, int64 [n], and of tags, int64 [t], on one palette."""

    devices: Ids
    tags: Ids


def refine(incidence: sparse.csr_array, devices: Ids, tags: Ids) -> Colours:
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
    return Colours(colour[:n], colour[n:])


def certain_edges(incidence: sparse.csr_array, colours: Colours) -> tuple[Ids, Ids]:
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
    whole = (by_colour.data == tags_of[by_colour.col]) & (tags_of == devices_of)[by_colour.col]
    sends = sparse.csr_array(
        (np.ones(int(whole.sum()), dtype=np.int64), (by_colour.row[whole], by_colour.col[whole])), shape=(n, count)
    )
    edges = (sends @ _membership(colours.devices, n, count).T.tocsr()).tocoo()
    return edges.row.astype(np.int64), edges.col.astype(np.int64)


def claimed_edges(forward: sparse.csr_array, answering: NDArray[np.bool_] | None = None) -> tuple[Ids, Ids]:
    """The edges that a forward pass gives away, with what the backward pass shows of who has a tag at all.

    Where sums over fewer than k_min messages are refused, most devices of low degree have no tag. Those that have one
    send gradients back, if to anybody with k_min messages of its own; the tags of the others are those under which no
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
    named = Colours(np.full(n, -1, dtype=np.int64), colours.tags)
    named.devices[rows] = colours.devices
    rest = int(max(colours.devices.max(initial=-1), colours.tags.max(initial=-1))) + 1
    named.devices[named.devices < 0] = rest  # without a tag in the core, so in no colour of one
    return certain_edges(forward[:, columns], named)


class TagMatching(Attack[ClaimedEdges, MessageTruth]):
    """A relay matches tags to devices in the first round."""

    card = Card(
        "tag-matching",
        "a relay matches fresh tags to devices by the pattern of who sends under which",
        "colour refinement (Weisfeiler and Leman 1968) on the senders and tags of one pass",
        Role.RELAY, Secret.CROSS_EDGE, TRAINING, FRESH_TAGS, minimum=0.9, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ClaimedEdges | None:  # noqa: ARG002  # needs no parameter
        """Matches the tags of the first forward step, at every relay alone."""
        forward, backward = _first(view, Direction.FORWARD), _first(view, Direction.BACKWARD)
        if not forward:
            return None
        relays = np.unique(np.concatenate([batch.observers for batch in forward]))
        found = [_at_relay(forward, backward, relay, view) for relay in relays.tolist()]
        sources, targets = (np.concatenate(ends) for ends in zip(*found, strict=True))
        devices = view.parties.ids(Role.DEVICE)
        return ClaimedEdges(devices[sources], devices[targets])

    def score(self, guess: ClaimedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        """Precision, recall and advantage over pairs across silos, see `score_claimed_edges`."""
        return score_claimed_edges(guess, truth, crossing=True)


def _membership(colour: Ids, size: int, count: int) -> sparse.csr_array:
    ones: NDArray[Any] = np.ones(size, dtype=np.int64)
    return sparse.csr_array((ones, (np.arange(size), colour)), shape=(size, count))


def _first(view: View, direction: Direction) -> list[ReceivedRows]:
    """The messages under tags of the first step of a layer in which devices sent them themselves."""
    devices = view.parties.ids(Role.DEVICE)
    found = [
        batch
        for phase in NAMING
        for batch in view.messages(phase, direction=direction)
        if batch.step.layer >= 0 and not batch.step.evaluation and np.isin(batch.senders, devices).all()
    ]
    first = min(((batch.step.round, batch.step.layer) for batch in found), default=None)
    return [batch for batch in found if (batch.step.round, batch.step.layer) == first]


def _at_relay(forward: list[ReceivedRows], backward: list[ReceivedRows], relay: int, view: View) -> tuple[Ids, Ids]:
    sender, words = _received(forward, relay, view)
    tags, tag = np.unique(words, axis=0, return_inverse=True)
    shape = (view.parties.counts[Role.DEVICE], len(tags))
    incidence = sparse.csr_array((np.ones(len(sender), dtype=np.int64), (sender, tag.ravel())), shape=shape)
    incidence.data[:] = 1  # a message that is sent again counts once
    back, _ = _received(backward, relay, view)
    answering = np.bincount(back, minlength=shape[0]) > 0
    return claimed_edges(incidence, answering if len(back) else None)


def _received(batches: list[ReceivedRows], relay: int, view: View) -> tuple[Ids, Ids]:
    """What one relay got: int64 [m] device indices of the senders, and int64 [m, 2] tags."""
    senders, words = [np.empty(0, dtype=np.int64)], [np.empty((0, 2), dtype=np.int64)]
    for batch in batches:
        mine = batch.observers == relay
        senders.append(view.parties.index_of(batch.senders[mine], Role.DEVICE))
        words.append(batch["tag"][mine])
    return np.concatenate(senders), np.concatenate(words)
