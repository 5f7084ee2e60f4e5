"""Where key streams are from: each of the three ways gives the same bits."""

from __future__ import annotations

import pytest

from fgl_secure.crypto import aes_instructions, counter_mode


@pytest.fixture(params=["instructions", "OpenSSL", "one by one"])
def where_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor has instructions, where OpenSSL's functions are to be had, and where neither is."""
    if request.param == "instructions":
        if not aes_instructions.available():
            pytest.skip("this processor has no instructions for AES, or numba compiles for another")
        return
    monkeypatch.setattr(aes_instructions, "available", lambda: False)
    if request.param == "one by one":
        monkeypatch.setattr(counter_mode, "_linked", lambda: None)
    elif counter_mode._linked() is None:
        pytest.skip("this Python doesn't show the OpenSSL that it is linked with")
