"""All staged schemes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fgl_secure.errors import UnknownNameError
from fgl_secure.protocols.staged.ckks import StagedCkks
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.protocols.staged.lightsecagg import StagedLightSecAgg
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from fgl_secure.protocols.staged.plain import StagedPlain

Make = Callable[[int | None], StagedScheme]
"""From a threshold, or None for the scheme's own."""

STAGED: Mapping[str, Make] = MappingProxyType({
    "plaintext": StagedPlain,
    "pairwise-masking": StagedPairwiseMasking,
    "lightsecagg": StagedLightSecAgg,
    "ckks": StagedCkks,
})  # fmt: skip


def staged(name: str, threshold: int | None = None) -> StagedScheme:
    """The staged scheme of a name.

    Args:
        name: a key of `STAGED`.
        threshold: least clients that must be left at every stage; None takes the scheme's default.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in STAGED:
        raise UnknownNameError("scheme", name, tuple(STAGED))
    return STAGED[name](threshold)
