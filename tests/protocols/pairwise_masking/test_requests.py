"""What an honest client refuses to be asked, as pure functions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.plan import Ask, check_request, request_of
from tests.error_codes import about

Bytes = NDArray[np.uint8]

ALL = np.ones(5, dtype=np.bool_)


def asking(**others: int) -> Bytes:
    """A request for all self masks, but for `s3=2` and the like."""
    asked = np.full(5, Ask.SELF_MASK, dtype=np.uint8)
    for name, value in others.items():
        asked[int(name[1:])] = value
    return asked


def check(asked: Bytes, own: int = 0, told: NDArray[np.bool_] = ALL, earlier: Bytes | None = None) -> None:
    """A sender among five, all of them neighbours."""
    adjacent = np.arange(5) != own
    check_request(asked, own, told, adjacent, 4, earlier)


def test_an_honest_request_is_answered() -> None:
    """All vectors there, or one sender dropped out: every survivor accepts."""
    for own in range(5):
        check(asking(), own)
    for own in range(4):
        check(asking(s4=Ask.MASK_KEY), own)
        check(asking(s4=Ask.NOTHING), own)


@pytest.mark.parametrize("target", range(5))
def test_a_request_for_both_secrets_of_one_sender_is_refused_by_everybody(target: int) -> None:
    """A server that asks for both secrets of one client is refused by every honest client, that client included."""
    for own in range(5):
        with pytest.raises(ProtocolError, match=f"one secret of each sender; found one for both of sender {target}"):
            check(asking(**{f"s{target}": Ask.SELF_MASK + Ask.MASK_KEY}), own)


def test_a_second_request_is_refused() -> None:
    """Asked first for one secret of a sender and then for the other, in two requests, every client refuses."""
    for own in range(4):
        check(asking(), own, earlier=asking())
        with pytest.raises(ProtocolError, check=about("a step")):
            check(asking(s4=Ask.MASK_KEY), own, earlier=asking())


@pytest.mark.parametrize(
    ("asked", "told", "message"),
    [
        (asking(s0=Ask.MASK_KEY), ALL, "sender 0 must be on the roster"),
        (asking(s0=Ask.NOTHING), ALL, "sender 0 must be on the roster"),
        (asking(), np.arange(5) != 2, "those only that shared their secrets; found sender 2"),
        (asking(s2=Ask.MASK_KEY), np.arange(5) != 2, "those only that shared their secrets; found sender 2"),
        (asking(s1=2, s2=2), ALL, "at least threshold = 4 senders; found 3"),
        (asking(s1=0, s2=0), ALL, "at least threshold = 4 senders; found 3"),
        (asking(s1=200), ALL, "found one for both of sender 1"),
    ],
)
def test_a_request_that_lies_is_refused(asked: Bytes, told: NDArray[np.bool_], message: str) -> None:
    """About the sender itself, about one that shared nothing, or for too small a sum."""
    with pytest.raises(ProtocolError, match=message):
        check(asked, told=told)


def test_the_aggregator_asks_for_one_secret_of_each() -> None:
    """The self mask where the vector came, the mask key where only the shares did, and nothing of the others."""
    shared, survived = np.array([1, 1, 0], dtype=np.bool_), np.array([1, 0, 0], dtype=np.bool_)
    assert request_of(shared, survived).tolist() == [Ask.SELF_MASK, Ask.MASK_KEY, Ask.NOTHING]
