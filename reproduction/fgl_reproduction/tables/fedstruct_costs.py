"""Tables 1 and 9 of FedStruct (ICLR 2025): what is sent before and during training, as transcripts have it.

The paper prints orders of magnitude. Here runs are counted, and beside them what its terms come to with the sizes of
these runs, at four bytes a number and with every constant 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fgl_reproduction.methods.fedsage.program import clients_of as fedsage_clients
from fgl_reproduction.methods.fedsage.program import fedsage_preset
from fgl_reproduction.tables.costs import MEGA, SentTraffic, count_sent
from fgl_reproduction.tables.fedstruct_runs import PAPER, FedStructSetting, choose_preset, load_undirected
from fgl_reproduction.tables.table import PLAINTEXT, Choices, Metric, TableCase
from fgl_secure.graph import Graph
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.program import HOP2VEC, FedStructTask, clients_of
from fgl_secure.protocols.topology import CLIENTS, SERVER
from fgl_secure.schemes import parse

BEFORE, TRAINING = Metric("before training (MB)", 2), Metric("training (MB)", 2)
"""Bytes of all messages between parties, in units of 10^6."""
BEFORE_TERMS, TRAINING_TERMS = Metric("its terms, before (MB)", 2), Metric("its terms, training (MB)", 2)
"""The paper's terms with the sizes of the run."""
GRADIENTS = Metric("gradients (MB)", 2)
DERIVATIVES = Metric("embeddings and derivatives, counted (MB)", 0)
"""Where the server knows the graph: the first is sent in the run, the second would have to be."""
NUMBER = 4
"""Bytes of a number."""
DEGREE = "degree"


@dataclass(frozen=True, slots=True)
class FedStructSizes:
    """What the paper's terms are made of.

    Attributes:
        rounds: E.
        clients: K.
        nodes: n.
        width: d, of structure features, and of node features for FedSage+.
        parameters: |theta|.
        hops: L_s.
        kept: p.
    """

    rounds: int
    clients: int
    nodes: int
    width: int
    parameters: int
    hops: int = 0
    kept: int = 0

    @property
    def models(self) -> int:
        """E K |theta|."""
        return self.rounds * self.clients * self.parameters

    @property
    def features(self) -> int:
        """E K d n."""
        return self.rounds * self.clients * self.width * self.nodes

    @property
    def powers(self) -> int:
        """L_s K p n."""
        return self.hops * self.clients * self.kept * self.nodes

    @property
    def derivatives(self) -> int:
        """E n d |theta|, of embeddings by parameters (App. H.4)."""
        return self.rounds * self.nodes * self.width * self.parameters

    @property
    def feature_derivatives(self) -> int:
        """E n^2 d^2, of embeddings by learnt features (App. H.4)."""
        return self.rounds * (self.nodes * self.width) ** 2


@dataclass(frozen=True, slots=True)
class StructureCost:
    """What a run of FedStruct sends, as a measure.

    Attributes:
        features: name of the structure features; "hop2vec" learns them.
        setting: who has what.
        scheme: adds up what is for one client and for the server.
        known: whether the server knows the graph, which then sends what clients exchange otherwise (App. H.4).
    """

    features: str
    setting: FedStructSetting
    scheme: str = PLAINTEXT
    known: bool = False

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once, from the exchange of powers to the last round."""
        graph, preset = load_undirected(data), choose_preset(data, choices)
        federated = self.setting.load_graph(graph, seed)
        task = FedStructTask(preset, self._exchange, self.features, seed)
        run = count_sent(clients_of(federated, task, device=choices.place), seed)
        sizes = FedStructSizes(preset.epochs, self.setting.clients, graph.num_nodes, preset.structure_width,
                      len(run.result.report["theta"]), preset.hops, preset.kept or graph.num_nodes)  # fmt: skip
        return self._known_graph_figures(run, sizes) if self.known else self._exchange_figures(run, sizes)

    @property
    def _exchange(self) -> RowExchange:
        """In plaintext as published, entry by entry; under a scheme as tables of cells."""
        if self.scheme == PLAINTEXT:
            return RowExchange()
        return RowExchange(parse(self.scheme, (CLIENTS,))[1], parse(self.scheme, (SERVER,))[1])

    def _exchange_figures(self, run: SentTraffic, sizes: FedStructSizes) -> Mapping[Metric, float]:
        learns = self.features == HOP2VEC
        told = 0 if learns else sizes.clients * sizes.width * sizes.nodes
        terms = sizes.powers + told, sizes.models + (sizes.features if learns else 0)
        return _figures(run, *terms)

    def _known_graph_figures(self, run: SentTraffic, sizes: FedStructSizes) -> Mapping[Metric, float]:
        """Nothing is exchanged before; gradients are those of the run, embeddings and derivatives are counted."""
        counted = sizes.derivatives
        if self.features == HOP2VEC:
            counted += sizes.feature_derivatives
        return {GRADIENTS: run.training / MEGA, DERIVATIVES: counted * NUMBER / MEGA}


@dataclass(frozen=True, slots=True)
class GeneratorCost:
    """What a run of FedSage+ sends, as a measure.

    Attributes:
        setting: who has what.
        scheme: adds up gradients of generators and models.
    """

    setting: FedStructSetting
    scheme: str = PLAINTEXT

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains once."""
        graph, preset = load_undirected(data), fedsage_preset(choices.preset).with_epochs(choices.epochs)
        schemes = {topology: parse(self.scheme, (topology,))[1] for topology in (CLIENTS, SERVER)}
        federated = self.setting.load_graph(graph, seed)
        run = count_sent(fedsage_clients(federated, schemes, preset, seed=seed), seed)
        parameters = len(run.result.report["theta"]) + len(run.result.report["generator"])
        sizes = FedStructSizes(preset.epochs + preset.rounds_together, self.setting.clients, graph.num_nodes,
                      graph.num_features, parameters)  # fmt: skip
        return _figures(run, 0, sizes.clients * sizes.models + sizes.features)


def _figures(run: SentTraffic, terms_before: int, terms_training: int) -> Mapping[Metric, float]:
    return {
        BEFORE: run.before / MEGA,
        TRAINING: run.training / MEGA,
        BEFORE_TERMS: terms_before * NUMBER / MEGA,
        TRAINING_TERMS: terms_training * NUMBER / MEGA,
    }


_TEN = FedStructSetting(10)
_SCHEMES = (PLAINTEXT, "pairwise-masking")
_TERMS_NOTE = (
    "The paper prints orders, no numbers. Its terms are those orders with the sizes of the run, four bytes a number "
    "and every constant 1; |theta| counts all of a client's parameters, d structure features of a node (for FedSage+ "
    "features)."
)
_RUN_NOTE = (
    "10 clients at random, run s with seed s; bytes are payloads of all messages of the run, both ways, counts of "
    "right predictions among them. All numbers of a run are sent: with fewer --epochs there is less."
)

COSTS = PAPER.table(
    "table1",
    "what is sent before and during training",
    datasets=("Cora",),
    cases=tuple(
        TableCase(scheme, name, measure)
        for scheme in _SCHEMES
        for name, measure in (
            ("FedStruct", StructureCost(DEGREE, _TEN, scheme)),
            ("FedStruct + Hop2Vec", StructureCost(HOP2VEC, _TEN, scheme)),
            ("FedSage+", GeneratorCost(_TEN, scheme)),
        )
    ),
    metrics=(BEFORE, TRAINING, BEFORE_TERMS, TRAINING_TERMS),
    notes=(
        _TERMS_NOTE,
        _RUN_NOTE,
        "FedStruct has degrees as features, which clients tell each other before training. FedSage+ learns generators "
        "together in rounds that count as training. A masked gradient of Hop2Vec's features is opened whatever the "
        "number of clients that a row is from.",
    ),
)

COSTS_KNOWN = PAPER.table(
    "table9",
    "what is sent in training where the server knows the graph",
    datasets=("Cora",),
    cases=(
        TableCase(PLAINTEXT, "FedStruct", StructureCost(DEGREE, _TEN, known=True)),
        TableCase(PLAINTEXT, "FedStruct + Hop2Vec", StructureCost(HOP2VEC, _TEN, known=True)),
    ),
    metrics=(GRADIENTS, DERIVATIVES),
    notes=(
        "Before training nothing is sent. Gradients are those of a run; embeddings and their derivatives, which no run "
        "here sends, are counted: E n d |theta|, for Hop2Vec E n^2 d^2 besides. What fedstruct-table1 has is less by "
        "orders of magnitude, so that a party that knows the graph had better send rows of A-bar.",
        _TERMS_NOTE,
        _RUN_NOTE,
    ),
)
