"""A masked sum on its way from an aggregator to a receiver who is somebody else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, PrimeField
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking.delivery import Circle, exchanged
from fgl_secure.protocols.masking.rules import Rules
from fgl_secure.runtime import Phase, Step

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]


def passed_on(circle: Circle, rules: Rules, total: Elements, survived: Flags, step: Step) -> tuple[Elements, Ids]:
    """The aggregator tells the receiver the masked sum and the roster.

    Returns:
        Elements [*batch, length], the sum as it arrived, and int64 [k], who is on the roster.

    Raises:
        ProtocolError: one of both is lost, the roster names fewer than the threshold, or the sum is not of the field.
    """
    batch, ends = circle.channel.batch_shape, (np.array([circle.aggregator]), np.array([circle.receiver]))
    told = np.broadcast_to(survived.astype(np.uint8), (*batch, 1, len(survived))).copy()
    heard, roster = exchanged(circle.channel, Phase.ROSTERS, step, *ends, told, None)
    element = total.astype(rules.field.dtype)[..., None, :]
    came, got = exchanged(circle.channel, Phase.MASKED_SUMS, step, *ends, element, None)
    party = circle.channel.parties.party_of(circle.receiver)
    if not (heard[0] and came[0]):
        raise ProtocolError(f"the masked sum and its roster must reach {party}; one was lost in round {step.round}")
    named = np.flatnonzero(roster[(0,) * (len(batch) + 1)])
    if len(named) < rules.threshold:
        raise ProtocolError(
            f"a roster must name at least threshold = {rules.threshold} senders; {party} found {len(named)}"
        )
    if not are_elements(got, rules.field):
        raise ProtocolError(f"a masked sum must hold elements of the field; {party} found others")
    return np.asarray(got[..., 0, :]), named


def is_vector(circle: Circle, field: PrimeField, got: Elements, u: int, step: Step) -> bool:
    """Whether a sender's masked vector holds elements; what does not is noted."""
    good = are_elements(got, field)
    if not good:
        circle.channel.note_incident(
            step, int(circle.senders[u]), "its vector holds other values than elements: left out"
        )
    return good


def are_elements(values: Elements, field: PrimeField) -> bool:
    """Whether all of them are 0 .. p - 1."""
    return not values.size or (int(values.min()) >= 0 and int(values.max()) < field.modulus)
