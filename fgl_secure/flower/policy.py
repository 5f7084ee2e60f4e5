"""What a client asks of a round of secure aggregation before it takes part, whatever the server says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgl_secure.errors import InputError, ProtocolError

MIN_CLIENTS_KEY = "secure-aggregation-min-clients"
MIN_THRESHOLD_KEY = "secure-aggregation-min-threshold"
LEAST_CLIENTS = 3
LEAST_THRESHOLD = 2
WEIGHT_KEY = "num-examples"
PROTECTING = ("pairwise-masking", "lightsecagg", "ckks")
"""Names of the schemes under which the server sees a sum and nothing else."""


@dataclass(frozen=True, slots=True)
class ClientPolicy:
    """Least numbers that a client accepts.

    Attributes:
        min_clients: clients of a round, this one included, at least 2.
        min_threshold: clients whose sum may be opened, at least 2: a lower one would open this client's own update.
        schemes: names of schemes that the client trusts; `plaintext` is none of them unless it is named.
        bounded: whether a public bound must be given, so that the largest magnitude is not found out together.
        weight_key: name of the metric that may be the client's weight. A server that chose a metric which is 0 at all
            clients but one would be told that one's update for their mean.
    """

    min_clients: int = LEAST_CLIENTS
    min_threshold: int = LEAST_THRESHOLD
    schemes: tuple[str, ...] = PROTECTING
    bounded: bool = False
    weight_key: str = WEIGHT_KEY

    def __post_init__(self) -> None:
        for name, least in (("min_clients", self.min_clients), ("min_threshold", self.min_threshold)):
            if least < LEAST_THRESHOLD:
                raise InputError(f"{name} must be at least {LEAST_THRESHOLD}, or a sum may be of one; found {least}")

    def tightened(self, *configs: Mapping[str, object]) -> ClientPolicy:
        """The same with the larger numbers of what configurations ask under MIN_CLIENTS_KEY and MIN_THRESHOLD_KEY.

        A configuration can only raise a number. The node's own (`--node-config`) is its operator's; the run's comes
        from whoever submitted the run.

        Raises:
            InputError: a value is not an integer.
        """
        return ClientPolicy(
            max(self.min_clients, *(_number(config, MIN_CLIENTS_KEY) for config in configs)),
            max(self.min_threshold, *(_number(config, MIN_THRESHOLD_KEY) for config in configs)),
            self.schemes,
            self.bounded,
            self.weight_key,
        )

    def check(self, scheme: str, clients: int, threshold: int, bounded: bool, weight_key: str) -> None:
        """Raises unless a round is one that this client takes part in.

        Raises:
            ProtocolError: it is not; names the rule and both numbers.
        """
        if scheme not in self.schemes:
            raise ProtocolError(f"scheme must be one of {', '.join(self.schemes)} for this client; found {scheme!r}")
        if clients < self.min_clients:
            raise ProtocolError(f"clients must number at least {self.min_clients} for this client; found {clients}")
        if threshold < self.min_threshold:
            raise ProtocolError(f"threshold must be at least {self.min_threshold} for this client; found {threshold}")
        if self.bounded and not bounded:
            raise ProtocolError("bound must be given for this client; found none")
        if weight_key != self.weight_key:
            raise ProtocolError(f"weight must be the metric {self.weight_key!r} for this client; found {weight_key!r}")


def _number(config: Mapping[str, object], key: str) -> int:
    value = config.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{key} must be an integer; found {value!r}")
    return value
