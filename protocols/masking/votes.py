"""Senders tell each other which roster they were told: the consistency check of Bonawitz et al. (figure 4, round 3).

They do so under the keys of pairs, which serve for signatures here: a vote convinces the neighbour that it is for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fgl_secure.protocols.masking.delivery import Circle
from fgl_secure.protocols.masking.keys import TAG_BYTES, is_vote_for, roster_digest, vote
from fgl_secure.protocols.pairwise_masking.requests import Asked
from fgl_secure.runtime import Phase, Step

Ids = NDArray[np.int64]
Bytes = NDArray[np.uint8]
PairKeys = Mapping[int, Mapping[int, bytes]]


def ballots(circle: Circle, keys: PairKeys, session: bytes, step: Step, who: Ids, asked: Asked) -> Bytes:
    """Every voter's word to each neighbour: uint8 [n, k, 16]; zeros for neighbours without a key.

    Args:
        circle: the parties.
        keys: by sender and neighbour.
        session: public, and different in every session.
        step: when.
        who: int64 [n], who votes.
        asked: uint8 [n, m], what each was asked.
    """
    out = np.zeros((len(who), circle.neighbours.degree, TAG_BYTES), dtype=np.uint8)
    for at, u in enumerate(who.tolist()):
        digest = roster_digest(session, step, asked[at])
        for j, v in enumerate(circle.neighbours.table[u].tolist()):
            if v in keys[u]:
                out[at, j] = np.frombuffer(vote(keys[u][v], session, step, *circle.ends(u, v), digest), dtype=np.uint8)
    return out


def count_votes(
    circle: Circle, keys: PairKeys, session: bytes, step: Step, who: Ids, asked: Asked, heard: Bytes
) -> Ids:
    """How many were asked what each voter was asked, itself included: int64 [n].

    A vote that is for something else, or forged, is noted as an incident and does not count.

    Args:
        circle: the parties.
        keys: by sender and neighbour.
        session: public, and different in every session.
        step: when.
        who: int64 [n], who counts.
        asked: uint8 [n, m], what each was asked.
        heard: uint8 [n, k, 17], from each neighbour a flag and its vote.
    """
    counts = np.ones(len(who), dtype=np.int64)
    for at, u in enumerate(who.tolist()):
        digest = roster_digest(session, step, asked[at])
        for j, v in enumerate(circle.neighbours.table[u].tolist()):
            if not heard[at, j, 0] or v not in keys[u]:
                continue
            ends = circle.ends(v, u)
            good = is_vote_for(heard[at, j, 1:].tobytes(), vote(keys[u][v], session, step, *ends, digest))
            counts[at] += good
            if not good:
                to = circle.channel.parties.party_of(int(circle.senders[u]))
                circle.channel.note_incident(step, ends[0], f"its vote for a roster is not what {to} was told")
    return counts


def voted(
    circle: Circle, keys: PairKeys, session: bytes, step: Step, who: Ids, asked: Asked
) -> tuple[NDArray[np.bool_], Ids]:
    """Sends every voter's word to its neighbours, through the aggregator, under the pairs' keys.

    Args:
        circle: the parties.
        keys: by sender and neighbour.
        session: public, and different in every session.
        step: when.
        who: int64 [n], who votes.
        asked: uint8 [n, m], what each was asked.

    Returns:
        Bool [n], who heard of the others' votes, and int64 [n], how many were asked the same, itself included.
    """
    axes = (circle, keys, session, step)
    slips = np.zeros((*circle.neighbours.table.shape, TAG_BYTES), dtype=np.uint8)
    here, slips[who] = circle.up(Phase.ROSTERS, step, who, ballots(*axes, who, asked))
    there = who[here]
    heard, bundles = circle.down(Phase.ROSTERS, step, there, circle.forwarded(slips, circle.flags(there))[there])
    hears, counts = here.copy(), np.zeros(len(who), dtype=np.int64)
    hears[here] = heard
    counts[hears] = count_votes(*axes, who[hears], asked[hears], bundles[heard])
    return hears, counts
