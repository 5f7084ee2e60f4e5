"""Protocols of `masked_sums` at the sizes of the catalogue, with the guarantees of their sources.

Each flawed protocol takes its repair as an argument.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np

from fgl_reproduction.known_flaws import masked_sums, schemes
from fgl_reproduction.known_flaws.case import Allowed, HidingProtocol
from fgl_reproduction.known_flaws.schemes import sum_to
from fgl_secure.runtime import Directory, Guarantee, Party, Role, Secret, Strength
from fgl_secure.testing import Protocol
from fgl_secure.testing.protocol import Inputs

SERVER = Party(Role.SERVER, 0)
_SERVER_SUM = sum_to(SERVER)


def plaintext_codes(*, sealed: bool = False) -> HidingProtocol:
    """Return LightSecAgg with codes that the server can read, unless sealed."""
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 1}, "So et al. 2022, theorem 1")
    run = partial(masked_sums.coded_masks, p=1997, threshold=2, colluding=1, noisy=True, sealed=sealed)
    return _hiding(run, 1997, (3, 1), guarantee)


def codes_without_noise(*, noisy: bool = False) -> HidingProtocol:
    """Return LightSecAgg with blocks of zeros in place of noise, unless noisy."""
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 1}, "So et al. 2022, theorem 1")
    run = partial(masked_sums.coded_masks, p=1997, threshold=3, colluding=1, noisy=noisy, sealed=True)
    return _hiding(run, 1997, (4, 2), guarantee)


def masks_from_short_seeds(*, folded: bool = True) -> HidingProtocol:
    """Return SecAgg+ with seeds folded to one word, or whole."""
    guarantee = _guarantee({Role.SERVER: 1}, "Bonawitz et al. 2017, theorem 6.3; Bell et al. 2020, theorem 3.6")
    return _hiding(partial(masked_sums.seeded_masks, modulus=8, folded=folded), 8, (2, 2), guarantee)


def shared_ckks_key(*, server_has_it: bool = True) -> HidingProtocol:
    """Return a sum of ciphertexts that trainers decrypt; a server with the key decrypts each ciphertext."""
    guarantees = (
        _guarantee({Role.SERVER: 1}, "FedGraph: the server adds up ciphertexts that it can't decrypt"),
        _guarantee({Role.SILO: 1}, "FedGraph: trainers get the sum"),
    )

    def allowed_knowledge(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        return tuple(values.sum(axis=0).tolist()) if coalition else None

    return _hiding(
        partial(masked_sums.one_key, p=101, server_has_it=server_has_it),
        101,
        (3, 1),
        *guarantees,
        allowed=allowed_knowledge,
    )


def masks_set_up_once(*, fresh: bool = False) -> HidingProtocol:
    """Return two rounds under the masks of the first round, or under fresh masks."""
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 1}, "MicroSecAgg, Guo et al. 2024: the sum of each round alone")
    return _hiding(partial(masked_sums.masks_set_up_once, p=101, fresh=fresh), 101, (3, 2), guarantee)


def sum_of_sparse_vectors(*, least: int = 0) -> HidingProtocol:
    """Return secure aggregation that unmasks every entry, or those with `least` contributors.

    The guarantee is that of arXiv 2508.04285: all clients learn which entries are unmasked. The server learns the
    number of contributors of each entry, and its sum if there are two or more.
    """
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 2}, "Suimon et al. 2025, for t = 2 contributors")

    def allowed_knowledge(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        counts = (values != 0).sum(axis=0)
        sums = np.where(counts >= 2, values.sum(axis=0), 0)
        unmasked = tuple((counts >= 2).tolist())
        return (unmasked, tuple(counts.tolist()), tuple(sums.tolist())) if SERVER in coalition else unmasked

    return _hiding(
        partial(masked_sums.sum_of_sparse, p=101, least=least), 101, (3, 2), guarantee, allowed=allowed_knowledge
    )


def two_participant_sets(*, compared: bool = False) -> HidingProtocol:
    """Return double masking under a server that tells two of four clients that the first has dropped out."""
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 1}, "Bonawitz et al. 2017, theorem 6.5: malicious servers")
    complete, reduced = (0, 1, 2, 3), (1, 2, 3)
    announced = {0: complete, 1: complete, 2: reduced, 3: reduced}
    run = partial(masked_sums.double_masking, p=101, threshold=2, announced=announced, compared=compared)
    return _hiding(run, 101, (4, 1), guarantee)


def bell(**parts: Any) -> HidingProtocol:
    """Return pairwise masking of six clients with four neighbours each, of which two collude with the server.

    The bound of Bell et al. is for many clients and does not cover six. Its requirements on the graph hold here: the
    two hold fewer shares than reveal a secret, and the others stay connected without them.

    Args:
        parts: arguments of the scheme for a negative control.
    """
    guarantee = _guarantee({Role.SERVER: 1, Role.SILO: 2}, "Bell et al. 2020, theorem 3.6, for a graph that is good")
    return schemes.pairwise_masking(6, 4, 4, (guarantee,), **parts)


def shamir(*, degree: int = 2) -> HidingProtocol:
    """Return a sum of Shamir shares: two clients share among three servers, and a device receives the sum.

    Args:
        degree: of polynomials; 2 servers may collude.
    """
    receiver = Party(Role.DEVICE, 0)
    parties = Directory({Role.SERVER: 3, Role.SILO: 2, Role.DEVICE: 1})
    guarantee = _guarantee({Role.SERVER: 2, Role.SILO: 1, Role.DEVICE: 1}, "Shamir 1979; Ben-Or et al. 1988, theorem 1")
    run = partial(masked_sums.shamir_sum, p=5, degree=degree)
    protocol = Protocol(run, parties, 5, parties.ids(Role.SILO))
    return HidingProtocol(protocol, (guarantee,), sum_to(receiver), np.zeros((2, 1), dtype=np.int64))


def _hiding(
    run: Any, modulus: int, shape: tuple[int, int], *guarantees: Guarantee, allowed: Allowed = _SERVER_SUM
) -> HidingProtocol:
    parties = masked_sums.parties(shape[0])
    protocol = Protocol(run, parties, modulus, parties.ids(Role.SILO))
    return HidingProtocol(protocol, guarantees, allowed, np.zeros(shape, dtype=np.int64))


def _guarantee(coalition: dict[Role, int], source: str) -> Guarantee:
    statement = "the coalition learns no more than the sum of the others' inputs"
    return Guarantee(Secret.SUMMAND, coalition, Strength.COMPUTATIONAL, statement, source)
