"""What HiFGL promises of Secret Message Passing, in its own words (KDD 2024, sections 3.3, 4.1.1, 4.2.3 and 5.1)."""

from __future__ import annotations

from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

PUBLISHED_CLAIM = Claim(
    guarantees=(
        Guarantee(
            Secret.EMBEDDING,
            {Role.DEVICE: 1},
            Strength.PERFECT,
            "a device cannot decode the embedding of a neighbour from the codes it receives",
            "HiFGL 5.1, node-level privacy, Eq. 5 and Lemma 5.1",
        ),
        Guarantee(
            Secret.EMBEDDING,
            {Role.SILO: 1},
            Strength.PERFECT,
            "a silo decodes sums and cannot know the raw embedding of a neighbour",
            "HiFGL 4.2.3 step 2 and 5.1",
        ),
        Guarantee(
            Secret.FOREIGN_NODE,
            {Role.SILO: 1},
            Strength.PERFECT,
            "0 % subgraph-level privacy is leaked: no silo sees a node of another silo",
            "HiFGL 5.1, subgraph-level privacy, measured by A.1, Eq. 6",
        ),
        Guarantee(
            Secret.CROSS_EDGE,
            {Role.SILO: 1},
            Strength.PERFECT,
            "cross-silo edges are known to their two devices only",
            "HiFGL 4.1.1 and 5.1",
        ),
    ),
    leaks_by_design=(
        Leak(
            Secret.EMBEDDING,
            Role.DEVICE,
            Circumstance.SINGLE_NEIGHBOUR,
            "a device with one neighbour gets that neighbour's embedding as its sum (4.2.3, last paragraph)",
        ),
    ),
    assumptions=(
        "all parties are semi-honest (3.3)",
        "z is uniform (4.1.2); that it must also be fresh and secret is not said",
        "senders are anonymous to receivers and devices run in a trusted execution environment (4.2.3)",
    ),
)
