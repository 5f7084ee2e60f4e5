"""Differential privacy of embeddings: calibrated before training, measured after it."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.auditing import privacy_cost
from fgl_secure.auditing.privacy_cost import Measured
from fgl_secure.coins import SimulationCoins
from fgl_secure.dp import Perturbation, PrivacyTarget, Relation, Unit
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.canaries import canary_scores
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from fgl_secure.protocols.perturbed import Perturbed
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.statistics.lower_bounds import gaussian_bound
from fgl_secure.training.presets import Preset


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
    hiding = isinstance(scheme, RelayCoded)
    settings = Perturbation.calibrated(
        target,
        clip=choice.clip,
        width=max(widths),  # an audit exchanges whole feature rows too
        honest=least_group(scheme) if hiding else 1,
    )
    if isinstance(scheme, RelayCoded | SecretMessagePassing) and scheme.bound < settings.largest:
        scheme = replace(scheme, bound=settings.largest)
    return Perturbed(scheme, settings)


def measured(scheme: Perturbed, seed: int) -> Measured:
    """Plays canaries against a scheme and says what they rule out."""
    settings = scheme.settings
    scores = canary_scores(scheme, SimulationCoins(seed), stars=2 * privacy_cost.CANARIES)
    bound = gaussian_bound(scores.present, scores.absent, delta=settings.target.delta)
    return Measured(settings.epsilon(scheme.shares), "privacy loss distributions", bound)
