"""What terms, thresholds and vectors must be like under any staged scheme."""

from __future__ import annotations

import numpy as np

from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.staged.interface import CONTEXT_BYTES, SESSION_BYTES, Integers, StagedScheme, SumTerms

FEWEST = 2
MOST_SUMS = 2**32
"""Sums of a session: their numbers name keys, in 4 bytes."""


def check_terms(scheme: StagedScheme, terms: SumTerms, least: int) -> None:
    """What holds for the terms of any scheme; see `StagedScheme.check`.

    Args:
        scheme: that is to sum.
        terms: of the sum.
        least: the smallest threshold that the scheme allows among so many clients.
    """
    if len(terms.session) != SESSION_BYTES or not 0 <= terms.number < MOST_SUMS:
        raise InputError(
            f"session must have {SESSION_BYTES} bytes and number lie in 0..{MOST_SUMS - 1}; "
            f"found {len(terms.session)} and {terms.number}"
        )
    if len(terms.context) not in (0, CONTEXT_BYTES):
        raise InputError(f"context must have {CONTEXT_BYTES} bytes or none; found {len(terms.context)}")
    threshold_of(terms.threshold, terms.clients, least)
    if terms.length < 1 or (terms.bound is not None and terms.bound < 1):
        raise InputError(f"length and bound must be at least 1; found {terms.length} and {terms.bound}")
    if terms.bound is None and scheme.modulus is None:
        raise InputError(f"bound must be given under {scheme.name}, whose sums have no modulus; found None")
    if terms.bound is not None and terms.clients * terms.bound > scheme.limit(terms.clients):
        raise FieldRangeError(
            f"bound must satisfy clients * bound <= {scheme.limit(terms.clients):,} under {scheme.name}; "
            f"found {terms.clients:,} * {terms.bound:,}"
        )


def threshold_of(chosen: int | None, clients: int, least: int) -> int:
    """The chosen threshold, or floor(2 n / 3) + 1 of n clients.

    Raises:
        InputError: there are fewer than two clients, or it does not lie in least..n.
    """
    if clients < FEWEST:
        raise InputError(f"clients must number at least {FEWEST}, or the sum is one vector; found {clients}")
    threshold = 2 * clients // 3 + 1 if chosen is None else chosen
    if not least <= threshold <= clients:
        raise InputError(f"threshold must lie in {least}..{clients} for {clients} clients; found {threshold}")
    return threshold


def check_identity(index: int, identity: Identity | None, identities: Identities | None) -> None:
    """Raises unless a client has both its identity and those of all, itself among them, or neither.

    Raises:
        InputError: one is missing, or they differ.
    """
    if (identity is None) != (identities is None):
        raise InputError("identity and identities must be given together; found one without the other")
    if identity is not None and identities is not None and identities.public.get(index) != identity.public:
        raise InputError(f"identity must be that of client {index} among identities; it is not")


def checked_vector(vector: Integers, terms: SumTerms, modulus: int | None) -> Integers:
    """A copy of a client's vector.

    Raises:
        InputError: see `StagedClient.provide`.
    """
    if not isinstance(vector, np.ndarray) or vector.dtype != np.int64 or vector.shape != (terms.length,):
        found = f"{vector.dtype} {list(vector.shape)}" if isinstance(vector, np.ndarray) else type(vector).__name__
        raise InputError(f"vector must be int64 [{terms.length}]; found {found}")
    least, most = span_of(terms, modulus)
    if int(vector.min()) < least or int(vector.max()) > most:
        raise InputError(f"vector must have entries in {least}..{most}; at least one entry is beyond")
    return vector.copy()


def span_of(terms: SumTerms, modulus: int | None) -> tuple[int, int]:
    """The least and the largest entry of a client's vector."""
    if terms.bound is not None:
        return -terms.bound, terms.bound
    assert modulus is not None, "check_terms asks for a bound where there is no modulus"
    return 0, modulus - 1
