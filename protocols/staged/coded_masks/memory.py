"""What a client of a staged sum under LightSecAgg remembers from stage to stage, and the same as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fgl_secure.algebra import Elements
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.protocols.identity import IDENTITY_BYTES, SIGNATURE_BYTES, Identities
from fgl_secure.protocols.staged.coded_masks.plan import LightSecAggPlan
from fgl_secure.protocols.staged.coded_masks.secrets import SECRETS, OwnSecrets
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, element_bytes, elements_from, rows_from

FIELDS = 11


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A client between two messages; a stage makes a new one, so that what fails leaves the old one as it was.

    Attributes:
        secrets: its own.
        signature: of its public key; zeros without an identity.
        identities: of the others; None without.
        vector: elements [length]; None before it is provided and after it is sent.
        provided: whether it was.
        keys: shared with each client that it heard of.
        held: coded masks [width] by owner, its own included.
        roster: uint8 [n], who is in the sum, as it was told; empty before.
    """

    secrets: OwnSecrets = field(repr=False)
    signature: bytes = bytes(SIGNATURE_BYTES)
    identities: Identities | None = None
    vector: Elements | None = field(default=None, repr=False)
    provided: bool = False
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    held: Mapping[int, Elements] = field(default_factory=dict, repr=False)
    roster: bytes = b""


def memory_fields(plan: LightSecAggPlan, memory: Memory) -> list[bytes]:
    """All that it holds, secrets included."""
    m = memory
    known = m.identities.public if m.identities else {}
    return [
        m.secrets.sealing + m.secrets.mask + m.secrets.noise,
        m.signature,
        bytes([m.provided, m.identities is not None]),
        client_bytes(sorted(known)),
        b"".join(known[v] for v in sorted(known)),
        b"" if m.vector is None else element_bytes(plan.field, m.vector),
        client_bytes(sorted(m.keys)),
        b"".join(m.keys[v] for v in sorted(m.keys)),
        client_bytes(sorted(m.held)),
        b"".join(element_bytes(plan.field, m.held[v]) for v in sorted(m.held)),
        m.roster,
    ]


def memory_from(plan: LightSecAggPlan, fields: Sequence[bytes]) -> Memory:
    """The memory that `memory_fields` was given; their checksum was checked."""
    secrets, signature, marks, names, identities, vector, keys_of, keys, held_of, held, roster = fields
    owners = clients_from(held_of, range(plan.terms.clients), "owners")
    rows = elements_from(plan.field, held, (len(owners), plan.code.width), "coded masks")
    return Memory(
        OwnSecrets(*rows_from(secrets, SECRETS, KEY_BYTES, "secrets")),
        signature,
        Identities(_rows(plan, names, identities, IDENTITY_BYTES)) if marks[1] else None,
        elements_from(plan.field, vector, (plan.terms.length,), "vector") if vector else None,
        bool(marks[0]),
        _rows(plan, keys_of, keys, KEY_BYTES),
        dict(zip(owners, rows, strict=True)),
        roster,
    )


def _rows(plan: LightSecAggPlan, names: bytes, rows: bytes, size: int) -> dict[int, bytes]:
    who = clients_from(names, range(plan.terms.clients), "clients")
    return dict(zip(who, rows_from(rows, len(who), size, "keys"), strict=True))
