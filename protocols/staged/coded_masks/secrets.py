"""A client's secrets of one LightSecAgg sum, and what it makes of them; the mathematics is that of the array level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fgl_secure.algebra import Elements
from fgl_secure.coins import Coins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES, FieldStream
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.lightsecagg.code import MaskCode
from fgl_secure.protocols.masking.keys import Purpose, agreed, seal, unseal
from fgl_secure.protocols.masking.opening import self_mask_key
from fgl_secure.protocols.staged.coded_masks.plan import LightSecAggPlan
from fgl_secure.protocols.staged.masking.wire import element_bytes, elements_from
from fgl_secure.runtime import Step

SECRETS = 3


@dataclass(frozen=True, slots=True)
class OwnSecrets:
    """What a client draws for one sum, 32 bytes each.

    Attributes:
        sealing: private key under which coded masks and votes pass between clients.
        mask: seed of the mask.
        noise: seed of the uniform parts that are coded with it.
    """

    sealing: bytes = field(repr=False)
    mask: bytes = field(repr=False)
    noise: bytes = field(repr=False)

    @classmethod
    def draw(cls, coins: Coins) -> OwnSecrets:
        """Fresh ones.

        Raises:
            InputError: coins are those of several tapes.
        """
        if coins.batch_shape:
            raise InputError("coins must be those of one run; found several tapes at once")
        drawn = coins.uniform(256, (SECRETS, KEY_BYTES)).astype(np.uint8)
        return cls(*(row.tobytes() for row in drawn))

    @property
    def public(self) -> bytes:
        """The public key of sealing."""
        return KeyPair(self.sealing).public

    def coded(self, plan: LightSecAggPlan, own: int) -> Elements:
        """The coded masks for every client: elements [n, width]."""
        code, (rows, width) = plan.code, plan.code.noise_shape
        noise = FieldStream(self.noise).uniform(code.field.modulus, rows * width).reshape(rows, width)
        return code.encode(mask_of(self.mask, plan.terms.binding, plan.step, own, code), noise)

    def masked(self, plan: LightSecAggPlan, own: int, vector: Elements) -> Elements:
        """A vector of elements [length] under the mask."""
        return plan.field.add(mask_of(self.mask, plan.terms.binding, plan.step, own, plan.code), vector)


def agree_all(plan: LightSecAggPlan, own: int, secrets: OwnSecrets, public: Mapping[int, bytes]) -> dict[int, bytes]:
    """The key shared with each other client.

    Raises:
        ProtocolError: a key is a point of low order.
    """
    pair, session, step = KeyPair(secrets.sealing), plan.terms.binding, plan.step
    return {v: agreed(pair, key, session, Purpose.PAIR, step, (own, v)) for v, key in public.items()}


def seal_all(plan: LightSecAggPlan, own: int, keys: Mapping[int, bytes], coded: Elements) -> bytes:
    """Coded masks [n, width], sealed for each client with a key, one box after another."""
    session, step = plan.terms.binding, plan.step
    return b"".join(seal(keys[v], session, step, own, v, element_bytes(plan.field, coded[v])) for v in sorted(keys))


def unseal_all(
    plan: LightSecAggPlan, own: int, keys: Mapping[int, bytes], boxes: Iterable[tuple[int, bytes]]
) -> dict[int, Elements]:
    """The coded masks [width] that others sealed for a client; what does not open as such is not there."""
    found = {}
    for v, box in boxes:
        try:
            plain = unseal(keys[v], plan.terms.binding, plan.step, v, own, box)
            found[v] = elements_from(plan.field, plain, (plan.code.width,), "coded mask")
        except ProtocolError:
            continue
    return found


def mask_of(seed: bytes, session: bytes, step: Step, client: int, code: MaskCode) -> Elements:
    """A client's mask of one sum, expanded from 32 secret bytes that serve for nothing else: int64 [d].

    Args:
        seed: fresh for every sum.
        session: public, and different in every session.
        step: when.
        client: whose, as keys name it.
        code: says how long it is, and over which field.
    """
    mask = np.zeros(code.length, dtype=np.int64)
    add_masks(mask, [self_mask_key(seed, session, step, client)], [1], code.field.modulus)
    return mask
