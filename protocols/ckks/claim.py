"""What sums under CKKS hide, from whom, and what they give away or do not give."""

from __future__ import annotations

from fgl_secure.protocols.pairwise_masking.scheme import sum_leaks
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


def shared_key_claim(colluding: int) -> Claim:
    """The claim of a key that clients share.

    Args:
        colluding: most clients that may pool their views, without the server, and still learn no more than the sum;
            0 where that is not known or not even one may.
    """
    server = Guarantee(
        Secret.SUMMAND,
        {Role.SERVER: 1},
        Strength.COMPUTATIONAL,
        "a server that colludes with no client learns of the vectors no more than one sum of at least `threshold` of "
        "them, whatever it sends: clients vote on roster and ciphertext before they open one, and refuse it where its "
        "tag is not the roster's; messages have the same sizes whatever the vectors are",
        f"{_SOURCE}; tags: Agrawal and Boneh (ACNS 2009)",
    )
    clients = Guarantee(
        Secret.SUMMAND,
        {Role.SILO: colluding},
        Strength.COMPUTATIONAL,
        f"up to {colluding} clients without the server learn of the others' vectors no more than the sum of at least "
        "two: they get no ciphertext of a single vector",
        "the sum's noise does not depend on its terms, and channels hide ciphertexts from other clients",
    )
    return Claim((server, clients) if colluding > 0 else (server,), _SHARED_LEAKS, _SHARED_ASSUMPTIONS)


_SHARED_LEAKS = sum_leaks("the server", "every client", "clients")

_SHARED_ASSUMPTIONS = (
    "the server colludes with no client: all clients hold the secret key, so any one of them and the server open every "
    "vector; neither a threshold of clients nor noise stands against that",
    "each client takes part in a sum once: two that go on from one state could vote for two sums",
    "a client that makes the key, or opens the sum wrongly, can spoil a sum: a wrong key is noticed by those it was "
    "sealed for, a wrong sum by its differing from that of `threshold` others",
    "keys of clients are authentic: the server forwards them as they are, or identities sign them",
    "CKKS is not IND-CPA-D (Li, Micciancio, EUROCRYPT 2021): a decryption that is handed on unrounded gives the key "
    "away; clients hand on rounded integers alone, whose error was proved to be below 1/2",
    "ring-LWE with ternary secrets, 128 bits or more by the Homomorphic Encryption Standard (2018)",
    "ciphertexts are not authenticated: channels are",
    "X25519 is a key agreement, HKDF-SHA256 a pseudo-random function, AES-256-GCM and AES-SIV authenticated encryption",
    "SEAL's generator and the operating system's entropy that seeds it",
)
