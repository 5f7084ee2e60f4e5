"""The aggregator's last step as pure functions: secrets opened from shares, and the masks that they take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.coins import Coins
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking.keys import Purpose, agreed, derived
from fgl_secure.protocols.masking.shares import Sharing, seed_of
from fgl_secure.protocols.pairwise_masking.graph import Neighbours
from fgl_secure.protocols.pairwise_masking.requests import NO_SHARE, Ask, Asked, mask_sign
from fgl_secure.runtime import Step

Flags = NDArray[np.bool_]


def self_mask_key(seed: bytes, session: bytes, step: Step, sender: int) -> bytes:
    """The key that a sender's self mask is expanded from."""
    return derived(seed, session, Purpose.SELF_MASK, step, sender, sender)


def handed_in(shares: Elements) -> Flags:
    """Bool [m, m]: which shares [*batch, m owners, m holders, w] are there."""
    there: Flags = (shares.reshape(-1, *shares.shape[-3:]) != NO_SHARE).all(axis=(0, 3))
    return there


def open_each(sharing: Sharing, shares: Elements, asked: Asked, coins: Coins | None) -> Elements:
    """The secrets asked for, from the shares that were handed in; those with alike holders at one time.

    Args:
        sharing: how they were shared.
        shares: elements [*batch, m owners, m holders, w], NO_SHARE where there is none.
        asked: uint8 [m], what the aggregator asked about each owner.
        coins: see `Sharing.open`.

    Returns:
        Elements [*batch, m, w], zeros where nothing is asked.

    Raises:
        NotEnoughShares: a secret has fewer shares than it needs.
        TooManyErrors: shares contradict each other and the wrong ones cannot be told.
    """
    there, owners = handed_in(shares), np.flatnonzero(asked)
    opened = np.zeros((*shares.shape[:-2], shares.shape[-1]), dtype=shares.dtype)
    for pattern in np.unique(there[owners], axis=0):
        alike, holders = owners[(there[owners] == pattern).all(axis=1)], np.flatnonzero(pattern)
        rows = shares[..., alike[:, None], holders, :]
        opened[..., alike, :] = sharing.open(np.moveaxis(rows, -2, 0), holders.tolist(), coins)
    return opened


def masks_left(
    field: PrimeField,
    secrets: Elements,
    asked: Asked,
    neighbours: Neighbours,
    public: Mapping[int, bytes],
    names: Sequence[int],
    session: bytes,
    step: Step,
) -> tuple[list[bytes], list[int]]:
    """The masks that are left in a sum: the self masks of who is in it, and what neighbours of the others put on.

    Args:
        field: of the masks.
        secrets: elements [m, w], as opened.
        asked: uint8 [m], which of the two secrets each is.
        neighbours: who masks with whom.
        public: the mask key that each sender published.
        names: by which keys know the senders.
        session: public, and different in every session.
        step: which sum.

    Returns:
        Keys to expand masks from, and the sign of each that takes it away.

    Raises:
        ProtocolError: a secret is no seed, or not the key that its owner published.
    """
    keys, signs = [], []
    for u in np.flatnonzero(asked == Ask.SELF_MASK).tolist():
        keys.append(self_mask_key(seed_of(field, secrets[u]), session, step, names[u]))
        signs.append(-1)
    for u in np.flatnonzero(asked == Ask.MASK_KEY).tolist():
        pair = published_pair(field, secrets[u], public[u], names[u])
        for v in neighbours.table[u].tolist():
            if asked[v] == Ask.SELF_MASK:
                keys.append(agreed(pair, public[v], session, Purpose.PAIR_MASK, step, (names[u], names[v])))
                signs.append(-mask_sign(v, u))
    return keys, signs


def published_pair(field: PrimeField, words: Elements, public: bytes, name: int) -> KeyPair:
    """The key pair whose private key elements [w] hold.

    Raises:
        ProtocolError: they hold none, or that of another public key than its owner published.
    """
    pair = KeyPair(seed_of(field, words))
    if pair.public != public:
        raise ProtocolError(f"sender {name} must share the mask key that it published; the one opened is another")
    return pair
