"""What every attack on summands of FedSpray must keep: the same as others, on runs of another kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Measurement, Reference, guess_of
from fgl_secure.commands.fedspray.nodes import LabelledNodes
from fgl_secure.commands.fedspray.references import (
    drawn_nodes,
    drawn_pairs,
    graph_of,
    growing,
    proxy_reference,
    recorded_rounds,
)
from fgl_secure.commands.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.learning.hifgl.program import hierarchy_of
from fgl_secure.learning.server_sums import SecuredSums, ServerSums
from fgl_secure.protocols.staged.registry import staged
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Transcript
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, References
from tests.attacks.recorded import Run, random_graph


@pytest.fixture(scope="session", name="references")
def proxy_references() -> References:
    """The runs that attacks on proxies must break, recorded once."""
    return {which: proxy_reference(which) for which in _REFERENCES}


_REFERENCES = (Reference.FEDSPRAY, Reference.FEDSPRAY_SUM, Reference.FEDSPRAY_ROUNDS)


class ProxyConformance(AttackConformance):
    """Inherit as `Test...`, name the attack and list its claims.

    Attributes:
        additions: how many rounds follow the first one.
    """

    rests_on: tuple[frozenset[Phase], ...] = (frozenset({Phase.SUMMANDS}),)
    needs_edges = False
    additions = 0

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """Rounds of six clients."""
        rounds = growing(drawn_nodes(3, clients=6), self.additions, seed=3)
        pairs = drawn_pairs(rounds, seed=4)
        found = recorded_rounds(rounds, "rounds", suspects=pairs, loss=loss, recording=recording)
        return Run(graph_of(rounds[-1]), found.public, found.transcript, found.truth, found.auxiliary)

    def exchange(
        self,
        graph: FederatedGraph,  # noqa: ARG002  # no edges cross clients
        values: NDArray[np.float64],  # noqa: ARG002
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        """The same rounds."""
        return self.run(loss, recording)

    def test_finds_nothing_in_an_empty_run(self) -> None:
        """A view of a run in which nothing was said gives no guess, whatever else the attacker knows."""
        view = Transcript(hierarchy_of(random_graph(0, directed=False))).views(self.attack.card.observer)
        assert guess_of(self.attack, view, PublicParameters(), self.run().auxiliary) is None

    def test_needs_to_know_where_things_lie(self) -> None:
        """Without the layout of a summand there is no guess."""
        run = self.run()
        assert self.attack.infer(run.transcript.views(Role.SERVER), run.public) is None


def masked(channel: Channel) -> ServerSums:
    """Sums under pairwise masks."""
    return SecuredSums(staged("pairwise-masking"), channel)


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


def measured(attack: Attack[Any], run: RecordedRun) -> Mapping[str, Measurement]:
    """The figures of an attack on a run, which must give a guess, by metric."""
    guess = guess_of(attack, run.transcript.views(Role.SERVER), run.public, run.auxiliary)
    assert guess is not None
    return {found.metric: found for found in attack.score(guess, run.truth)}
