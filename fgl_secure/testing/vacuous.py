"""The rules that no check can avoid: what passes the protocol must reject its broken twin, in a test that can fail.

A test that passes shows something only if the protocol reads its inputs, sends something, and sends some of it to a
coalition that is as large as may be; if the inputs are such that a flaw would show; and if the twin is rejected for its
flaw and not for messages that the protocol does not send.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.runtime import MessageBatch, Party, Recording, Transcript
from fgl_secure.testing.arms import Trace, first_difference, trace_of, views_of
from fgl_secure.testing.coins import BatchCoins, CountingCoins
from fgl_secure.testing.evidence import CURRENT, Evidence, NotPrivateError, PrivacyAssertionError, VacuousTestError
from fgl_secure.testing.protocol import Inputs, Protocol, Question, words

_LOG = logging.getLogger("fgl_secure.testing")

_TAPES = 8
_RUNS = 3
_TRACES = 8

_WAIVABLE = ("coalition", "trace", "values")

Waivers = Mapping[str, str]
"""Rules that a test breaks on purpose, each with its reason."""


def _checked_waivers(waived: Waivers | None) -> Waivers:
    """Return what a test waives.

    Raises:
        InputError: for a rule that can't be waived, or one without a reason.
    """
    for name, reason in (waived or {}).items():
        if name not in _WAIVABLE:
            raise InputError(f"waived must name rules among {', '.join(_WAIVABLE)}; found {name!r}")
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(f"waived must give a reason for each rule; found {reason!r} for {name!r}")
    return waived or {}


class Rehearsals:
    """Runs on coins that are the same for all inputs, each made once for a protocol and an input."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], list[Transcript]] = {}

    def runs(self, protocol: Protocol, inputs: Inputs) -> list[Transcript]:
        """A few runs, everything of which is recorded."""
        seeds = 1 if protocol.batched else _RUNS
        return self._record(protocol, inputs, Recording.everything(), seeds, _TAPES)

    def traces(self, protocol: Protocol, inputs: Inputs, runs: int) -> set[Trace]:
        """What the network sees of some runs."""
        return {trace_of(run) for run in self._record(protocol, inputs, Recording(), runs, 1)}

    def _record(
        self, protocol: Protocol, inputs: Inputs, recording: Recording, seeds: int, tapes: int
    ) -> list[Transcript]:
        key = (protocol, inputs.dtype.str, inputs.shape, inputs.tobytes(), seeds, tapes)
        if key not in self._made:
            coins: list[Coins] = [SimulationCoins(seed) for seed in range(seeds)]
            coins = [BatchCoins(item, tapes) for item in coins] if protocol.batched else coins
            self._made[key] = [protocol.run_once(inputs, item, recording)[0] for item in coins]
        return self._made[key]


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A protocol on its inputs, run a few times on the same coins for each, and looked at as a whole.

    Attributes:
        protocol: what is tested.
        inputs: one input or two, by the names of their arguments.
        coalition: who pools views; empty where the network looks on.
        rehearsals: those of earlier questions about the same protocols.
    """

    protocol: Protocol
    inputs: Mapping[str, Inputs]
    coalition: tuple[Party, ...]
    rehearsals: Rehearsals = field(default_factory=Rehearsals)

    def require_different(self) -> None:
        """Refuses inputs that are one in the field of the protocol."""
        if len(self.inputs) == 2 and self._equal_modulo(self.protocol.modulus):
            raise VacuousTestError(
                f"inputs_a and inputs_b must differ modulo the protocol's modulus; found inputs that are equal modulo "
                f"{self.protocol.modulus}"
            )

    def require_sound(self, waivers: Waivers) -> None:
        """Refuses a protocol that sends nothing, or nothing to the coalition, or reads no inputs; and equal values."""
        runs = {name: self.rehearsals.runs(self.protocol, values) for name, values in self.inputs.items()}
        every = [run for item in runs.values() for run in item]
        if not any(run.message_count for run in every):
            raise VacuousTestError(f"protocol must send messages; found none in {len(every)} runs of {self.protocol}")
        if self.coalition and not any(views_of(run, self.coalition, ()).values.shape[1] for run in every):
            raise VacuousTestError(
                f"coalition must be sent something that can be looked at; found no coordinate in what "
                f"{words(self.coalition)} received of {self.protocol}"
            )
        if "values" not in waivers:
            self._require_unequal(every)
        self._require_read(next(iter(runs.values())))

    def require_twin_alike(self, twin: Protocol, waivers: Waivers) -> None:
        """Refuses a twin that could be rejected for messages that the protocol does not send."""
        values, traces = next(iter(self.inputs.values())), self.rehearsals.traces
        if "trace" in waivers or traces(self.protocol, values, 1) == traces(twin, values, 1):
            return
        protocol_traces, others = (traces(item, values, _TRACES) for item in (self.protocol, twin))
        if protocol_traces.isdisjoint(others):
            raise VacuousTestError(
                "broken_twin must send messages of the protocol's number, order, ends and sizes, so that its flaw is "
                f"what is found; found other messages of {twin} than of {self.protocol} "
                f"({first_difference(next(iter(protocol_traces)), next(iter(others)))}): give the twin the same "
                "messages, or waive the rule 'trace' with a reason"
            )

    def bystanders(self) -> Iterator[Party]:
        """Who could join the coalition without bringing a difference: parties of its members' roles first."""
        differing = np.zeros(len(next(iter(self.inputs.values()))), dtype=np.bool_)
        if len(self.inputs) == 2:
            a, b = self.inputs.values()
            differing = (a != b).reshape(len(a), -1).any(axis=1)
        seeing = {
            party
            for values in self.inputs.values()
            for run in self.rehearsals.runs(self.protocol, values)
            for batch in (*(item.receivers for item in run.messages), *(item.owners for item in run.private))
            for party in np.unique(batch).tolist()
        }
        parties = [self.protocol.parties.party_of(item) for item in sorted(seeing)]
        roles = {member.role for member in self.coalition}
        for party in sorted(parties, key=lambda item: item.role not in roles):
            if party not in self.coalition and not differing[self.protocol.rows_of([party])].any():
                yield party

    def _require_unequal(self, runs: list[Transcript]) -> None:
        senders = {party for run in runs for batch in run.messages for party in np.unique(batch.senders).tolist()}
        sends = self.protocol.rows_of([self.protocol.parties.party_of(item) for item in sorted(senders)])
        honest = sends & ~self.protocol.rows_of(self.coalition)
        values = [item[honest] for item in self.inputs.values()]
        if all(item.size > 1 and (item == item.reshape(-1)[0]).all() for item in values):
            result = " and ".join(str(item.reshape(-1)[0]) for item in values)
            raise VacuousTestError(
                f"{' and '.join(self.inputs)} must hold different values of those who send, or what cancels between "
                f"equal values stays unseen; found {result} everywhere: take different ones, or waive the rule "
                "'values' with a reason"
            )

    def _require_read(self, runs: list[Transcript]) -> None:
        """Two inputs give two transcripts on the same coins, or no party could ever tell them apart."""
        first, *others = self.inputs.values()
        others = others or list(_changed_inputs(self.protocol, first, self.coalition))
        if others and all(_same(runs, self.rehearsals.runs(self.protocol, other)) for other in others):
            moduli = sorted({draw.modulus for draw in self._draws()}, reverse=True)
            modulus = next((item for item in moduli if item > 1 and self._equal_modulo(item)), None)
            why = f": they are equal modulo {modulus}" if modulus else ": it reads none of them"
            raise VacuousTestError(
                f"protocol must depend on its inputs; found no message of {self.protocol} that differs between two "
                f"inputs on the same coins{why}"
            )

    def _draws(self) -> list[Any]:
        coins = CountingCoins((1,) if self.protocol.batched else ())
        self.protocol.run_once(next(iter(self.inputs.values())), coins, Recording())
        return coins.draws

    def _equal_modulo(self, modulus: int) -> bool:
        values = list(self.inputs.values())
        if len(values) != 2 or any(item.dtype.kind not in "iu" for item in values):
            return False
        return bool((values[0] % modulus == values[1] % modulus).all())


_Compare = Callable[[Protocol, Question, bool], Evidence]
"""What a comparison finds of a protocol and a question; the switch is on where a first rejection is sure enough."""


def require_twin(protocol: Protocol, broken_twin: Protocol) -> None:
    """Refuses what is not a protocol between the same parties, before anything runs."""
    for name, value in (("protocol", protocol), ("broken_twin", broken_twin)):
        if not isinstance(value, Protocol):
            raise InputError(f"{name} must be a Protocol; found {type(value).__name__}")
    if protocol.parties.counts != broken_twin.parties.counts:
        raise InputError(
            f"broken_twin must run between the protocol's parties {dict(protocol.parties.counts)}; "
            f"found {dict(broken_twin.parties.counts)}"
        )


def judge_question(
    compare: _Compare,
    protocol: Protocol,
    broken_twin: Protocol,
    question: Question,
    waived: Waivers | None,
    rehearsals: Rehearsals | None = None,
) -> Evidence:
    """Judges a protocol and its twin by the views of a coalition for two inputs.

    Args:
        compare: what the comparison finds.
        protocol: what must pass.
        broken_twin: what must not.
        question: two inputs, and who looks.
        waived: rules that the test breaks on purpose, with reasons.
        rehearsals: those of earlier questions about the same protocols.

    Raises:
        NotPrivateError: the views differ.
        VacuousTestError: those of the twin do not, or the test would pass whatever the protocol does.
    """
    __tracebackhide__ = True
    inputs = {"inputs_a": question.a, "inputs_b": question.b}
    probe = Probe(protocol, inputs, question.coalition, rehearsals or Rehearsals())

    def sees(party: Party) -> bool:
        return compare(protocol, replace(question, coalition=(*question.coalition, party)), True).rejected

    return judge(
        lambda tested, sure: compare(tested, question, sure),
        probe,
        broken_twin,
        NotPrivateError,
        f"{protocol} lets a coalition tell inputs_a from inputs_b",
        waived,
        sees,
    )


def judge(
    check: Callable[[Protocol, bool], Evidence],
    probe: Probe,
    broken_twin: Protocol,
    failure: type[PrivacyAssertionError],
    headline: str,
    waived: Waivers | None,
    sees: Callable[[Party], bool] | None = None,
) -> Evidence:
    """Runs one check on a protocol and on its twin: what passes the protocol must reject the twin.

    A test that is not fair, because it passes whatever the protocol does, is refused where the protocol passes.

    Args:
        check: what is found of a protocol; the switch is on where a first rejection is sure enough.
        probe: the protocol on its inputs.
        broken_twin: what must not pass.
        failure: what to raise for the protocol.
        headline: first line of that error.
        waived: rules that the test breaks on purpose, with reasons.
        sees: whether the coalition with one party more finds what it looks for; None where that is not asked.

    Raises:
        PrivacyAssertionError: of the type `failure`, when the protocol is rejected.
        VacuousTestError: when the twin is not, or the test shows nothing.
    """
    __tracebackhide__ = True
    waivers = _checked_waivers(waived)
    probe.require_different()
    evidence = check(probe.protocol, False)
    notes = (f"waived, {name}: {waivers[name]}" for name in _WAIVABLE if name in waivers)
    evidence = replace(evidence, notes=(*evidence.notes, *notes))
    _LOG.info(evidence.summary)
    CURRENT.get().report(evidence.summary)
    if evidence.rejected:
        raise failure(evidence.message(headline))
    probe.require_sound(waivers)
    if probe.coalition:
        probe.require_twin_alike(broken_twin, waivers)
    if sees is not None and "coalition" not in waivers:
        _require_maximal(probe, sees)
    on_twin = check(broken_twin, True)
    _LOG.info("broken twin: %s", on_twin.summary)
    if not on_twin.rejected:
        same = "broken_twin must differ from protocol; found the protocol itself. "
        raise VacuousTestError(
            on_twin.message(f"{same if _is_itself(probe.protocol, broken_twin) else ''}{evidence.check}: the broken "
                            f"twin {broken_twin} was not rejected, so the test of {probe.protocol} shows nothing")
        )  # fmt: skip
    return evidence


def _is_itself(protocol: Protocol, twin: Protocol) -> bool:
    first_code, second_code = (
        (run.func, run.args, tuple(run.keywords.items())) if isinstance(run, partial) else run
        for run in (protocol.run, twin.run)
    )
    return bool(first_code == second_code)


def _require_maximal(probe: Probe, sees: Callable[[Party], bool]) -> None:
    """Refuses a coalition that a party can join, and that sees no more whichever does."""
    tried = None
    for party in probe.bystanders():
        try:
            if sees(party):
                return
        except (InputError, VacuousTestError):  # of this party nothing was recorded that could be looked at
            continue
        tried = tried or party
    if tried is not None:
        raise VacuousTestError(
            f"coalition must be as large as may be; found {words(probe.coalition)}, which with {tried}, or anybody "
            "else alone, still sees no difference: test that larger one, or waive the rule 'coalition' with a reason"
        )


def require_leakage(allowed: object, inputs: Inputs, is_own: NDArray[np.bool_]) -> None:
    """Refuses leakage that hands over every honest row as it is."""
    honest = inputs[~is_own]
    for array in _arrays(allowed):
        for rows in (inputs, honest):
            if rows.size and array.size == rows.size and np.array_equal(array.reshape(-1), rows.reshape(-1)):
                raise VacuousTestError(
                    "leakage must keep something of the inputs from the simulator; found a function that returns them "
                    "as they are, from which any view can be made up"
                )


def _arrays(value: object) -> Iterator[NDArray[Any]]:
    """All arrays of numbers in nested containers, the containers of numbers among them."""
    if isinstance(value, Mapping):
        yield from _arrays(list(value.values()))
        return
    if is_dataclass(value) and not isinstance(value, type):
        yield from _arrays([getattr(value, item.name) for item in fields(value)])
        return
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different length
        return
    if array.dtype.kind in "biuf":
        yield array


def _changed_inputs(protocol: Protocol, inputs: Inputs, coalition: tuple[Party, ...]) -> Iterator[Inputs]:
    """Other inputs of the honest that a protocol for these inputs should take."""
    honest = ~protocol.rows_of(coalition)
    for rows in (np.roll(inputs[honest], 1, axis=0), np.zeros_like(inputs[honest])):
        if not np.array_equal(rows, inputs[honest]):
            other = inputs.copy()
            other[honest] = rows
            yield other


def _same(first: list[Transcript], others: list[Transcript]) -> bool:
    pairs = (
        (a, b) for one, other in zip(first, others, strict=True) for a, b in zip_longest(one.messages, other.messages)
    )
    return all(a is not None and b is not None and _same_batch(a, b) for a, b in pairs)


def _same_batch(a: MessageBatch, b: MessageBatch) -> bool:
    if (a.phase, a.step, a.item_bytes, a.repeats) != (b.phase, b.step, b.item_bytes, b.repeats):
        return False
    if not (np.array_equal(a.senders, b.senders) and np.array_equal(a.receivers, b.receivers)):
        return False
    first_fields, second_fields = a.fields or {}, b.fields or {}
    return first_fields.keys() == second_fields.keys() and all(
        first_fields[name].dtype == second_fields[name].dtype
        and first_fields[name].tobytes() == second_fields[name].tobytes()
        for name in first_fields
    )
