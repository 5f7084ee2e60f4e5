"""Sums of vectors in the clear keep what every scheme must, and promise nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from fgl_secure.errors import InputError
from fgl_secure.protocols.plain_vectors import PlainVectors
from fgl_secure.protocols.vector_sum import VectorGroup, VectorScheme
from fgl_secure.runtime import Phase
from tests.protocols.vector_conformance import FIRST, VectorConformance, channel_of, circle


class TestPlainVectors(VectorConformance):
    """The oracle itself."""

    scheme: ClassVar[VectorScheme] = PlainVectors()
    vector_phase: ClassVar[Phase] = Phase.VECTORS
    refuses_repeats: ClassVar[bool] = False
    most_lost: ClassVar[int] = 4


def test_it_promises_nothing() -> None:
    """No guarantee, no leak beyond what it plainly shows, and no parameters."""
    scheme = PlainVectors()
    assert scheme.claim.guarantees == ()
    assert scheme.public.modulus is None


def test_the_receiver_sees_every_vector() -> None:
    """Each vector reaches the receiver as it is: what protected schemes must not let happen."""
    directory, group = circle(3, split=True)
    channel, rows = channel_of(directory), np.arange(6, dtype=np.int64).reshape(3, 2)
    PlainVectors().open(channel, group, 2, 5).sum(rows, FIRST)
    (seen,) = channel.transcript.view([directory.party_of(group.receiver)]).messages(Phase.VECTORS)
    assert np.asarray(seen.payload).tolist() == rows.tolist()


@pytest.mark.parametrize("senders", [[], [1, 1], [[1, 2]]])
def test_senders_are_different_parties(senders: list[int]) -> None:
    """A group without senders, or with one of them twice, is refused."""
    with pytest.raises(InputError, match="senders must be one or more different parties"):
        VectorGroup(np.array(senders, dtype=np.int64), 0, 0)


def test_the_receiver_is_no_sender() -> None:
    """A receiver that sends would know its own term of the sum."""
    with pytest.raises(InputError, match="receiver must not be one of the senders"):
        VectorGroup(np.array([1, 2]), 2, 0)
