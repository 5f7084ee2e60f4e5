"""Silos and relays take or refuse what another authenticated party sends them: errors of this package alone."""

import pytest

from tests.protocols.hostile import tallied, trials
from tests.training.processes.hostile import PLACES


@pytest.mark.parametrize("place", PLACES)
def test_changed_parcels_are_taken_or_refused(place: str) -> None:
    """Parcels below the seal, cut, flipped, repeated, of other phases, shapes and values: typed errors alone."""
    found = tallied(PLACES[place](), place, range(3 * trials()))  # one in twenty is taken
    assert found.taken
    assert found.refused
