"""What the server announces to each client of a round, and what a client asks of a round before it takes part."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from fgl_secure.aggregation.arguments import DEFAULT_LIMITS
from fgl_secure.aggregation.client_round import Place
from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.aggregation.rules import Rules
from fgl_secure.algebra import Weighing
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.flower.records import ARRAYS, METRICS
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.graph import COMPLETE_UP_TO
from fgl_secure.schemes import server_scheme

MOST_BYTES = 2**20
"""Of terms: with an identity for each of the clients that a round may have, they take a seventh of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTerms:
    """The public terms of one round.

    Attributes:
        session: hexadecimal digits of 16 public bytes, different for every strategy.
        number: of the round, ascending within the session.
        index: whose terms these are, 0 .. clients - 1.
        clients: how many take part.
        threshold: least clients that must be left at every stage; None takes the scheme's default.
        scheme: name of a scheme for sums at a server.
        bound: largest magnitude of a number; None has ranges found out together first.
        fraction_bits: of the fixed point; None takes as many as there is room for.
        weight_bound: largest weight.
        weight_fraction_bits: of weights; 0 has them be integers.
        integers: name of an `IntegerRule`: what the mean of integers is.
        weight_key: name of the metric that is the client's weight.
        metrics: names of metrics that are averaged like the arrays; the others stay with the client.
        sparse: whether masks follow a sparse graph where clients are many; otherwise everybody masks with everybody.
        precision: bits of a number on its way; None for as many as there is room for.
        roster: hexadecimal digits of each client's public identity, by index; empty without identities.
        training: hexadecimal digits of the `digest_of` what all apps train on, the run's configuration included.
    """

    session: str = ""
    number: int = 0
    index: int = 0
    clients: int = 0
    threshold: int | None = None
    scheme: str
    bound: float | None
    fraction_bits: int | None
    weight_bound: float
    weight_fraction_bits: int
    integers: str
    weight_key: str
    metrics: tuple[str, ...] = ()
    sparse: bool = False
    precision: int | None = None
    roster: tuple[str, ...] = ()
    training: str = ""

    def for_client(self, index: int) -> RoundTerms:
        """The same for another client."""
        return replace(self, index=index)

    @property
    def conditions(self) -> tuple[object, ...]:
        """How numbers are written, and which: what a server has no reason to change from round to round."""
        numbers = self.bound, self.fraction_bits, self.weight_bound, self.weight_fraction_bits, self.integers
        return self.scheme, self.sparse, self.precision, *numbers, self.weight_key, self.metrics

    @property
    def place(self) -> Place:
        """Which client of which round these terms are for."""
        return Place(bytes.fromhex(self.session), self.number, self.index)

    def rules(self) -> Rules:
        """What the parties compute, threshold and all; all but the index must be the same for all of them.

        Raises:
            InputError: there is no such scheme, or such sums are not private.
        """
        return Rules(
            server_scheme(self._scheme_text()),
            self.clients,
            bound=self.bound,
            fraction_bits=self.fraction_bits,
            weighing=Weighing(self.weight_bound, self.weight_fraction_bits),
            integers=IntegerRule(self.integers),
            watched=self.precision is not None,
            agreed=hashlib.sha256(self.for_client(0).to_bytes()).digest(),
        )

    def _scheme_text(self) -> str:
        """The scheme with its parameters, and with everybody for a neighbour where it would take a sparse graph."""
        parameters = [
            f"{name}={value}" for name in ("threshold", "precision") if (value := getattr(self, name)) is not None
        ]
        if self.scheme == PairwiseMasking.label and not self.sparse and self.clients > COMPLETE_UP_TO:
            parameters.append(f"degree={self.clients // 2 * 2}")  # even, and at least clients - 1
        return f"{self.scheme}[{','.join(parameters)}]" if parameters else self.scheme

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundTerms:
        """The terms that were written.

        Raises:
            MalformedMessageError: they are none, or a value is not of its type.
        """
        try:
            result = json.loads(data) if len(data) <= MOST_BYTES else None
        except (ValueError, RecursionError) as error:
            raise MalformedMessageError("terms must be JSON; they are not") from error
        if not isinstance(result, dict) or set(result) != {field.name for field in fields(cls)}:
            raise MalformedMessageError("terms must have the fields of a round and no others; they do not")
        wrong = next((name for name, fits in _FITS.items() if not fits(result[name])), None)
        if wrong is not None:
            raise MalformedMessageError(f"{wrong} of the terms must be of its type; it is not")
        return cls(**{**result, "metrics": tuple(result["metrics"]), "roster": tuple(result["roster"])})


def mapping_of(arrays: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """The mapping that is averaged: arrays as they are, and metrics as single float64 numbers."""
    scalars = {name: np.array(value, dtype=np.float64) for name, value in metrics.items()}
    return {ARRAYS: dict(arrays), **({METRICS: scalars} if scalars else {})}


def _natural(value: object) -> bool:
    return type(value) is int and value >= 0


def _real(value: object) -> bool:
    """A number that float64 has: JSON may name integers that it has not, NaN and infinities."""
    return type(value) in {int, float} and abs(value) <= sys.float_info.max  # type: ignore[arg-type]  # a number


def _text(value: object) -> bool:
    return isinstance(value, str)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _hexadecimal(value: object, size: int) -> bool:
    return isinstance(value, str) and len(value) == 2 * size and set(value) <= set("0123456789abcdef")


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "session": lambda value: _hexadecimal(value, 16),
    "number": _natural,
    "index": _natural,
    "clients": lambda value: _natural(value) and value <= DEFAULT_LIMITS.clients,
    "threshold": lambda value: value is None or _natural(value),
    "scheme": _text,
    "bound": lambda value: value is None or _real(value),
    "fraction_bits": lambda value: value is None or type(value) is int,
    "weight_bound": _real,
    "weight_fraction_bits": _natural,
    "integers": lambda value: value in tuple(IntegerRule),
    "weight_key": _text,
    "metrics": _texts,
    "sparse": lambda value: isinstance(value, bool),
    "precision": lambda value: value is None or type(value) is int,
    "roster": lambda value: isinstance(value, list) and all(_hexadecimal(one, 32) for one in value),
    "training": lambda value: value == "" or _hexadecimal(value, 32),
}


MIN_CLIENTS_KEY = "secure-aggregation-min-clients"
MIN_THRESHOLD_KEY = "secure-aggregation-min-threshold"
_FEWEST = 2
"""Clients of a sum that is not one client's own update."""
PROTECTING = ("pairwise-masking", "lightsecagg")
"""Names of the schemes under which a server that lies, and has some clients with it, sees a sum and nothing else. Under
`ckks-shared-key` any one client and the server open every update: whoever trusts all clients names it."""


@dataclass(frozen=True, slots=True)
class ClientPolicy:
    """Least numbers that a client accepts.

    Attributes:
        min_clients: clients of a round, this one included, at least 2.
        min_threshold: clients whose sum may be opened, at least 2: a lower one would open this client's own update.
        schemes: names of schemes that the client trusts; `ckks-shared-key` and `plaintext` are none of them unless
            they are named.
        bounded: whether a public bound must be given, so that the largest magnitude is not found out together.
        weight_key: name of the metric that may be the client's weight. A server that chose a metric which is 0 at all
            clients but one would be told that one's update for their mean.
        least_weight_bound: least `weight_bound` of a round. A client whose weight is beyond it cannot take part, which
            shows: a server that tried one bound after the other would find the weight.
        least_bound: least `bound` of a round that names one, for the same reason.
        metrics: names of metrics that may be averaged.
        max_failures: rounds of a run in which this client may fail by what it has itself; after them it takes no part
            in any more, since each of them tells that something is beyond a bound.
        max_clients: most clients of a round; None for any number.
        sparse: whether masks may follow a sparse graph, as `RoundTerms.sparse` asks for. What holds there against a
            server that lies about who dropped out is nothing.
    """

    min_clients: int = 3
    min_threshold: int = _FEWEST
    schemes: Collection[str] = PROTECTING
    bounded: bool = False
    weight_key: str = "num-examples"
    least_weight_bound: float = 2.0**20
    least_bound: float = 1.0
    metrics: Collection[str] = ()
    max_failures: int = 3
    max_clients: int | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        for name in ("schemes", "metrics"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, least in (("min_clients", self.min_clients), ("min_threshold", self.min_threshold)):
            if least < _FEWEST:
                raise InputError(f"{name} must be at least {_FEWEST}, or a sum may be of one; found {least}")
        for name, bound in (("least_weight_bound", self.least_weight_bound), ("least_bound", self.least_bound)):
            if not (math.isfinite(bound) and bound > 0):
                raise InputError(f"{name} must be a positive number; found {bound}")
        if self.max_failures < 1:
            raise InputError(f"max_failures must be at least 1; found {self.max_failures}")
        if self.max_clients is not None and self.max_clients < self.min_clients:
            raise InputError(f"max_clients must be at least min_clients = {self.min_clients}; found {self.max_clients}")

    def tighten(self, *configs: Mapping[str, object]) -> ClientPolicy:
        """The same with the larger numbers of what configurations ask under MIN_CLIENTS_KEY and MIN_THRESHOLD_KEY.

        A configuration can only raise a number. The node's own (`--node-config`) is its operator's; the run's comes
        from whoever submitted the run.

        Raises:
            InputError: a value is not an integer.
        """
        return replace(
            self,
            min_clients=max(self.min_clients, *(_number(config, MIN_CLIENTS_KEY) for config in configs)),
            min_threshold=max(self.min_threshold, *(_number(config, MIN_THRESHOLD_KEY) for config in configs)),
        )

    def check(self, terms: RoundTerms, threshold: int) -> None:
        """Raises unless a round is one that this client takes part in.

        Args:
            terms: of the round.
            threshold: that follows from them.

        Raises:
            ProtocolError: it is not; names the rule and what was found.
        """
        if terms.scheme not in self.schemes:
            scheme_names = ", ".join(self.schemes)
            raise ProtocolError(f"scheme must be one of {scheme_names} for this client; found {terms.scheme!r}")
        if terms.clients < self.min_clients:
            raise ProtocolError(
                f"clients must number at least {self.min_clients} for this client; found {terms.clients}"
            )
        if self.max_clients is not None and terms.clients > self.max_clients:
            raise ProtocolError(
                f"clients must number at most {self.max_clients} for this client; found {terms.clients}"
            )
        if terms.sparse and not self.sparse:
            raise ProtocolError("clients must all mask with each other for this client; found a sparse graph of masks")
        if threshold < self.min_threshold:
            raise ProtocolError(f"threshold must be at least {self.min_threshold} for this client; found {threshold}")
        if self.bounded and terms.bound is None:
            raise ProtocolError("bound must be given for this client; found none")
        if terms.bound is not None and terms.bound < self.least_bound:
            raise ProtocolError(f"bound must be at least {self.least_bound:g} for this client; found {terms.bound:g}")
        if terms.weight_bound < self.least_weight_bound:
            raise ProtocolError(
                f"weight_bound must be at least {self.least_weight_bound:g} for this client; found "
                f"{terms.weight_bound:g}"
            )
        if terms.weight_key != self.weight_key:
            raise ProtocolError(
                f"weight must be the metric {self.weight_key!r} for this client; found {terms.weight_key!r}"
            )
        others = [name for name in terms.metrics if name not in self.metrics]
        if others:
            raise ProtocolError(f"metrics must be among {self.metrics} for this client; found {others}")

    def check_failures(self, failures: int) -> None:
        """Raises once a client failed as often as it may.

        Raises:
            ProtocolError: it did.
        """
        if failures >= self.max_failures:
            raise ProtocolError(
                f"rounds must not fail at this client more than {self.max_failures} times; it takes no more part in "
                f"this run"
            )


def _number(config: Mapping[str, object], key: str) -> int:
    value = config.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{key} must be an integer; found {value!r}")
    return value
