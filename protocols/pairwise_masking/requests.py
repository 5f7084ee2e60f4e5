"""What an honest sender of pairwise masking checks before it gives anything away, as pure functions.

The aggregator asks every sender for one share of each of the others (Bonawitz et al. 2017, figure 4, round 4): of the
self mask of those whose vectors are in the sum, of the mask key of those that dropped out. Whoever gets both for one
sender unmasks its vector; these checks keep that from an aggregator that lies.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError

Asked = NDArray[np.uint8]
Flags = NDArray[np.bool_]


class Ask(IntEnum):
    """What the aggregator may ask about one sender; the sum of both is what nobody may ask."""

    NOTHING = 0
    SELF_MASK = 1
    MASK_KEY = 2


def request_of(shared: Flags, survived: Flags) -> Asked:
    """The aggregator's role: what to ask, uint8 [m], given whose secrets are shared and whose vectors came."""
    return np.where(survived, Ask.SELF_MASK, np.where(shared, Ask.MASK_KEY, Ask.NOTHING)).astype(np.uint8)


def check_request(asked: Asked, own: int, told: Flags, adjacent: Flags, threshold: int, earlier: Asked | None) -> None:
    """A sender's role: raises unless a request is one that it may answer.

    Args:
        asked: uint8 [m], what the aggregator asks about every sender.
        own: the number of the sender that is asked; its own vector is sent.
        told: bool [m], whose shares the aggregator said it forwarded.
        adjacent: bool [m], the sender's neighbours.
        threshold: least vectors in a sum.
        earlier: what it was asked before in this step; None for nothing.

    Raises:
        ProtocolError: the request is for both secrets of one sender, for its own mask key, about a neighbour that
            shared nothing, for a sum of fewer than `threshold` vectors, or not the first of this step.
    """
    if earlier is not None and not np.array_equal(asked, earlier):
        raise ProtocolError("a step must be unmasked once; found a second request that differs from the first")
    if (asked > Ask.MASK_KEY).any():
        who = int(np.flatnonzero(asked > Ask.MASK_KEY)[0])
        raise ProtocolError(f"a request must be for one secret of each sender; found one for both of sender {who}")
    if asked[own] != Ask.SELF_MASK:
        raise ProtocolError(f"sender {own} must be on the roster of a step that it sent its vector in; it is not")
    strangers = np.flatnonzero((asked > Ask.NOTHING) & adjacent & ~told)
    if len(strangers):
        raise ProtocolError(f"a roster must name those only that shared their secrets; found sender {strangers[0]}")
    vectors = int((asked == Ask.SELF_MASK).sum())
    if vectors < threshold:
        raise ProtocolError(f"a roster must name at least threshold = {threshold} senders; found {vectors}")


def signed(total: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """The receiver's role: elements as the integers of least magnitude that they stand for."""
    return np.where(total > modulus // 2, total - modulus, total)
