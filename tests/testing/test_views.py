"""Views: everything that a coalition received and owns, as rows of integers with readable names."""

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Channel, Directory, Party, Phase, Private, Recording, Role, Step
from fgl_secure.testing.arms import LAYOUT, align_views, party_at, views_of
from fgl_secure.testing.coins import BatchCoins
from tests.error_codes import about

PARTIES = Directory({Role.DEVICE: 2, Role.SILO: 1, Role.SERVER: 0})
BOTH = [Party(Role.DEVICE, 1), Party(Role.SILO, 0)]
EVERYTHING = (Private.INPUT, Private.COINS)


def recorded(channel: Channel) -> Channel:
    """Device 1 has an input and draws a coin; device 0 sends two elements to the silo, layer 1, and one to device 1."""
    channel.note_inputs("values", Step(0), np.array([0, 1]), np.array([[8], [9]]))
    coins = channel.draw("coin", np.array([1]), 3, ())
    two = np.stack([coins, coins + 3], axis=-1)
    channel.send(Phase.CODES, Step(0, 1), np.array([0]), np.array([2]), two)
    channel.send(Phase.VALUES, Step(2), np.array([0]), np.array([1]), coins)
    return channel


def test_a_view_has_messages_inputs_and_coins_of_the_whole_coalition() -> None:
    """Each column is named after what it is, who sent it to whom and when; other parties' inputs are not there."""
    channel = recorded(Channel(PARTIES, TapeCoins(3, 1), Recording.everything()))
    views = views_of(channel.transcript, BOTH, EVERYTHING)
    joint = align_views([views], [views], PARTIES)
    assert joint.a.tolist() == [[c, c + 3, c, 9, c] for c in range(3)]
    assert joint.labels == (
        "codes[0] (device 0 to silo 0, round 0 layer 1)",
        "codes[1] (device 0 to silo 0, round 0 layer 1)",
        "values[0] (device 0 to device 1, round 2)",
        "own values[0] (device 1)",
        "own coin[0] (device 1)",
    )
    assert joint.positions == (0, 1, 0, 0, 0)


def test_what_is_not_asked_for_is_left_out() -> None:
    """Without own inputs and coins a view is what was received."""
    channel = recorded(Channel(PARTIES, TapeCoins(3, 1), Recording.everything()))
    assert views_of(channel.transcript, BOTH, ()).values.shape == (3, 3)


def test_one_run_is_one_row() -> None:
    """Coins without leading axes give a view of one row."""
    channel = recorded(Channel(PARTIES, SimulationCoins(1), Recording.everything()))
    assert views_of(channel.transcript, BOTH, EVERYTHING).values.shape == (1, 5)


def test_a_coalition_that_sees_nothing_has_empty_rows() -> None:
    """Nothing received and nothing owned is a view without coordinates, the same on every tape."""
    channel = Channel(PARTIES, BatchCoins(SimulationCoins(1), 4), Recording.everything())
    assert views_of(channel.transcript, BOTH, EVERYTHING).values.shape == (1, 0)


def test_other_layouts_are_other_views() -> None:
    """Runs with different messages share columns, the first of which says which messages there were."""
    long, short = (Channel(PARTIES, TapeCoins(3, 1), Recording.everything()) for _ in range(2))
    short.send(Phase.CODES, Step(0), np.array([0]), np.array([2]), short.coins.uniform(3, (1,)))
    views = [views_of(c.transcript, BOTH, EVERYTHING) for c in (recorded(long), short)]
    joint = align_views([views[0]], [views[1]], PARTIES)
    assert joint.labels[0] == LAYOUT
    assert joint.a[:, 0].tolist() == [1, 1, 1]
    assert joint.b.tolist() == [[0, c, 0, 0, 0, 0] for c in range(3)]


def test_payloads_that_are_no_numbers_are_refused() -> None:
    """Complex numbers have no place in a view of integers and reals."""
    channel = Channel(PARTIES, SimulationCoins(1), Recording.everything())
    channel.send(Phase.VALUES, Step(0), np.array([0]), np.array([2]), np.array([1j]))
    with pytest.raises(InputError, check=about("payload")):
        views_of(channel.transcript, BOTH, EVERYTHING)


def test_parties_are_found_by_identifier() -> None:
    """Every identifier names its party, roles without members included in the count."""
    assert [str(party_at(PARTIES, i)) for i in range(3)] == ["device 0", "device 1", "silo 0"]
