"""What sums under CKKS hide, from whom, and what they give away or do not give."""

from __future__ import annotations

from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength

_SOURCE = "semantic security of CKKS under ring-LWE (Cheon, Kim, Kim, Song, ASIACRYPT 2017, Lemma 2)"

RECEIVER_KEY_CLAIM = Claim(
    guarantees=(
        Guarantee(
            Secret.SUMMAND,
            {Role.SERVER: 1},
            Strength.COMPUTATIONAL,
            "the server that adds sees ciphertexts, and learns how many entries they may hold, the bound and who sent "
            "them, which are agreed beforehand; every message has the same size",
            _SOURCE,
        ),
        Guarantee(
            Secret.SUMMAND,
            {Role.SILO: 1},
            Strength.COMPUTATIONAL,
            "the receiver gets one sum and noise that doesn't depend on its terms; a sender gets the public key",
            _SOURCE,
        ),
    ),
    leaks_by_design=(
        Leak(
            Secret.SUMMAND,
            Role.SILO,
            Circumstance.SPARSE_SUM,
            "the sum is exact: where one sender alone has entries, they are its term's",
        ),
    ),
    assumptions=(
        "ring-LWE with ternary secrets, 128 bits or more by the Homomorphic Encryption Standard (2018)",
        "parties are semi-honest; aggregator and receiver don't collude, or they see every term",
        "a receiver that hands an unrounded decryption onward gives its key away (Li, Micciancio, EUROCRYPT 2021)",
        "a receiver that knows all terms but one subtracts them: with two senders, either of them and the receiver",
        "ciphertexts are not authenticated: channels are",
        "SEAL's generator and the operating system's entropy that seeds it",
    ),
)
