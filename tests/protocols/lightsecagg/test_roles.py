"""What senders of LightSecAgg refuse, and what becomes of messages that are forged, swapped, replayed or wrong."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import ProtocolError, TooFewClientsError, TooManyErrors
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.runtime import Channel, Messages, Phase, Recording, Step, TamperedBatch
from fgl_secure.runtime.channel import Loss, Tamper
from tests.error_codes import about
from tests.protocols.secagg.rounds import LEADER, NOW, directory_of, topology_of, vectors_of

Ints = NDArray[np.int64]
Array = NDArray[Any]
Change = Callable[[Messages], Mapping[str, Array]]

FIVE, THREE = LightSecAgg(), LightSecAgg(3)
"""U = 4 and U = 3 of five, T = 1."""
SENDERS = topology_of(5).senders
ROWS = vectors_of(5)


def total_of(*left_out: int) -> list[int]:
    """The sum of the others."""
    total: list[int] = np.delete(ROWS, left_out, axis=0).sum(axis=0).tolist()
    return total


def summed(
    scheme: LightSecAgg,
    tamper: Tamper | None = None,
    *,
    split: bool = False,
    loss: Loss | None = None,
    step: Step = NOW,
) -> tuple[list[int], Channel]:
    """One sum, and the channel that it ran on."""
    channel = Channel(directory_of(5), SimulationCoins(0), Recording.everything(), loss, tamper)
    return Collective(scheme, topology_of(5, split=split), channel).sum(ROWS, step)[0].tolist(), channel


def incidents(channel: Channel) -> str:
    """What went wrong, line by line."""
    return "\n".join(f"{incident.party}: {incident.what}" for incident in channel.transcript.incidents)


def rewritten(
    phase: Phase, name: str, change: Callable[[Array, Messages], Array], *, down: bool | None = None
) -> Tamper:
    """A field of messages of one phase with other values: of those from the server (down), to it, or of all."""

    def tamper(messages: Messages) -> TamperedBatch | None:
        if messages.phase is not phase or name not in messages.fields:
            return None
        if down is not None and down != bool((messages.senders == LEADER).all()):
            return None
        fields = {**messages.fields, name: change(messages[name].copy(), messages)}
        return TamperedBatch(np.arange(len(messages)), fields)

    return tamper


def last_out(some: list[int]) -> Tamper:
    """A server that tells some senders that the last one dropped out."""

    def change(roster: Array, messages: Messages) -> Array:
        roster[np.isin(messages.receivers, SENDERS[some]), 4] = False
        return roster

    return rewritten(Phase.ROSTERS, "roster", change)


def test_two_rosters_are_found_out() -> None:
    """Told two rosters, two and three of five find no four votes for theirs, and nobody opens a sum."""
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 4 of 5 clients")):
        summed(FIVE, last_out([0, 1]))


def test_a_majority_with_one_roster_goes_on() -> None:
    """Told another roster than the four others, a sender opens nothing: the sum is right, the lie on record."""
    total, channel = summed(FIVE, last_out([1]))
    assert total == total_of()
    said = [str(incident.what) for incident in channel.transcript.incidents]
    assert any("is refused" in what for what in said)
    opened = [b for b in channel.transcript.messages if b.phase is Phase.UNMASKING and b.receivers[0] == LEADER]
    assert sum(len(batch.senders) for batch in opened) == 4


def forged(which: list[int]) -> Tamper:
    """Some senders' votes are zeros."""

    def change(votes: Array, messages: Messages) -> Array:
        votes[np.isin(messages.senders, SENDERS[which])] = 0
        return votes

    return rewritten(Phase.ROSTERS, "votes", change)


def test_forged_votes_do_not_count() -> None:
    """With one forger of five all others still find four votes; with two nobody does."""
    total, channel = summed(FIVE, forged([3]))
    assert total == total_of()
    assert incidents(channel).count("silo 3: its vote for a roster is not what") == 4
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 4 of 5 clients")):
        summed(FIVE, forged([0, 3]))


def test_votes_and_boxes_of_another_step_are_worth_nothing() -> None:
    """Fields of step 1 that the server puts into messages of step 2 do not open, and do not count."""
    for phase, name in ((Phase.SECRET_SHARES, "boxes"), (Phase.UNMASKING, "votes")):
        kept: dict[int, Array] = {}

        def change(value: Array, messages: Messages, kept: dict[int, Array] = kept) -> Array:
            who = int(messages.receivers[0])
            return kept.setdefault(who, value) if messages.step == NOW else kept[who]

        channel = Channel(directory_of(5), SimulationCoins(0), tamper=rewritten(phase, name, change, down=True))
        collective = Collective(FIVE, topology_of(5), channel)
        assert collective.sum(ROWS, NOW)[0].tolist() == total_of()
        with pytest.raises(TooFewClientsError, check=about("at least threshold = 4 of 5 clients")):
            collective.sum(ROWS, Step(9))


def changed_sums(which: list[int]) -> Tamper:
    """Some senders' sums of coded masks, changed in one entry."""

    def change(sums: Array, messages: Messages) -> Array:
        rows = np.isin(messages.senders, SENDERS[which])
        sums[rows, 0] = (sums[rows, 0] + 1) % (2**61 - 1)
        return sums

    return rewritten(Phase.UNMASKING, "sum", change)


@pytest.mark.parametrize("split", [False, True])
def test_wrong_sums_of_coded_masks_are_corrected_where_there_are_enough(split: bool) -> None:
    """With three needed of five a wrong answer is corrected and named; with four needed it is noticed."""
    total, channel = summed(THREE, changed_sums([2]), split=split)
    assert total == total_of()
    assert incidents(channel) == "silo 2: its sum of coded masks is wrong: corrected"
    with pytest.raises(TooManyErrors):
        summed(FIVE, changed_sums([2]), split=split)


def outside(which: list[int]) -> Callable[[Array, Messages], Array]:
    """Values beyond the field, from some senders."""

    def change(values: Array, messages: Messages) -> Array:
        values[np.isin(messages.senders, SENDERS[which])] = 2**61
        return values

    return change


def test_values_outside_the_field_are_left_out() -> None:
    """They drop their sender from the opening, or from the sum; below the threshold it stops."""
    each = rewritten(Phase.MASKED_VECTORS, "vector", outside([2]))
    total, channel = summed(FIVE, each)
    assert total == total_of(2)
    assert "silo 2: a message (masked vectors) is refused: vector must be elements of its ring" in incidents(channel)
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 4 of 5 clients")):
        summed(FIVE, rewritten(Phase.UNMASKING, "sum", outside([2])))


def test_boxes_for_somebody_else_do_not_open() -> None:
    """Boxes that the server gives to the wrong sender are refused, and that sender is lost to the sum."""

    def change(boxes: Array, messages: Messages) -> Array:
        return boxes[:, ::-1] if messages.receivers[0] == SENDERS[0] else boxes

    total, channel = summed(THREE, rewritten(Phase.SECRET_SHARES, "boxes", change, down=True))
    assert total == total_of(0)
    assert "must be sealed for" in incidents(channel)


def test_what_a_missing_box_costs() -> None:
    """A sender that lacks one coded mask sends its vector, cannot open a roster with its owner, and is in the sum."""

    def change(boxes: Array, messages: Messages) -> Array:
        if messages.receivers[0] == SENDERS[0]:
            boxes[:, -1] = 0
        return boxes

    total, channel = summed(FIVE, rewritten(Phase.SECRET_SHARES, "boxes", change, down=True))
    assert total == total_of()
    assert "a roster must name those only whose coded masks arrived; found sender 4" in incidents(channel)


def test_a_key_of_low_order_is_left_out() -> None:
    """A sender whose key everybody would share a secret with does not take part; the others do."""

    def change(keys: Array, messages: Messages) -> Array:
        keys[messages.senders == SENDERS[1]] = 0
        return keys

    total, channel = summed(FIVE, rewritten(Phase.KEYS, "sealing", change, down=False))
    assert total == total_of(1)
    assert "keys must not be points of low order" in incidents(channel)


def test_a_receiver_refuses_a_roster_below_the_threshold() -> None:
    """Told of fewer senders than the threshold the receiver decodes nothing, nor a sum outside the field."""
    receiver = topology_of(5, split=True).receiver

    def change(roster: Array, messages: Messages) -> Array:
        roster[messages.receivers == receiver, 1:] = False
        return roster

    with pytest.raises(ProtocolError) as raised:
        summed(FIVE, rewritten(Phase.MASKED_SUMS, "roster", change), split=True)
    assert "must leave a sum" in str(raised.value)
    with pytest.raises(ProtocolError):
        summed(FIVE, rewritten(Phase.MASKED_SUMS, "sum", lambda values, _: values * 0 + 2**61), split=True)


def test_vectors_are_forgotten_when_they_are_sent_and_secrets_do_not_show() -> None:
    """Rows and seeds leave the state with the vectors; nothing secret is printed."""
    channel = Channel(directory_of(5), SimulationCoins(0))
    machines = FIVE.machines(topology_of(5), bytes(range(16)), channel)
    clients = machines[1]
    clients.begin(NOW, ROWS)
    machines[0].begin(NOW)
    assert clients.state()["rows"].tolist() == ROWS.tolist()
    assert clients.state()["secrets"].any()
    for _ in range(6):
        for machine in machines:
            for messages in list(machine.step()):
                (clients if messages.senders[0] == LEADER else machines[0]).receive(messages)
        if channel.transcript.messages:
            break
    assert not clients.state()["rows"].size
    assert not clients.state()["secrets"].any()
    assert repr(clients).endswith("<secrets>)")
