"""Runs of FedSpray as attacks read them: the recorded first round, and rounds for attacks alone."""

from __future__ import annotations

from dataclasses import dataclass

from fgl_secure.attacks.proxies.knowledge import PROXIES, ProxyKnowledge
from fgl_secure.attacks.updates import Suspects
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.alignment import ProxyLayout
from fgl_secure.methods.fedspray.growth import Setting, grow, turns, with_few_labels
from fgl_secure.methods.fedspray.labelled_nodes import LabelledNodes, proxy_truth, slices_of
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, PublicParameters, Recording, Transcript
from fgl_secure.training.parties import hierarchy_of

FEW_LABELS = 8
"""Labelled nodes of a client in rounds that are run for attacks alone."""

ADDITIONS = 20
"""Labelled nodes that are added there, one a round."""

GROWING = f"{FEW_LABELS} labels a client, one added each round"
"""What such rounds are called."""


@dataclass(frozen=True, slots=True, eq=False)
class ProxyRuns:
    """Makes the runs of one scheme.

    Attributes:
        graph: who has what.
        setting: how to train.
        scheme: how summands are added up.
        name: what the scheme is called.
    """

    graph: FederatedGraph
    setting: Setting
    scheme: Scheme
    name: str

    def first_round(self, transcript: Transcript) -> RecordedRun:
        """The first round of a recorded training; the proxies in it are had by training that round once more."""
        process, clients = self.setting.clients(self.graph)
        process.round(0)
        what = f"first round of training, {self.setting.backbone}"
        return self._run(self.name, what, transcript, self.graph, [LabelledNodes.of(clients)])

    def growing(self) -> RecordedRun:
        """Rounds of clients with few labelled nodes each, between which one client labels a node more, in turn."""
        few = with_few_labels(self.graph, FEW_LABELS, self.setting.seed)
        channel = self._channel(few)
        added = turns(few, self.graph.train_mask & ~few.train_mask, ADDITIONS, self.setting.seed)
        rounds, suspects = grow(few, added, self.setting, self.scheme, channel)
        what = f"{len(rounds)} rounds, {GROWING}, {self.setting.backbone}"
        return self._run(f"{self.name}[{GROWING}]", what, channel.transcript, few, rounds, suspects)

    def _channel(self, graph: FederatedGraph) -> Channel:
        return Channel(hierarchy_of(graph), SimulationCoins(self.setting.seed), Recording.everything())

    def _run(
        self,
        label: str,
        what: str,
        transcript: Transcript,
        graph: FederatedGraph,
        rounds: list[LabelledNodes],
        suspects: Suspects | None = None,
    ) -> RecordedRun:
        truth = proxy_truth(rounds, graph.num_silos, graph.num_classes)
        layout = ProxyLayout.of(graph.graph.num_features, graph.num_classes, self.setting.preset.width)
        slices = slices_of(layout, rounds[0], graph.num_silos, self.setting.preset.share_grid)
        known = ProxyKnowledge(slices, suspects)
        return RecordedRun(label, what, PROXIES, PublicParameters(), transcript, (truth,), (known,))
