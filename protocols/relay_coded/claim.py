"""What the relay-coded scheme hides, from whom, and what it gives away."""

from __future__ import annotations

from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.protocols.partnering import Contributors
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

_OWN = "derived in docs/message_passing.md"
_MANY = 2**31
"""As many parties of a role as there are: every promise but the count of relays holds against all of them together."""


def claim_of(
    T: int, k_min: int, keys: KeyAgreement, contributors: Contributors, *, anonymous: bool, untold: bool = False
) -> Claim:
    """The claim of a profile.

    Args:
        T: most relays that may pool their views.
        k_min: least messages of a sum that is computed.
        keys: how they are agreed on.
        contributors: which messages k_min counts.
        anonymous: whether silos forward messages and everybody sends equally many.
        untold: whether no device tells another one tags.
    """
    return Claim(
        _guarantees(T, k_min, anonymous=anonymous, untold=untold),
        (*_leaks(k_min, anonymous=anonymous), _leak_of_hosts(k_min, contributors, anonymous=anonymous)),
        _assumptions(keys, anonymous=anonymous, untold=untold),
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
)
"""Of what devices tell each other before the first sum; see `partners`."""


_LEAKS_OF_DROP_OUTS = (
    Leak(
        Secret.DEGREE,
        Role.RELAY,
        Circumstance.DROP_OUT,
        "when a device drops out of a step, a relay counts the messages that are missing in other sums: as many as the "
        "device has partners",
    ),
    Leak(
        Secret.CROSS_EDGE,
        Role.RELAY,
        Circumstance.DROP_OUT,
        "when two devices drop out of a step together, and each of another step alone, a relay tells from these counts "
        "whether they are partners",
    ),
)
"""Relays see a step before anybody has found out that it is incomplete."""


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


def _guarantees(T: int, k_min: int, *, anonymous: bool, untold: bool) -> tuple[Guarantee, ...]:
    everybody = {Role.RELAY: T, Role.SILO: _MANY, Role.DEVICE: _MANY, Role.SERVER: 1}
    promises = [
        Guarantee(
            Secret.EMBEDDING,
            everybody,
            Strength.COMPUTATIONAL,
            f"up to T = {T} relays, with any silos and devices but the sender, learn of embeddings and gradients no "
            f"more than the sums that those devices are entitled to, each over at least {k_min} messages",
            _OWN,
        ),
        Guarantee(
            Secret.PARAMETER_GRADIENT,
            everybody,
            Strength.COMPUTATIONAL,
            "a silo learns the sum of its devices' parameter gradients and no single one",
            _OWN,
        ),
        Guarantee(
            Secret.FOREIGN_NODE,
            {Role.SILO: _MANY, Role.SERVER: 1},
            Strength.COMPUTATIONAL,
            "silos forward ciphertexts of one size, one a device and relay, and see no node of another silo",
            _OWN,
        ),
        Guarantee(
            Secret.CROSS_EDGE,
            {Role.SILO: _MANY, Role.SERVER: 1},
            Strength.COMPUTATIONAL,
            "silos see no message that depends on an edge",
            _OWN,
        ),
        Guarantee(
            Secret.DEGREE,
            {Role.SILO: _MANY, Role.SERVER: 1},
            Strength.COMPUTATIONAL,
            "silos see no count that depends on a device's neighbours",
            _OWN,
        ),
    ]
    if anonymous:
        promises += [
            Guarantee(
                secret,
                {Role.RELAY: T, Role.SERVER: 1},
                Strength.COMPUTATIONAL,
                what,
                _OWN,
            )
            for secret, what in (
                (
                    Secret.CROSS_EDGE,
                    f"relays see D messages {'of every sum' if untold else 'under every tag'}, whatever the graph, "
                    "each from a silo that was drawn, and no sender",
                ),
                (Secret.DEGREE, "everybody sends D messages in a pass and gets D, whatever its neighbours"),
            )
        ]
    return tuple(promises)


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
        return (*at_target, *_LEAKS_OF_PARTNERS, *_LEAKS_OF_DROP_OUTS)
    at_relay = [
        Leak(
            secret,
            Role.RELAY,
            Circumstance.ANY,
            statement,
        )
        for secret, statement in (
            (Secret.DEGREE, "a relay sees how many messages each device sends"),
            (
                Secret.CROSS_EDGE,
                "a relay sees which devices send under one tag and which silo fetches it; where the pattern is unique "
                "that tells whose tag it is, and so most edges",
            ),
            (Secret.FOREIGN_NODE, "the same pattern tells which devices are neighbours across silos"),
        )
    ]
    return (*at_target, *at_relay)


_ONE_WAY = (
    "; what Davies and Meyer's one-way function over AES-256 makes of secret words under other names looks random"
)
_WATCHED = "channels are confidential and authenticated; who watches the network "
_TOLD = _WATCHED + "between devices sees who talks to whom"
_UNTOLD = (
    _WATCHED
    + "sees who are neighbours while devices agree on partners, once before the first sum, and in sums nothing "
    "that depends on the graph: devices talk to their silos alone, all of them equally often"
)


def _assumptions(keys: KeyAgreement, *, anonymous: bool, untold: bool) -> tuple[str, ...]:
    return (
        "parties are semi-honest; relays may fail, and fewer than half of those beyond T + 1 may lie in what they sum",
        "relays belong to different organisations, none of them a silo of the federation, and their keys are authentic",
        f"AES-256 in counter mode is a pseudo-random generator, {keys.words} with HKDF-SHA256 a key agreement"
        + (_ONE_WAY if untold else ""),
        _UNTOLD if untold else _TOLD,
        *(
            (
                "silos hand on what they are given to silos that they draw, in random order; whoever sends to a target "
                "of fewer than k_min neighbours sends zero, as told, and relays answer for tags of which no message is "
                "missing",
                "the number of all edges is public where nobody says how many messages everybody sends",
                "relays and silos pool nothing that tells who sends to whom: a silo knows whose the messages are that "
                "it hands to relays for its own devices, one in as many as there are silos",
            )
            if anonymous
            else ()
        ),
    )
