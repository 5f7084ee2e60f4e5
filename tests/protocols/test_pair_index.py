"""Pairs of numbers among known ones, asked for once and again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.protocols.topology import MOST_ASKED, PairIndex

PAIRS = st.tuples(st.integers(0, 5), st.integers(-(2**62), 2**62) | st.integers(0, 5))


@given(st.lists(PAIRS, unique=True, max_size=20), st.lists(st.lists(PAIRS, max_size=8), max_size=3 * MOST_ASKED))
def test_pairs_are_found_where_they_are(known: list[tuple[int, int]], questions: list[list[tuple[int, int]]]) -> None:
    """Each at its place and others nowhere, whatever was asked before; what is answered twice nobody can change."""
    index = PairIndex(*np.array(known, dtype=np.int64).reshape(-1, 2).T)
    for pairs in [*questions, *questions[::-1], known, known]:
        ones, others = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
        found = index.find(ones, others)
        assert found.tolist() == [known.index(pair) if pair in known else -1 for pair in pairs]
        assert not found.flags.writeable
        ones += 1  # the question was the asker's own
