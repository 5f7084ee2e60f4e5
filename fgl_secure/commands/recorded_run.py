"""One recorded run, as an audit attacks it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Material
from fgl_secure.attacks.truth import Truth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.exchange import exchange
from fgl_secure.methods.hifgl.program import hierarchy_of, neighbour_sums
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording, Transcript

SMALL_FIELD = 31
"""Largest field that counts as small: its decoders can be tried one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """A run with everything that was said, and its truth for scoring.

    Attributes:
        protocol: the scheme's name, parameters included.
        what: what was exchanged, in words.
        material: which attacks can use it.
        public: what everybody knows of the scheme.
        transcript: what was said.
        truth: what was secret.
        auxiliary: what attackers may know from elsewhere.
    """

    protocol: str
    what: str
    material: Material
    public: PublicParameters
    transcript: Transcript
    truth: Truth
    auxiliary: Auxiliary = field(default_factory=Auxiliary)


def recorded_exchange(
    scheme: Scheme,
    graph: FederatedGraph,
    values: NDArray[np.float64],
    what: str,
    seed: int,
    *,
    both_ways: bool = False,
    material: Material | None = None,
) -> RecordedRun:
    """One exchange with everything recorded, under repeatable coins.

    Args:
        scheme: how sums are computed.
        graph: who is whose neighbour.
        values: [n, d], the row of each device.
        what: what the rows are, in words.
        seed: of the coins.
        both_ways: whether the rows also travel along the reversed edges.
        material: which attacks can use it; None finds out whether the field is small.
    """
    channel = Channel(hierarchy_of(graph, scheme.relays), SimulationCoins(seed), Recording.everything())
    exchange(graph, scheme, channel, values, both_ways=both_ways)
    small = (scheme.public.modulus or SMALL_FIELD + 1) <= SMALL_FIELD
    kind = material or (Material.FEATURES if small else Material.TRAINING)
    truth = Truth.of(channel.transcript, graph)
    return RecordedRun(scheme.name, what, kind, public_of(scheme, graph), channel.transcript, truth)


def public_of(scheme: Scheme, graph: FederatedGraph) -> PublicParameters:
    """What everybody knows of a scheme on a graph: also where the binary point is, since everybody encodes alike."""
    sums = neighbour_sums(graph)
    fixed = scheme.fixed_point(max(sums.largest_group, sums.reversed().largest_group, 1))
    return scheme.public if fixed is None else replace(scheme.public, fraction_bits=fixed.fraction_bits)
