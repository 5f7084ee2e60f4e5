"""What federated averaging promises under each scheme, and what it gives away."""

from __future__ import annotations

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.methods.fedavg.training import UpdateRule
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.training.server_sums import promises

SUM_LEAKS = (
    Leak(
        Secret.LABEL,
        Role.SERVER,
        Circumstance.ANY,
        "the sum of the updates is exact and tells how often each label is trained on, by all clients together",
    ),
    Leak(
        Secret.TRAINING_NODE,
        Role.SERVER,
        Circumstance.ANY,
        "whoever knows a node's features can tell from the sum whether some client trains on it or next to it; whose "
        "node it is, the sum does not say",
    ),
    Leak(
        Secret.NODE_FEATURES,
        Role.SERVER,
        Circumstance.ANY,
        "where the batches of all clients together are small, rows can be read from their sum",
    ),
)
"""What a sum tells, whatever computes it."""


def claim_of(rule: UpdateRule, clients: int) -> Claim:
    """The claim of a run.

    Args:
        rule: how updates become their mean; in the clear it promises nothing.
        clients: how many there are.
    """
    inner = promises(rule.scheme, clients)
    if inner is None:
        return Claim((), (), ())
    private = () if rule.noise is None else (_private(rule.noise),)
    return Claim((*inner.guarantees, *private), (*inner.leaks_by_design, *SUM_LEAKS), inner.assumptions)


def _private(noise: DistributedNoise) -> Guarantee:
    """Leaks of the sum stay declared beside it: an epsilon of several rounds and few clients hides no batch."""
    return Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1},
        Strength.DIFFERENTIAL_PRIVACY,
        f"({noise.epsilon:.4g}, {noise.delta:g})-differential privacy of one client's updates, present or all zero, "
        f"over {noise.rounds} rounds",
        "Kairouz, Liu and Steinke (ICML 2021), Theorem 1",
    )
