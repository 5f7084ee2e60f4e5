"""What everybody on the network sees: how many messages, between whom, when and how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Recording, Transcript
from fgl_secure.testing.coins import BatchCoins
from fgl_secure.testing.evidence import Evidence, TraceDiffersError
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.testing.twins import judge, require_twin

RUNS = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of messages as the network sees it."""

    phase: str
    round: int
    layer: int
    direction: str
    evaluation: bool
    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    item_bytes: int

    def __str__(self) -> str:
        ends = ", ".join(f"{s}-{r}" for s, r in zip(self.senders[:4], self.receivers[:4], strict=True))
        more = ", ..." if len(self.senders) > 4 else ""
        return (
            f"{len(self.senders)} messages of {self.item_bytes} bytes ({self.phase}, round {self.round}, "
            f"layer {self.layer}, {self.direction}, sender-receiver {ends}{more})"
        )


Trace = tuple[Entry, ...]


def assert_same_trace(
    protocol: Protocol, inputs_a: ArrayLike, inputs_b: ArrayLike, *, broken_twin: Protocol, runs: int = RUNS
) -> Evidence:
    """Checks that phases, rounds, senders, receivers, counts and sizes of all messages are the same for two inputs.

    Args:
        protocol: what is tested.
        inputs_a: one row for each owner; inputs between which an observer of the network may not tell.
        inputs_b: the same shape.
        broken_twin: the same protocol with a flaw that this check must find.
        runs: how often each input is run, with fresh coins: a trace that depends on coins differs between runs.

    Raises:
        TraceDiffersError: two runs left different traces.
        VacuousTestError: those of the twin did not.
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    a, b = protocol.checked_inputs(inputs_a, "inputs_a"), protocol.checked_inputs(inputs_b, "inputs_b")
    if a.shape != b.shape or np.array_equal(a, b):
        raise InputError(f"inputs_a and inputs_b must differ and have one shape; found {a.shape} and {b.shape}")
    if runs < 1:
        raise InputError(f"runs must be at least 1; found {runs}")

    def check(tested: Protocol) -> Evidence:
        return _evidence(tested, a, b, runs)

    return judge(check, protocol, broken_twin, TraceDiffersError, "{protocol} sends messages that depend on the inputs")


def _evidence(protocol: Protocol, a: Inputs, b: Inputs, runs: int) -> Evidence:
    traces = [_trace(protocol, inputs) for _ in range(runs) for inputs in (a, b)]
    first = traces[0]
    other = next((trace for trace in traces if trace != first), None)
    sent = sum(len(entry.senders) for entry in first)
    return Evidence(
        "same trace",
        str(protocol),
        "an observer of the network",
        other is not None,
        f"{len(set(traces))} different traces in {runs} runs of each input, {sent} messages in the first",
        f"any difference that shows in one of {2 * runs} runs",
        0.0,
        () if other is None else (_difference(first, other),),
    )


def _trace(protocol: Protocol, inputs: Inputs) -> Trace:
    coins = BatchCoins(SystemCoins(), 1) if protocol.batched else SystemCoins()
    return trace_of(protocol.transcript(inputs, coins, Recording()))


def trace_of(transcript: Transcript) -> Trace:
    """The trace that a run left on the network."""
    return tuple(
        Entry(
            batch.phase.label,
            batch.step.round,
            batch.step.layer,
            batch.step.direction,
            batch.step.evaluation,
            _tuple(batch.senders),
            _tuple(batch.receivers),
            batch.item_bytes,
        )
        for batch in transcript.messages
    )


def _tuple(ids: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(ids.tolist())


def _difference(first: Trace, other: Trace) -> str:
    at = next((i for i, (x, y) in enumerate(zip(first, other, strict=False)) if x != y), min(len(first), len(other)))
    here, there = (str(trace[at]) if at < len(trace) else "no further message" for trace in (first, other))
    return f"first difference, batch {at}: {here} against {there}"
