"""Protocols of `masked` at the sizes in which they are shown, with the promises of their sources.

An argument of each flawed one is its repair.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np

from fgl_secure.museum import masked, schemes
from fgl_secure.museum.exhibit import Allowed, Hiding
from fgl_secure.museum.schemes import sum_to
from fgl_secure.runtime import Directory, Guarantee, Party, Role, Secret, Strength
from fgl_secure.testing import Protocol
from fgl_secure.testing.protocol import Inputs

SERVER = Party(Role.SERVER, 0)
_SERVER_SUM = sum_to(SERVER)


def codes_in_the_clear(*, sealed: bool = False) -> Hiding:
    """LightSecAgg with codes that the server can read, unless sealed."""
    promise = _promise({Role.SERVER: 1, Role.SILO: 1}, "So et al. 2022, theorem 1")
    run = partial(masked.coded_masks, p=1997, threshold=2, colluding=1, noisy=True, sealed=sealed)
    return _hiding(run, 1997, (3, 1), promise)


def codes_without_noise(*, noisy: bool = False) -> Hiding:
    """LightSecAgg with blocks of zeros where noise is due, unless noisy."""
    promise = _promise({Role.SERVER: 1, Role.SILO: 1}, "So et al. 2022, theorem 1")
    run = partial(masked.coded_masks, p=1997, threshold=3, colluding=1, noisy=noisy, sealed=True)
    return _hiding(run, 1997, (4, 2), promise)


def masks_from_short_seeds(*, folded: bool = True) -> Hiding:
    """SecAgg+ with seeds folded to one word, or whole."""
    promise = _promise({Role.SERVER: 1}, "Bonawitz et al. 2017, theorem 6.3; Bell et al. 2020, theorem 3.6")
    return _hiding(partial(masked.seeded_masks, modulus=8, folded=folded), 8, (2, 2), promise)


def one_key_for_everybody(*, server_has_it: bool = True) -> Hiding:
    """A sum of ciphertexts, of which trainers decrypt the sum, and the server each where it has the key."""
    promises = (
        _promise({Role.SERVER: 1}, "FedGraph: the server adds up what it can't read"),
        _promise({Role.SILO: 1}, "FedGraph: trainers get the sum"),
    )

    def allowed(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        return tuple(values.sum(axis=0).tolist()) if coalition else None

    return _hiding(partial(masked.one_key, p=101, server_has_it=server_has_it), 101, (3, 1), *promises, allowed=allowed)


def masks_set_up_once(*, fresh: bool = False) -> Hiding:
    """Two rounds under the masks of the first, or under fresh ones."""
    promise = _promise({Role.SERVER: 1, Role.SILO: 1}, "MicroSecAgg, Guo et al. 2024: the sum of each round alone")
    return _hiding(partial(masked.masks_set_up_once, p=101, fresh=fresh), 101, (3, 2), promise)


def sum_of_sparse_vectors(*, least: int = 0) -> Hiding:
    """Secure aggregation that opens every entry, or those with `least` contributors.

    The promise is that of 2508.04285: all learn which entries are opened, and the server, of each how many clients
    contribute to it, and its sum where two or more do.
    """
    promise = _promise({Role.SERVER: 1, Role.SILO: 2}, "Suimon et al. 2025, for t = 2 contributors")

    def allowed(values: Inputs, coalition: tuple[Party, ...]) -> Hashable:
        counts = (values != 0).sum(axis=0)
        sums = np.where(counts >= 2, values.sum(axis=0), 0)
        opened = tuple((counts >= 2).tolist())
        return (opened, tuple(counts.tolist()), tuple(sums.tolist())) if SERVER in coalition else opened

    return _hiding(partial(masked.sum_of_sparse, p=101, least=least), 101, (3, 2), promise, allowed=allowed)


def two_rosters(*, compared: bool = False) -> Hiding:
    """Double masking under a server that tells two of four clients that the first one is gone."""
    promise = _promise({Role.SERVER: 1, Role.SILO: 1}, "Bonawitz et al. 2017, theorem 6.5: servers that depart from it")
    everybody, without = (0, 1, 2, 3), (1, 2, 3)
    told = {0: everybody, 1: everybody, 2: without, 3: without}
    run = partial(masked.double_masking, p=101, threshold=2, told=told, compared=compared)
    return _hiding(run, 101, (4, 1), promise)


def bell(**parts: Any) -> Hiding:
    """Pairwise masking of six clients with four neighbours each, of which two collude with the server.

    The bound of Bell et al. is for many clients and says nothing of six; what it needs of the graph is so for these:
    the two hold fewer shares than open a secret, and the others stay connected without them.

    Args:
        parts: of the scheme, where a flaw is put in.
    """
    promise = _promise({Role.SERVER: 1, Role.SILO: 2}, "Bell et al. 2020, theorem 3.6, for a graph that is good")
    return schemes.pairwise_masking(6, 4, 4, (promise,), **parts)


def shamir(*, degree: int = 2) -> Hiding:
    """Two clients share among three servers, and a device gets the sum.

    Args:
        degree: of polynomials; 2 servers may collude.
    """
    receiver = Party(Role.DEVICE, 0)
    parties = Directory({Role.SERVER: 3, Role.SILO: 2, Role.DEVICE: 1})
    promise = _promise({Role.SERVER: 2, Role.SILO: 1, Role.DEVICE: 1}, "Shamir 1979; Ben-Or et al. 1988, theorem 1")
    run = partial(masked.shamir_sum, p=5, degree=degree)
    protocol = Protocol(run, parties, 5, parties.ids(Role.SILO))
    return Hiding(protocol, (promise,), sum_to(receiver), np.zeros((2, 1), dtype=np.int64))


def _hiding(
    run: Any, modulus: int, shape: tuple[int, int], *promises: Guarantee, allowed: Allowed = _SERVER_SUM
) -> Hiding:
    parties = masked.parties(shape[0])
    protocol = Protocol(run, parties, modulus, parties.ids(Role.SILO))
    return Hiding(protocol, promises, allowed, np.zeros(shape, dtype=np.int64))


def _promise(coalition: dict[Role, int], source: str) -> Guarantee:
    statement = "the coalition learns of the others' inputs no more than the sum"
    return Guarantee(Secret.SUMMAND, coalition, Strength.COMPUTATIONAL, statement, source)
