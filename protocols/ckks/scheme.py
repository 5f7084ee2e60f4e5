"""Sums under CKKS: under a key of the receiver, or under one that clients share and the server never has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from fgl_secure.algebra.checks import as_floats, check_finite
from fgl_secure.algebra.quantization import FixedPoint
from fgl_secure.coins import SystemCoins
from fgl_secure.crypto.ckks_parameters import Parameters, limit
from fgl_secure.crypto.cryptography import Cryptography
from fgl_secure.errors import InputError
from fgl_secure.protocols.ckks.receiver_machines import (
    Aggregator,
    EncryptingSenders,
    KeyReceiver,
    KeyRing,
    ReceiverKeyPlan,
)
from fgl_secure.protocols.ckks.shared_machines import SharedKeyClients, SharedKeyServer
from fgl_secure.protocols.ckks.wire import RING, TAG, SharedKeyPlan
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.pairwise_masking.scheme import sum_leaks
from fgl_secure.protocols.scheme import SumMachine, UniformField
from fgl_secure.protocols.secagg.scheme import AggregationScheme, threshold_of
from fgl_secure.protocols.secagg.terms import AggregationTerms
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import (
    Channel,
    Circumstance,
    Claim,
    Directory,
    Draws,
    Guarantee,
    Leak,
    Phase,
    PublicParameters,
    Role,
    Secret,
    Step,
    Strength,
    Transcript,
)
from fgl_secure.typing import Ids

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


def _shared_key_claim(colluding: int) -> Claim:
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


BATCH_BYTES = 2**24
"""Most bytes of one batch of messages, except for one message."""
LEAST_TERMS = 2
"""Of sums that are not one sender's vector."""


class _CkksScheme(AggregationScheme):
    """Sums of integers, each with a bound, under CKKS."""

    wide: ClassVar[str] = "a number takes a slot of a ciphertext, which is as large whatever is in it"
    named: ClassVar[tuple[str, ...]] = ("threshold",)

    @property
    def public(self) -> PublicParameters:
        """No field and no masks."""
        return PublicParameters()

    @property
    def modulus(self) -> None:
        """None: every sum has a bound."""
        return

    def limit(self, terms: int) -> int:
        """Where the proved bound of the error reaches 1/2."""
        return limit(terms)

    def _parameters(self, topology: Topology, session: bytes, draws: Draws) -> tuple[AggregationTerms, Parameters]:
        """Terms and parameters of sums.

        Raises:
            InputError: the scheme refuses the topology, a threshold out of range, no bound, a session that is too
                short, or coins of several tapes, which SEAL does not take.
            FieldRangeError: sums could be beyond the limit.
        """
        if draws.batch_shape:
            raise InputError(f"coins must be those of one run, for SEAL draws its own; found tapes {draws.batch_shape}")
        terms = self.terms_for(topology, session)
        assert terms.bound is not None, "see terms_for"
        return terms, Parameters.for_sums(terms.n, terms.bound, length=terms.length)


@dataclass(frozen=True, slots=True)
class Ckks(_CkksScheme):
    """The receiver of a sum makes a key pair; senders encrypt, an aggregator adds, the receiver decrypts and rounds.

    Per sum each sender sends one vector of ciphertexts, and the aggregator one. A receiver gives its public key once to
    each party of a process's run (`Draws`), and serves all its sums of equal parameters with it. Keys and ciphertexts
    take SEAL's randomness and not that of the draws.

    Attributes:
        threshold: least senders that must be left; None takes two, unless there is but one from the start.
        batch_bytes: most bytes of one batch of messages, which is what is held in memory at once beside the sums.
    """

    threshold: int | None = None
    batch_bytes: int = BATCH_BYTES
    _rings: WeakKeyDictionary[Draws, KeyRing] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    label: ClassVar[str] = "ckks"
    summary: ClassVar[str] = "the receiver holds a CKKS key, another party adds ciphertexts that it cannot read"

    def refuses(self, topology: Topology) -> str | None:
        """Served is one sum of integers that another party adds up than the one entitled to it."""
        why = AggregationScheme.refuses(self, topology)
        if why is None and topology.aggregator == topology.receiver:
            return "whoever adds up holds the key and would read every term; ckks-shared-key is for that"
        return why

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many senders.

        Raises:
            InputError: it does not lie in 1 .. clients.
        """
        least = min(LEAST_TERMS, clients)
        threshold = least if self.threshold is None else self.threshold
        if not 1 <= least <= threshold <= clients:
            raise InputError(f"threshold must lie in {least}..{clients} for {clients} senders; found {threshold}")
        return threshold

    def claim_among(self, clients: int) -> Claim:  # noqa: ARG002  # alike for all
        """What holds for every sum."""
        return RECEIVER_KEY_CLAIM

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # ciphertexts and keys are authentic by their channels
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`: aggregator, senders, and receiver, who makes its key pair where it has none yet."""
        terms, parameters = self._parameters(topology, session, draws)
        plan, ring = ReceiverKeyPlan(terms, parameters, self.batch_bytes), self._rings.setdefault(draws, KeyRing())
        return self._roles(
            terms,
            hosted,
            lambda: Aggregator(np.array([terms.server]), plan, ring),
            lambda senders: EncryptingSenders(senders, plan, ring),
            lambda: KeyReceiver(np.array([terms.receiver]), plan, ring),
        )


BYTES = 256
"""Modulus of what is sealed: group keys, byte by byte."""


@dataclass(frozen=True, slots=True)
class SharedKeyCkks(_CkksScheme):
    """Clients share a key that one of them makes, and the server adds what it cannot read.

    Attributes:
        threshold: least clients that must be left at every stage, more than half of them, or two sums could each
            have enough that say them; None takes floor(2 n / 3) + 1 of n.
        clients: the machine of clients; another one only in tests of what it does.
    """

    label: ClassVar[str] = "ckks-shared-key"
    summary: ClassVar[str] = "clients share a CKKS key, the server adds ciphertexts that it cannot read"
    parameters: ClassVar[tuple[str, ...]] = ("threshold",)
    reads_one_by_one: ClassVar[bool] = True

    threshold: int | None = None
    clients: type[SharedKeyClients] = field(default=SharedKeyClients, repr=False)

    def threshold_for(self, clients: int) -> int:
        """The threshold among so many clients."""
        return threshold_of(self.threshold, clients, clients // 2 + 1)

    def claim_among(self, clients: int) -> Claim:
        """What holds for so many clients."""
        return _shared_key_claim(self.threshold_for(clients) - 2)

    def refuses(self, topology: Topology) -> str | None:
        """See `Scheme.refuses`."""
        why = AggregationScheme.refuses(self, topology)
        if why is None and topology.receiver != topology.aggregator:
            return "every client opens the sum and tells the server, and only one other is entitled to it"
        return why

    def uniform_fields(self, topology: Topology) -> tuple[UniformField, ...]:  # noqa: ARG002  # the same for all
        """Tags of vectors: ciphertexts have randomness of their own."""
        return (UniformField(Phase.CIPHERTEXTS, TAG, RING.modulus),)

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`: server and clients."""
        terms, parameters = self._parameters(topology, session, draws)
        plan, crypto = SharedKeyPlan(terms, parameters), Cryptography(draws, BYTES)
        return self._roles(
            terms,
            hosted,
            lambda: SharedKeyServer(plan, crypto, draws),
            lambda here: self.clients(here, plan, crypto, draws, names),
        )


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
