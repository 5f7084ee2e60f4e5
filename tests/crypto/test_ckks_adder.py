"""Sums of ciphertexts kept while terms come in: the same as adding them at once, all of a term or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.crypto.ckks import PublicKey, ReceiverKey, RunningSums
from fgl_secure.crypto.ckks_parameters import CHAINS, Parameters
from fgl_secure.errors import ProtocolError
from tests.crypto.adders import Adder
from tests.error_codes import about

PARAMETERS = Parameters(CHAINS[1], 3, 1000, 1)
KEY = ReceiverKey.generate(PARAMETERS)
LENGTH = PARAMETERS.entries + 3
ROWS = np.random.default_rng(0).integers(-1000, 1001, (3, LENGTH))
TERMS = [KEY.public.encrypt(row) for row in ROWS]


def sums() -> RunningSums:
    """Of vectors that take two ciphertexts."""
    return RunningSums(PublicKey.from_bytes(KEY.public_context()), 2)


def test_terms_one_by_one_give_the_sum() -> None:
    """After each term the sums decrypt to that of the terms so far, and are those that an adder makes."""
    running = sums()
    assert running.to_bytes() == []
    for count, term in enumerate(TERMS, start=1):
        running.add(term)
        assert KEY.decrypt(running.to_bytes(), LENGTH).tolist() == ROWS[:count].sum(axis=0).tolist()
    adder = Adder(KEY.public)
    assert running.to_bytes() == [adder.add(column) for column in zip(*TERMS, strict=True)]


def test_a_bad_term_changes_nothing() -> None:
    """One ciphertext too few, of another key, damaged, a sum, or one that cancels what is there: all or nothing."""
    running, another = sums(), ReceiverKey.generate(PARAMETERS).public
    running.add(TERMS[0])
    before = running.to_bytes()
    twice = Adder(KEY.public).add([TERMS[1][1], TERMS[2][1]])
    for bad in (TERMS[1][1], another.encrypt(ROWS[1])[1], TERMS[1][1][:-1], twice, b""):
        with pytest.raises(ProtocolError):
            running.add([TERMS[1][0], bad] if bad != TERMS[1][1] else [bad])
        assert running.to_bytes() == before
    running.add(TERMS[1])
    assert KEY.decrypt(running.to_bytes(), LENGTH).tolist() == ROWS[:2].sum(axis=0).tolist()


def test_there_are_no_more_terms_than_the_parameters_allow() -> None:
    """A fourth term of three raises."""
    running = sums()
    for term in TERMS:
        running.add(term)
    with pytest.raises(ProtocolError, check=about("a term")):
        running.add(TERMS[0])
