"""What a server chooses for its rounds of secure aggregation, and what came of a round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fgl_secure.aggregation.arguments import integer_of
from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.aggregation.record import RoundRecord
from fgl_secure.errors import InputError
from fgl_secure.flower.terms import RoundTerms
from fgl_secure.schemes import server_scheme


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server chooses.

    Attributes:
        scheme: name of a scheme for sums at a server.
        threshold: least clients that must be left at every stage: a number, a share of those sampled (a float below
            1, rounded up), or None for the scheme's default.
        bound: largest magnitude of a number in arrays and metrics; None has ranges found out together in the first
            round, by a sum that costs a round's messages once more.
        fraction_bits: of the fixed point; None takes as many as there is room for.
        weight_bound: largest weight of a client.
        weight_fraction_bits: of weights; 0 has them be integers.
        weight_key: name of the metric that is a client's weight.
        integers: what the mean of integers is.
        metrics: names of metrics that are averaged under the same protection; the others stay with the clients.
        sparse: whether masks of more than 64 clients follow a sparse graph.
        precision: bits of a number on its way; None for as many as there is room for.
        identities: public Ed25519 identities that may take part; with any, nodes are asked for theirs before a round,
            and clients sign their keys.
        stage_timeout: seconds that a stage other than training waits for everybody; None waits as long as training.
        grace: seconds that the others get once as many as the threshold have answered; None gives the whole timeout.
        skip_failed_rounds: whether a round that fails leaves the model as it was, with a warning; else it raises.
        run_config: the configuration of the run, as the ServerApp's context has it; None has nodes asked for its
            digest before the first round.
    """

    scheme: str
    threshold: int | float | None
    bound: float | None
    fraction_bits: int | None
    weight_bound: float
    weight_fraction_bits: int
    weight_key: str
    integers: IntegerRule
    metrics: tuple[str, ...]
    sparse: bool
    precision: int | None
    identities: frozenset[bytes]
    stage_timeout: float | None
    grace: float | None
    skip_failed_rounds: bool
    run_config: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        if isinstance(self.threshold, float) and not 0 < self.threshold < 1:
            raise InputError(f"threshold must be an integer, or a share between 0 and 1; found {self.threshold}")
        for name, seconds in (("stage_timeout", self.stage_timeout), ("grace", self.grace)):
            if seconds is not None and not seconds >= 0:
                raise InputError(f"{name} must be at least 0 seconds; found {seconds}")
        if self.precision is not None:
            server_scheme(self.scheme).at_precision(integer_of(self.precision, "precision"))
        if self.weight_key in self.metrics or len(set(self.metrics)) < len(self.metrics):
            raise InputError(f"metrics must differ from each other and from {self.weight_key!r}; found {self.metrics}")

    def terms(
        self, session: bytes, number: int, clients: int, roster: tuple[str, ...] = (), training: str = ""
    ) -> RoundTerms:
        """Those of a round, for client 0."""
        share = isinstance(self.threshold, float)
        threshold = math.ceil(self.threshold * clients) if share and self.threshold is not None else self.threshold
        return RoundTerms(
            session=session.hex(),
            number=number,
            index=0,
            clients=clients,
            threshold=None if threshold is None else int(threshold),
            scheme=self.scheme,
            bound=self.bound,
            fraction_bits=self.fraction_bits,
            weight_bound=self.weight_bound,
            weight_fraction_bits=self.weight_fraction_bits,
            integers=self.integers,
            weight_key=self.weight_key,
            metrics=self.metrics,
            sparse=self.sparse,
            precision=self.precision,
            roster=roster,
            training=training,
        )


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What came of a round.

    Attributes:
        number: of the round in its session, from 0.
        clients: how many were asked.
        included: nodes whose updates are in the mean; empty if the round failed.
        lost: why each other node is not in it.
        record: what the server saw; None if the round failed.
        failure: why the round failed, with the first node that was out; empty if it did not.
    """

    number: int
    clients: int
    included: tuple[int, ...]
    lost: Mapping[int, str]
    record: RoundRecord | None
    failure: str = ""
