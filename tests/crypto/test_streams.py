"""Many streams read together are the same streams read alone."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding

from fgl_secure.crypto import aes_instructions
from fgl_secure.crypto.streams import FieldStream, KeyedStreams
from fgl_secure.errors import InputError
from tests.error_codes import about
from tests.strategies import ALL_PRIMES

MODULI = (1, 2, 3, 5, 11, 129, 200, 256, 257, 2**31, 2**31 + 1, 2**32 - 5, 2**62 + 1, 2**63, *ALL_PRIMES)
"""Moduli just above a power of two reject nearly every second word, powers of two none."""

AVAILABLE = aes_instructions.available.__wrapped__
"""Asked anew, and without what tests put in its place."""

pytestmark = pytest.mark.usefixtures("where_from")

keys = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=5)
nonces = st.binary(min_size=16, max_size=16)


def streams_of(keys: list[bytes]) -> KeyedStreams:
    """The streams of some keys."""
    return KeyedStreams(np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32))


@given(st.data(), keys, nonces, st.sampled_from(MODULI))
def test_each_stream_is_that_of_its_key_and_nonce(
    data: st.DataObject, keys: list[bytes], nonce: bytes, modulus: int
) -> None:
    """For every modulus, rejections or none, the elements are FieldStream's, stream after stream, and in range."""
    counts = data.draw(st.lists(st.integers(0, 70), min_size=len(keys), max_size=len(keys)))
    found = streams_of(keys).uniform(modulus, np.array(counts), nonce)
    expected = [FieldStream(key, nonce).uniform(modulus, count) for key, count in zip(keys, counts, strict=True)]
    assert np.array_equal(found, np.concatenate(expected))
    assert ((found >= 0) & (found < modulus)).all()


@pytest.mark.parametrize("nonce", [bytes(8) + b"\xff" * 8, b"\xff" * 16, bytes(15) + b"\x01"], ids=bytes.hex)
def test_counters_carry_over_all_sixteen_bytes(nonce: bytes) -> None:
    """Blocks are counted modulo 2^128, as OpenSSL's counter mode does; what goes past a stream's end is not seen."""
    counts = np.array([1000, 37])
    found = streams_of([bytes(32), bytes([7] * 32)]).uniform(2**31 - 1, counts, nonce, np.dtype(np.int32))
    assert found.dtype == np.int32
    assert np.array_equal(found[:1000], FieldStream(bytes(32), nonce).uniform(2**31 - 1, 1000))
    assert np.array_equal(found[1000:], FieldStream(bytes([7] * 32), nonce).uniform(2**31 - 1, 37))


@pytest.mark.parametrize(("name", "value"), [("DISABLE_JIT", 1), ("CPU_NAME", "generic"), ("CPU_FEATURES", "+aes")])
def test_instructions_that_numba_does_without_are_not_named(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM would end the process; a processor without them takes the library."""
    monkeypatch.setattr(numba.config, name, value)
    assert not AVAILABLE()
    monkeypatch.undo()
    monkeypatch.setattr(binding, "get_host_cpu_features", dict)
    assert not AVAILABLE()


def test_unfit_input_is_refused() -> None:
    """Keys of another length and counts for other keys raise; no key is in a message or shown."""
    for wrong in (np.zeros((2, 31), dtype=np.uint8), np.zeros(32, dtype=np.uint8), np.zeros((2, 32), dtype=np.int64)):
        with pytest.raises(InputError, check=about("keys")):
            KeyedStreams(wrong)  # type: ignore[arg-type]  # on purpose
    some = streams_of([bytes(range(32))])
    with pytest.raises(InputError, check=about("counts")):
        some.uniform(11, np.array([1, 2]), bytes(16))
    assert repr(some) == "KeyedStreams(<1 secret keys>)"
