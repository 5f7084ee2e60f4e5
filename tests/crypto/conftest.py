"""Where key streams are from: either way gives the same bits."""

import pytest

from fgl_secure.crypto import aes_instructions


@pytest.fixture(params=["instructions", "one by one"])
def where_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the processor's AES instructions, and without them."""
    if request.param == "one by one":
        monkeypatch.setattr(aes_instructions, "available", lambda: False)
    elif not aes_instructions.available():
        pytest.skip("this processor has no instructions for AES, or numba compiles for another")
