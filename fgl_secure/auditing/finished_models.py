"""The finished model of an audited run as attacks read it, beside models that an attacker trains as the method does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np
from scipy import sparse

from fgl_secure.attacks.base import FINISHED_MODEL
from fgl_secure.attacks.outputs.finished import FOR_LINKS, LINKED, OVERFIT, LinkTruth, MemberTruth, ShadowAnswers
from fgl_secure.attacks.outputs.links import NEGATIVES, draw_pairs
from fgl_secure.attacks.outputs.model_audit import ALONE, EDGES
from fgl_secure.attacks.outputs.shadows import ShadowTraining, train_shadows
from fgl_secure.auditing.controls import Makers
from fgl_secure.auditing.plan import AuditPlan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.graph.federated_graph import within_silos
from fgl_secure.runtime import Directory, PublicParameters, Role, Step, Transcript
from fgl_secure.runtime.transcript import Private, PrivateBatch
from fgl_secure.training.loop import Progress
from fgl_secure.training.program import Program
from fgl_secure.typing import Floats

SHADOWS = 16
"""Models that the attacker trains."""
WHAT = "the finished model"

NOTE = (
    "Secure sums do not change what a finished model may reveal, and no scheme guarantees anything about it. Figures "
    "differ between schemes as far as a scheme fills or refuses sums. Attackers trained {shadows} models by the method "
    "itself, with sums in plaintext, on other training nodes. Noise in training bounds these figures."
)

Answers = Mapping[str, Floats]


class AnswersSeen:
    """Takes down what all silos' finished models answer: probabilities [n, c] by query."""

    def __init__(self) -> None:
        self.answers: Answers = {}

    def __call__(self, programs: tuple[Program, ...]) -> None:
        """Keep the answers of silos' programs; what is shown last counts."""
        parts = [program.answers() for program in programs if hasattr(program, "answers")]
        nodes = np.argsort(np.concatenate([program.silo.nodes for program in programs]))
        queries = [] if len(parts) < len(programs) else [query for query in parts[0] if all(query in p for p in parts)]
        self.answers = {query: np.concatenate([part[query] for part in parts])[nodes] for query in queries}


def trained_answers(subject: Subject, progress: Progress | None = None) -> Answers:
    """Train a subject for the answers of its finished model alone.

    Raises:
        InputError: its model does not classify nodes.
    """
    seen = AnswersSeen()
    subject.train(coins=SimulationCoins(subject.seed), shown=seen, progress=progress)
    if EDGES not in seen.answers:
        raise InputError(
            f"attack outputs must go with a method whose model classifies nodes; found {subject.method.name}"
        )
    return seen.answers


def other_split(graph: FederatedGraph, seed: int) -> FederatedGraph:
    """Return the graph with as many training, validation and test nodes, drawn anew among them."""
    masks = np.stack([graph.train_mask, graph.validation_mask, graph.test_mask])
    nodes = np.flatnonzero(masks.any(axis=0))
    drawn = np.zeros_like(masks)
    drawn[:, nodes] = masks[:, np.random.default_rng([seed, 4]).permutation(nodes)]
    train, validation, test = (read_only(mask) for mask in drawn)
    return replace(graph, train_mask=train, validation_mask=validation, test_mask=test)


@dataclass(frozen=True, slots=True, eq=False)
class ShadowModels:
    """Models of an attacker, and two of the auditor's: both trained as the method does, with sums in plaintext.

    Attributes:
        known: what the attacker has.
        clear: what the audited model would answer without a scheme.
        other: what a model of other training nodes answers, for null controls.
    """

    known: ShadowAnswers
    clear: Answers
    other: Answers


def train_shadow_models(subject: Subject, seed: int, progress: Progress | None = None) -> ShadowModels:
    """Train models beside a subject's; see `ShadowModels`.

    Args:
        subject: of an audit.
        seed: of splits, initial weights and whatever else is drawn.
        progress: called after each model.
    """
    trained = []
    for number in range(SHADOWS + 1):
        graph = other_split(subject.graph, seed + number)
        trained.append((graph.train_mask, trained_answers(subject.shadow(graph, seed + 1 + number))))
        if progress is not None:
            progress(number + 1, SHADOWS + 2)
    *shadows, (_, other) = trained
    members = np.stack([mask for mask, _ in shadows])
    answers = {query: np.stack([given[query] for _, given in shadows]) for query in other}
    clear = trained_answers(subject.shadow(subject.graph, subject.seed))
    return ShadowModels(ShadowAnswers(subject.graph.graph, members, answers), clear, other)


@dataclass(frozen=True, slots=True, eq=False)
class FinishedModel:
    """A finished model that is attacked like a recorded run.

    Attributes:
        subject: what was trained.
        answers: by query, float64 [n, c].
        about_pairs: float64 [n, c], answers that are compared for links.
        models: what is trained beside it.
    """

    subject: Subject
    answers: Answers
    about_pairs: Floats
    models: ShadowModels

    @classmethod
    def of(cls, subject: Subject, answers: Answers, models: ShadowModels) -> FinishedModel:
        """Return the model of a subject that gave these answers."""
        return cls(subject, answers, answers[EDGES], models)

    @property
    def name(self) -> str:
        """Of the run."""
        return self.subject.name

    @property
    def controls(self) -> Makers:
        """Runs that attacks on finished models must break."""
        return CONTROLS

    def unprotected(self) -> FinishedModel:
        """The model that the same training gives with sums in plaintext."""
        return FinishedModel.of(self.subject, self.models.clear, self.models)

    def independent(self, seed: int) -> FinishedModel:
        """The model of other training nodes; in answers about pairs the nodes have swapped places in their silos."""
        other = self.models.other
        return replace(self, answers=other, about_pairs=other[EDGES][within_silos(self.subject.graph.silo_of, seed)])

    def record_runs(self, seed: int) -> Iterator[RecordedRun]:
        """What attacks read of it."""
        graph = self.subject.graph
        truths = MemberTruth(graph.train_mask), link_truth(graph.graph, seed)
        yield recorded(
            self.name, {**self.answers, FOR_LINKS: self.about_pairs}, truths, self.models.known,
            self.subject.model_holders,
        )  # fmt: skip


class FinishedModels:
    """The finished models of an audit; subjects that differ in their schemes alone share what is trained beside them.

    Args:
        plan: of the audit.
        progress: given what is being done, in words, what to call after each model.

    Raises:
        InputError: the method's model does not classify nodes.

    Attributes:
        note: what a reader of the report should know.
    """

    note = NOTE.format(shadows=SHADOWS)

    def __init__(self, plan: AuditPlan, progress: Callable[[str], Progress] | None = None) -> None:
        self._seen: dict[str, AnswersSeen] = {}
        self._beside: dict[str, ShadowModels] = {}
        shared: dict[tuple[object, str], ShadowModels] = {}
        for subject in plan.subjects:
            like = subject.method, subject.shadow(subject.graph, 0).name
            if like not in shared:
                on_progress = progress(f"training models beside {subject.name}") if progress else None
                shared[like] = train_shadow_models(subject, plan.seed + 1, on_progress)
            self._beside[subject.name] = shared[like]

    def watch(self, subject: Subject) -> AnswersSeen:
        """Return what takes down the answers of a subject's model in training."""
        self._seen[subject.name] = AnswersSeen()
        return self._seen[subject.name]

    def model_of(self, subject: Subject) -> FinishedModel:
        """Return a subject's finished model, once it was trained."""
        return FinishedModel.of(subject, self._seen[subject.name].answers, self._beside[subject.name])


def link_truth(graph: Graph, seed: int) -> LinkTruth:
    """Return pairs with and without an edge, of each kind that the graph has."""
    pairs = []
    for kind in NEGATIVES:
        try:
            pairs.append(draw_pairs(graph, kind, seed=seed))
        except InputError:  # it has no edges, or no pairs of the kind
            continue
    return LinkTruth(graph, tuple(pairs))


def recorded(
    name: str,
    answers: Answers,
    truths: tuple[MemberTruth, LinkTruth],
    known: ShadowAnswers,
    holders: tuple[Role, ...] = (Role.SILO, Role.SERVER),
) -> RecordedRun:
    """Return answers as a recorded run: of one client, the server and an outsider, who get equal ones.

    Args:
        name: of the scheme.
        answers: by name.
        truths: for scoring.
        known: what attackers have of their own.
        holders: roles whose parties have the model.
    """
    parties = Directory({Role.SERVER: 1, Role.SILO: 1, Role.OUTSIDER: 1})
    private = []
    for role in (*holders, Role.OUTSIDER):
        owners = read_only(parties.ids(role))
        private += [
            PrivateBatch(Private.OUTPUT, query, Step(0, 0), owners, read_only(given[None]))
            for query, given in answers.items()
        ]
    transcript = Transcript(parties, private=private)
    return RecordedRun(name, WHAT, FINISHED_MODEL, PublicParameters(), transcript, truths, (known,))


def _control(graph: Graph, training: ShadowTraining) -> RecordedRun:
    models = train_shadows(graph, 16, training=training)
    own, known = {}, {}
    for query, given in ((ALONE, models.apart), (EDGES, models.joined)):
        known[query], own[query] = np.exp(given[:-1].astype(np.float64)), np.exp(given[-1].astype(np.float64))
    truths = MemberTruth(models.members[-1]), link_truth(graph, 0)
    known_models = ShadowAnswers(graph, models.members[:-1], known)
    return recorded("reference", {**own, FOR_LINKS: own[EDGES]}, truths, known_models)


@cache
def _overfit() -> RecordedRun:
    """Labels that nothing tells, which a model without regularisation has to remember."""
    rng, nodes = np.random.default_rng(0), 300
    graph = Graph.from_arrays(
        "reference", rng.standard_normal((nodes, 64)), rng.integers(0, 20, nodes), rng.integers(0, nodes, (2, 60))
    )
    return _control(graph, ShadowTraining(hidden=64, epochs=100, dropout=0.0, weight_decay=0.0))


@cache
def _linked() -> RecordedRun:
    """Cliques of four, some of them joined by an edge: the answers of neighbours are nearly equal."""
    rng, cliques = np.random.default_rng(0), 80
    clique = np.arange(4 * cliques) // 4
    inside = sparse.coo_array(clique[:, None] == clique[None, :])
    ends = np.stack(inside.coords).astype(np.int64)
    bridges = 4 * rng.permutation(cliques)[:20].reshape(2, -1)
    edges = np.concatenate([ends[:, ends[0] != ends[1]], bridges, bridges[::-1]], axis=1)
    labels = rng.integers(0, 8, cliques)[clique]
    graph = Graph.from_arrays("reference", rng.standard_normal((len(labels), 32)), labels, edges)
    return _control(graph, ShadowTraining(hidden=32, epochs=50))


CONTROLS: Makers = MappingProxyType({OVERFIT: _overfit, LINKED: _linked})
"""Runs that these attacks must break."""
