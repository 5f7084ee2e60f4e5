"""A client's secrets of one pairwise-masking sum, and the keys that it agrees on with its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.masking.keys import Purpose, agreed, seal, unseal
from fgl_secure.protocols.masking.opening import self_mask_key
from fgl_secure.protocols.masking.shares import words_of
from fgl_secure.protocols.pairwise_masking.requests import mask_sign
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.wire import element_bytes, elements_from


@dataclass(frozen=True, slots=True)
class OwnSecrets:
    """What a client draws for one sum, 32 bytes each, or none once it is forgotten.

    Attributes:
        sealing: private key under which shares and votes pass between neighbours.
        mask: private key of the pairwise masks; shared.
        self_mask: seed of the self mask; shared.
        shares: seed of the polynomials that share the two.
    """

    sealing: bytes = field(repr=False)
    mask: bytes = field(repr=False)
    self_mask: bytes = field(repr=False)
    shares: bytes = field(repr=False)

    @classmethod
    def draw(cls, coins: Coins) -> OwnSecrets:
        """Fresh ones.

        Raises:
            InputError: coins are those of several tapes.
        """
        if coins.batch_shape:
            raise InputError("coins must be those of one run; found several tapes at once")
        drawn = coins.uniform(256, (4, KEY_BYTES)).astype(np.uint8)
        return cls(*(row.tobytes() for row in drawn))

    @property
    def once_shared(self) -> OwnSecrets:
        """What is left of them when keys are agreed on and shares sealed: the seed of the self mask."""
        return OwnSecrets(b"", b"", self.self_mask, b"")

    def public(self) -> tuple[bytes, bytes]:
        """The public keys of sealing and mask."""
        return KeyPair(self.sealing).public, KeyPair(self.mask).public

    def shared(self, plan: MaskingPlan) -> Elements:
        """Shares of self-mask seed and mask key for every client: elements [n, 2, words]."""
        both = np.frombuffer(self.self_mask + self.mask, dtype=np.uint8).reshape(2, KEY_BYTES)
        secrets, sharing = words_of(plan.field, both).reshape(-1), plan.sharing
        coins = FieldStream(self.shares).uniform(plan.field.modulus, (sharing.needed - 1) * secrets.size)
        drawn = coins.reshape(sharing.needed - 1, secrets.size).astype(plan.field.dtype)
        return sharing.share(secrets, drawn).reshape(plan.terms.clients, 2, plan.words)


FORGOTTEN = OwnSecrets(b"", b"", b"", b"")


@dataclass(frozen=True, slots=True)
class PairKeys:
    """The keys that a client shares with one neighbour, 32 bytes each, or none once it is forgotten.

    Attributes:
        pair: for sealed shares and votes.
        mask: that the pairwise mask is expanded from.
    """

    pair: bytes = field(repr=False)
    mask: bytes = field(repr=False)

    @property
    def once_masked(self) -> PairKeys:
        """What is left of them when the vector is masked."""
        return PairKeys(self.pair, b"")


def agree_all(
    plan: MaskingPlan, own: int, secrets: OwnSecrets, public: Mapping[int, tuple[bytes, bytes]]
) -> dict[int, PairKeys]:
    """The keys shared with each neighbour.

    Args:
        plan: of the sum.
        own: the client's number.
        secrets: its own.
        public: sealing and mask key of each neighbour.

    Raises:
        ProtocolError: a key is a point of low order.
    """
    sealing, mask = KeyPair(secrets.sealing), KeyPair(secrets.mask)
    session, step, found = plan.terms.binding, plan.step, {}
    for v, (their_sealing, their_mask) in public.items():
        pair = agreed(sealing, their_sealing, session, Purpose.PAIR, step, (own, v))
        found[v] = PairKeys(pair, agreed(mask, their_mask, session, Purpose.PAIR_MASK, step, (own, v)))
    return found


def seal_all(plan: MaskingPlan, own: int, keys: Mapping[int, PairKeys], shares: Elements) -> bytes:
    """Everybody's shares [n, 2, words], sealed for each neighbour with keys, one box after another."""
    session, step = plan.terms.binding, plan.step
    return b"".join(
        seal(keys[v].pair, session, step, own, v, element_bytes(plan.field, shares[v])) for v in sorted(keys)
    )


def unseal_all(
    plan: MaskingPlan, own: int, keys: Mapping[int, PairKeys], boxes: Mapping[int, bytes]
) -> dict[int, Elements]:
    """The shares [2, words] that neighbours sealed for a client; what does not open as such is not there."""
    found = {}
    for v, box in boxes.items():
        try:
            plain = unseal(keys[v].pair, plan.terms.binding, plan.step, v, own, box)
            found[v] = elements_from(plan.field, plain, (2, plan.words), "shares")
        except ProtocolError:
            continue
    return found


def masked(
    plan: MaskingPlan,
    own: int,
    secrets: OwnSecrets,
    keys: Mapping[int, PairKeys],
    others: Sequence[int],
    vector: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Elements [length] under the self mask and those shared with some others; a new array."""
    total = vector.copy()
    own_key = self_mask_key(secrets.self_mask, plan.terms.binding, plan.step, own)
    signs = [1, *(mask_sign(own, v) for v in others)]
    add_masks(total, [own_key, *(keys[v].mask for v in others)], signs, plan.field.modulus)
    return total
