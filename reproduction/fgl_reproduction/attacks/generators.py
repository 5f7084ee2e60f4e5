"""Rows of features that gradients of a generator tell the client whose generator it is.

A client of FedSage+ has others work out how its r generated rows Y should change to be nearer to their nodes. The last
layer of its generator is linear in a hidden layer H [r, width] that it knows. With N the nearest rows elsewhere, the
gradients of that layer's weight and bias are [H, 1]^T D for D = 2 alpha (Y - N) / (r d). Where [H, 1] has
independent rows, which takes no more generated rows than the layer is wide, D follows and with it N: feature rows of
the client that answered, exactly. Of a sum over several clients only the mean of their nearest rows follows.

Where there are more rows, those that the system determines by itself are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Card, DataSecret, InformedAttack, Measurement, Truth
from fgl_secure.attacks.row_space import solver
from fgl_secure.runtime import Phase, PrivateRows, PublicParameters, Role, View
from fgl_secure.statistics.metrics import clustered_proportion
from fgl_secure.typing import Floats, Ids

GENERATORS = "gradients of generators"
"""Scenario: what clients of FedSage+ tell each other in a round for generators."""

FEDSAGE = "fedsage in the clear, few generated rows"
"""Control, as FedSage+ makes it."""


class Layers(NamedTuple):
    """The parameters of a generator, or a gradient of them.

    Attributes:
        weight: float64 [latent, width].
        bias: float64 [width].
        last: float64 [width, d].
        last_bias: float64 [d].
    """

    weight: Floats
    bias: Floats
    last: Floats
    last_bias: Floats


@dataclass(frozen=True, slots=True)
class GeneratorShape:
    """The widths of every client's generator, and how its gradients are sent.

    Attributes:
        latent: columns of what it generates from.
        width: of its hidden layer.
        features: d, columns of what it generates.
        fraction_bits: of the integers that gradients are rounded to.
        cross: what a client weighs the loss of another one with.
    """

    latent: int
    width: int
    features: int
    fraction_bits: int
    cross: float

    def layers(self, flat: Floats) -> Layers:
        """Parameters float [P], one after the other, as they belong together."""
        sizes = (self.latent * self.width, self.width, self.width * self.features, self.features)
        weight, bias, last, last_bias = np.split(np.asarray(flat, dtype=np.float64), np.cumsum(sizes)[:-1])
        return Layers(weight.reshape(self.latent, self.width), bias, last.reshape(self.width, self.features), last_bias)


@dataclass(frozen=True, slots=True, eq=False)
class ClientRows(Truth):
    """Feature rows, and who has them.

    Attributes:
        silo_of: int64 [n], the client of each node.
        features: float [n, d].
    """

    silo_of: Ids
    features: NDArray[Any]

    def permute(self, seed: int) -> ClientRows:  # noqa: ARG002  # clients move on by one
        """Every client's rows at the next client."""
        return replace(self, silo_of=(self.silo_of + 1) % (int(self.silo_of.max()) + 1))


CLOSE = 1e-2
"""Up to this relative distance a row counts as read: gradients are of single precision, and systems ill-conditioned."""

INPUTS, OWN_GENERATOR = "generator inputs", "own generator"
"""Names of what a client notes: what it generates from, float [r, latent], and its generator, float [1, P]."""
GRADIENT_SUM = "generator gradient sum"
"""Name of the sum over all others that it is left with, int64 [1, P]."""
SEVERAL = -1
"""In the place of a client where a claim is about a sum over several."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedRows:
    """Rows that clients claim others to have.

    Attributes:
        observers: int64 [k], index of the client that claims each.
        clients: int64 [k], whose row it is said to be; `SEVERAL` for a mean over several clients' rows.
        values: float64 [k, d].
    """

    observers: Ids
    clients: Ids
    values: Floats


class GeneratorGradientRows(InformedAttack[ClaimedRows, GeneratorShape, ClientRows]):
    """A client solves gradients of its own generator for the rows that it was measured against."""

    card = Card(
        "generator-gradient-rows",
        "a client solves the gradients of its generator for feature rows of the client that answered",
        "on FedSage+ (NeurIPS 2021, https://arxiv.org/abs/2106.13430) 4.3: gradients of a generator are sent so "
        "that no features are",
        Role.SILO,
        DataSecret.NODE_FEATURES,
        GENERATORS,
        FEDSAGE,
        minimum=0.95,
        auxiliary="the shape of generators, and its own one",
        truth=ClientRows,
        knowledge=GeneratorShape,
        page="reproduction/docs/fedsage.md",
        tells_nothing="widths say nothing of rows",
    )

    def infer_with(self, view: View, public: PublicParameters, known: GeneratorShape) -> ClaimedRows | None:  # noqa: ARG002  # needs no parameter
        """Solves the last layer's gradients, of each other client where they arrived apart and of the sum else."""
        inputs, own = _by_client(view, view.own(INPUTS)), _by_client(view, view.own(OWN_GENERATOR))
        answers = _answers(view)
        result = [
            (observer, client, rows)
            for observer, client, terms, gradient in answers
            if observer in inputs and observer in own
            for rows in [_estimate_rows(known.layers(own[observer][0]), inputs[observer], gradient, terms, known)]
        ]
        counts = [len(rows) for *_, rows in result]
        if not sum(counts):
            return None
        observers, clients = (np.repeat([item[index] for item in result], counts).astype(np.int64) for index in (0, 1))
        return ClaimedRows(observers, clients, np.concatenate([rows for *_, rows in result]))

    def score(self, guess: ClaimedRows, truth: ClientRows) -> tuple[Measurement, ...]:
        """The share of claimed rows that the named client has."""
        right, read = np.zeros(len(guess.values), dtype=np.bool_), np.zeros(len(truth.silo_of), dtype=np.bool_)
        for observer, client in set(zip(guess.observers.tolist(), guess.clients.tolist(), strict=True)):
            claims = np.flatnonzero((guess.observers == observer) & (guess.clients == client))
            theirs = np.flatnonzero(truth.silo_of != observer if client == SEVERAL else truth.silo_of == client)
            which, near = _match_claims(guess.values[claims], truth.features[theirs].astype(np.float64))
            right[claims[which]] = True
            read[theirs[near]] = True
        finding = (
            f"{int(right.sum()):,} of {len(right):,} rows that clients solve gradients for are feature rows of the "
            f"client that answered; rows of {int(read.sum()):,} of {len(read):,} nodes are read by some other client."
        )
        pairs = guess.observers * (int(truth.silo_of.max()) + 2) + guess.clients  # a gradient is solved as a whole
        share = clustered_proportion(right, pairs, seed=0)
        prior = _own_rows(guess, truth)
        return (Measurement("exact recovery", share.value, share.interval, share.n, 0.0, prior, 1.0, True, finding),)


def _by_client(view: View, noted: tuple[PrivateRows, ...]) -> dict[int, Floats]:
    """By index of a client what it noted in the first round, float64 [k, w]."""
    result: dict[int, Floats] = {}
    for batch in noted:
        clients = view.parties.index_of(batch.owners, Role.SILO)
        if batch.step.round == 0:
            result |= {
                int(client): np.asarray(batch.values[clients == client], dtype=np.float64) for client in set(clients)
            }
    return result


def _answers(view: View) -> list[tuple[int, int, int, NDArray[np.int64]]]:
    """Of the first round: observer, client that answered, how many terms there are, and the gradient in units [P]."""
    batches = [item for item in view.messages(Phase.VECTORS) if item.payload is not None and item.step.round == 0]
    answers = []
    for batch in batches:
        assert batch.payload is not None
        ends = (view.parties.index_of(item, Role.SILO).tolist() for item in (batch.receivers, batch.senders))
        answers += [(to, sender, 1, row) for to, sender, row in zip(*ends, batch.payload, strict=True)]
    if answers:
        return answers
    others = view.parties.counts[Role.SILO] - 1
    for noted in view.own(GRADIENT_SUM):
        if noted.step.round == 0:
            owners = view.parties.index_of(noted.owners, Role.SILO).tolist()
            answers += [(owner, SEVERAL, others, row) for owner, row in zip(owners, noted.values, strict=True)]
    return answers


def _estimate_rows(own: Layers, inputs: Floats, units: NDArray[np.int64], terms: int, shape: GeneratorShape) -> Floats:
    """The determined rows among the nearest ones, or their means over so many clients: float64 [k, d]."""
    hidden = np.maximum(inputs @ own.weight + own.bias, 0)
    rows = hidden @ own.last + own.last_bias
    gradient = shape.layers(np.ldexp(np.asarray(units, dtype=np.float64), -shape.fraction_bits))
    system = np.column_stack([hidden, np.ones(len(hidden))]).T
    solved = solver(system)
    change = solved.weights @ np.vstack([gradient.last, gradient.last_bias])
    apart = change * rows.size / (2 * shape.cross * terms)
    return np.asarray(rows[solved.unknowns] - apart)


def _match_claims(claims: Floats, rows: Floats) -> tuple[Ids, Ids]:
    """Which claims [k, d] are rows [n, d], and of which rows, both ascending by claim."""
    squares = np.square(rows).sum(axis=1)
    near = (squares - 2 * claims @ rows.T).argmin(axis=1)
    off = np.linalg.norm(claims - rows[near], axis=1)
    which = np.flatnonzero(off <= CLOSE * np.sqrt(squares[near]))
    return which, near[which]


def _own_rows(guess: ClaimedRows, truth: ClientRows) -> float:
    """The share of right claims of those who claim rows of their own: what clients have in common."""
    _, kinds = np.unique(truth.features, axis=0, return_inverse=True)
    pairs, counts = np.unique(np.stack([guess.observers, guess.clients]), axis=1, return_counts=True)
    shares = []
    for observer, client in pairs.T.tolist():
        theirs = truth.silo_of != observer if client == SEVERAL else truth.silo_of == client
        shares.append(float(np.isin(kinds[truth.silo_of == observer], kinds[theirs]).mean()))
    return float(np.average(shares, weights=counts))
