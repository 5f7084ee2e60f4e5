"""The cases: ten protocols with a published flaw, and five sound protocols.

A function of `subjects`, `schemes` or `mechanisms` makes each subject. Functions of flawed subjects take the repair as
an argument, with which tests show that the examination finds the flaw and not the adapter.
"""

from __future__ import annotations

from fgl_reproduction.known_flaws import mechanisms, schemes, subjects
from fgl_reproduction.known_flaws.case import FlawCase

_IDEAL = "ideal keys and links"

CASES = (
    FlawCase(
        "secmp",
        sound=False,
        flaw="senders of a silo share one mask, and a target gets T + 1 codes of each",
        source="HiFGL, Guo et al., KDD 2024, sections 4.1.2 and 5.1",
        scale="3 devices, 1 silo, over 2^31 - 1 as published here",
        subject=schemes.secret_message_passing,
    ),
    FlawCase(
        "fedml-lightsecagg-clear",
        sound=False,
        flaw="coded masks reach the clients via the server, unprotected",
        source="FedML's LightSecAgg, against So et al., MLSys 2022 (arXiv 2109.14236), algorithm 1",
        scale="3 clients, F_1997",
        subject=subjects.plaintext_codes,
    ),
    FlawCase(
        "fedml-lightsecagg-ramp",
        sound=False,
        flaw="the T blocks of noise in a code are zero, so that a code is a combination of the mask's parts",
        source="FedML's mask encoding, against So et al., MLSys 2022 (arXiv 2109.14236), section 4 and theorem 1",
        scale=f"4 clients, 2 parts, F_1997, {_IDEAL}",
        subject=subjects.codes_without_noise,
    ),
    FlawCase(
        "flower-secagg-plus",
        sound=False,
        flaw="seeds are folded to one word and expanded by a Mersenne Twister: fewer masks than vectors",
        source="Flower's SecAgg+, against Bonawitz et al., CCS 2017, section 3 (masks of a secure generator)",
        scale=f"2 clients; words of 3 bits instead of 32, vectors of 2 words, {_IDEAL}",
        subject=subjects.masks_from_short_seeds,
    ),
    FlawCase(
        "fedgraph-ckks",
        sound=False,
        flaw="all parties share one CKKS key: the server that adds up ciphertexts can decrypt each",
        source="FedGraph, Yao et al., arXiv 2410.06340, and its key in the package",
        scale="3 trainers; a ciphertext is a value under a pad known to holders of the key",
        subject=subjects.shared_ckks_key,
    ),
    FlawCase(
        "microsecagg",
        sound=False,
        flaw="masks are set up once and used in all rounds: each follows from the one before",
        source="Zhang et al., arXiv 2410.09676, on MicroSecAgg, Guo et al., PoPETs 2024",
        scale=f"3 clients, 2 rounds, in the exponent of a group of order 101, {_IDEAL}",
        subject=subjects.masks_set_up_once,
    ),
    FlawCase(
        "sparse-sums",
        sound=False,
        flaw="an entry with one contributor is unmasked, and reveals that client's value",
        source="Suimon et al., arXiv 2508.04285",
        scale=f"3 clients, vectors of 2 entries, F_101, {_IDEAL}",
        subject=subjects.sum_of_sparse_vectors,
    ),
    FlawCase(
        "two-participant-sets",
        sound=False,
        flaw="no consistency check: a server that announces two participant sets unmasks one client",
        source="Bonawitz et al., CCS 2017, section 6.2; Pasquini et al., CCS 2022, for inconsistent servers",
        scale=f"4 clients, 2 shares reveal a secret, F_101, {_IDEAL}",
        subject=subjects.two_participant_sets,
    ),
    FlawCase(
        "laplace-doubles",
        sound=False,
        flaw="Laplace noise in doubles: outputs have holes, whose positions depend on the count",
        source="Mironov, CCS 2012",
        scale="one count, epsilon 1, full double precision",
        subject=mechanisms.laplace_count,
    ),
    FlawCase(
        "node-embeddings",
        sound=False,
        flaw="noise covers a node's own embedding, while a node also changes those of its neighbours",
        source="the requirement of Xiang et al., arXiv 2311.06888 (IEEE S&P 2024), omitted",
        scale="a star of 10 nodes, features of one entry, epsilon 1, delta 1e-5",
        subject=mechanisms.node_embeddings,
    ),
    FlawCase(
        "bonawitz",
        sound=True,
        flaw="pairwise masks and double masking (`pairwise-masking`)",
        source="Bonawitz et al., CCS 2017, theorems 6.3 to 6.5",
        scale=f"5 clients, threshold 3, two drop out, F_31, {_IDEAL}",
        subject=schemes.pairwise_masking,
    ),
    FlawCase(
        "bell",
        sound=True,
        flaw="the same on a sparse graph (`pairwise-masking[degree=4]`)",
        source="Bell et al., CCS 2020, theorem 3.6",
        scale=f"6 clients with 4 neighbours each, 2 collude, two drop out, F_31, {_IDEAL}",
        subject=subjects.bell,
    ),
    FlawCase(
        "lightsecagg",
        sound=True,
        flaw="coded masks with noise, over sealed links (`lightsecagg`)",
        source="So et al., MLSys 2022 (arXiv 2109.14236), theorem 1",
        scale=f"5 clients, threshold 3, 2 collude, two drop out, F_31, {_IDEAL}",
        subject=schemes.lightsecagg,
    ),
    FlawCase(
        "shamir",
        sound=True,
        flaw="sums of Shamir shares",
        source="Shamir, CACM 1979; Ben-Or, Goldwasser and Wigderson, STOC 1988",
        scale="2 clients, 3 servers, 2 of them collude, F_5",
        subject=subjects.shamir,
    ),
    FlawCase(
        "relay-coded",
        sound=True,
        flaw="fresh masks and relays that add up shares (`relay-coded`)",
        source="docs/message_passing.md",
        scale="3 devices, 2 relays of which one colludes, k_min 2, F_13, ideal masks",
        subject=schemes.relay_coded,
    ),
)
"""Flawed cases first."""
