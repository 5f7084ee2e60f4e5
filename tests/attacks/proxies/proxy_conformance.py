"""What every attack on summands of FedSpray must keep: the same as others, on runs of another kind."""

from collections.abc import Callable

import numpy as np

from fgl_secure.attacks.truth import ProxyTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.fedspray.audit_runs import (
    LabelledNodes,
    drawn_nodes,
    drawn_pairs,
    graph_of,
    growing,
    recorded_rounds,
)
from fgl_secure.runtime import Channel, Recording
from fgl_secure.runtime.channel import Loss
from fgl_secure.schemes import server_scheme
from fgl_secure.training.server_sums import ServerSums
from tests.attacks.recorded import Run
from tests.attacks.summand_conformance import SummandConformance


class ProxyConformance(SummandConformance):
    """Inherit as `Test...`, name the attack and list its claims.

    Attributes:
        additions: how many rounds follow the first one.
    """

    additions = 0

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Rounds of six clients."""
        rounds = growing(drawn_nodes(3, clients=6), self.additions, seed=3)
        pairs = drawn_pairs(rounds, seed=4)
        found = recorded_rounds(rounds, "rounds", suspects=pairs, loss=loss, recording=recording)
        return Run(graph_of(rounds[-1]), found.public, found.transcript, found.truth(ProxyTruth), found.knowledge)


def masked(channel: Channel) -> ServerSums:
    """Sums under pairwise masks."""
    return ServerSums(server_scheme("pairwise-masking"), channel)


def one_round(held: LabelledNodes, make_sums: Callable[[Channel], ServerSums] | None = None) -> RecordedRun:
    """One round of given nodes, in the clear unless told otherwise."""
    return (
        recorded_rounds([held], "a round")
        if make_sums is None
        else recorded_rounds([held], "a round", make_sums=make_sums)
    )


def nodes_of(counts: list[list[int]], seed: int = 0) -> LabelledNodes:
    """Labelled nodes with normal proxies of four columns: counts [K, C]."""
    table = np.array(counts)
    owner = np.repeat(np.arange(table.size), table.ravel())
    proxies = np.random.default_rng(seed).normal(size=(len(owner), 4))
    return LabelledNodes(np.arange(len(owner)), owner // table.shape[1], owner % table.shape[1], proxies)
