"""Keys that the devices of one silo share with the relays, or one relay with all devices (see `relay_masks`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.crypto.streams import KeyedStreams
from fgl_secure.methods.silos.parcels import Array, Arrays, Parcel
from fgl_secure.methods.silos.program import Inbox, Outbox, fitting, only
from fgl_secure.methods.silos.share import Ids
from fgl_secure.protocols.relay_masks import KeyAgreement, mask_context
from fgl_secure.runtime import Phase, Step

Bytes = NDArray[np.uint8]


def fresh_keys(coins: Coins, count: int) -> Bytes:
    """Private keys, uint8 [count, 32]."""
    return coins.uniform(256, (count, KEY_BYTES)).astype(np.uint8)


def public_keys(private: Bytes) -> Bytes:
    """What their owners publish, uint8 [count, 32]."""
    return _rows([KeyPair(row.tobytes()).public for row in private])


def devices_with_relay(private: Bytes, devices: Ids, relay_key: bytes, relay: int, session: bytes) -> Bytes:
    """What each device agrees on with one relay: uint8 [m, 32]."""
    keys = []
    for row, device in zip(private, devices.tolist(), strict=True):
        pair = KeyPair(row.tobytes())
        keys.append(pair.agree(relay_key, session=session, context=mask_context(pair.public, relay_key, device, relay)))
    return _rows(keys)


def relay_with_devices(private: bytes, relay: int, publics: Bytes, devices: Ids, session: bytes) -> Bytes:
    """What one relay agrees on with each device: the same, uint8 [m, 32]."""
    pair, keys = KeyPair(private), []
    for row, device in zip(publics, devices.tolist(), strict=True):
        context = mask_context(row.tobytes(), pair.public, device, relay)
        keys.append(pair.agree(row.tobytes(), session=session, context=context))
    return _rows(keys)


def agreement(devices: Ids, keys: Sequence[Bytes]) -> KeyAgreement:
    """Streams from the keys [m, 32] of ascending devices with each of some relays."""
    return KeyAgreement(devices, tuple(KeyedStreams([row.tobytes() for row in each]) for each in keys))


class DeviceKeys:
    """The keys of one silo's devices.

    Args:
        devices: int64 [m], ascending numbers.
        relays: the parties that they agree with.
        session: 16 public bytes, different in every run.
    """

    def __init__(self, devices: Ids, relays: Sequence[int], session: bytes) -> None:
        self._devices, self._relays, self._session = devices, relays, session
        self._private: Bytes = np.empty((0, KEY_BYTES), dtype=np.uint8)
        self._keys: list[Bytes] = []

    def publish(self, coins: Coins) -> Outbox:
        """Draws the keys and tells the relays the public ones."""
        self._private = fresh_keys(coins, len(self._devices))
        parcel = Parcel(Phase.KEYS, Step(0), (self._devices, public_keys(self._private)))
        return {relay: [parcel] for relay in self._relays}

    def hear(self, inbox: Inbox) -> None:
        """Takes the relays' keys; private ones are not needed any more."""
        for relay in self._relays:
            (public,) = fitting(only(inbox, relay, Phase.KEYS), ("|u1", (KEY_BYTES,)))
            ends = (self._devices, public.tobytes(), relay)
            self._keys.append(devices_with_relay(self._private, *ends, self._session))
        self._private = self._private[:0]

    def agreed(self) -> KeyAgreement:
        """Streams of all devices and relays."""
        return agreement(self._devices, self._keys)

    def state(self) -> dict[str, Array]:
        """Private keys until all are agreed on, and those that are."""
        return {"private": self._private, **{f"agreed{n}": keys for n, keys in enumerate(self._keys)}}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._private = state["private"]
        self._keys = [state[f"agreed{n}"] for n in range(len(self._relays)) if f"agreed{n}" in state]


def _rows(keys: Sequence[bytes]) -> Bytes:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
