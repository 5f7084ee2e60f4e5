"""Attacks on the finished model of an audited run: by a client, by the server, and by an outsider who asks it.

They read what the model answers, which is the same under every scheme. An attacker that looks for training nodes also
has models of its own, which it trained as the method does, on training nodes that it drew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fgl_secure.attacks.base import FINISHED_MODEL, Attack, Card, DataSecret, InformedAttack, Measurement, Truth
from fgl_secure.attacks.outputs.links import Pairs, answer_distances, cosine, score_pairs
from fgl_secure.attacks.outputs.membership import LEAST, blind_scores, membership_scores, power_of
from fgl_secure.attacks.outputs.model_audit import ALONE, EDGES
from fgl_secure.graph import Graph
from fgl_secure.runtime import Directory, PublicParameters, Role, View
from fgl_secure.statistics.metrics import difference
from fgl_secure.typing import Flags, Floats, Ids

OVERFIT, LINKED = "a model that overfits", "a model of cliques"
"""Names of the runs that these attacks must break."""
FOR_LINKS = "answers about pairs"
"""Name of the answers [1, n, c] that are compared with each other; of membership they are called as the query is."""
RATE = 0.01
"""False-positive rate at which a true-positive rate is reported."""
TRAINS = "features, labels and edges of the nodes, how the method trains, and models that it trained itself"
_SOURCES = "LiRA (Carlini et al., S&P 2022, https://arxiv.org/abs/2112.03570) and RMIA (Zarifzadeh et al., ICML 2024, "
_SOURCES += "https://arxiv.org/abs/2312.03262), on models that the method trains in plaintext"
_STEALING = "He et al., USENIX Security 2021, https://arxiv.org/abs/2005.02131, attack"


@dataclass(frozen=True, slots=True, eq=False)
class ShadowAnswers:
    """What an attacker has of its own.

    Attributes:
        graph: features, labels and edges.
        members: bool [m, n], the training nodes of each of its models.
        answers: by query, float64 [m, n, c], what they answer.
    """

    graph: Graph
    members: Flags
    answers: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class MemberTruth(Truth):
    """The training nodes of the audited model, bool [n]."""

    members: Flags

    def permute(self, seed: int) -> Self:
        """See `Truth.permute`."""
        return replace(self, members=np.random.default_rng(seed).permutation(self.members))


@dataclass(frozen=True, slots=True, eq=False)
class LinkTruth(Truth):
    """Pairs of nodes with and without an edge, by kind, and the graph that they are of."""

    graph: Graph
    pairs: tuple[Pairs, ...]

    def permute(self, seed: int) -> Self:
        """See `Truth.permute`."""
        order = np.random.default_rng(seed).permutation(self.graph.num_nodes)
        return replace(self, pairs=tuple(replace(item, ends=order[item.ends]) for item in self.pairs))


@dataclass(frozen=True, slots=True, eq=False)
class MemberGuess:
    """Scores of nodes, higher for what looks more like a training node.

    Attributes:
        nodes: int64 [v].
        scores: by attack and query, float64 [v]; None where the graph alone is to tell.
        graph: what is known of the nodes.
    """

    nodes: Ids
    scores: Mapping[str, Floats | None]
    graph: Graph


class MembershipAttack(InformedAttack[MemberGuess, ShadowAnswers, MemberTruth]):
    """Which nodes was the model trained on?

    Args:
        name: of the attack.
        observer: who asks.
        queries: what it asks with.
        label_alone: whether the answer is a class without probabilities.
    """

    def __init__(self, name: str, observer: Role, queries: tuple[str, ...], *, label_alone: bool = False) -> None:
        self._queries, self._label_alone = queries, label_alone
        asks = "the class that the model gives each node" if label_alone else "the model's probabilities for each node"
        self._card = Card(
            name=name,
            summary=f"compares {asks} with models that were and were not trained on it",
            source=_SOURCES,
            observer=observer,
            secret=DataSecret.MEMBER,
            scenario=FINISHED_MODEL,
            control=OVERFIT,
            minimum=0.3,
            auxiliary=f"{TRAINS}; one question per node and query",
            truth=MemberTruth,
            knowledge=ShadowAnswers,
        )

    @property
    def card(self) -> Card:
        """See `Attack.card`."""
        return self._card

    def infer_with(self, view: View, public: PublicParameters, known: ShadowAnswers) -> MemberGuess | None:  # noqa: ARG002
        """See `InformedAttack.infer_with`."""
        labels, scores = known.graph.labels, dict[str, Floats | None]()
        nodes = np.flatnonzero(labels >= 0)
        for query in self._queries:
            for rows in view.own(query)[:1]:
                own, others = (self._log_probabilities(each, labels) for each in (rows.values[0], known.answers[query]))
                result = membership_scores(own[nodes], others[:, nodes], known.members[:, nodes])
                scores |= {f"{name}, {query}": result[name] for name in ("loss", "LiRA online", "RMIA")}
        return MemberGuess(nodes, scores, known.graph) if scores else None

    def _log_probabilities(self, answers: Floats, labels: Ids) -> Floats:
        if self._label_alone:
            right = (answers.argmax(axis=-1) == labels).astype(np.float64)
        else:
            right = answers[..., np.arange(len(labels)), np.maximum(labels, 0)]
        return np.asarray(np.log(np.maximum(right, LEAST)))

    def guess_without(self, guess: MemberGuess, known: ShadowAnswers, parties: Directory) -> MemberGuess:  # noqa: ARG002
        """A fit of degrees, labels and features to the membership of other nodes: it asks nothing."""
        return replace(guess, scores=dict.fromkeys(guess.scores))

    def score(self, guess: MemberGuess, truth: MemberTruth) -> tuple[Measurement, ...]:
        """Areas and, where answers have probabilities, true-positive rates at 1 % false positives."""
        return tuple(self._figures(guess, truth.members[guess.nodes]))

    def _figures(self, guess: MemberGuess, members: Flags) -> Iterator[Measurement]:
        inside, outside = int(members.sum()), int((~members).sum())
        if not inside or not outside:
            return
        for name, given in guess.scores.items():
            scores = blind_scores(guess.graph, guess.nodes, members, 0) if given is None else given
            power = power_of(scores, members, (RATE,))
            text = f"Training nodes are separated from others with an area under the curve of {power.auc:.3f} ({name})."
            yield Measurement.of_area(f"AUC, {name}", power.auc, power.auc_interval, min(inside, outside), text)
            if not self._label_alone:
                rate = power.rates[RATE]
                gain = difference(rate.tpr, inside, rate.fpr, outside)
                text = f"{100 * rate.tpr:.1f} % of training nodes are found at {100 * rate.fpr:.2f} % false positives."
                yield Measurement.of_advantage(f"TPR - FPR at 1 % FPR, {name}", gain, rate.fpr, text)


@dataclass(frozen=True, slots=True, eq=False)
class LinkGuess:
    """What pairs are scored by.

    Attributes:
        answers: float64 [n, c]; None where features alone are to tell.
        features: float64 [n, d]; None where the attacker has none.
    """

    answers: Floats | None
    features: Floats | None = None

    def score(self, pairs: Pairs) -> Floats:
        """Return float64 [k], higher for what looks more like an edge."""
        parts = [] if self.answers is None else [answer_distances(self.answers, pairs)]
        if self.features is not None:
            parts.append(cosine(self.features[pairs.ends[0]], self.features[pairs.ends[1]]))
        return np.asarray(sum(each / max(float(each.std()), 1e-12) for each in parts))


def _link_card(name: str, observer: Role, number: int, auxiliary: str, knowledge: type | None) -> Card:
    return Card(
        name=name,
        summary="takes nodes for neighbours whose answers" + (" and features" if auxiliary else "") + " are alike",
        source=f"{_STEALING} {number}",
        observer=observer,
        secret=DataSecret.LINK,
        scenario=FINISHED_MODEL,
        control=LINKED,
        minimum=0.3,
        auxiliary=auxiliary,
        truth=LinkTruth,
        knowledge=knowledge,
    )


def _link_figures(guess: LinkGuess, truth: LinkTruth) -> tuple[Measurement, ...]:
    out = []
    for pairs in truth.pairs:
        result, kind = score_pairs(guess.score(pairs), pairs, truth.graph), pairs.negatives
        text = f"Neighbours are separated from other pairs ({kind}) with an area under the curve of {result.auc:.3f}."
        prior, units = max(2 * result.baseline - 1, 0.0), int(pairs.linked.sum())
        out.append(Measurement.of_area(f"AUC, other pairs: {kind}", result.auc, result.interval, units, text, prior))
    return tuple(out)


class LinkAttack(Attack[LinkGuess, LinkTruth]):
    """Which nodes are neighbours? By answers alone."""

    card = _link_card("links-outsider", Role.OUTSIDER, 0, "", None)

    def infer(self, view: View, public: PublicParameters) -> LinkGuess | None:  # noqa: ARG002  # one signature
        """See `Attack.infer`."""
        rows = view.own(FOR_LINKS)
        return LinkGuess(rows[0].values[0]) if rows else None

    def score(self, guess: LinkGuess, truth: LinkTruth) -> tuple[Measurement, ...]:
        """Areas, beside the better of cosine of features and equal labels."""
        return _link_figures(guess, truth)


class InformedLinkAttack(InformedAttack[LinkGuess, ShadowAnswers, LinkTruth]):
    """Which nodes are neighbours? By answers and features."""

    card = _link_card("links-silo", Role.SILO, 2, "features of the nodes; one question per node", ShadowAnswers)

    def infer_with(self, view: View, public: PublicParameters, known: ShadowAnswers) -> LinkGuess | None:  # noqa: ARG002
        """See `InformedAttack.infer_with`."""
        rows = view.own(FOR_LINKS)
        return LinkGuess(rows[0].values[0], known.graph.features.astype(np.float64)) if rows else None

    def guess_without(self, guess: LinkGuess, known: ShadowAnswers, parties: Directory) -> LinkGuess:  # noqa: ARG002
        """By features alone."""
        return replace(guess, answers=None)

    def score(self, guess: LinkGuess, truth: LinkTruth) -> tuple[Measurement, ...]:
        """Areas, beside the better of cosine of features and equal labels."""
        return _link_figures(guess, truth)


ATTACKS: tuple[Attack[MemberGuess, MemberTruth] | Attack[LinkGuess, LinkTruth], ...] = (
    MembershipAttack("membership-silo", Role.SILO, (ALONE, EDGES)),
    MembershipAttack("membership-server", Role.SERVER, (ALONE, EDGES)),
    MembershipAttack("membership-outsider", Role.OUTSIDER, (EDGES,)),
    MembershipAttack("membership-labels", Role.OUTSIDER, (EDGES,), label_alone=True),
    InformedLinkAttack(),
    LinkAttack(),
)
