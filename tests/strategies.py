"""Hypothesis strategies for fields, elements, reals, groupings, messages and federated graphs."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31, MERSENNE_61, Elements, PrimeField
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Directory, Phase, Role, Step

PRIMES = (2, 3, 5, 11, 101, MERSENNE_31)
ALL_PRIMES = (*PRIMES, 65521, 131071, MERSENNE_61)

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]


def prime_fields(smallest: int = 2) -> st.SearchStrategy[PrimeField]:
    """Small fields for enumeration, the paper's field of 11 elements and the field of production."""
    return st.sampled_from([PrimeField(p) for p in PRIMES if p >= smallest])


def all_prime_fields(smallest: int = 2) -> st.SearchStrategy[PrimeField]:
    """The same, a prime on either side of 2^16, and the field with headroom, whose products need more than 64 bits."""
    return st.sampled_from([PrimeField(p) for p in ALL_PRIMES if p >= smallest])


def integers(shape: tuple[int, ...]) -> st.SearchStrategy[Elements]:
    """Arrays of any int64, of which field arithmetic takes the remainders."""
    return hnp.arrays(np.int64, shape, elements=st.integers(-(2**63), 2**63 - 1))


def elements(field: PrimeField, shape: tuple[int, ...]) -> st.SearchStrategy[Elements]:
    """Arrays of field elements, both ends of the range included."""
    return hnp.arrays(field.dtype, shape, elements=st.integers(0, field.modulus - 1))


@st.composite
def element_pairs(draw: st.DrawFn) -> tuple[PrimeField, Elements, Elements]:
    """A field and two vectors of one length over it."""
    field = draw(all_prime_fields())
    shape = (draw(st.integers(1, 6)),)
    return field, draw(elements(field, shape)), draw(elements(field, shape))


def reals(
    bound: float, shape: tuple[int, ...], width: Literal[32, 64] = 64
) -> st.SearchStrategy[NDArray[np.floating[Any]]]:
    """Real values up to a bound in magnitude; the bound must be a float of that width."""
    dtype = np.dtype(f"float{width}")
    return hnp.arrays(dtype, shape, elements=st.floats(-bound, bound, width=width))


@st.composite
def segment_members(draw: st.DrawFn) -> tuple[Ints, int]:
    """The group of each of a few rows, and the number of groups; some groups are empty."""
    groups = draw(st.integers(1, 6))
    members = draw(st.lists(st.integers(0, groups - 1), max_size=12))
    return np.array(members, dtype=np.int64), groups


@dataclass(frozen=True, slots=True, eq=False)
class Parties:
    """A hierarchy and what its devices sum: one drawn case.

    Attributes:
        directory: one server, the silos and the devices.
        grouping: whose rows go into whose sums.
    """

    directory: Directory
    grouping: Grouping


def grouping_over(directory: Directory, silo_of: Ints, rows: Ints, groups: Ints, edges: Ints) -> Grouping:
    """Rows and groups owned by devices (int64 indices), edges [2, m] from rows to groups, silos as custodians."""
    devices, silos = directory.ids(Role.DEVICE), directory.ids(Role.SILO)[silo_of]
    return Grouping(devices[rows], devices[groups], edges[0], edges[1], silos[rows], silos[groups])


@st.composite
def groupings(draw: st.DrawFn) -> Parties:
    """Rows and groups of a few devices, directed messages between them, empty groups and idle rows included."""
    silos, devices = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    index = st.integers(0, devices - 1)
    silo_of = draw(hnp.arrays(np.int64, devices, elements=st.integers(0, silos - 1)))
    rows = draw(st.lists(index, min_size=1, max_size=6))
    groups = draw(st.lists(index, min_size=1, max_size=6))
    edge = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(groups) - 1))
    edges = np.array(draw(st.lists(edge, max_size=14, unique=True)), dtype=np.int64).reshape(-1, 2).T
    directory = Directory.hierarchy(silos, devices)
    return Parties(directory, grouping_over(directory, silo_of, np.array(rows), np.array(groups), edges))


def send_drawn(channel: Channel, messages: list[tuple[int, int]], phase: Phase, step: Step, width: int) -> None:
    """Sends numbered messages of some width between (sender, receiver) pairs of identifiers."""
    pairs = np.array(messages, dtype=np.int64).reshape(-1, 2)
    payload = np.arange(len(pairs) * width, dtype=np.int32).reshape(len(pairs), width)
    channel.send(phase, step, pairs[:, 0], pairs[:, 1], payload)


@st.composite
def message_batches(draw: st.DrawFn, parties: int) -> list[tuple[Phase, int, list[tuple[int, int]]]]:
    """A few batches: phase, payload width and (sender, receiver) pairs."""
    party = st.integers(0, parties - 1)
    batch = st.tuples(st.sampled_from(Phase), st.integers(0, 3), st.lists(st.tuples(party, party), max_size=8))
    return draw(st.lists(batch, max_size=5))


@st.composite
def federated_graphs(draw: st.DrawFn, *, directed: bool = True) -> FederatedGraph:
    """A small graph with two classes, every device in training and every silo with a device."""
    silos = draw(st.integers(1, 3))
    devices = draw(st.integers(max(2, silos), 7))
    node = st.integers(0, devices - 1)
    pairs = np.array(draw(st.lists(st.tuples(node, node), max_size=16)), dtype=np.int64).reshape(-1, 2).T
    edges = pairs if directed else np.concatenate([pairs, pairs[::-1]], axis=1)
    features = draw(reals(2.0, (devices, 3), width=32))
    graph = Graph.from_arrays("drawn", features, np.arange(devices) % 2, edges)
    everyone, nobody = np.ones(devices, dtype=np.bool_), np.zeros(devices, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, np.arange(devices) % silos, SplitMasks(everyone, nobody, nobody))
