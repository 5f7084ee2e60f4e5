from __future__ import annotations

import pytest

from fgl_secure import schemes
from fgl_secure.attacks.registry import attacks
from fgl_secure.cli.listing import lines_of, listing
from fgl_secure.graph import available
from fgl_secure.graph.graph_sets import available_sets
from fgl_secure.methods import method, names

EVERYTHING = {
    "datasets": (*available(), *available_sets()),
    "schemes": schemes.names(),
    "attacks": attacks(),
    "methods": names(),
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
    """Every method has its sums, a line for each scheme, and the schemes are real ones that serve it."""
    for each in map(method, names()):
        lines = [line for _, line in lines_of(each)]
        seen = ["sees" for _ in each.sees] + ["tells" for _ in each.tells]
        assert [line.split()[0] for line in lines[1:]] == ["sums", *seen, "schemes", "backbones", "tables"]
        known = {name for group in each.sees for name in group.split(", ")}
        assert "plaintext" in known
        assert all(any(schemes.refusal(name, where) is None for where in each.topologies) for name in known)
        assert bool(each.tables()) is (each.name != "fedavg")


def test_no_kind_lists_all_kinds() -> None:
    """Without a kind the tables of all kinds follow each other."""
    assert listing() == "\n\n".join(listing(kind) for kind in EVERYTHING)


def test_what_promises_nothing_says_so() -> None:
    """The listing says of plaintext that it promises nothing, and counts the promises of the others."""
    lines = {line.split()[0]: line for line in listing("schemes").splitlines()[1:]}
    assert "promises nothing; takes [threshold, path, minimum_group]" in lines["plaintext"]
    assert "promises 4; takes [field, T, " in lines["secmp"]
