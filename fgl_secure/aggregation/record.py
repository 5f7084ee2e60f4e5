"""How a round ended: the mean and what is seen of it, and warnings where rounding leaves numbers next to no bits.

The parties that have updates compare these with the unit that numbers are rounded to, so no zero of an untrained bias
is taken for a loss. A server has the mean alone, and compares that: its warning follows from public values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.aggregation.layout import TensorEntry, TensorLayout, Tree
from fgl_secure.aggregation.rules import Code, Rules
from fgl_secure.aggregation.sums import Opening, SumKind, only_opened, read_entries
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import InputError, PrecisionWarning, ProtocolError
from fgl_secure.runtime import Channel, MessageBatch, Recording, Role, Traffic, Transcript
from fgl_secure.typing import Flags, Integers

_LEAST_BITS = 8
"""A client's largest number must keep so many bits."""
_FINE_BITS = 24
"""Numbers that are rounded as finely as this, as float32 rounds those about 1, need no more bits, unless all numbers of
a tensor are rounded to 0."""


def warn_of_lost_updates(
    rules: Rules,
    code: Code,
    mappings: Mapping[int, Tree],
    clients: Collection[int],
    weight: float,
    mean: Tree | None = None,
) -> None:
    """Warn where the unit leaves a client's numbers under `_LEAST_BITS` bits, or all numbers of a tensor none.

    One warning per round, of the tensor with the largest range, with the size of it and of the client's numbers that it
    is as large as, as powers of two. Few bits at a precision are no loss as long as the mean has any.

    Args:
        rules: of the round.
        code: how mappings are written.
        mappings: of the clients that this process runs, by number; each is read on its own.
        clients: those of them that are in the sum.
        weight: the sum of the weights in the mean, or the largest that it can be.
        mean: what came out, where this process runs all clients.
    """
    if rules.privacy is not None or not weight:
        return
    count = rules.clients if mean is None else len(clients)
    errors = _rounding_errors(rules, code, count, weight)
    doubtful = code.layout.floats if mean is None else _doubtful(rules, code, mean, errors, count)
    result = {client: _sizes(code, mappings[client], doubtful) for client in clients} if doubtful else {}
    for entry in sorted(doubtful, key=lambda item: -code.bounds[item.name]):
        sizes = {client: largest[entry.name] for client, largest in result.items()}
        imprecise = _imprecise_clients(rules, code, entry, sizes, errors[entry.name])
        if imprecise:
            warnings.warn(_loss(rules, code, entry, sizes, imprecise), PrecisionWarning, stacklevel=4)
            return


def _warn_of_lost_mean(rules: Rules, code: Code, mean: Tree, clients: int, weight: float) -> None:
    """Warn where a bound that was given leaves most numbers of a mean too few bits, as its server sees it.

    A tensor may well be 0, but not most of a model: so a warning says that more than half of all numbers are of tensors
    that are lost. Ranges that were found fit the largest client's numbers, so they are not looked at.

    Args:
        rules: of the round.
        code: how mappings are written.
        mean: of the round.
        clients: how many updates are in it.
        weight: the sum of their weights.
    """
    floats = code.layout.floats
    if rules.privacy is not None or rules.bound is None or not floats:
        return
    errors, largest = _rounding_errors(rules, code, clients, weight), _sizes(code, mean, floats)
    bits = _LEAST_BITS + 1 if rules.scheme.precision is None else 0  # the error is half a unit
    imprecise = [
        entry
        for entry in floats
        if _is_coarse(code, entry) and largest[entry.name] < math.ldexp(errors[entry.name], bits)
    ]
    if 2 * sum(entry.size for entry in imprecise) > sum(entry.size for entry in floats):
        name = max(imprecise, key=lambda entry: entry.size).name
        warnings.warn(
            f"{_describe_range(rules, code, name)}, and the means of {len(imprecise)} of {len(floats)} tensors are "
            f"smaller: {_remedy(rules)}",
            PrecisionWarning,
            stacklevel=3,
        )


def _rounding_errors(rules: Rules, code: Code, clients: int, weight: float) -> dict[str, float]:
    """Return how far rounding moves the mean of a tensor, by name.

    Half a unit at most; at a precision, where every number is less than a unit off at random, two standard deviations.
    """
    share = 0.5 if rules.scheme.precision is None else math.sqrt(clients) / weight
    return {entry.name: share * code.units[entry.name] for entry in code.layout.floats}


def _doubtful(
    rules: Rules, code: Code, mean: Tree, errors: Mapping[str, float], clients: int
) -> tuple[TensorEntry, ...]:
    """Return the tensors that may be lost, so that updates are read again only for these.

    Where all numbers are below the error the mean is 0, or at a precision below twice the bound of its error.
    """
    largest, rounds = _sizes(code, mean, code.layout.floats), rules.scheme.precision is not None
    most = 2 * math.sqrt(clients) if rounds else 0.0
    return tuple(
        entry
        for entry in code.layout.floats
        if largest[entry.name] <= most * errors[entry.name] or (_is_coarse(code, entry) and not rounds)
    )


def _is_coarse(code: Code, entry: TensorEntry) -> bool:
    return code.units[entry.name] > 2.0**-_FINE_BITS


def _imprecise_clients(
    rules: Rules, code: Code, entry: TensorEntry, sizes: Mapping[int, float], error: float
) -> list[int]:
    """Return the clients whose numbers of a tensor, which are not all 0, keep too few bits or none."""
    present = {client: size for client, size in sizes.items() if size > 0}
    if rules.scheme.precision is None and _is_coarse(code, entry):
        return [client for client, size in present.items() if size < math.ldexp(code.units[entry.name], _LEAST_BITS)]
    return list(present) if max(present.values(), default=math.inf) < error else []


def _sizes(code: Code, mapping: Tree, entries: Sequence[TensorEntry]) -> dict[str, float]:
    """Return the largest magnitude of some tensors of a client, by name."""
    arrays = code.layout.arrays(mapping)
    return {entry.name: arrays.largest(entry.name) for entry in entries}


def _describe_range(rules: Rules, code: Code, name: str) -> str:
    """Return how large a tensor's range and unit are, in words."""
    precision_text = f"{_LEAST_BITS} bits" if rules.scheme.precision is None else "a bit in the mean"
    range_bits, unit_bits = (math.log2(size[name]) for size in (code.bounds, code.units))
    return (
        f"range of {name!r} must leave every client's numbers {precision_text}; it is 2^{range_bits:.0f}, numbers are "
        f"rounded to 2^{unit_bits:.0f}"
    )


def _loss(rules: Rules, code: Code, entry: TensorEntry, sizes: Mapping[int, float], imprecise: list[int]) -> str:
    largest = max(sizes, key=lambda client: sizes[client])
    remedy_text = (
        f"the largest, of client {largest}, reach 2^{math.ceil(math.log2(sizes[largest]))}: leave that client out, "
    )
    return (
        f"{_describe_range(rules, code, entry.name)}, and those of {len(imprecise)} of {len(sizes)} clients here are "
        f"smaller; "
        f"{remedy_text if rules.bound is None and largest not in imprecise else ''}{_remedy(rules)}"
    )


def _remedy(rules: Rules) -> str:
    if rules.bound is None:
        return "give bound= and clip=True, or call forget_ranges once all numbers are small again"
    if rules.fraction_bits is not None:
        return "give more fraction_bits or none, and a smaller bound"
    if rules.scheme.precision is not None:
        return "give a smaller bound or weight_bound, or more bits of precision"
    return "give a smaller bound or weight_bound"


KEPT_BYTES = 2**28
"""Messages' contents are kept where the clients' vectors together have at most so many bytes; else sizes alone."""


def is_kept(rules: Rules, layout: TensorLayout) -> bool:
    """Whether contents of a round's messages are kept."""
    return 8 * rules.clients * (layout.size + 1) <= KEPT_BYTES


def recording_for(rules: Rules, layout: TensorLayout) -> Recording:
    """What is kept of a round."""
    return Recording.everything() if is_kept(rules, layout) else Recording()


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A round, as the server saw it or, where all parties are in one process, as it was.

    Records are equal where all public figures are: transcripts and withheld entries are not compared. A pickle or a
    copy has all messages of the transcript, and no party's inputs or random draws.

    Attributes:
        scheme: its name.
        ring: that vectors of the mean were masked in; None where they were not.
        number: of the round.
        clients: how many there are.
        threshold: least clients that a mean is over.
        included: whose numbers are in the mean.
        dropped: the others.
        layout: of the mappings.
        total_weight: the sum of the included clients' weights.
        bounds: largest magnitude of a float, by tensor; empty under privacy, where the clip is the bound.
        units: what a difference of 1 in a vector stands for, by float tensor; under privacy all the same.
        error_bound: stated bound of the mean's error, by tensor; infinite under privacy.
        transcript: of all messages, of server 0 and of clients as silos; attacks read its views.
        width: entries of a client's vector in the sum of the values.
        seconds: that the round took.
        k_min: fewest clients that an entry of the mean was opened for.
        withheld: by tensor and in its shape, bool: the entries that fewer may have contributed to, which no party
            opened and which are 0 in the mean; empty where k_min is 1.
    """

    scheme: str
    ring: ModularRing | None
    number: int
    clients: int
    threshold: int
    included: tuple[int, ...]
    dropped: tuple[int, ...]
    layout: TensorLayout
    total_weight: float
    bounds: Mapping[str, float]
    units: Mapping[str, float]
    error_bound: Mapping[str, float]
    transcript: Transcript = field(repr=False, compare=False)
    width: int = 0
    seconds: float = 0.0
    k_min: int = 1
    withheld: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def byte_count(self) -> int:
        """Bytes of all messages."""
        return self.transcript.byte_count

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Messages and bytes by phase, sending and receiving role."""
        return self.transcript.traffic()

    @property
    def purposes(self) -> frozenset[SumKind]:
        """What sums there were."""
        return frozenset(SumKind(batch.step.part) for batch in self.transcript.messages)

    def received_words(self, client: int) -> NDArray[np.int64]:
        """The largest message of a client to the server in the sum of the values, as words of 8 bytes.

        A masked vector has a word for each element.

        Raises:
            InputError: contents were not kept.
        """
        party = int(self.transcript.parties.ids(Role.SILO)[client])
        of = next(purpose for purpose in (SumKind.VALUES, SumKind.WATCHED) if purpose in self.purposes)
        result = [value for batch in self.transcript.messages for value in _sent_fields(batch, party, of)]
        if not result:
            raise InputError(f"contents of messages must be kept, and are up to {KEPT_BYTES:,} bytes; these were not")
        largest = max(result, key=lambda value: value.nbytes)
        if self.ring is None or not self.ring.packed:
            return _words(largest)
        masked = [item for item in result if item.shape == (self.ring.entries(self.width),)]
        return self.ring.read(masked[0], self.width) if masked else _words(largest)


def _sent_fields(batch: MessageBatch, party: int, purpose: SumKind) -> list[NDArray[Any]]:
    """Fields of what a party sends in a sum."""
    rows = np.flatnonzero(batch.senders == party)
    if batch.fields is None or batch.step.part != purpose or not len(rows):
        return []
    return [value[rows[0]] for value in batch.fields.values()]


def _words(value: NDArray[Any]) -> NDArray[np.int64]:
    if value.dtype.kind in "iu" and value.dtype.itemsize > 1:
        return value.reshape(-1).astype(np.int64)
    data = value.tobytes()
    return np.frombuffer(data, dtype="<i8", count=len(data) // 8).astype(np.int64)


def _withheld_entries(opening: Opening) -> Mapping[str, Flags]:
    """For each tensor, in its shape, which entries stay closed; empty where all are opened in any case."""
    if opening.opened is None:
        return {}
    closed = ~read_entries(opening.opened, opening.layout.size)
    return {entry.name: closed[place].reshape(entry.shape) for entry, place in opening.layout.places()}


class RoundOutcome:
    """The sum of a round, and what follows from it.

    Args:
        rules: of the round.
        opening: of the sum.
        total: int64 [width], the sum.
        included: whose numbers are in it, ascending.
    """

    def __init__(self, rules: Rules, opening: Opening, total: Integers, included: tuple[int, ...]) -> None:
        self._rules, self._opening, self._total = rules, opening, total
        self._code = rules.code(opening)
        self.included = included
        self._mean: dict[str, Any] | None = None

    @property
    def mean(self) -> dict[str, Any]:
        """See `ServerRound.result`."""
        if self._mean is None:
            weight = self._code.weight(self._total)
            most = len(self.included) * (1 if self._rules.privacy is not None else self._rules.weighing.most)
            if weight > most:
                raise ProtocolError(
                    f"weights of {len(self.included)} clients must add up to {most:,} units at most; they do not, "
                    f"so that a client must have handed in something else"
                )
            self._check_closed()
            self._mean = self._code.decode(self._total)
        return self._mean

    def warn_of_lost_mean(self) -> None:
        """Warn where most numbers of the mean keep next to no bits."""
        _warn_of_lost_mean(self._rules, self._code, self.mean, len(self.included), self._total_weight)

    @property
    def _total_weight(self) -> float:
        return self._code.weight(self._total) * 2.0**-self._rules.weighing.fraction_bits

    def record(self, number: int, channel: Channel, seconds: float) -> RoundRecord:
        """What was seen.

        Args:
            number: of the round.
            channel: over which it went.
            seconds: that it took.
        """
        rules, total = self._rules, self._total
        return RoundRecord(
            scheme=rules.scheme.name,
            ring=rules.ring(self._opening),
            number=number,
            clients=rules.clients,
            threshold=rules.threshold,
            included=self.included,
            dropped=tuple(sorted(set(range(rules.clients)) - set(self.included))),
            layout=self._opening.layout,
            total_weight=self._total_weight,
            bounds=self._code.bounds,
            units=self._code.units,
            error_bound=self._code.errors(total, len(self.included)),
            k_min=rules.k_min,
            withheld=_withheld_entries(self._opening),
            transcript=channel.transcript,
            width=self._code.width,
            seconds=seconds,
        )

    def _check_closed(self) -> None:
        if not np.array_equal(only_opened(self._total, self._opening.opened), self._total):
            raise ProtocolError(
                "entries that stay closed must be 0 at all clients; one is not, so that a client must have handed in "
                "something else"
            )
