"""What a client asks of a round of secure aggregation before it takes part, whatever the server says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.flower.terms import RoundTerms

MIN_CLIENTS_KEY = "secure-aggregation-min-clients"
MIN_THRESHOLD_KEY = "secure-aggregation-min-threshold"
LEAST_CLIENTS = 3
LEAST_THRESHOLD = 2
LEAST_WEIGHT_BOUND = 2.0**20
LEAST_BOUND = 1.0
MAX_FAILURES = 3
WEIGHT_KEY = "num-examples"
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

    min_clients: int = LEAST_CLIENTS
    min_threshold: int = LEAST_THRESHOLD
    schemes: tuple[str, ...] = PROTECTING
    bounded: bool = False
    weight_key: str = WEIGHT_KEY
    least_weight_bound: float = LEAST_WEIGHT_BOUND
    least_bound: float = LEAST_BOUND
    metrics: tuple[str, ...] = ()
    max_failures: int = MAX_FAILURES
    max_clients: int | None = None
    sparse: bool = False

    def __post_init__(self) -> None:
        for name, least in (("min_clients", self.min_clients), ("min_threshold", self.min_threshold)):
            if least < LEAST_THRESHOLD:
                raise InputError(f"{name} must be at least {LEAST_THRESHOLD}, or a sum may be of one; found {least}")
        for name, bound in (("least_weight_bound", self.least_weight_bound), ("least_bound", self.least_bound)):
            if not (math.isfinite(bound) and bound > 0):
                raise InputError(f"{name} must be a positive number; found {bound}")
        if self.max_failures < 1:
            raise InputError(f"max_failures must be at least 1; found {self.max_failures}")
        if self.max_clients is not None and self.max_clients < self.min_clients:
            raise InputError(f"max_clients must be at least min_clients = {self.min_clients}; found {self.max_clients}")

    def tightened(self, *configs: Mapping[str, object]) -> ClientPolicy:
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
            known = ", ".join(self.schemes)
            raise ProtocolError(f"scheme must be one of {known} for this client; found {terms.scheme!r}")
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
        self._check_bounds(terms)
        self._check_metrics(terms)

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

    def _check_bounds(self, terms: RoundTerms) -> None:
        if self.bounded and terms.bound is None:
            raise ProtocolError("bound must be given for this client; found none")
        if terms.bound is not None and terms.bound < self.least_bound:
            raise ProtocolError(f"bound must be at least {self.least_bound:g} for this client; found {terms.bound:g}")
        if terms.weight_bound < self.least_weight_bound:
            raise ProtocolError(
                f"weight_bound must be at least {self.least_weight_bound:g} for this client; found "
                f"{terms.weight_bound:g}"
            )

    def _check_metrics(self, terms: RoundTerms) -> None:
        if terms.weight_key != self.weight_key:
            raise ProtocolError(
                f"weight must be the metric {self.weight_key!r} for this client; found {terms.weight_key!r}"
            )
        others = [name for name in terms.metrics if name not in self.metrics]
        if others:
            raise ProtocolError(f"metrics must be among {self.metrics} for this client; found {others}")


def _number(config: Mapping[str, object], key: str) -> int:
    value = config.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{key} must be an integer; found {value!r}")
    return value
