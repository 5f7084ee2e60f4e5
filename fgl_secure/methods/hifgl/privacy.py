"""Differential privacy of embeddings: calibrated before training, measured after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fgl_secure.auditing import privacy_cost
from fgl_secure.auditing.privacy_cost import Measured
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.dp import Perturbation, PrivacyTarget, Relation, Unit
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.perturbed import Perturbed, hidden_messages
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Role, Step
from fgl_secure.statistics.lower_bounds import gaussian_bound
from fgl_secure.training.presets import Preset

if TYPE_CHECKING:
    from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy


@dataclass(frozen=True, slots=True, eq=False)
class CanaryScores:
    """What the readers of the sums make of them; higher speaks for a canary.

    Attributes:
        present: float64 [n], scores of stars with a canary.
        absent: float64 [n], scores of stars without one.
    """

    present: NDArray[np.float64]
    absent: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Stars:
    """Stars that touch nobody else: one sender, its targets, and the other senders of each target.

    Attributes:
        count: how many stars.
        fan: targets of each star: the messages that the unit of the claim has.
        senders: messages of each sum, the star's own included.
    """

    count: int
    fan: int
    senders: int

    @property
    def devices(self) -> int:
        """All of them: first the stars' own senders, then the targets, then the other senders."""
        return self.count * (1 + self.fan * self.senders)

    def grouping(self, parties: Directory) -> Grouping:
        """Rows of all devices, and a sum for every target."""
        devices, targets = parties.ids(Role.DEVICE), self.count * self.fan
        group = np.arange(targets)
        others = np.arange(self.count + targets, self.devices)
        source = np.concatenate([group // self.fan, others])
        target = np.concatenate([group, np.repeat(group, self.senders - 1)])
        owners, silo = devices[self.count : self.count + targets], parties.ids(Role.SILO)[0]
        custodians = np.full(self.devices, silo)
        return Grouping(devices, owners, source, target, custodians, custodians[:targets])


def canary_scores(scheme: Perturbed, coins: Coins, *, stars: int) -> CanaryScores:
    """Runs all releases of the scheme's target on disjoint stars and scores what each star's targets decode.

    Every second star carries a canary: its sender sends C e_1, with the sign changed from release to release, to as
    many targets as the claim's unit has messages. All other rows are zero, and every sum has `honest` senders. Since
    that is the largest change the claim allows, the matched filter (the signed sum of all decoded first coordinates)
    is the best test, and distinguishes stars with and without a canary as well as the claimed noise permits. The
    changing sign finds noise that is used twice: it cancels between releases.

    Args:
        scheme: under audit; its inner scheme must answer groups of `honest` messages.
        coins: for the noise and the inner scheme.
        stars: how many stars, even.
    """
    if stars < 2 or stars % 2:
        raise InputError(f"stars must be an even number, at least 2; found {stars}")
    settings = scheme.settings
    shape = _Stars(stars, settings.target.relation.messages, settings.honest)
    parties = Directory.hierarchy(1, shape.devices, scheme.helpers.get(Role.RELAY, 0))
    session = Collective(scheme, Topology(NEIGHBOURS, shape.grouping(parties), 1), Channel(parties, coins))
    canary = np.zeros((shape.devices, 1))
    canary[:stars:2] = settings.clip
    scores = np.zeros(stars)
    for release in range(settings.target.releases):
        sign = 1 - 2 * (release % 2)
        sums = session.sum(sign * canary, Step(release, 0))
        scores += sign * sums[:, 0].reshape(stars, shape.fan).sum(axis=1)
    return CanaryScores(scores[::2].copy(), scores[1::2].copy())


def releases(preset: Preset, rounds: int) -> int:
    """Grouped sums of that many rounds: layers forward and backward, scoring passes, and the last models' pass."""
    changing = preset.layers - preset.static_first_layer
    passes = 3 if preset.dropout else 2
    return preset.static_first_layer + rounds * passes * changing + changing


def perturbed(scheme: Scheme, choice: EmbeddingPrivacy, preset: Preset, graph: FederatedGraph) -> Perturbed:
    """A scheme with noise for a choice.

    Raises:
        InputError: no noise reaches the target, or it does not fit the scheme; the message has the figures.
    """
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    count = releases(preset, min(choice.rounds or preset.epochs, preset.epochs))
    target = PrivacyTarget(choice.epsilon, choice.delta, Relation(Unit[choice.unit.upper()], choice.cap), count)
    settings = Perturbation.calibrated(
        target,
        clip=choice.clip,
        width=max(widths),  # an audit exchanges whole feature rows too
        honest=hidden_messages(scheme),
    )
    bound = getattr(scheme, "bound", None) if "bound" in scheme.parameters else None
    if bound is not None and bound < settings.largest:
        scheme = replace(scheme, bound=settings.largest)  # type: ignore[type-var]  # schemes are dataclasses
    return Perturbed(scheme, settings)


def measured(scheme: Perturbed, seed: int) -> Measured:
    """Plays canaries against a scheme and says what they rule out."""
    settings = scheme.settings
    scores = canary_scores(scheme, SimulationCoins(seed), stars=2 * privacy_cost.CANARIES)
    bound = gaussian_bound(scores.present, scores.absent, delta=settings.target.delta)
    return Measured(settings.epsilon(scheme.shares), "privacy loss distributions", bound)
