"""What coded products hide, from whom, and what they rest on."""

from __future__ import annotations

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

_MANY = 2**31
_OWN = "derived in docs/message_passing.md, after Yu et al. 2019 and Cramer, Damgard and Ishai 2005"


def products_claim(T: int, R: int, k_min: int, keys: KeyAgreement) -> Claim:
    """The claim for sums of products of devices' rows, for their silos.

    Args:
        T: most relays that may pool their views.
        R: relays.
        k_min: least devices of a sum that is computed.
        keys: how they are agreed on.
    """
    coalition = {Role.RELAY: T, Role.SILO: _MANY, Role.DEVICE: _MANY, Role.SERVER: 1}
    promise = Guarantee(
        Secret.PARAMETER_GRADIENT,
        coalition,
        Strength.COMPUTATIONAL,
        f"a silo, with up to T = {T} relays and other silos and devices, learns of its devices' parameter gradients "
        f"the sum over at least {k_min} of them, and of the rows whose products they are no more",
        _OWN,
    )
    liars = (R - 2 * T - 1) // 2
    lying = (
        f"up to {liars} of R = {R} relays answer with wrong products, whom silos name"
        if liars
        else f"R = {R} relays answer with what they worked out: to name one that does not takes {2 * T + 3} relays"
    )
    known = Leak(
        Secret.PARAMETER_GRADIENT,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "the sum X^T D is exact, coded or dense: a silo that knows its devices' input rows X from elsewhere, and has "
        "no more devices than rows have entries, solves it for each device's D",
    )
    return Claim(
        (promise,),
        (known,),
        (
            f"relays share keys by sets of R - T = {R - T}, told by the first of each over a confidential channel, and "
            f"hear of each other whose shares they hold; {lying}",
            "how many bits input rows have behind the binary point, where they are few, is known to everybody like how "
            "long they are, and so is how long messages are",
            f"AES-256 in counter mode is a pseudo-random generator, {keys.words} with HKDF-SHA256 a key agreement",
        ),
    )
