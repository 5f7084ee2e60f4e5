from __future__ import annotations

import pytest

from fgl_secure.attacks.registry import ATTACKS
from fgl_secure.commands.listing import listing
from fgl_secure.commands.options import METHODS
from fgl_secure.commands.structure_choice import ExchangeName
from fgl_secure.graph import available
from fgl_secure.protocols.registry import PROTOCOLS
from fgl_secure.protocols.staged.registry import STAGED

EVERYTHING = {
    "datasets": available(),
    "protocols": PROTOCOLS,
    "exchanges": [str(name) for name in ExchangeName],
    "schemes": STAGED,
    "attacks": ATTACKS,
    "methods": METHODS,
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_a_kind_lists_all_its_names_and_no_others(kind: str) -> None:
    """The table of one kind has one line a name, each with words behind it."""
    head, *lines = listing(kind).splitlines()
    assert head == kind
    assert [line.split()[0] for line in lines] == list(EVERYTHING[kind])
    assert all(len(line.split()) > 3 for line in lines)


def test_no_kind_lists_all_kinds() -> None:
    """Without a kind the tables of all kinds follow each other."""
    assert listing() == "\n\n".join(listing(kind) for kind in EVERYTHING)


def test_what_promises_nothing_says_so() -> None:
    """The listing says of plaintext that it promises nothing, and counts the promises of the others."""
    lines = {line.split()[0]: line for line in listing("protocols").splitlines()[1:]}
    assert lines["plaintext"].endswith("promises nothing")
    assert lines["secmp"].endswith("promises 4")
