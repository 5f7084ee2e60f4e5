"""What an attack is: it infers from a view, and is scored against a truth that it never sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.gradient_candidates import Candidates
from fgl_secure.attacks.gradient_model import GradientModel
from fgl_secure.attacks.hop_feature_rules import HopRules
from fgl_secure.attacks.proxy_views import ProxySlices
from fgl_secure.attacks.receptive_field import ReceptiveField
from fgl_secure.attacks.truth import Truth
from fgl_secure.attacks.update_population import Suspects
from fgl_secure.attacks.virtual_node_views import VirtualSlices
from fgl_secure.runtime import Circumstance, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval

Guess = TypeVar("Guess")


class Material(StrEnum):
    """The kind of run whose view an attack can use."""

    TRAINING = "training"
    """Embeddings and gradients of a training run."""
    FEATURES = "features"
    """One exchange of 0/1 features in a field small enough for brute force."""
    STATIC = "static"
    """One release of the static 0/1 features, each row divided by the root of its device's degree (HiFGL, Eq. 2)."""
    DROP_OUTS = "drop-outs"
    """The same rows summed in several rounds, in which devices take part or not."""
    DEVIATION = "deviation"
    """One exchange in which devices hand something else to be decoded than what the protocol says."""
    STRUCTURE = "structure"
    """What clients of FedStruct exchange before and in the first round of training, and what they hold in the end."""
    HOP_SUMS = "hop sums"
    """What clients of Fed2GNN exchange to build rooted trees: sums of features, hop by hop."""
    PROXIES = "proxies"
    """What clients of FedSpray send to the server, or its sum: encoder, structure proxies and what weighs them."""
    VIRTUAL_NODES = "virtual nodes"
    """What clients of FedVN send to the server, or its sum: model and virtual nodes."""
    UPDATES = "updates"
    """Gradients of clients in rounds of federated averaging, or their sum where the server learns no more."""


class Reference(StrEnum):
    """The run that an attack must break, or finding nothing elsewhere would mean nothing."""

    PLAINTEXT = "plaintext"
    SECMP = "secmp"
    SMALL_FIELD = "secmp in the field of 11 elements"
    SILO_PATH = "plaintext by way of the silos"
    STATIC = "secmp, one release of static features"
    DROP_OUTS = "secmp with drop-outs"
    DEVIATING = "secmp with devices that deviate"
    GRADIENTS = "parameter gradients of single devices in the clear"
    UNMASKED = "shares without masks"
    SHARED_MASKS = "shares under one mask for all senders"
    FEDSTRUCT = "fedstruct in the clear, random partition"
    FEDSTRUCT_LOUVAIN = "fedstruct in the clear, Louvain partition"
    FEDSTRUCT_HOPWISE = "fedstruct hop by hop in the clear"
    FEDSTRUCT_QUERIES = "fedstruct with aggregated queries, audited by counting"
    TAGS = "messages under fresh tags, at relays that see who sends"
    FED2GNN = "fed2gnn in the clear, Louvain partition"
    FEDSPRAY = "fedspray in the clear, one round"
    FEDSPRAY_SUM = "fedspray under masks, one round, clients of different numbers of labelled nodes"
    FEDSPRAY_ROUNDS = "fedspray in the clear, rounds between which labelled nodes were added"
    FEDVN = "fedvn in the clear, several rounds"
    FEDVN_SKEWED = "fedvn in the clear, clients of different label shares"
    FEDAVG = "federated averaging in the clear: a gcn of two layers, batches of up to eight nodes"
    FEDAVG_SINGLE = "federated averaging in the clear: a gcn of one layer, batches of one node"
    FEDAVG_PAIRS = "sums of updates, each client's one of two that the server knows"
    FEDAVG_SMOOTH = "federated averaging in the clear: graphsage of two layers, a smooth activation, single nodes"
    FEDAVG_STATIC = "sums of updates that stay the same from round to round, clients drawn at random"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of an attack on one view.

    Attributes:
        metric: what is measured.
        value: the figure, a rate or an advantage.
        interval: its 95 % interval.
        n: units behind it.
        random: the figure of a random guess.
        prior: the figure of the best guess without the transcript.
        reachable: the value that a complete break would have.
        exact: whether it is a rate of exact recovery (else an advantage).
        finding: the figure in one plain sentence.
        context: whether the figure only describes the size of something, and is no evidence of its own.
    """

    metric: str
    value: float
    interval: Interval
    n: int
    random: float
    prior: float
    reachable: float
    exact: bool
    finding: str
    context: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """What an attack is, for lists, records and the comparison with claims.

    Attributes:
        name: in lists, records and on the command line.
        summary: what it does, in one line.
        source: where it is described or what it contradicts.
        observer: whose view it reads; every party of the role attacks alone.
        secret: what it finds.
        material: which kind of run it needs.
        reference: the run that it must break: its positive control.
        circumstance: the condition under which it finds it.
        minimum: what each of its figures must reach on the reference run, as a share of what a complete break has.
        auxiliary: what the observer knows beside its view, in words; "" where that is nothing.
    """

    name: str
    summary: str
    source: str
    observer: Role
    secret: Secret
    material: Material
    reference: Reference
    circumstance: Circumstance = Circumstance.ANY
    minimum: float = 0.99
    auxiliary: str = ""

    @property
    def coalition(self) -> Mapping[Role, int]:
        """How many parties of each role pool their views: one of the observing role."""
        return {self.observer: 1}


@dataclass(frozen=True, slots=True, eq=False)
class Auxiliary:
    """What an attacker may know from elsewhere; an attack that uses it names it on its card.

    Attributes:
        dictionary: [n, d], a public row for each device, by device index, as a directory of papers or of profiles
            would list them; None where there is none.
        crawl: int64 [2, m], both directions of edges between listed nodes, as a public directory or a crawl shows
            them; nodes go by their index in that list, which `Truth.identity` resolves. None where there is none.
        crawl_owner: int64 [n], the index of the client that each listed node belongs to: patients of a hospital and
            customers of a bank are known as such. Wanted with a crawl.
        crawl_rate: the share of the edges that the crawl has; 1 is an upper bound, and findings say so.
        structure_features: the rule by which clients compute structure features, which all of them know:
            (edges int64 [2, m], owners int64 [n]) -> float [n, d_s].
        embed: structure features float [m, d_s] -> logits float [m, c] under the model that everybody holds; None
            where the embedding is the identity.
        embed_jacobian: nodes int64 [m], by device index -> float [m, c, d_s], the Jacobian of the embedding at the
            structure features that these nodes have in the first round, as the server can compute it that hands out
            both; None where the embedding is the identity.
        gradient_model: the model whose gradients clients send, at the global weights of the one round that attacks
            read; whoever hands out weights knows it. None where nobody trains like that.
        candidates: public nodes that may have entered those gradients, with the graph that they are averaged over.
        suspects: for whoever sees sums of updates, two updates of each client of which it sent one, and a sample of
            what others send.
        fields: by index of the client, the small graph behind its gradient, without features and names, as somebody
            knows it who knows who is linked to whom; None where nobody does.
        image_shape: (height, width) where features are pictures, which those who wrote the model know; else None.
        hop_public: how hop sums of Fed2GNN are computed; None where nobody trains like that.
        proxy_layout: where the parts of a summand of FedSpray lie; None where nobody trains like that.
        virtual_layout: where the parts of a summand of FedVN lie; None where nobody trains like that.
        clip: the norm that clients cut their gradients down to, a public parameter; None where they don't.
    """

    dictionary: NDArray[Any] | None = None
    crawl: NDArray[np.int64] | None = None
    crawl_owner: NDArray[np.int64] | None = None
    crawl_rate: float = 1.0
    structure_features: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[Any]] | None = None
    embed: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    embed_jacobian: Callable[[NDArray[np.int64]], NDArray[Any]] | None = None
    gradient_model: GradientModel | None = None
    candidates: Candidates | None = None
    suspects: Suspects | None = None
    fields: Mapping[int, ReceptiveField] | None = None
    image_shape: tuple[int, int] | None = None
    hop_public: HopRules | None = None
    proxy_layout: ProxySlices | None = None
    virtual_layout: VirtualSlices | None = None
    clip: float | None = None


class Attack(ABC, Generic[Guess]):
    """An attack on the views of one role.

    `infer` gets the view and what is public; `score` alone gets the truth, after the guess is fixed.
    """

    @property
    @abstractmethod
    def card(self) -> Card:
        """What the attack is."""

    @abstractmethod
    def infer(self, view: View, public: PublicParameters) -> Guess | None:
        """Infers the secret.

        Args:
            view: what the observers saw, and nothing else.
            public: parameters of the scheme that everybody knows.

        Returns:
            The guess, or None where the view holds nothing that this attack can use.
        """

    @abstractmethod
    def score(self, guess: Guess, truth: Truth) -> tuple[Measurement, ...]:
        """Compares a guess with the truth, which may be permuted for the null control."""


class InformedAttack(Attack[Guess]):
    """An attack that rests on its view and on auxiliary knowledge, and has no guess without the latter."""

    def infer(self, view: View, public: PublicParameters) -> Guess | None:
        """Infers from the view alone, which is not enough."""
        return self.infer_with(view, public, Auxiliary())

    @abstractmethod
    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> Guess | None:
        """Infers the secret from the view and from what the observer knows beside it; None without either."""


def guess_of(attack: Attack[Guess], view: View, public: PublicParameters, auxiliary: Auxiliary) -> Guess | None:
    """The guess of an attack, which is shown the auxiliary knowledge only if it states that it uses it."""
    if isinstance(attack, InformedAttack):
        return attack.infer_with(view, public, auxiliary)
    return attack.infer(view, public)
