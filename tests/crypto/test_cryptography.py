"""What keys are bound to: every purpose, sum, session and pair has its own."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Context, Purpose, RealCryptography
from fgl_secure.runtime import OwnDraws

CONTEXT = Context(b"test", bytes(16), bytes(16))


def test_keys_of_two_purposes_sums_sessions_or_pairs_differ() -> None:
    """Of one key pair, and of one secret: nothing that a key is for can be left out of it."""
    crypto = RealCryptography(OwnDraws(SimulationCoins(0)), 2**61 - 1)
    mine, yours = (row.tobytes() for row in crypto.fresh(np.array([1, 2]), 1, None)[:, 0])
    public = crypto.public(yours)
    contexts = [CONTEXT, replace(CONTEXT, when=bytes([1] * 16)), replace(CONTEXT, session=bytes([1] * 16))]
    contexts.append(replace(CONTEXT, label=b"rest"))
    cases = list(product(contexts, Purpose))
    shared = [crypto.agree(mine, context, purpose, 1, {2: public})[2] for context, purpose in cases]
    own = [crypto.stretched(mine, context, purpose, party) for context, purpose in cases for party in (1, 2)]
    assert len({*shared, *own}) == 3 * len(cases)
    assert crypto.agree(mine, CONTEXT, Purpose.PAIR, 1, {3: public})[3] not in shared
