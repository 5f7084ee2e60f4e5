"""What the relay-coded scheme hides, from whom, and what it gives away."""

from __future__ import annotations

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.topology import Contributors
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

_OWN = "derived in docs/message_passing.md"
_MANY = 2**31
"""As many parties of a role as there are: every promise but the count of relays holds against all of them together."""


def claim_of(T: int, k_min: int, keys: KeyAgreement, contributors: Contributors, *, anonymous: bool) -> Claim:
    """The claim of a profile.

    Args:
        T: most relays that may pool their views.
        k_min: least messages of a sum that is computed.
        keys: how they are agreed on.
        contributors: which messages k_min counts.
        anonymous: whether silos carry rows and every device opens equally many circuits.
    """
    return Claim(
        _guarantees(T, k_min, anonymous=anonymous),
        (*_leaks(k_min, anonymous=anonymous), _leak_of_hosts(k_min, contributors, anonymous=anonymous)),
        _assumptions(keys, anonymous=anonymous),
    )


_LEAKS_OF_PARTNERS = (
    Leak(
        Secret.DEGREE,
        Role.DEVICE,
        Circumstance.ANY,
        "while partners are chosen a device learns of each neighbour whether it would rather have others, whether it "
        "has no room, and which of its neighbours have fewer than k_min partners",
    ),
    Leak(
        Secret.CROSS_EDGE,
        Role.DEVICE,
        Circumstance.ANY,
        "a device that is asked on behalf of a neighbour of its own learns that this neighbour has few partners, and "
        "that it knows the one that passed its request on; one that passes requests on learns of their ends whether "
        "they have at least k_min partners",
    ),
    Leak(
        Secret.EMBEDDING,
        Role.DEVICE,
        Circumstance.DROP_OUT,
        "after a device drops out sums are without its row: a receiver that sums the same rows before and after learns "
        "the difference",
    ),
)
"""What devices tell each other before the first sum, see `partners`, and what follows an opening without one of them.

Relays see a step only once silos have confirmed that it is complete.
"""


def _leak_of_hosts(k_min: int, contributors: Contributors, *, anonymous: bool) -> Leak:
    """What a silo learns whose devices one process hosts."""
    host = (
        "a process that hosts all devices of a silo, as on Flower, knows their rows, and can subtract them from a sum: "
    )
    if contributors is Contributors.ALL:
        left = (
            f"k_min = {k_min} counts them, so that the row of one device of another silo may be left "
            f"({Contributors.FOREIGN} counts rows of other silos alone)"
        )
    else:
        left = f"at least k_min = {k_min} rows of other silos are left, or none"
        left += "" if anonymous else "; fewer when devices drop out of the step"
    return Leak(Secret.EMBEDDING, Role.SILO, Circumstance.HOSTED_DEVICES, host + left)


def _guarantees(T: int, k_min: int, *, anonymous: bool) -> tuple[Guarantee, ...]:
    all_roles = {Role.RELAY: T, Role.SILO: _MANY, Role.DEVICE: _MANY, Role.SERVER: 1}
    silos, relays = {Role.SILO: _MANY, Role.SERVER: 1}, {Role.RELAY: T, Role.SERVER: 1}
    promises = [
        (Secret.EMBEDDING, all_roles, f"up to T = {T} relays, with any silos and devices but the sender, learn of "
            f"embeddings and gradients no more than the sums that those devices are entitled to, each over at least "
            f"{k_min} messages"),
        (Secret.PARAMETER_GRADIENT, all_roles,
            "a silo learns the sum of its devices' parameter gradients and no single one"),
        (Secret.FOREIGN_NODE, silos,
            "silos forward ciphertexts of one size, one a device and relay, and see no node of another silo"),
        (Secret.CROSS_EDGE, silos, "silos see no message that depends on an edge"),
        (Secret.DEGREE, silos, "silos see no count that depends on a device's neighbours"),
    ]  # fmt: skip
    if anonymous:
        promises += [
            (Secret.CROSS_EDGE, relays, "relays see D circuits of every group, whatever the graph, each via a silo "
                "that was drawn, and no sender; of a step that is not complete they see nothing"),
            (Secret.DEGREE, relays, "every device opens D circuits and every group has D, whatever its neighbours"),
        ]  # fmt: skip
    return tuple(Guarantee(secret, by, Strength.COMPUTATIONAL, text, _OWN) for secret, by, text in promises)


def _leaks(k_min: int, *, anonymous: bool) -> tuple[Leak, ...]:
    runs = ", or in several runs, each of which draws partners anew," if anonymous else ""
    at_target = [
        Leak(
            Secret.CROSS_EDGE,
            Role.DEVICE,
            Circumstance.ANY,
            "a device knows its own neighbours, and learns of each whether it has at least k_min neighbours itself",
        ),
        Leak(
            Secret.EMBEDDING,
            Role.DEVICE,
            Circumstance.SPARSE_SUM,
            f"an exact sum of sparse rows can be taken apart by the device that it is for: k_min = {k_min} and a "
            "projection before sending make that harder, noise prevents it",
        ),
        Leak(
            Secret.EMBEDDING,
            Role.DEVICE,
            Circumstance.REPEATED_SUM,
            f"a device that sums the same rows in several rounds{runs} over different senders learns the differences; "
            "a static layer must be summed once and kept",
        ),
    ]
    if anonymous:
        return (*at_target, *_LEAKS_OF_PARTNERS)
    at_relay = {
        Secret.DEGREE: "a relay sees how many messages each device sends",
        Secret.CROSS_EDGE: "a relay sees which devices send to one group; where the pattern is unique that reveals "
        "whose group it is, and so most edges",
        Secret.FOREIGN_NODE: "the same pattern tells which devices are neighbours across silos",
    }
    return (*at_target, *(Leak(secret, Role.RELAY, Circumstance.ANY, text) for secret, text in at_relay.items()))


_WATCHED = "channels are confidential and authenticated; who watches the network sees who talks to whom"


def _assumptions(keys: KeyAgreement, *, anonymous: bool) -> tuple[str, ...]:
    return (
        "parties are semi-honest; relays may fail, and fewer than half of those beyond T + 1 may lie in what they sum",
        "relays belong to different organisations, none of them a silo of the federation, and their keys are authentic",
        f"AES-256 in counter mode is a pseudo-random generator, {keys.words} with HKDF-SHA256 a key agreement",
        _WATCHED
        + (
            " while devices agree on partners and tell them pseudonyms, before circuits are opened" if anonymous else ""
        ),
        *(
            (
                "silos hand circuits on to silos that they draw, in random order, and give relays no step of which a "
                "row is missing; senders to a target of fewer than k_min partners send zero, as told",
                "the number of all edges is public where no max_degree is given",
                "relays and silos pool nothing that reveals who sends to whom: a silo knows whose the circuits are "
                "that it hands to relays for its own devices, one in as many as there are silos, as long as they stand",
            )
            if anonymous
            else ()
        ),
    )
