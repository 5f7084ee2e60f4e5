"""One exchange of rows between neighbours, recorded for attacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Material
from fgl_secure.attacks.truth import Truth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.exchange import exchange
from fgl_secure.methods.hifgl.program import hierarchy_of, neighbour_sums
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording

SMALL_FIELD = 31
"""Largest field that counts as small: its decoders can be tried one by one."""


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
