"""How often each label occurs at all clients of FedVN together, from the sum of their summands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary, Card, InformedAttack, Material, Measurement, Reference
from fgl_secure.attacks.truth import Truth
from fgl_secure.attacks.virtual_node_estimate import Change, distance, label_shares, nearest_shares
from fgl_secure.attacks.virtual_node_labels import ALIKE
from fgl_secure.attacks.virtual_node_views import mean_states
from fgl_secure.runtime import PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import Interval

Floats = NDArray[np.float64]

POPULATION = "label shares of all"
"""Name of the secret float64 [C, 1]: how often each label occurs among all training graphs. One row a label, so that
the null control moves labels on."""

METRIC = "label shares of all, total variation"
DRAWS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class PopulationGuess:
    """How often each label is believed to occur at all clients together.

    Attributes:
        shares: float64 [rounds, C], by what the sum of each round says.
    """

    shares: Floats


class VirtualNodePopulation(InformedAttack[PopulationGuess]):
    """What all clients together did to the last bias, less what predictions add to that."""

    @property
    def card(self) -> Card:
        """The server alone, with the sum."""
        return Card(
            "virtual-node-population",
            "the server tells from the sum of the models how often each label occurs at all clients together",
            "LLG (Wainakh et al., PoPETs 2022) on the mean model of FedVN (AAAI 2025)",
            Role.SERVER,
            Secret.LABEL,
            Material.VIRTUAL_NODES,
            Reference.FEDVN_SKEWED,
            minimum=0.7,
            auxiliary="the model that it hands out, and how clients train it",
        )

    def infer_with(self, view: View, public: PublicParameters, auxiliary: Auxiliary) -> PopulationGuess | None:  # noqa: ARG002  # needs no parameter
        """Estimates round by round, as of one client of mean weight; None where targets are no labels."""
        layout = auxiliary.virtual_layout
        if layout is None or layout.work is None or layout.classes < 2:
            return None
        changes = [
            Change(mean.sent, mean.state, layout.work.steps(mean.weight))
            for mean in mean_states(view, layout)
            if mean.sent is not None
        ]
        found = [nearest_shares(label_shares([each], layout, layout.work)[0]) for each in changes]
        return PopulationGuess(np.stack(found)) if found else None

    def score(self, guess: PopulationGuess, truth: Truth) -> tuple[Measurement, ...]:
        """How much nearer the mean of the rounds is than even shares, with a bootstrap over rounds."""
        if POPULATION not in truth.extra:
            return ()
        actual = truth.extra[POPULATION][:, 0]
        even = float(distance(actual, np.full(len(actual), 1 / len(actual))))
        error = float(distance(guess.shares.mean(axis=0), actual))
        nothing = ", so there is next to nothing to find" if even <= ALIKE else ""
        finding = (
            f"The label shares of all clients together are told to {error:.3f} in total variation; even shares are "
            f"{even:.3f} off{nothing}."
        )
        rest = (len(guess.shares), 0.0, 0.0, even, False, finding)
        return (Measurement(METRIC, even - error, _bounds(guess.shares, actual, even), *rest),)


def _bounds(shares: Floats, actual: Floats, even: float) -> Interval:
    """The percentile bootstrap over rounds of what their mean gains; everything for a single round."""
    rounds = len(shares)
    if rounds == 1:
        return Interval(-1.0, 1.0)
    drawn = np.random.default_rng(0).integers(rounds, size=(DRAWS, rounds))
    gains = even - distance(shares[drawn].mean(axis=1), actual)
    low, high = np.percentile(gains, (2.5, 97.5))
    value = even - float(distance(shares.mean(axis=0), actual))  # means of fewer rounds lie further off
    return Interval(min(float(low), value), max(float(high), value))
