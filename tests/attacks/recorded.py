"""Small graphs, and exchanges on them with everything recorded, for attacks to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.algebra import Overflow, PrimeField
from fgl_secure.attacks.message_passing.knowledge import (
    CLEAR_GRADIENTS,
    FRESH_TAGS,
    OWN_SILOS,
    PLAINTEXT,
    SECMP,
    SECMP_DEVIATING,
    SECMP_DROP_OUTS,
    SECMP_STATIC,
    SHARED_MASKS,
    SILO_PATH,
    SMALL_FIELD,
    UNMASKED_SHARES,
    PublicRows,
)
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.programs import public_of
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.hifgl.controls import OF_OWN_SILOS
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Channel, PublicParameters, Recording, Transcript
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of

Ints = NDArray[np.int64]
Kind = TypeVar("Kind")

SCHEMES: Mapping[str, Scheme] = MappingProxyType({
    PLAINTEXT: Plaintext(),
    SECMP: SecretMessagePassing(),
    SMALL_FIELD: SecretMessagePassing(
        PrimeField(11), bound=1.0, fraction_bits=0, overflow=Overflow.WRAP
    ),
    SILO_PATH: Plaintext(Path.SILO),
    SECMP_STATIC: SecretMessagePassing(),
    SECMP_DROP_OUTS: SecretMessagePassing(),
    SECMP_DEVIATING: SecretMessagePassing(),
    CLEAR_GRADIENTS: Plaintext(),
    FRESH_TAGS: RelayCoded(k_min=1, profile=Profile.SHOWN),
    OWN_SILOS: OF_OWN_SILOS,
    UNMASKED_SHARES: RelayCoded(R=3, k_min=1, profile=Profile.SHOWN),
    SHARED_MASKS: RelayCoded(R=3, k_min=1, profile=Profile.SHOWN),
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One recorded exchange.

    Attributes:
        graph: whose edges carried the messages.
        public: what everybody knows of the scheme.
        transcript: what was said.
        truth: what was secret, of the type that the attack under test is scored against.
        knowledge: what attackers know from elsewhere, one object of a type.
    """

    graph: FederatedGraph
    public: PublicParameters
    transcript: Transcript
    truth: Any
    knowledge: tuple[object, ...] = ()

    def knows(self, kind: type[Kind]) -> Kind:
        """The knowledge of a type, which must be there."""
        return next(each for each in self.knowledge if isinstance(each, kind))

    def told(self, *knowledge: object) -> Run:
        """The same run for attackers who know something else."""
        return replace(self, knowledge=knowledge)

    def recorded(self, scenario: str, what: str = "drawn") -> RecordedRun:
        """The same as an audit has it."""
        return RecordedRun("drawn", what, scenario, self.public, self.transcript, (self.truth,), self.knowledge)


def record(
    graph: FederatedGraph,
    scheme: Scheme,
    values: NDArray[np.floating[Any]],
    *,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """Every device sends its row of `values` [n, d] to its neighbours, under repeatable coins."""
    channel = Channel(
        hierarchy_of(graph, scheme.helpers), SimulationCoins(0), recording or Recording.everything(), loss
    )
    exchange(graph, scheme, channel, values)
    truth = MessageTruth.of(channel.transcript, graph)
    return Run(graph, public_of(scheme, graph), channel.transcript, truth, (PublicRows(values),))


def federated(edges: ArrayLike, silo_of: ArrayLike) -> FederatedGraph:
    """A graph of int [2, m] edges over the devices of `silo_of`, all of them in training."""
    assigned = np.asarray(silo_of)
    devices = len(assigned)
    features = np.arange(devices, dtype=np.float32)[:, None]
    graph = Graph.from_arrays("drawn", features, np.arange(devices) % 2, np.asarray(edges, dtype=np.int64))
    everyone, nobody = np.ones(devices, dtype=np.bool_), np.zeros(devices, dtype=np.bool_)
    return FederatedGraph.from_assignment(graph, assigned, SplitMasks(everyone, nobody, nobody))


def both_ways(pairs: ArrayLike) -> Ints:
    """Undirected pairs [m, 2] as directed edges [2, 2 m]."""
    one_way = np.asarray(pairs, dtype=np.int64).T
    return np.concatenate([one_way, one_way[::-1]], axis=1)


def random_graph(seed: int, *, directed: bool, devices: int = 24, silos: int = 3, pairs: int = 40) -> FederatedGraph:
    """Random edges over silos of about equal size."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(devices, size=(pairs, 2))
    return federated(edges.T if directed else both_ways(edges), rng.permutation(devices) % silos)


def star_and_path() -> FederatedGraph:
    """A star (centre 0, leaves 1 to 4), a path 5 - 6 - 7 and a lonely device 8, dealt to three silos in turn."""
    return federated(both_ways([(0, 1), (0, 2), (0, 3), (0, 4), (5, 6), (6, 7)]), np.arange(9) % 3)


def words(devices: int, columns: int, seed: int = 0, share: float = 0.3) -> NDArray[np.float64]:
    """Rows of zeros and ones [devices, columns], no row all zero."""
    rng = np.random.default_rng(seed)
    rows = (rng.random((devices, columns)) < share).astype(np.float64)
    rows[np.arange(devices), rng.integers(columns, size=devices)] = 1.0
    return rows


def whole_numbers(devices: int, columns: int, largest: int, seed: int = 0) -> NDArray[np.float64]:
    """Rows of integers in -largest .. largest [devices, columns]."""
    drawn = np.random.default_rng(seed).integers(-largest, largest + 1, size=(devices, columns))
    return drawn.astype(np.float64)


def secmp(modulus: int, T: int = 1, delivery: MuDelivery = MuDelivery.SILO) -> SecretMessagePassing:
    """The published scheme on whole numbers: no bits behind the point, wrapping where the field is small."""
    small = modulus < 2**31 - 1
    return SecretMessagePassing(
        PrimeField(modulus), T, 1000.0, 0, Overflow.WRAP if small else Overflow.REFUSE, delivery
    )
