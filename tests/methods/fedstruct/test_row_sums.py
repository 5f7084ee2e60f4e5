"""Rows of summed gradients that few clients contribute to: who opens them, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.claims import claim_of
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.gradients import CONTRIBUTORS, MARKS, RowSums
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.scheme import Scheme, needed_marks
from fgl_secure.runtime import Channel, Directory, Party, Phase, Recording, Role, Secret, Step
from fgl_secure.runtime.channel import Loss

CLIENTS, ROWS, K_MIN = 5, 6, 2
PARTIES = Directory.hierarchy(CLIENTS, ROWS)
SENDERS = PARTIES.ids(Role.SILO)
MASKS = PairwiseMasking(threshold=4, keys=KeyAgreement.X25519)
"""Of keys that repeat with their coins: whatever wraps a secret for ML-KEM is drawn by the library."""
NEEDED = K_MIN + 1
"""One of five may vanish."""
STAIRS = (np.tri(CLIENTS, ROWS, 0)[:, :, None] * np.arange(1, CLIENTS + 1)[:, None, None]).repeat(2, axis=2)
"""To row j clients j and above contribute: rows have 5, 4, 3, 2, 1 and no contributors."""

Reals = NDArray[np.float64]
matrices = st.lists(st.booleans(), min_size=CLIENTS * ROWS, max_size=CLIENTS * ROWS).map(
    lambda flags: np.array(flags, dtype=float).reshape(CLIENTS, ROWS, 1) * np.array([1.5, -2.0])
)


def summed(
    parts: Reals, scheme: Scheme = MASKS, k_min: int = K_MIN, receiver: int | None = None, loss: Loss | None = None
) -> tuple[Reals, Channel]:
    """The sum of all clients' matrices, or of all but the receiver's, and the channel that it went over."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything(), loss)
    senders = SENDERS if receiver is None else np.delete(SENDERS, receiver)
    add = RowSums(scheme, channel, senders, k_min, None if receiver is None else int(SENDERS[receiver]))
    return add(parts if receiver is None else np.delete(parts, receiver, axis=0), Step(0)), channel


@pytest.mark.parametrize("scheme", [MASKS, LightSecAgg(threshold=4)], ids=lambda scheme: scheme.name)
@given(parts=matrices)
@settings(max_examples=8)
def test_rows_of_enough_clients_are_opened_and_no_others(scheme: Scheme, parts: Reals) -> None:
    """Rows with k_min contributors, and as many more as may vanish, are summed; all others are 0."""
    enough = (parts != 0).any(axis=2).sum(axis=0) >= needed_marks(scheme, CLIENTS, K_MIN)
    assert np.allclose(summed(parts, scheme)[0], np.where(enough[:, None], parts.sum(axis=0), 0), atol=1e-6)


def test_without_k_min_a_row_of_one_client_is_read() -> None:
    """The control: the row is the client's own, to the last digit; with k_min it is 0."""
    assert np.array_equal(summed(STAIRS, k_min=1)[0][4], STAIRS[4, 4])
    assert np.array_equal(summed(STAIRS)[0], np.where(np.arange(ROWS)[:, None] < 3, STAIRS.sum(axis=0), 0))


def said(parts: Reals, k_min: int) -> list[tuple[str, bytes]]:
    """All messages, byte for byte, with the same coins each time."""
    batches = summed(parts, k_min=k_min)[1].transcript.messages
    return [(b.phase.name, value.tobytes()) for b in batches for value in (b.fields or {}).values()]


@given(values=st.lists(st.floats(-8, 8).filter(lambda value: abs(value) > 2**-20), min_size=3, max_size=3))
def test_nothing_of_a_closed_row_leaves_a_client(values: list[float]) -> None:
    """Whatever stands in closed rows, all parties say the same to the last byte, masks and all; in open rows not."""
    other = STAIRS.copy()
    other[3, 3], other[4, 3], other[4, 4] = values
    assert said(STAIRS, K_MIN) == said(other, K_MIN)
    assert said(STAIRS, 1) != said(other, 1) or np.array_equal(STAIRS, other)


def lost_after_its_marks(client: int) -> Loss:
    """A network on which a client is heard of until its vector of values."""

    def arrives(phase: Phase, step: Step, senders: NDArray[np.int64], _: NDArray[np.int64]) -> NDArray[np.bool_]:
        gone = step.part != MARKS and phase is Phase.MASKED_VECTORS
        kept: NDArray[np.bool_] = senders != SENDERS[client]
        return kept | (not gone)

    return arrives


@pytest.mark.parametrize("client", range(CLIENTS))
def test_a_client_that_vanishes_after_its_marks_leaves_k_min(client: int) -> None:
    """No row is opened for fewer than k_min clients, whoever vanishes; as many marks as k_min would open one."""
    found, _ = summed(STAIRS, loss=lost_after_its_marks(client))
    left = np.delete(STAIRS, client, axis=0)
    contributors = (left != 0).any(axis=2).sum(axis=0)
    opened = found.any(axis=1)
    assert np.allclose(found[opened], left.sum(axis=0)[opened])
    assert contributors[opened].min() >= K_MIN
    marked = (STAIRS != 0).any(axis=2).sum(axis=0)
    assert client < 4 or contributors[marked >= K_MIN].min() < K_MIN


@pytest.mark.parametrize("receiver", [None, 2])
def test_counts_are_for_whoever_is_entitled_to_the_sum(receiver: int | None) -> None:
    """The server, or the owner of the rows, learns how many contribute; clients are told which rows are open."""
    _, channel = summed(STAIRS, PairwiseMasking(), receiver=receiver)
    seen = {k: channel.transcript.view([Party(Role.SILO, k)]) for k in range(CLIENTS)}
    entitled = channel.transcript.views(Role.SERVER) if receiver is None else seen[receiver]
    (counts,) = entitled.own(CONTRIBUTORS)
    expected = (np.delete(STAIRS, [] if receiver is None else receiver, axis=0) != 0).any(axis=2).sum(axis=0)
    assert np.asarray(counts.values).ravel().tolist() == expected.tolist()
    others = [view for k, view in seen.items() if k != receiver]
    assert not any(view.own(CONTRIBUTORS) for view in others)
    assert all(view.messages(Phase.OPENED) for view in others)


def test_a_k_min_that_cannot_be_reached_is_refused() -> None:
    """More than the clients that a sum has at least is an error before anything is sent."""
    assert [needed_marks(MASKS, CLIENTS, k) for k in (1, 2, 3, 4)] == [1, 3, 4, 5]
    with pytest.raises(InputError, match=r"k_min must lie in 1\.\.4.*pairwise-masking.*; found 5"):
        needed_marks(MASKS, CLIENTS, 5)


def test_the_claim_says_what_marks_tell() -> None:
    """With k_min somebody learns how many contribute to a row; without it, or in the clear, nobody does."""
    for k_min, telling in ((1, 0), (2, 1)):
        claim = claim_of(RowExchange(MASKS, MASKS, k_min=k_min), "hop2vec", CLIENTS)
        leaks = [leak for leak in claim.leaks_by_design if leak.secret is Secret.FOREIGN_NODE]
        assert sum("fewer than 2" in leak.statement for leak in leaks) == telling
