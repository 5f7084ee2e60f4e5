"""The directory: consecutive identifiers, one a party."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, Party, Role
from tests.error_codes import about


@given(st.integers(0, 4), st.integers(0, 6))
def test_identifiers_are_consecutive_by_role(silos: int, devices: int) -> None:
    """Server, silos and devices are numbered 0, 1, 2 .. in that order, each by its index."""
    directory = Directory.hierarchy(silos, devices)
    ids = [directory.id_of(Party(role, index)) for role in directory.roles for index in range(directory.counts[role])]
    assert ids == list(range(len(directory))) == list(range(1 + silos + devices))
    assert directory.ids(Role.SILO).tolist() == list(range(1, 1 + silos))
    assert directory.ids(Role.DEVICE).tolist() == list(range(1 + silos, 1 + silos + devices))


@given(st.integers(0, 4), st.integers(0, 6))
def test_identifiers_lead_back_to_role_and_index(silos: int, devices: int) -> None:
    """Role and index of every identifier are those of the party that it was given to, roles without parties skipped."""
    directory = Directory.hierarchy(silos, devices)
    for position, role in enumerate(directory.roles):
        ids = directory.ids(role)
        assert directory.role_of(ids).tolist() == [position] * len(ids)
        assert directory.index_of(ids, role).tolist() == list(range(len(ids)))


@pytest.mark.parametrize("party", [Party(Role.DEVICE, 3), Party(Role.DEVICE, -1), Party(Role.SERVER, 1)])
def test_absent_parties_are_refused(party: Party) -> None:
    """A party beyond its role's count has no identifier, and the message names it."""
    with pytest.raises(InputError, check=about("party")):
        Directory.hierarchy(2, 3).id_of(party)


def test_absent_roles_are_refused() -> None:
    """A role that takes no part has no identifiers."""
    directory = Directory({Role.SILO: 2})
    with pytest.raises(InputError, check=about("role")):
        directory.ids(Role.DEVICE)
    with pytest.raises(InputError, check=about("party")):
        directory.id_of(Party(Role.SERVER, 0))


def test_negative_counts_are_refused() -> None:
    """A count below zero raises with its role."""
    with pytest.raises(InputError, check=about("counts of parties")):
        Directory.hierarchy(2, -1)


def test_parties_read_as_words_and_sort_by_index() -> None:
    """A party prints as role and index; parties of a role sort by index."""
    assert str(Party(Role.SILO, 3)) == "silo 3"
    assert sorted([Party(Role.SILO, 10), Party(Role.SILO, 9)]) == [Party(Role.SILO, 9), Party(Role.SILO, 10)]
    assert Directory.hierarchy(1, 1).ids(Role.DEVICE).dtype == np.int64
