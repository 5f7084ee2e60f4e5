from __future__ import annotations

import pytest

from fgl_secure.attacks.registry import attacks
from fgl_secure.commands.listing import listing
from fgl_secure.commands.method_pages import METHOD_PAGES, lines_of
from fgl_secure.commands.options import METHODS
from fgl_secure.commands.tables.reproduce import TABLES
from fgl_secure.graph import available
from fgl_secure.graph.graph_sets import available_sets
from fgl_secure.methods.fedstruct.choice import ExchangeName
from fgl_secure.protocols.registry import PROTOCOLS
from fgl_secure.protocols.staged.registry import STAGED

EVERYTHING = {
    "datasets": (*available(), *available_sets()),
    "protocols": PROTOCOLS,
    "exchanges": [str(name) for name in ExchangeName],
    "schemes": STAGED,
    "attacks": attacks(),
    "methods": METHODS,
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_a_kind_lists_all_its_names_and_no_others(kind: str) -> None:
    """The table of one kind has one line a name, each with words behind it."""
    head, *lines = listing(kind).splitlines()
    named = [line for line in lines if not line.startswith("   ")]  # what follows under a name is indented further
    assert head == kind
    assert [line.split()[0] for line in named] == list(EVERYTHING[kind])
    assert all(len(line.split()) > 3 for line in named)


def test_a_method_says_what_is_summed_who_sees_what_and_which_tables_reproduce() -> None:
    """Every method has its sums, a line for each scheme, the schemes are real ones, and so are the tables."""
    known = {*PROTOCOLS, *STAGED, *(str(name) for name in ExchangeName)}
    for page in METHOD_PAGES:
        lines = [line for _, line in lines_of(page)]
        assert [line.split()[0] for line in lines[1:]] == ["sums", *("sees" for _ in page.sees), "backbones", "tables"]
        schemes = {name for group in page.sees for name in group.split(", ")}
        assert "plaintext" in schemes
        assert schemes <= known
    pages = {page.name: page for page in METHOD_PAGES}
    assert tuple(pages) == METHODS
    assert {name for page in METHOD_PAGES for name in page.tables} == set(TABLES)
    assert all(pages[name].tables for name in METHODS if name != "fedavg")


def test_no_kind_lists_all_kinds() -> None:
    """Without a kind the tables of all kinds follow each other."""
    assert listing() == "\n\n".join(listing(kind) for kind in EVERYTHING)


def test_what_promises_nothing_says_so() -> None:
    """The listing says of plaintext that it promises nothing, and counts the promises of the others."""
    lines = {line.split()[0]: line for line in listing("protocols").splitlines()[1:]}
    assert lines["plaintext"].endswith("promises nothing")
    assert lines["secmp"].endswith("promises 4")
