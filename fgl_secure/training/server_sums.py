"""Sums of one real vector of every client for the server, under any scheme, in plaintext among them.

A weighted mean is such a sum: of the weighted rows, and of the weights beside them. So the server learns a mean without
a single weight. Programs have `Collectives.server`, `mean` and `ratios`; what is not one yet uses `ServerSums`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fgl_secure.algebra import FixedPoint
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Claim, Directory, Role, Step
from fgl_secure.typing import Floats, Ids

FLOAT_BYTES = 4
"""Of one parameter on the wire, a float32."""

RECEIVED = "received model"
"""What every client gets at the start of a round: the parameters that the server sends, one row a client."""


BOUND = 64.0
"""Largest magnitude of an entry; more is refused."""
FRACTION_BITS = 32
"""Bits behind the binary point of summands; fewer where a scheme has no room for them."""
GRADIENT_BITS, GRADIENT_BOUND = 40, 2.0**10
"""Bits and largest magnitude of models and gradients: of the order of 1e-6 and more where they matter."""
LARGEST = 2**62
"""Largest sum under a scheme that names no limit."""
UPDATE_BITS = 30
"""The same for weighted updates."""
EXACT = 2**53
"""Whole numbers up to this one are reals of double precision, as which recordings have them."""
REMEDY = "scale the features or lower the learning rate"


class ServerSums:
    """Adds one vector of every client up for the server, on one grid under all schemes: equal seeds give equal bits.

    Args:
        scheme: adds up.
        channel: between server and clients; gives the coins.

    Raises:
        InputError: the scheme does not sum for servers, or there are too few clients.
        FieldRangeError: it has no room for such vectors.
    """

    def __init__(self, scheme: Scheme, channel: Channel) -> None:
        terms = len(channel.parties.ids(Role.SILO))
        self.grid = update_grid(scheme.limit(terms) or LARGEST, terms, FRACTION_BITS)
        self._scheme, self._channel, self._opened = scheme, channel, dict[int, Collective]()

    def __call__(self, rows: Floats, step: Step) -> Floats:
        """The sum over the clients, as the server learns it.

        Args:
            rows: float64 [K, P], the vector of each client, entries of magnitude up to `BOUND`.
            step: when; another one in each call.

        Returns:
            float64 [P], every entry off by K 2^-(f + 1) at most, where f is the number of bits behind the point.

        Raises:
            InputError: an entry is not finite or too large; nothing was sent.
            ProtocolError: the step was summed before, or too many clients dropped out.
        """
        width = rows.shape[1]
        if width not in self._opened:
            topology = Topology.to_server(self._channel.parties, width, self.grid.largest)
            self._opened[width] = Collective(self._scheme, topology, self._channel, self.grid)
        total: Floats = self._opened[width].sum(rows, step)[0]
        return total


def grid_for(scheme: Scheme, terms: int) -> FixedPoint:
    """What makes integers of models and gradients, for sums of so many under a scheme: of up to 40 bits."""
    return FixedPoint.for_sums(
        bound=GRADIENT_BOUND,
        limit=scheme.limit(terms) or LARGEST,
        terms=terms,
        most_bits=GRADIENT_BITS,
        what="gradients",
        remedy=REMEDY,
    )


def update_grid(limit: int, terms: int, most_bits: int, heaviest: int = 1) -> FixedPoint:
    """What makes integers of entries of magnitude up to `BOUND`, for weighted sums that double precision tells apart.

    Args:
        limit: largest magnitude of a sum under the scheme.
        terms: of a sum.
        most_bits: behind the binary point; fewer where there is no room for them.
        heaviest: the largest weight.

    Raises:
        FieldRangeError: there is room for none.
    """
    return FixedPoint.for_sums(
        bound=BOUND,
        limit=min(limit, EXACT),
        terms=terms,
        heaviest=heaviest,
        most_bits=most_bits,
        what="summands",
        remedy=REMEDY,
    )


def quotients(total: Ids, parts: Sequence[int]) -> Floats:
    """What the server tells of a sum of numerators and their denominators.

    Args:
        total: int64 [sum of parts + number of parts + c]: numerators part by part, a denominator for each part, and c
            counts.
        parts: how many numerators each denominator has.

    Returns:
        float64 [sum of parts + c]: numerators over their denominator, NaN where it is 0, and the counts.
    """
    index = sum(parts)
    below = np.repeat(total[index : index + len(parts)], parts).astype(np.float64)
    result = np.full(index, np.nan)
    np.divide(total[:index], below, out=result, where=below != 0)
    return np.concatenate([result, total[index + len(parts) :]])


def server_topology(clients: int) -> Topology:
    """One vector of each of so many clients for the server: what claims are about."""
    return Topology.to_server(Directory.hierarchy(clients, clients), 1, 1)


def promises(scheme: Scheme, clients: int) -> Claim | None:
    """What a scheme promises for sums for the server over so many clients; None where it promises nothing."""
    claim = scheme.claim_for(server_topology(clients))
    return claim if claim.guarantees else None


def server_schemes(runs: Iterable[Mapping[str, Scheme]], clients: int) -> tuple[Scheme, ...]:
    """For each run the scheme for its server's sums.

    Args:
        runs: schemes by topology, one of them for "server".
        clients: how many there are.

    Raises:
        InputError: too few clients for a scheme or its threshold.
    """
    schemes = tuple(run["server"] for run in runs)
    for scheme in schemes:
        scheme.threshold_for(clients)
    return schemes
