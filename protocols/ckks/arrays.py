"""A sum of matrices of your own under CKKS, with all parties in one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.algebra.quantization import FixedPoint
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks.scheme import Ckks
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Directory, Role, Step, Transcript


@dataclass(frozen=True, slots=True, eq=False)
class EncryptedSum:
    """The decrypted sum.

    Attributes:
        total: float64, of the shape of the matrices; a CSR array where all of them are sparse.
        error: how far an entry may be from the true sum. Decryption is exact: rounding to fixed point is all.
        sent: payload bytes of all messages: keys, ciphertexts of all clients, and their sum.
        transcript: sender, receiver and size of each message.
    """

    total: Any = field(repr=False)
    error: float
    sent: int
    transcript: Transcript = field(repr=False)


def ckks_sum(matrices: Sequence[Any], *, bound: float | None = None) -> EncryptedSum:
    """Add one matrix per client under the receiver's CKKS key, via a server that receives only ciphertexts.

    The receiver is a client that sends no matrix, as in FedStruct's exchange, whose receiver i sums the B_ijk of
    all others k (ICLR 2025, App. D). Sparse matrices are encrypted whole, so that their pattern stays hidden.

    Args:
        matrices: one per client, two or more of one shape: arrays, tensors, or SciPy's sparse matrices.
        bound: largest magnitude of an entry, which all parties know; the largest that there is unless given.

    Returns:
        The sum, and what its ciphertexts took.

    Raises:
        InputError: fewer than two matrices, shapes that differ, an entry that is not finite, or a bound that is not a
            positive number.
        FieldRangeError: an entry exceeds the bound, or there are too many clients for sums that are exact.

    Examples:
        >>> ckks_sum([np.array([[0.5, 0.0]]), np.array([[0.25, 1.0]])]).total
        array([[0.75, 1.  ]])
    """
    clients = len(matrices)
    if clients < 2:
        raise InputError(f"matrices must be at least 2, or the sum is one client's own; found {clients}")
    rows = [as_floats(item, "matrices") for item in matrices]
    shape = rows[0].shape
    if any(item.shape != shape for item in rows) or not rows[0].size:
        raise InputError(f"matrices must have one shape, not empty; found {[list(item.shape) for item in rows]}")
    values = np.stack([item.reshape(-1) for item in rows])
    largest = check_finite(values, "matrices")
    code = FixedPoint.for_sums(
        bound=(largest or 1.0) if bound is None else bound, terms=clients, limit=Ckks().limit(clients), what="entries"
    )
    parties = Directory.hierarchy(clients + 1, clients + 1)
    silos, channel = parties.ids(Role.SILO), Channel(parties, SystemCoins())
    topology = Topology.to_client(parties, silos[:clients], int(silos[clients]), values.shape[1], code.largest)
    units = Collective(Ckks(), topology, channel).sum(code.encode(values), Step(0))
    total = code.decode(units).reshape(shape)
    if all(sparse.issparse(item) for item in matrices):
        total = sparse.csr_array(total)
    return EncryptedSum(total, clients * code.error, channel.transcript.byte_count, channel.transcript)
