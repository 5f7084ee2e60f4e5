"""The staged sum in the clear keeps what every staged scheme must, and promises nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest

from fgl_secure.errors import MalformedMessageError
from fgl_secure.protocols.staged.envelope import SERVER, Envelope
from fgl_secure.protocols.staged.interface import Stage, StagedScheme
from fgl_secure.protocols.staged.plain import StagedPlain
from tests.protocols.staged.conformance import StagedConformance
from tests.protocols.staged.rounds import Sum, terms_of, vectors_of


class TestStagedPlain(StagedConformance):
    """As it is by default."""

    make: ClassVar[Callable[[int | None], StagedScheme]] = StagedPlain


def test_it_promises_nothing_and_hides_nothing() -> None:
    """No guarantee is stated, and a client's only message holds its vector as it is."""
    scheme = StagedPlain()
    assert scheme.claim_for(5).guarantees == ()
    run = Sum.of(scheme, terms_of(scheme, 3), vectors_of(3))
    (message,) = (run.clients[u].reply(request) for u, request in run.ask() if u == 2)
    assert message.endswith(vectors_of(3)[2].astype("<i8").tobytes())


def test_one_client_may_be_enough() -> None:
    """There is nothing to protect, so a threshold of one is taken."""
    scheme = StagedPlain(1)
    run = Sum.of(scheme, terms_of(scheme, 4), vectors_of(4)).play(dict.fromkeys(range(3), 0))
    assert run.server.result().tolist() == vectors_of(4)[3].tolist()


@pytest.mark.parametrize(("bound", "entry"), [(50, 51), (50, -51), (None, -1), (None, 2**61 - 1)])
def test_entries_that_no_honest_client_sends_are_refused(bound: int | None, entry: int) -> None:
    """Beyond the bound, or outside the field: MalformedMessageError, and the client may still answer."""
    scheme = StagedPlain()
    terms = terms_of(scheme, 3, 1, bound)
    run = Sum.of(scheme, terms, np.ones((3, 1), dtype=np.int64))
    forged = Envelope(b"CLR1", terms, Stage.VECTORS, 0, SERVER).sealed([np.array([entry], dtype="<i8").tobytes()])
    with pytest.raises(MalformedMessageError):
        run.server.receive(0, forged)
    assert run.play().server.result().tolist() == [3]
