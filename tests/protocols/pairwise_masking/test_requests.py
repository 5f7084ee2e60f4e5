"""What an honest client refuses to be asked, as pure functions."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.plan import Ask, check_request
from tests.error_codes import about

Bytes = NDArray[np.uint8]

ALL = np.ones(5, dtype=np.bool_)


def asking(**others: int) -> Bytes:
    """A request for all self masks, but for `s3=2` and the like."""
    asked = np.full(5, Ask.SELF_MASK, dtype=np.uint8)
    for name, value in others.items():
        asked[int(name[1:])] = value
    return asked


def check(asked: Bytes, told: NDArray[np.bool_]) -> None:
    """A sender among five, all of them neighbours."""
    check_request(asked, 0, told, np.arange(5) != 0, 4, None)


@pytest.mark.parametrize(
    ("asked", "told", "message"),
    [
        (asking(s0=Ask.MASK_KEY), ALL, "sender 0"),
        (asking(s0=Ask.NOTHING), ALL, "sender 0"),
        (asking(), np.arange(5) != 2, "a roster"),
        (asking(s2=Ask.MASK_KEY), np.arange(5) != 2, "a roster"),
        (asking(s1=2, s2=2), ALL, "a roster"),
        (asking(s1=0, s2=0), ALL, "a roster"),
        (asking(s1=200), ALL, "a request"),
    ],
)
def test_a_request_that_lies_is_refused(asked: Bytes, told: NDArray[np.bool_], message: str) -> None:
    """About the sender itself, about one that shared nothing, or for too small a sum."""
    with pytest.raises(ProtocolError, check=about(message)):
        check(asked, told)
