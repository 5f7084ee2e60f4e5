"""A client's part in a staged sum under CKKS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fgl_secure.crypto.ckks import ReceiverKey
from fgl_secure.crypto.ckks_public import PREFIX
from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.ckks.wire import encrypted as sender_ciphertexts
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.staged.ciphertexts.memory import Memory, memory_fields
from fgl_secure.protocols.staged.ciphertexts.plan import CkksPlan
from fgl_secure.protocols.staged.ciphertexts.secrets import (
    BOX_BYTES,
    boxes_for,
    group_key_from,
    unwrapped,
    wrapped,
)
from fgl_secure.protocols.staged.ciphertexts.wire import ciphertext_field, ciphertexts_from, integer_field, padded
from fgl_secure.protocols.staged.interface import Integers, Stage, StagedClient
from fgl_secure.protocols.staged.masking.wire import clients_from, rows_from
from fgl_secure.protocols.staged.terms import checked_vector
from fgl_secure.protocols.staged.turn import Turn

FIELDS: Mapping[Stage, int] = {
    Stage.KEYS: 0,  # nothing but the head
    Stage.SHARES: 3,  # who; their keys; signatures of them
    Stage.VECTORS: 3,  # whose key it is; the key file, sealed; its group key, sealed for the client
    Stage.OPENING: 1,  # the sum, encrypted
}
"""Fields of the server's message in each stage."""


Given = tuple[list[bytes], Memory]


class CkksClient(StagedClient):
    """See `StagedClient`.

    Args:
        plan: of the sum.
        turn: which stage is due.
        memory: what it holds.
    """

    def __init__(self, plan: CkksPlan, turn: Turn, memory: Memory) -> None:
        self._plan, self._turn, self._memory = plan, turn, memory

    def __repr__(self) -> str:
        return f"StagedClient(ckks, index={self._turn.index}, <secrets>)"

    def provide(self, vector: Integers) -> None:
        """Takes the vector."""
        if self._memory.vector is not None:
            raise InputError("vector must be provided once; found a second")
        self._memory = replace(self._memory, vector=checked_vector(vector, self._plan.terms, None))

    def reply(self, message: bytes) -> bytes:
        """Answers the server."""
        stage = self._turn.stage
        fields = self._turn.opened(message, FIELDS[stage])
        given, self._memory = _ANSWERS[stage](self._plan, self._turn.index, self._memory, fields)
        return self._turn.answer(given)

    def state(self) -> bytes:
        """Secrets, keys and vector."""
        return self._turn.state(memory_fields(self._memory))


def publish(plan: CkksPlan, own: int, memory: Memory, _: Sequence[bytes]) -> Given:  # noqa: ARG001  # alike for all
    """Stage KEYS: the public key, signed where there is an identity."""
    return [memory.secrets.public, memory.signature], memory


def offer(plan: CkksPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage SHARES: the first few clients make a key pair each, and seal it for the others."""
    listed = clients_from(fields[0], range(plan.terms.clients), "clients with keys")
    publics = rows_from(fields[1], len(listed), PUBLIC_KEY_BYTES, "keys")
    found = dict(zip(listed, publics, strict=True))
    if found.get(own) != memory.secrets.public:
        raise ProtocolError(f"own key must come back as client {own} published it; it does not")
    if len(listed) < plan.terms.threshold or len(set(publics)) < len(publics):
        raise ProtocolError(
            f"keys must be those of at least {plan.terms.threshold} clients and differ; found {len(set(publics))}"
        )
    _check_signatures(plan, own, memory, found, fields[2])
    if own not in plan.candidates(listed):
        return [b"", b"", b""], replace(memory, publics=found)
    boxes, key = boxes_for(plan, own, memory.secrets, listed, publics), ReceiverKey.generate(plan.parameters)
    public = padded(key.public_context(), plan.public_bytes)
    return [public, wrapped(plan, own, memory.secrets.group, key), boxes], replace(memory, publics=found)


def encrypt(plan: CkksPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:
    """Stage VECTORS: opens the key that the server forwards, and encrypts under it."""
    if memory.vector is None:
        raise InputError(f"vector must be provided to client {own} before it is asked for it; it is not")
    key = _opened_key(plan, own, memory, fields)
    sent = list(sender_ciphertexts(key.public, memory.vector))
    return [ciphertext_field(plan, sent)], replace(memory, key=key)


def decrypt(plan: CkksPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> Given:  # noqa: ARG001  # alike
    """Stage OPENING: opens one sum, and no second."""
    sums = ciphertexts_from(plan, fields[0])
    terms = min((PREFIX.unpack_from(data)[1] for data in sums if len(data) >= PREFIX.size), default=0)
    if terms < plan.terms.threshold:  # a server that lies can write another number, but none says it by mistake
        raise ProtocolError(f"a sum must say that it has at least {plan.terms.threshold} terms; found {terms}")
    assert memory.key is not None, "this stage follows that of vectors"
    total = memory.key.decrypt(sums, plan.terms.length)
    return [integer_field(total)], memory


_ANSWERS: Mapping[Stage, Callable[[CkksPlan, int, Memory, Sequence[bytes]], Given]] = {
    Stage.KEYS: publish,
    Stage.SHARES: offer,
    Stage.VECTORS: encrypt,
    Stage.OPENING: decrypt,
}


def _opened_key(plan: CkksPlan, own: int, memory: Memory, fields: Sequence[bytes]) -> ReceiverKey:
    makers = clients_from(fields[0], plan.candidates(sorted(memory.publics)), "makers of the key")
    if len(makers) != 1:
        raise ProtocolError(f"a key must have one maker; found {len(makers)}")
    maker, group = makers[0], memory.secrets.group
    if maker != own:
        (box,) = rows_from(fields[2], 1, BOX_BYTES, "sealed group key")
        group = group_key_from(plan, own, memory.secrets, maker, memory.publics[maker], box)
    return unwrapped(plan, maker, group, fields[1])


def _check_signatures(plan: CkksPlan, own: int, memory: Memory, found: Mapping[int, bytes], signatures: bytes) -> None:
    rows = rows_from(signatures, len(found), SIGNATURE_BYTES, "signatures")
    if memory.identities is None:
        return
    for (v, public), signature in zip(found.items(), rows, strict=True):
        if v != own:
            memory.identities.check(v, plan.statement(v, public), signature)
