"""Staged schemes by name."""

from __future__ import annotations

import pytest

from fgl_secure.errors import UnknownNameError
from fgl_secure.protocols.staged.registry import STAGED, staged


@pytest.mark.parametrize("name", STAGED)
def test_every_entry_makes_the_scheme_of_its_name(name: str) -> None:
    """Without a threshold the scheme's own name is the registry's; with one it is the scheme's."""
    assert staged(name).name == name
    assert staged(name, 4).threshold_for(5) == 4


def test_unknown_names_are_refused() -> None:
    """The message lists what there is."""
    with pytest.raises(UnknownNameError, match="scheme must be one of plaintext, pairwise-masking, lightsecagg, ckks"):
        staged("spdz")
