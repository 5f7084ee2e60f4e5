"""FedSpray under each scheme for sums of updates: what it promises, and how it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import RECORDED_ROUNDS, Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.audit_runs import CONTROLS, GROWING, ProxyRuns, Setting
from fgl_secure.methods.fedspray.client import clients_of
from fgl_secure.methods.fedspray.preset import fedspray_preset
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import Selection, choice_of_round
from fgl_secure.training.server_sums import promises, server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedspray.configuration import FedSpray


PAPER = "FedSpray (KDD 2024)"

PUBLISHED = (
    Guarantee(
        Secret.STRUCTURE_FEATURE,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "local class proxies are averages of the structure proxies of nodes of one class, which is irreversible",
        f"{PAPER}, 4.5.1",
    ),
)
"""What the paper promises of class proxies in the clear."""

CLEAR_LEAKS = (
    Leak(
        Secret.CLASS_PRESENCE,
        Role.SERVER,
        Circumstance.ANY,
        "the server gets every client's shares and class proxies, and both are zero for classes without a labelled "
        "node",
    ),
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.ANY,
        "shares are sent as they are; their denominators tell how many labelled nodes there are",
    ),
)

CLIENT_LEAKS = (
    Leak(
        Secret.STRUCTURE_FEATURE,
        Role.SILO,
        Circumstance.ANY,
        "all clients get the mean class proxies; the mean of a class that one client alone has is that client's, and "
        "the node's own where it has a single one",
    ),
)
"""What goes to clients, whatever computes the sum."""

SUM_LEAKS = (
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.ANY,
        "exact shares are fractions of each client's number of labelled nodes: where few clients have different "
        "numbers, one sum has one explanation, which counts every client's labelled nodes of each class; shares on a "
        "grid have many explanations, but few clients or few labels leave few",
    ),
    Leak(
        Secret.CLASS_PRESENCE,
        Role.SERVER,
        Circumstance.ANY,
        "the same explanation tells which classes each client has labelled nodes of",
    ),
    Leak(
        Secret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the sum tells the shares of all clients together, and which classes are labelled by nobody",
    ),
    Leak(
        Secret.STRUCTURE_FEATURE,
        Role.SERVER,
        Circumstance.ANY,
        "where one client alone has labelled nodes of a class, the sum holds its class proxy, and the node's own where "
        "there is a single one",
    ),
    Leak(
        Secret.LABEL_SHARES,
        Role.SERVER,
        Circumstance.REPEATED_SUM,
        "when one client alone labels a node more between two rounds, the change of the sum tells how many labelled "
        "nodes of each class that client has",
    ),
    Leak(
        Secret.TRAINING_NODE,
        Role.SERVER,
        Circumstance.REPEATED_SUM,
        "the same change tells about what proxy the new node has, by which it is told from others",
    ),
)
"""What an exact sum tells the server, whatever computes it."""

PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the means that the server sends back: what is left is the "
        "other's encoder, its proxy of every class that it alone has, its loss, and how many nodes it predicts right",
    ),
)


def claim_of(scheme: Scheme, clients: int) -> Claim:
    """The claim of a run.

    Args:
        scheme: how summands are added up; one that promises nothing sends them in the clear.
        clients: how many there are.
    """
    inner = promises(scheme, clients)
    if inner is None:
        return Claim(PUBLISHED, (*CLEAR_LEAKS, *CLIENT_LEAKS), ("clients follow the protocol",))
    pair = PAIR_LEAKS if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *CLIENT_LEAKS, *pair), inner.assumptions)


SPLIT = (0.4, 0.3, 0.3)
"""Shares of the nodes that train, validate and test (FedSpray, section 5.1)."""

NOTES = (
    "A client is a silo of this report: it trains on the edges between its own nodes.",
    "A scheme with a kind of rounds in brackets was run for attacks alone, on clients with few labelled nodes, of which"
    " one labels one more in each round; optimisers start afresh then. The claim is the same, so what contradicts it "
    "there counts.",
    "Under a scheme the server's own knowledge, the sum, is noted with the transcript.",
    "Under a random partition every client has labelled nodes of all classes; under a Louvain partition many classes "
    "are absent, and single labelled nodes occur.",
    "A structure proxy is learnt for a node and is no row of features: who reads one has broken that averages hide it, "
    "and has not read features.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedSpraySubject(Subject):
    """FedSpray under one scheme.

    Attributes:
        graph: who has what.
        setting: how to train.
        scheme: how summands are added up.
    """

    graph: FederatedGraph
    setting: Setting
    scheme: Scheme

    @property
    def name(self) -> str:
        """The scheme's."""
        return self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What the scheme promises for so many clients and what sums tell whatever the scheme, for each kind of run."""
        claim = claim_of(self.scheme, self.graph.num_silos)
        return dict.fromkeys((self.name, f"{self.name}[{GROWING}]"), claim)

    @property
    def job(self) -> Job:
        """The clients, each with its own subgraph."""
        chosen = self.setting
        return clients_of(
            self.graph, self.scheme, chosen.preset, backbone=chosen.backbone, seed=chosen.seed, device=chosen.device
        )

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, and rounds of clients with few labelled nodes."""
        runs = ProxyRuns(self.graph, self.setting, self.scheme, self.name)
        yield runs.first_round(result.transcript)
        yield runs.growing()

    def independent(self, seed: int) -> Subject:
        """One round on a graph in which every client has the next one's nodes, and trains on others of them."""
        graph = self.graph.redealt(seed, split_apart=True, clients_too=True)
        return FedSpraySubject(graph, self._brief(seed), self.scheme)

    def unprotected(self) -> tuple[Subject, ...]:
        """One round in the clear."""
        return (FedSpraySubject(self.graph, self._brief(self.setting.seed), Plaintext()),)

    def _brief(self, seed: int) -> Setting:
        return replace(self.setting, seed=seed, preset=self.setting.preset.with_epochs(RECORDED_ROUNDS))


def fedspray_plan(method: FedSpray, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device: torch.device = compute_device(asked.device)
    graph = asked.federated(SPLIT)
    preset = fedspray_preset(method.preset, graph.graph.name).with_epochs(method.epochs)
    if graph.num_silos < 2:
        raise InputError(f"silos must be at least 2 for fedspray; found {graph.num_silos}")
    setting = Setting(preset, method.backbone, asked.seed, device)
    return Plan(
        method.name,
        method.backbone,
        asked.seed,
        graph,
        int((~graph.crosses_silos).sum()),
        preset.name,
        preset.epochs,
        device,
        f"pooled over {int(graph.test_mask.sum()):,} nodes",
        choice_of_round(Selection.VALIDATION, graph, preset.choice.removeprefix("validation ")),
        tuple(FedSpraySubject(graph, setting, scheme) for scheme in server_schemes(asked.runs, graph.num_silos)),
        CONTROLS,
        NOTES,
    )
