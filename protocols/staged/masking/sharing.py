"""The server's first two stages of pairwise masking: it passes on keys, and shares that it cannot read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fgl_secure.crypto.keys import PUBLIC_KEY_BYTES
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.protocols.identity import SIGNATURE_BYTES
from fgl_secure.protocols.masking.keys import is_usable
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.adding import VectorStage
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.stage import ServerStage
from fgl_secure.protocols.staged.masking.wire import client_bytes, rows_from


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """What a client publishes.

    Attributes:
        sealing: 32 bytes.
        mask: 32 bytes.
        signature: of both, 64 bytes or none.
    """

    sealing: bytes
    mask: bytes
    signature: bytes


class KeyStage(ServerStage[PublicKeys]):
    """Stage KEYS: everybody is asked for keys."""

    stage: ClassVar[Stage] = Stage.KEYS
    fields: ClassVar[int] = 3

    def __init__(self, plan: MaskingPlan) -> None:
        super().__init__(plan, range(plan.terms.clients))

    def request(self, client: int) -> list[bytes]:  # noqa: ARG002  # the same for all
        """Nothing but the head."""
        return []

    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """Keys that work, and that nobody else has published."""
        sealing, mask, signature = fields
        if (len(sealing), len(mask)) != (PUBLIC_KEY_BYTES, PUBLIC_KEY_BYTES):
            raise MalformedMessageError(
                f"keys must have {PUBLIC_KEY_BYTES} bytes each; found {len(sealing)} and {len(mask)}"
            )
        if len(signature) not in (0, SIGNATURE_BYTES):
            raise MalformedMessageError(f"signature must have {SIGNATURE_BYTES} bytes or none; found {len(signature)}")
        if not (is_usable(sealing) and is_usable(mask)):
            raise ProtocolError(f"keys must not be points of low order; found one from client {client}")
        published = {key for said in self.answers.values() for key in (said.sealing, said.mask)}
        if sealing == mask or {sealing, mask} & published:
            raise ProtocolError(f"keys must all differ; found one from client {client} that was published before")
        self.answers[client] = PublicKeys(sealing, mask, signature)

    def after(self) -> ShareStage:
        """For those in whose circle enough have published keys.

        Raises:
            TooFewClientsError: they are fewer than the threshold.
        """
        following = ShareStage(self.plan, self.answers)
        self.require(len(following.asked), f"have {self.plan.needed} clients with keys in their circles")
        return following


class ShareStage(ServerStage[Mapping[int, bytes]]):
    """Stage SHARES: clients hear the keys of their circle and seal shares for it.

    Args:
        plan: of the sum.
        keys: of those that published some.
    """

    stage: ClassVar[Stage] = Stage.SHARES

    def __init__(self, plan: MaskingPlan, keys: Mapping[int, PublicKeys]) -> None:
        self._listed = {u: [v for v in plan.circle(u) if v in keys] for u in sorted(keys)}
        super().__init__(plan, [u for u, listed in self._listed.items() if len(listed) >= plan.needed])
        self._keys = keys

    def request(self, client: int) -> list[bytes]:
        """Who has keys, and which."""
        listed = self._listed[client]
        said = [self._keys[v] for v in listed]
        keys = [b"".join(one.sealing for one in said), b"".join(one.mask for one in said)]
        # who has no identity has signed nothing: zeros, which are nobody's signature, stand in its place
        return [client_bytes(listed), *keys, b"".join(one.signature.ljust(SIGNATURE_BYTES, b"\0") for one in said)]

    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """A sealed box for each neighbour it was told of."""
        others = [v for v in self._listed[client] if v != client]
        boxes = rows_from(fields[0], len(others), self.plan.box_bytes, "sealed shares")
        self.answers[client] = dict(zip(others, boxes, strict=True))

    def after(self) -> VectorStage:
        """For those in whose circle enough have shared.

        Raises:
            TooFewClientsError: they are fewer than the threshold.
        """
        following = VectorStage(self.plan, {u: said.mask for u, said in self._keys.items()}, self.answers)
        self.require(len(following.asked), f"have {self.plan.needed} clients that shared in their circles")
        return following
