"""What a client of a staged sum under CKKS remembers from stage to stage, and the same as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.protocols.identity import IDENTITY_BYTES, SIGNATURE_BYTES, Identities
from fgl_secure.protocols.staged.ciphertexts.plan import CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import OwnSecrets
from fgl_secure.protocols.staged.ciphertexts.wire import integer_field, integers_from
from fgl_secure.protocols.staged.interface import Integers
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, rows_from

FIELDS = 9


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A client between two messages; a stage makes a new one, so that what fails leaves the old one as it was.

    Attributes:
        secrets: its own.
        signature: of its public key; zeros without an identity.
        identities: of the others; None without.
        publics: keys of those that the server named, by client.
        key: the clients' key; None before it is known.
        vector: int64 [length]; None before it is provided.
    """

    secrets: OwnSecrets = field(repr=False)
    signature: bytes = bytes(SIGNATURE_BYTES)
    identities: Identities | None = None
    publics: Mapping[int, bytes] = field(default_factory=dict)
    key: ReceiverKey | None = field(default=None, repr=False)
    vector: Integers | None = field(default=None, repr=False)


def memory_fields(memory: Memory) -> list[bytes]:
    """All that it holds, secrets included."""
    m = memory
    known = m.identities.public if m.identities else {}
    return [
        m.secrets.sealing + m.secrets.group,
        m.signature,
        bytes([m.identities is not None]),
        client_bytes(sorted(known)),
        b"".join(known[v] for v in sorted(known)),
        client_bytes(sorted(m.publics)),
        b"".join(m.publics[v] for v in sorted(m.publics)),
        b"" if m.key is None else m.key.secret_file(),
        b"" if m.vector is None else integer_field(m.vector),
    ]


def memory_from(plan: CkksPlan, fields: Sequence[bytes]) -> Memory:
    """The memory that `memory_fields` was given; their checksum was checked."""
    secrets, signature, identified, names, identities, listed, publics, key, vector = fields
    bound = plan.parameters.bound
    known = _rows(plan, names, identities, IDENTITY_BYTES)
    return Memory(
        OwnSecrets(*rows_from(secrets, 2, KEY_BYTES, "secrets")),
        signature,
        Identities(known) if identified[0] else None,
        _rows(plan, listed, publics, PUBLIC_KEY_BYTES),
        ReceiverKey.from_secret_file(key) if key else None,
        integers_from(vector, plan.terms.length, bound, "vector") if vector else None,
    )


def _rows(plan: CkksPlan, names: bytes, rows: bytes, size: int) -> dict[int, bytes]:
    who = clients_from(names, range(plan.terms.clients), "clients")
    return dict(zip(who, rows_from(rows, len(who), size, "keys"), strict=True))
