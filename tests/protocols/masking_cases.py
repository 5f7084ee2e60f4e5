"""Who is silent from when on, and who changes what, for tests of pairwise masking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Channel, Phase, Recording, Step, Tampered
from fgl_secure.runtime.channel import Loss
from tests.hostile import Parts as Tamper
from tests.hostile import by_parts
from tests.protocols.vector_conformance import circle

Ints = NDArray[np.int64]

NOW = Step(1)
"""The step of the sums: messages of the set-up bear Step(0)."""

ORDER = (Phase.KEYS, Phase.SECRET_SHARES, Phase.MASKED_VECTORS, Phase.ROSTERS, Phase.UNMASKING)


def stage_of(phase: Phase, step: Step) -> int:
    """0 for the keys of the session, then 1 to 5."""
    return 0 if step == Step(0) else 1 + ORDER.index(phase)


STAGES = range(6)
IN_THE_SUM = 4
"""Who falls silent at this stage or later has its vector in the sum."""


def silent(ids: Ints, stages: Mapping[int, int], deaf: bool = False) -> Loss:
    """A network on which sender `u` is unheard from stage `stages[u]` on, or hears nothing more (deaf)."""
    since = dict(zip(ids.tolist(), (stages.get(u, len(ORDER) + 1) for u in range(len(ids))), strict=True))

    def arrives(phase: Phase, step: Step, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
        if phase not in ORDER:
            return np.ones(len(senders), dtype=np.bool_)
        now, ends = stage_of(phase, step), receivers if deaf else senders
        return np.array([now < since.get(end, len(ORDER) + 1) for end in ends.tolist()], dtype=np.bool_)

    return arrives


def rewritten(phase: Phase, change: Callable[[NDArray[Any], Ints, Ints], NDArray[Any]], at: Step = NOW) -> Tamper:
    """Senders of one phase put other payloads into their messages: change(payload, senders, receivers)."""

    def tamper(now: Phase, step: Step, senders: Ints, receivers: Ints, payload: NDArray[Any]) -> Tampered | None:
        if now is not phase or step != at:
            return None
        return Tampered.of_payload(np.arange(len(senders)), change(payload.copy(), senders, receivers))

    return tamper


def rows_of(senders: int, length: int = 2) -> Ints:
    """Different vectors of small numbers."""
    return (np.arange(senders * length, dtype=np.int64).reshape(senders, length) * 7) % 23 - 11


def summed(
    scheme: PairwiseMasking,
    senders: int,
    *,
    split: bool = False,
    loss: Loss | None = None,
    tamper: Tamper | None = None,
    rows: Ints | None = None,
) -> tuple[list[int], Channel]:
    """One sum, and the channel that it ran on."""
    directory, group = circle(senders, split=split)
    channel = Channel(directory, SimulationCoins(0), Recording.everything(), loss, by_parts(tamper))
    rows = rows_of(senders) if rows is None else rows
    total = scheme.open(channel, group, rows.shape[1], 50).sum(rows, NOW)
    return total.tolist(), channel


def incidents(channel: Channel) -> str:
    """What went wrong, line by line."""
    return "\n".join(f"{incident.party}: {incident.what}" for incident in channel.transcript.incidents)
