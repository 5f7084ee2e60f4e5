"""A client's answer in each stage of LightSecAgg, as functions of what it remembers and what it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.lightsecagg.roster import check_roster
from fgl_secure.protocols.masking.keys import TAG_BYTES, is_vote_for, roster_digest, vote
from fgl_secure.protocols.staged.coded_masks.memory import Memory
from fgl_secure.protocols.staged.coded_masks.plan import LightSecAggPlan
from fgl_secure.protocols.staged.coded_masks.secrets import agree_all, seal_all, unseal_all
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.wire import clients_from, element_bytes, rows_from

FIELDS: Mapping[Stage, int] = {
    Stage.KEYS: 0,  # nothing but the head
    Stage.SHARES: 3,  # who; their keys; signatures of them
    Stage.VECTORS: 2,  # who; what each sealed for the client
    Stage.AGREEMENT: 1,  # who is in the sum
    Stage.OPENING: 2,  # who; the vote of each for the client
}
"""Fields of the server's message in each stage."""

Given = tuple[list[bytes], Memory]


def answer(plan: LightSecAggPlan, own: int, memory: Memory, stage: Stage, fields: Sequence[bytes]) -> Given:
    """The fields of a client's answer, and what it remembers afterwards.

    Args:
        plan: of the sum.
        own: the client's number.
        memory: of the client.
        stage: that is due.
        fields: that the server sent.

    Raises:
        ProtocolError: the server asks for what an honest client does not give.
        InputError: the vector is asked for and not provided.
    """
    return _ANSWERS[stage](plan, own, memory, fields)


def publish(plan: LightSecAggPlan, own: int, memory: Memory, _: Sequence[bytes]) -> Given:  # noqa: ARG001  # alike
    """Stage KEYS: the public key, signed where there is an identity."""
    return [memory.secrets.public, memory.signature], memory


def share(plan: LightSecAggPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage SHARES: hears the others' keys, and seals a coded mask for each of them."""
    listed = clients_from(fields[0], range(plan.terms.clients), "clients with keys")
    public = dict(zip(listed, rows_from(fields[1], len(listed), PUBLIC_KEY_BYTES, "keys"), strict=True))
    signatures = rows_from(fields[2], len(listed), SIGNATURE_BYTES, "signatures")
    if public.get(own) != memory.secrets.public:
        raise ProtocolError(f"own key must come back as client {own} published it; it does not")
    if len(listed) < plan.terms.threshold or len(set(public.values())) < len(listed):
        raise ProtocolError(
            f"keys must be those of at least {plan.terms.threshold} clients and differ; "
            f"found {len(set(public.values()))}"
        )
    others = {v: key for v, key in public.items() if v != own}
    if memory.identities is not None:
        for v, signature in zip(listed, signatures, strict=True):
            if v != own:
                memory.identities.check(v, plan.statement(v, public[v]), signature)
    keys, coded = agree_all(plan, own, memory.secrets, others), memory.secrets.coded(plan, own)
    return [seal_all(plan, own, keys, coded)], replace(memory, keys=keys, held={own: coded[own].copy()})


def hand_in(plan: LightSecAggPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage VECTORS: opens the coded masks that it holds from now on, and hands in its vector under its mask."""
    if memory.vector is None:
        raise InputError(f"vector must be provided to client {own} before it is asked for it; it is not")
    told = clients_from(fields[0], memory.keys, "clients that shared")
    boxes = rows_from(fields[1], len(told), plan.box_bytes, "sealed coded masks")
    held = {**memory.held, **unseal_all(plan, own, memory.keys, zip(told, boxes, strict=True))}
    if len(held) < plan.terms.threshold:
        raise ProtocolError(
            f"coded masks of at least {plan.terms.threshold} clients must open as sealed for client {own}; "
            f"found {len(held)}"
        )
    masked = memory.secrets.masked(plan, own, memory.vector)
    return [element_bytes(plan.field, masked)], replace(memory, vector=None, held=held)


def agree(plan: LightSecAggPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage AGREEMENT: checks who is said to be in the sum, and tells each of them so."""
    n = plan.terms.clients
    if len(fields[0]) != n:
        raise MalformedMessageError(f"roster must have a byte for each of {n} clients; found {len(fields[0])}")
    roster, told = np.frombuffer(fields[0], dtype=np.uint8), np.zeros(n, dtype=np.bool_)
    told[list(memory.held)] = True
    if (roster > 1).any():
        raise MalformedMessageError(f"a roster must say 0 or 1 of each sender; found {int(roster.max())}")
    check_roster(roster > 0, own, told, plan.terms.threshold)
    session, step = plan.terms.binding, plan.step
    digest = roster_digest(session, step, roster)
    votes = [vote(memory.keys[v], session, step, own, v, digest) for v in voters_for(fields[0], own)]
    return [b"".join(votes)], replace(memory, roster=fields[0])


def open_up(plan: LightSecAggPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage OPENING: counts the votes for what it was told, and opens the sum of the coded masks of that roster."""
    session, step = plan.terms.binding, plan.step
    voters = clients_from(fields[0], voters_for(memory.roster, own), "voters")
    votes = rows_from(fields[1], len(voters), TAG_BYTES, "votes")
    digest = roster_digest(session, step, np.frombuffer(memory.roster, dtype=np.uint8))
    alike = 1 + sum(
        is_vote_for(said, vote(memory.keys[v], session, step, v, own, digest))
        for v, said in zip(voters, votes, strict=True)
    )
    if alike < plan.terms.threshold:
        raise ProtocolError(
            f"a roster must have {plan.terms.threshold} votes before client {own} opens its sum of coded masks; "
            f"found {alike} for its own"
        )
    total = plan.code.added(np.stack([memory.held[v] for v in sorted((*voters_for(memory.roster, own), own))]))
    return [element_bytes(plan.field, total)], memory


def voters_for(roster: bytes, own: int) -> list[int]:
    """The others on a roster, ascending: whom a client's vote is for, and whose votes it counts."""
    return [v for v, there in enumerate(roster) if there and v != own]


_ANSWERS: Mapping[Stage, Callable[[LightSecAggPlan, int, Memory, Sequence[bytes]], Given]] = {
    Stage.KEYS: publish,
    Stage.SHARES: share,
    Stage.VECTORS: hand_in,
    Stage.AGREEMENT: agree,
    Stage.OPENING: open_up,
}
