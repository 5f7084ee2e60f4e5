"""What a client of pairwise masking remembers from stage to stage, and the same as bytes: no pickle, a checksum."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.identity import IDENTITY_BYTES, Identities
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.secrets import OwnSecrets, PairKeys
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, element_bytes, elements_from, rows_from
from fgl_secure.runtime.packing import packed, unpacked

_KIND = b"fgl-secure pairwise-masking client/v1"
_DONE = 255


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A client between two messages; a stage makes a new one, so that what fails leaves the old one as it was.

    Secrets that no later stage needs are forgotten.

    Attributes:
        index: the client.
        secrets: its own.
        signature: of its public keys; empty without an identity.
        identities: of its neighbours, until it has heard their keys; None without.
        due: the stage whose request it awaits; None after the last.
        vector: elements [length] to add; None before they are provided and after they are sent.
        provided: whether they were.
        keys: shared with each neighbour that it heard of.
        told: whose shares it was told of, itself not included.
        held: shares [2, words] by owner, its own included.
        asked: uint8 [n], what the server asked; empty before.
    """

    index: int
    secrets: OwnSecrets = field(repr=False)
    signature: bytes = b""
    identities: Identities | None = None
    due: Stage | None = Stage.KEYS
    vector: NDArray[np.int64] | None = field(default=None, repr=False)
    provided: bool = False
    keys: Mapping[int, PairKeys] = field(default_factory=dict, repr=False)
    told: tuple[int, ...] = ()
    held: Mapping[int, Elements] = field(default_factory=dict, repr=False)
    asked: bytes = b""


def memory_bytes(plan: MaskingPlan, memory: Memory) -> bytes:
    """A client's memory as bytes, secrets included, behind their SHA-256."""
    m = memory
    known = m.identities.public if m.identities else {}
    vector = b"" if m.vector is None else element_bytes(plan.field, m.vector)
    body = packed(
        [
            client_bytes([m.index]),
            bytes([_DONE if m.due is None else m.due, m.provided, m.identities is not None]),
            packed([m.secrets.sealing, m.secrets.mask, m.secrets.self_mask, m.secrets.shares]),
            m.signature,
            client_bytes(sorted(known)),
            b"".join(known[v] for v in sorted(known)),
            vector,
            client_bytes(sorted(m.keys)),
            packed([m.keys[v].pair + m.keys[v].mask for v in sorted(m.keys)]),
            client_bytes(m.told),
            client_bytes(sorted(m.held)),
            b"".join(element_bytes(plan.field, m.held[v]) for v in sorted(m.held)),
            m.asked,
        ]
    )
    return packed([_KIND, plan.digest, hashlib.sha256(body).digest(), body])


def memory_from(plan: MaskingPlan, state: bytes) -> Memory:
    """The memory that `memory_bytes` wrote.

    Raises:
        MalformedMessageError: it did not write this, or not for a sum under these terms.
    """
    parts = unpacked(state)
    if len(parts) != 4 or parts[0] != _KIND or not hmac.compare_digest(hashlib.sha256(parts[3]).digest(), parts[2]):
        raise MalformedMessageError("state must be that of a client of staged pairwise masking, whole; it is not")
    if parts[1] != plan.digest:
        raise MalformedMessageError("state must be of a sum under these terms; found that of another")
    fields = unpacked(parts[3])
    index, marks, secrets, signature, names, publics, vector, keys_of, keys, told, held_of, held, asked = fields
    everyone = range(plan.terms.clients)
    known = clients_from(names, everyone, "identities")
    public = dict(zip(known, rows_from(publics, len(known), IDENTITY_BYTES, "identities"), strict=True))
    due, provided, identified = marks
    return Memory(
        index=clients_from(index, everyone, "client")[0],
        secrets=OwnSecrets(*unpacked(secrets)),
        signature=signature,
        identities=Identities(public) if identified else None,
        due=None if due == _DONE else Stage(due),
        vector=_vector(plan, vector) if vector else None,
        provided=bool(provided),
        keys={
            v: PairKeys(row[:KEY_BYTES], row[KEY_BYTES:])
            for v, row in zip(clients_from(keys_of, everyone, "neighbours"), unpacked(keys), strict=True)
        },
        told=tuple(clients_from(told, everyone, "neighbours")),
        held=_held(plan, clients_from(held_of, everyone, "owners"), held),
        asked=asked,
    )


def _vector(plan: MaskingPlan, data: bytes) -> NDArray[np.int64]:
    return elements_from(plan.field, data, (plan.terms.length,), "vector").astype(np.int64, copy=False)


def _held(plan: MaskingPlan, owners: list[int], data: bytes) -> dict[int, Elements]:
    shares = elements_from(plan.field, data, (len(owners), 2, plan.words), "shares")
    return dict(zip(owners, shares, strict=True))
