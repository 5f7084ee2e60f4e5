"""Claims of attacks that read embeddings, and oracles of what they should read."""

from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Role
from tests.attacks.recorded import Run


def claimed_rows(guess: Iterable[RecoveredRows]) -> Counter[Hashable]:
    """One claim a message: when it was sent, by whom, and the embedding that was read."""
    return Counter(
        (rows.step, int(sender), tuple(value.tolist()))
        for rows in guess
        for sender, value in zip(rows.senders, rows.values, strict=True)
    )


def expected_rows(
    run: Run, values: NDArray[np.float64], modulus: int, messages: Iterable[tuple[int, int]]
) -> Counter[tuple[int, tuple[int, ...]]]:
    """Sender and embedding of (sender, receiver) device messages, for whole numbers as elements of the field."""
    devices = run.transcript.parties.ids(Role.DEVICE)
    return Counter(
        (int(devices[source]), tuple(int(value) % modulus for value in values[source])) for source, _ in messages
    )


def without_steps(claims: Counter[Hashable]) -> Counter[tuple[int, tuple[int, ...]]]:
    """The same claims for a run of one step."""
    steps = {claim[0] for claim in claims if isinstance(claim, tuple)}
    assert len(steps) <= 1
    return Counter({(c[1], c[2]): count for c, count in claims.items() if isinstance(c, tuple)})


def messages_of(graph: FederatedGraph) -> list[tuple[int, int]]:
    """All messages as (source, target) device indices."""
    return [(int(source), int(target)) for source, target in graph.edges.T]


def readable_with_own_parameters(graph: FederatedGraph) -> list[tuple[int, int]]:
    """Messages whose receiver itself sends to a device of its own silo, and so was handed that silo's parameters."""
    messages, silo = messages_of(graph), graph.silo_of.tolist()
    sends_at_home = {source for source, target in messages if silo[source] == silo[target]}
    return [message for message in messages if message[1] in sends_at_home]
