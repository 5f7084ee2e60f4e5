"""How often each label occurs at a client of FedVN, from its own summand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.truth import Truth
from fgl_secure.attacks.virtual_node_estimate import Change, distance, label_shares, mean_interval, nearest_shares
from fgl_secure.attacks.virtual_node_views import LocalWork, VirtualSlices, client_states
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import exact_proportion

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

LABEL_SHARES = "label shares"
"""Name of the secret float64 [clients, C]: how often each label occurs among a client's training graphs."""

SHARES = "label shares, total variation"
COMMONEST = "commonest label"

ALIKE = 0.05
"""Clients whose label shares are no further than this from those of all have next to nothing to be found out."""


@dataclass(frozen=True, slots=True, eq=False)
class ShareGuess:
    """How often each label is believed to occur.

    Attributes:
        clients: int64 [k], indices of silos.
        shares: float64 [k, C].
        rounds: most rounds that one of them was seen in.
    """

    clients: Ids
    shares: Floats
    rounds: int


class VirtualNodeLabels(InformedAttack[ShareGuess]):
    """What each client did to the last bias, less what predictions add to that."""

    @property
    def card(self) -> Card:
        """The server alone, with summands in the clear."""
        return Card(
            "virtual-node-labels",
            "the server tells from a client's model how often each label occurs there",
            "iDLG (Zhao et al. 2020) and LLG (PoPETs 2022) on the model of FedVN (AAAI 2025), as EC-LDA (2025) asks",
            Role.SERVER,
            Secret.LABEL_SHARES,
            Material.VIRTUAL_NODES,
            Reference.FEDVN_SKEWED,
            minimum=0.8,
            auxiliary="the model that it hands out, and how clients train it",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> ShareGuess | None:  # noqa: ARG002  # needs no parameter
        """Estimates, and takes the mean over the rounds; None where targets are no labels."""
        layout = auxiliary.virtual_layout
        if layout is None or layout.work is None or layout.classes < 2:
            return None
        clients, changes = _changes(view, layout, layout.work)
        if not changes:
            return None
        shares = label_shares(changes, layout, layout.work)
        found = [nearest_shares(shares[clients == client].mean(axis=0)) for client in np.unique(clients)]
        return ShareGuess(np.unique(clients), np.stack(found), int(np.bincount(clients).max()))

    def score(self, guess: ShareGuess, truth: Truth) -> tuple[Measurement, ...]:
        """How much nearer the shares are than the best that can be said of all clients alike; the commonest label."""
        if LABEL_SHARES not in truth.extra or not len(guess.clients):
            return ()
        actual = truth.extra[LABEL_SHARES]
        return (_of_shares(guess, actual), _of_commonest(guess, actual))


def _changes(view: View, layout: VirtualSlices, work: LocalWork) -> tuple[Ids, list[Change]]:
    """What each client did in each round of which the server knows what it had handed out, and which client it was."""
    clients, changes = [], []
    for seen in client_states(view, layout):
        if seen.sent is None:
            continue
        for client, state, weight in zip(seen.clients.tolist(), seen.states, seen.weights.tolist(), strict=True):
            clients.append(client)
            changes.append(Change(seen.sent, state[: layout.weight], work.steps(weight)))
    return np.array(clients, dtype=np.int64), changes


def _of_shares(guess: ShareGuess, actual: Floats) -> Measurement:
    """Against the better of even shares and of the mean over all clients."""
    own = actual[guess.clients]
    even = distance(own, np.full(actual.shape[1], 1 / actual.shape[1]))
    usual = distance(own, actual.mean(axis=0))
    without = even if even.mean() < usual.mean() else usual
    error = distance(own, guess.shares)
    gain = without - error
    nothing = ", so there is next to nothing to find" if without.mean() <= ALIKE else ""
    finding = (
        f"The label shares of {len(own):,} clients are told to {error.mean():.3f} in total variation; whoever says the "
        f"same of all is {without.mean():.3f} off{nothing}."
    )
    value, bounds = float(gain.mean()), mean_interval(gain)
    return Measurement(SHARES, value, bounds, len(own), 0.0, 0.0, float(without.mean()), False, finding)


def _of_commonest(guess: ShareGuess, actual: Floats) -> Measurement:
    """A client with several commonest labels counts whichever of them is named."""
    commonest = actual == actual.max(axis=1, keepdims=True)
    right = commonest[guess.clients, guess.shares.argmax(axis=1)]
    prior = float(commonest[guess.clients].mean(axis=0).max())
    share = exact_proportion(int(right.sum()), len(right))
    finding = f"Of {int(right.sum()):,} of {len(right):,} clients the commonest label is named."
    random = float(commonest[guess.clients].mean())
    return Measurement(COMMONEST, share.value, share.interval, share.n, random, prior, 1.0, True, finding)
