"""What every party on the network sees: how many messages, between whom, when and how long."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy  # its statistics are loaded when they are first asked for
from numpy.typing import ArrayLike

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Recording
from fgl_secure.statistics.statistical import POWER, Power, SampleComparison, TestOutcome, chi_square
from fgl_secure.testing.arms import Trace, first_difference, trace_of
from fgl_secure.testing.coins import BatchCoins
from fgl_secure.testing.evidence import Evidence, TraceDiffersError
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.testing.vacuous import Probe, judge, require_twin

_RUNS = 8

_TESTS = 3
_OBSERVER = "an observer of the network"


def assert_same_trace(
    protocol: Protocol,
    inputs_a: ArrayLike,
    inputs_b: ArrayLike,
    *,
    broken_twin: Protocol,
    runs: int = _RUNS,
    advantage: float = 0.1,
    waived: Mapping[str, str] | None = None,
) -> Evidence:
    """Checks that phases, rounds, senders, receivers, counts and sizes of all messages tell nothing of two inputs.

    Where all runs leave one trace, that is all. Where traces differ from run to run of one input too, as with a random
    number of dummy messages, their distributions are compared: which trace, how many messages and how many bytes, at a
    false-alarm probability of .001 together, and on four times as many fresh runs before anything is called different.

    Args:
        protocol: what is tested.
        inputs_a: one row for each owner; inputs between which an observer of the network may not tell.
        inputs_b: the same shape.
        broken_twin: the same protocol with a flaw that this check must find.
        runs: how often each input is run, with fresh coins, to find whether traces depend on coins.
        advantage: where they do, the smallest advantage that must be detected with probability .99.
        waived: rules of `docs/privacy_tests.md` that this test breaks on purpose, by name, each with a reason; here
            "values" alone.

    Returns:
        What was compared, with a summary in words.

    Raises:
        TraceDiffersError: two runs left different traces, or two inputs different distributions of them.
        VacuousTestError: those of the twin did not, or the test would pass whatever the protocol does.

    Examples:
        assert_same_trace(masked_sum, a, b, broken_twin=sends_zeros_only)
    """
    __tracebackhide__ = True
    require_twin(protocol, broken_twin)
    a, b = protocol.checked_inputs(inputs_a, "inputs_a"), protocol.checked_inputs(inputs_b, "inputs_b")
    if a.shape != b.shape or np.array_equal(a, b):
        raise InputError(f"inputs_a and inputs_b must differ and have one shape; found {a.shape} and {b.shape}")
    if runs < 1:
        raise InputError(f"runs must be at least 1; found {runs}")
    return judge(
        lambda tested, _sure: _evidence(tested, a, b, runs, advantage),
        Probe(protocol, {"inputs_a": a, "inputs_b": b}, ()),
        broken_twin,
        TraceDiffersError,
        f"{protocol} sends messages that depend on the inputs",
        waived,
    )


def _evidence(protocol: Protocol, a: Inputs, b: Inputs, runs: int, advantage: float) -> Evidence:
    first_traces, second_traces = ([_trace(protocol, inputs) for _ in range(runs)] for inputs in (a, b))
    if max(len(set(first_traces)), len(set(second_traces))) > 1:
        # Compares the distributions of traces that depend on coins.
        power = Power.for_advantage(advantage, _TESTS)
        result = [_comparison(protocol, a, b, power)]
        if result[0].is_rejected:
            result.append(_comparison(protocol, a, b, Power(4 * power.n, _TESTS)))
        last = result[-1]
        return Evidence(
            "same distribution of traces",
            str(protocol),
            _OBSERVER,
            last.is_rejected,
            f"{last.strongest}, adjusted p-value {last.p_value:.3g}",
            f"{power.detectable_bias:.3g} in one bit of the trace, with probability {POWER:g} at level {power.alpha:g} "
            f"over {_TESTS} tests, {power.n} runs of each input",
            power.detectable_bias,
            tuple(f"{item.strongest}, adjusted p-value {item.p_value:.3g}" for item in result if len(result) > 1),
        )
    first, other = first_traces[0], second_traces[0]
    message_count = sum(len(entry.senders) for entry in first)
    return Evidence(
        "same trace",
        str(protocol),
        _OBSERVER,
        first != other,
        f"{len({first, other})} different traces in {runs} runs of each input, {message_count} messages in the first",
        f"any difference that shows in one of {2 * runs} runs",
        0.0,
        () if first == other else (first_difference(first, other),),
    )


def _comparison(protocol: Protocol, a: Inputs, b: Inputs, power: Power) -> SampleComparison:
    first_traces, second_traces = ([_trace(protocol, inputs) for _ in range(power.n)] for inputs in (a, b))
    numbers: dict[Trace, int] = {}
    x, y = (
        np.array([numbers.setdefault(trace, len(numbers)) for trace in item]) for item in (first_traces, second_traces)
    )
    outcomes = [TestOutcome("chi-square", "which trace", *chi_square(x, y, len(numbers)))]
    for name, size in (("number of messages", _messages), ("bytes of messages", _bytes)):
        ks = scipy.stats.ks_2samp(
            [size(trace) for trace in first_traces], [size(trace) for trace in second_traces], method="asymp"
        )
        outcomes.append(TestOutcome("Kolmogorov-Smirnov distance", name, float(ks.statistic), float(ks.pvalue)))
    return SampleComparison(tuple(outcomes), power)


def _messages(trace: Trace) -> int:
    return sum(len(entry.senders) for entry in trace)


def _bytes(trace: Trace) -> int:
    return sum(len(entry.senders) * entry.item_bytes for entry in trace)


def _trace(protocol: Protocol, inputs: Inputs) -> Trace:
    coins = BatchCoins(SystemCoins(), 1) if protocol.batched else SystemCoins()
    return trace_of(protocol.transcript(inputs, coins, Recording()))
