"""Differential privacy as a choice of a run: calibrated before training, measured after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import Perturbation, PrivacyTarget, Relation, Unit
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.canaries import canary_scores
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.statistics.lower_bounds import EpsilonLowerBound, gaussian_bound
from fgl_secure.training.presets import Preset

CANARIES = 1000
"""Stars with and stars without a canary, each, behind a lower bound."""


@dataclass(frozen=True, slots=True)
class PrivacyChoice:
    """What the messages of a run may tell.

    Attributes:
        epsilon: of all rounds together.
        delta: of all rounds together.
        unit: what two neighbouring inputs differ in.
        clip: C, the L2 norm to which rows are clipped.
        cap: most messages that a device may send in one pass, for unit NODE; a run refuses devices beyond it.
        rounds: rounds that the budget is made for, after which training stops; None for all of the run's.
    """

    epsilon: float
    delta: float = 1e-5
    unit: Unit = Unit.EDGE
    clip: float = 1.0
    cap: int | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"dp-rounds must be at least 1; found {self.rounds}")


@dataclass(frozen=True, slots=True)
class Measured:
    """A claimed epsilon and the evidence that stands beside it.

    Attributes:
        claimed: the accountant's epsilon of a whole budget, at the target's delta.
        accountant: what computed it.
        bound: the largest epsilon that canaries rule out.
    """

    claimed: float
    accountant: str
    bound: EpsilonLowerBound


def releases(preset: Preset, rounds: int) -> int:
    """Grouped sums of that many rounds: layers forward and backward, scoring passes, and the last models' pass."""
    changing = preset.layers - preset.static_first_layer
    passes = 3 if preset.dropout else 2
    return preset.static_first_layer + rounds * passes * changing + changing


def perturbed(scheme: Scheme, choice: PrivacyChoice, preset: Preset, graph: FederatedGraph) -> Perturbed:
    """A scheme with noise for a choice.

    Raises:
        InputError: no noise reaches the target, or it does not fit the scheme; the message has the figures.
    """
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    count = releases(preset, min(choice.rounds or preset.epochs, preset.epochs))
    target = PrivacyTarget(choice.epsilon, choice.delta, Relation(choice.unit, choice.cap), count)
    hiding = isinstance(scheme, RelayCoded)
    settings = Perturbation.calibrated(
        target,
        clip=choice.clip,
        width=max(widths),  # an audit exchanges whole feature rows too
        honest=scheme.minimum_group if hiding else 1,
    )
    if isinstance(scheme, RelayCoded | SecretMessagePassing) and scheme.bound < settings.largest:
        scheme = replace(scheme, bound=settings.largest)
    return Perturbed(scheme, settings)


def measured(scheme: Perturbed, seed: int) -> Measured:
    """Plays canaries against a scheme and says what they rule out."""
    settings = scheme.settings
    scores = canary_scores(scheme, SimulationCoins(seed), stars=2 * CANARIES)
    bound = gaussian_bound(scores.present, scores.absent, delta=settings.target.delta)
    return Measured(settings.epsilon(scheme.shares), "privacy loss distributions", bound)
