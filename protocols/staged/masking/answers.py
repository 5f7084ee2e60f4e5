"""A client's answer in each stage of pairwise masking, as functions of what it remembers and what it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.masking.keys import TAG_BYTES, is_vote_for, roster_digest, vote
from fgl_secure.protocols.pairwise_masking.requests import NO_SHARE, Ask, check_request, shares_for
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.memory import Memory
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.secrets import FORGOTTEN, agree_all, masked, seal_all, unseal_all
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, element_bytes, rows_from

FIELDS: Mapping[Stage, int] = {
    Stage.KEYS: 0,  # nothing but the head
    Stage.SHARES: 4,  # who; their sealing keys; their mask keys; signatures of both
    Stage.VECTORS: 2,  # who; what each sealed for the client
    Stage.AGREEMENT: 1,  # what is asked about each client
    Stage.OPENING: 2,  # who; the vote of each for the client
}
"""Fields of the server's message in each stage."""

Given = tuple[list[bytes], Memory]


def answer(plan: MaskingPlan, memory: Memory, stage: Stage, fields: Sequence[bytes]) -> Given:
    """The fields of a client's answer, and what it remembers afterwards.

    Args:
        plan: of the sum.
        memory: of the client.
        stage: that is due.
        fields: that the server sent.

    Raises:
        ProtocolError: the server asks for what an honest client does not give.
        InputError: the vector is asked for and not provided.
    """
    return _ANSWERS[stage](plan, memory, fields)


def publish(plan: MaskingPlan, memory: Memory, _: Sequence[bytes]) -> Given:  # noqa: ARG001  # alike for all stages
    """Stage KEYS: both public keys, signed where there are identities."""
    return [*memory.secrets.public(), memory.signature], memory


def share(plan: MaskingPlan, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage SHARES: hears the neighbours' keys and seals for each its shares of both secrets."""
    own = memory.index
    listed = clients_from(fields[0], plan.circle(own), "clients with keys")
    published, public = memory.secrets.public(), dict(zip(listed, _key_pairs(fields, len(listed)), strict=True))
    if public.pop(own, None) != published:
        raise ProtocolError(f"own keys must come back as client {own} published them; they do not")
    if len(listed) < plan.needed:
        raise ProtocolError(f"keys must be those of at least {plan.needed} clients of a circle; found {len(listed)}")
    everything = [key for pair in (published, *public.values()) for key in pair]
    if len(set(everything)) < len(everything):
        raise ProtocolError("keys must all differ; found one twice")
    _check_signatures(plan, memory, public, fields[3])
    keys = agree_all(plan, own, memory.secrets, public)
    shares = memory.secrets.shared(plan)
    secrets = memory.secrets.once_shared
    left = replace(memory, secrets=secrets, identities=None, keys=keys, held={own: shares[own]})
    return [seal_all(plan, own, keys, shares)], left


def hand_in(plan: MaskingPlan, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage VECTORS: opens the shares it holds from now on, and masks with those it was told shared theirs."""
    if memory.vector is None:
        raise InputError(f"vector must be provided to client {memory.index} before it is asked for it; it is not")
    own = memory.index
    told = clients_from(fields[0], memory.keys, "clients that shared")
    if len(told) + 1 < plan.needed:
        raise ProtocolError(f"shares must be those of at least {plan.needed} clients; found {len(told) + 1}")
    boxes = dict(zip(told, rows_from(fields[1], len(told), plan.box_bytes, "sealed shares"), strict=True))
    held = {**memory.held, **unseal_all(plan, own, memory.keys, boxes)}
    if len(held) < plan.needed:
        raise ProtocolError(
            f"shares of at least {plan.needed} clients must open as sealed for client {own}; found {len(held)}"
        )
    total = masked(plan, own, memory.secrets, memory.keys, told, memory.vector)
    keys = {v: both.once_masked for v, both in memory.keys.items()}
    left = replace(memory, secrets=FORGOTTEN, vector=None, keys=keys, told=tuple(told), held=held)
    return [element_bytes(plan.field, total)], left


def agree(plan: MaskingPlan, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage AGREEMENT: checks what the server asks of everybody, and tells each neighbour in the sum what it was."""
    n, own = plan.terms.clients, memory.index
    if len(fields[0]) != n:
        raise MalformedMessageError(f"roster must have a byte for each of {n} clients; found {len(fields[0])}")
    asked = np.frombuffer(fields[0], dtype=np.uint8)
    told, adjacent = _flags(n, (*memory.told, own)), _flags(n, plan.near(own))
    check_request(asked, own, told, adjacent, plan.terms.threshold, None)
    digest = roster_digest(plan.terms.binding, plan.step, asked)
    session, step = plan.terms.binding, plan.step
    votes = [vote(memory.keys[v].pair, session, step, own, v, digest) for v in memory.told if asked[v] == Ask.SELF_MASK]
    return [b"".join(votes)], replace(memory, asked=fields[0])


def open_up(plan: MaskingPlan, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage OPENING: counts the votes for what it was asked, and answers it with one share at most of everybody."""
    own, asked = memory.index, np.frombuffer(memory.asked, dtype=np.uint8)
    voters = clients_from(fields[0], [v for v in memory.told if asked[v] == Ask.SELF_MASK], "voters")
    votes = dict(zip(voters, rows_from(fields[1], len(voters), TAG_BYTES, "votes"), strict=True))
    digest, session, step = roster_digest(plan.terms.binding, plan.step, asked), plan.terms.binding, plan.step
    alike = 1 + sum(
        is_vote_for(said, vote(memory.keys[v].pair, session, step, v, own, digest)) for v, said in votes.items()
    )
    if alike < plan.needed:
        raise ProtocolError(
            f"a roster must have {plan.needed} votes before client {own} opens a share; found {alike} for its own"
        )
    owners = sorted(v for v in memory.held if asked[v] != Ask.NOTHING)
    given = shares_for(asked[owners], np.stack([memory.held[v] for v in owners]))
    assert not (given == NO_SHARE).any()
    return [client_bytes(owners), element_bytes(plan.field, given)], replace(memory, keys={}, held={})


_ANSWERS: Mapping[Stage, Callable[[MaskingPlan, Memory, Sequence[bytes]], Given]] = {
    Stage.KEYS: publish,
    Stage.SHARES: share,
    Stage.VECTORS: hand_in,
    Stage.AGREEMENT: agree,
    Stage.OPENING: open_up,
}


def _key_pairs(fields: Sequence[bytes], count: int) -> list[tuple[bytes, bytes]]:
    sealing = rows_from(fields[1], count, PUBLIC_KEY_BYTES, "sealing keys")
    return list(zip(sealing, rows_from(fields[2], count, PUBLIC_KEY_BYTES, "mask keys"), strict=True))


def _check_signatures(
    plan: MaskingPlan, memory: Memory, public: Mapping[int, tuple[bytes, bytes]], signatures: bytes
) -> None:
    """Of the neighbours' keys, where identities are known; their own client's stands among them and is left out."""
    if memory.identities is None:
        return
    listed = sorted([*public, memory.index])
    rows = rows_from(signatures, len(listed), SIGNATURE_BYTES, "signatures")
    for v, signature in zip(listed, rows, strict=True):
        if v != memory.index:
            memory.identities.check(v, plan.statement(v, *public[v]), signature)


def _flags(count: int, which: Sequence[int]) -> NDArray[np.bool_]:
    found = np.zeros(count, dtype=np.bool_)
    found[list(which)] = True
    return found
