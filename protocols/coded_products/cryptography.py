"""What is cryptographic about coded products, as one object: masks of shares, and common streams of relays.

A device's masks are read from streams under the keys that it has with the first T relays, which need not be sent their
shares. A mask is named by its session, device, relay and step, and by whether it is of what is shared once; its place
in the stream is that of the number in the row. A common stream is named by its session, step, the group whose sum it
goes into, a digest of whose products are in that sum, and its number in its set of relays: so relays that would add up
different devices add unrelated shares of zero, and no two of their answers go together.

Both are words below a multiple of the product of all primes, whose remainders are uniform and independent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fgl_secure.algebra import PrimeField
from fgl_secure.algebra.residues import Words, words_below
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import BLOCK_BYTES, KEY_BYTES, KeyedStreams
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, Keys, mask_nonce
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Draws, Step
from fgl_secure.typing import Bytes, Ids

_ZEROS = b"fgl-secure coded-products/v2 share of zero"
_NAME = struct.Struct(">QQQH")


class ProductCryptography:
    """X25519, with ML-KEM-768 or alone, HKDF, AES-256 in counter mode; secrets of hosted parties are passed in.

    Args:
        fields: of shares.
        T: degree of the polynomials.
        session: 16 public bytes, the session's name; None where one process hosts all parties, who draw it.
        agreement: how devices and relays agree on keys.

    Attributes:
        keys: derives what devices and relays agree on.
    """

    keys: Cryptography

    def __init__(self, fields: Sequence[PrimeField], T: int, session: bytes | None, agreement: KeyAgreement) -> None:
        self._fields, self._T, self._session = tuple(fields), T, session
        self.keys = Cryptography(fields[0], T, session=session, agreement=agreement)

    def masks(
        self, draws: Draws, step: Step, devices: Ids, width: int, keys: Keys | None, *, once: bool  # noqa: ARG002
    ) -> list[Words]:  # fmt: skip
        """The values of devices' polynomials at 1 .. T, from streams at a nonce of the step: for each words [n, width].

        Args:
            draws: coins of the devices.
            step: when they are used.
            devices: int64 [n], ascending party identifiers.
            width: numbers of each.
            keys: that they have with relays.
            once: whether for what is shared once.
        """
        assert keys is not None, "devices have keys"
        return [self._read(step, Keys(keys.senders, (secret,)), devices, width, once=once) for secret in keys.secrets]

    def expand(self, step: Step, devices: Ids, width: int, keys: Keys, *, once: bool) -> Words:
        """What a relay expands into its shares: words [n, width]."""
        return self._read(step, keys, devices, width, once=once)

    def _read(self, step: Step, keys: Keys, devices: Ids, width: int, *, once: bool) -> Words:
        counts = np.where(np.isin(keys.senders, devices), width, 0)
        streams = KeyedStreams(keys.secrets[0])
        read = streams.uniform(words_below(self._fields), counts, self.nonce(step, once=once))
        return read.reshape(-1, width)

    def nonce(self, step: Step, *, once: bool) -> bytes:
        """The counter block at which the masks begin."""
        return mask_nonce(step, int(once))

    def draw_keys(self, draws: Draws, dealers: Ids) -> Bytes:
        """The keys of sets of relays, each drawn by one of the set: uint8 [sets, 32]."""
        return draws.draw("keys of sets", dealers, 256, (KEY_BYTES,)).astype(np.uint8)

    def streams(
        self, draws: Draws, keys: Bytes, sets: Sequence[Ids], step: Step, group: int, digest: Ids, count: int  # noqa: ARG002
    ) -> list[list[Words]]:  # fmt: skip
        """T common streams of each of some sets of relays, each from a key of its own: for each stream words [count].

        Args:
            draws: coins of the relays.
            keys: uint8 [s, 32], of the sets.
            sets: for each int64, party identifiers of its members.
            step: when they are used.
            group: whose sum they go into.
            digest: int64 [2], of who is in that sum.
            count: how many elements.
        """
        names = [self.name(step, group, digest, number) for number in range(self._T)]
        stream_keys = np.frombuffer(b"".join(self._derive(key, name) for key in keys for name in names), dtype=np.uint8)
        streams, counts = KeyedStreams(stream_keys.reshape(-1, KEY_BYTES)), np.full(len(keys) * len(names), count)
        read = streams.uniform(words_below(self._fields), counts, bytes(BLOCK_BYTES))
        return [list(item) for item in read.reshape(len(keys), len(names), count)]

    def name(self, step: Step, group: int, digest: Ids, number: int) -> bytes:
        """What a stream is for."""
        return step_bytes(step) + _NAME.pack(group, *digest.astype(np.uint64).tolist(), number)

    def _derive(self, key: Bytes, name: bytes) -> bytes:
        derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=self._session, info=_ZEROS + name)
        return derived.derive(key.tobytes())
