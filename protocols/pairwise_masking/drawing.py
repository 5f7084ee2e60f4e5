"""What clients do besides masking: they draw a sparse graph together, and veto a sum.

They commit to the seeds of the graph, and then reveal them, so that no party chooses it.

Where clients may veto a sum, each shares one more secret among all: 0, or a random element if it vetoes. When they have
agreed on who is in the sum, and before anything of it is opened, they open the sum of these secrets, and by that
whether any client vetoes, but neither which nor how many. One veto in p, or several that cancel, which is as rare, is
not seen. A client that vetoes hands in something uniform, so that a party that opens the sum all the same has nothing.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from fgl_secure.crypto.cryptography import Context, Cryptography, Elements, KeyPurpose
from fgl_secure.crypto.streams import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.graph import MOST_WITHHELD
from fgl_secure.protocols.pairwise_masking.plan import LABEL, MaskingPlan
from fgl_secure.protocols.secagg.clients import SEALING, MaskedClients, Store, stack_bytes
from fgl_secure.protocols.secagg.terms import bytes_of, flags_of
from fgl_secure.runtime import Messages, Phase
from fgl_secure.typing import Array, Bytes, Flags, Ids


class Vetoes:
    """Those of some clients of one process, a row each; nothing where a sum is none to veto. Holds secrets.

    Args:
        plan: of the sums.
        cryptography: coins.
        tapes: axes in front of all elements.
        hosted: how many clients.
    """

    def __init__(self, plan: MaskingPlan, cryptography: Cryptography, tapes: tuple[int, ...], hosted: int) -> None:
        self._plan, self._crypto, shares = plan, cryptography, (plan.degree + 1) * plan.terms.veto
        self.cast: Flags = np.zeros(hosted, dtype=np.bool_)
        self._blank = np.zeros((hosted, KEY_BYTES), dtype=np.uint8)
        self._shares = np.zeros((*tapes, hosted, shares), dtype=np.int64)

    def share(self, index: int, seed: bytes, context: Context, owner: int, circle: Ids) -> Elements:
        """Shares of a client's veto, of 0 where it has none: elements [*tapes, k + 1].

        Args:
            index: the client's place.
            seed: that its shares are drawn from, which it never shares.
            context: of the sum.
            owner: its party identifier.
            circle: int64 [k + 1], for whom.
        """
        c = self._crypto
        drawn = c.elements(c.derive_key(seed, context, KeyPurpose.VETO, owner), self._plan.required_shares)
        if self.cast[index]:
            self._blank[index] = np.frombuffer(c.derive_key(seed, context, KeyPurpose.BLANK, owner), dtype=np.uint8)
        secret, coins = self._secret(drawn[..., -1:], index), drawn[..., :-1, None]
        return np.asarray(self._plan.sharing.share(secret, coins, circle)[..., 0])

    def _secret(self, drawn: Elements, index: int) -> Elements:
        """A client's veto: elements of the same shape, as drawn or 0."""
        return drawn if self.cast[index] else np.zeros_like(drawn)

    def keep(self, index: int, place: int, share: Elements) -> None:
        """Keeps a share, elements [*tapes], of the veto of who stands at a place of a client's circle."""
        self._shares[..., index, place] = share

    def blanks(self, index: int) -> list[bytes]:
        """The key of a mask that no party takes away, for the vector of a client that vetoes."""
        return [self._blank[index].tobytes()] if self.cast[index] else []

    def open_sum(self, indices: Ids, among: Flags, holds: Flags) -> tuple[Flags, Elements]:
        """Shares of the sum of the vetoes of some, which are forgotten by that.

        Args:
            indices: int64 [m], places of clients.
            among: bool [m, k + 1], of whose vetoes.
            holds: bool [m, k + 1], whose shares each client holds.

        Returns:
            Bool [m], who holds all that count, and elements [*tapes, m], their shares; 0 of the others.
        """
        counted = np.all(holds | ~among, axis=1)
        shares = np.where(among & counted[:, None], self._shares[..., indices, :], 0)
        self._shares[..., indices, :] = 0
        return counted, reduce(self._plan.field.add, np.moveaxis(shares, -1, 0))

    def forget(self, indices: Ids) -> None:
        """Forgets what is uniform in the vectors of some clients, which have left."""
        self._blank[indices] = 0

    def arrays(self) -> dict[str, Array]:
        """All of it, for a state."""
        return {"vetoing": self.cast, "blank": self._blank, "vetoes": self._shares}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from arrays."""
        self.cast, self._blank, self._shares = arrays["vetoing"], arrays["blank"], arrays["vetoes"]


COMMITMENT_BYTES = 32
MASK, SELF, SHARES = range(SEALING + 1, SEALING + 4)
"""More secrets of a client: the private key of its masks, and the seeds of its own mask and of what shares secrets."""


@dataclass(frozen=True, slots=True, eq=False)
class Commitments:
    """What clients have committed to before any of them reveals it: the nonces that a sparse graph is drawn from.

    Attributes:
        made: bool [n], who has committed.
        entries: uint8 [n, 32], their commitments; zeros for the others.
    """

    made: Flags
    entries: Bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        return hashlib.sha256(LABEL + b"pledges" + np.packbits(self.made).tobytes() + self.entries.tobytes()).digest()


@dataclass(frozen=True, eq=False)
class GraphSeed:
    """What a sparse graph is drawn from: nonces of the clients, for this one sum, committed to before any is revealed.

    A client reveals its own when it has been told all commitments, its own among them, so that no party can choose
    anything that the graph depends on after the first nonce of a party honest is known, and before that no party knows
    anything of the graph: no server by choosing session, step or whom it has heard of, no client that colludes with it
    by drawing its keys late. What is left is to withhold: a party that reveals last, and a server that says of others
    that they revealed nothing, chooses among the graphs without some of the nonces. Few of them may be missing
    (`MOST_WITHHELD`), and the degree of the graph allows for all that can be chosen (`freedom_bits`). Keys of pairs
    are bound to the seed, so clients that are told different things have none in common.

    Attributes:
        pledges: as told before.
        revealed: bool [n], whose nonces there are.
        keys: uint8 [n, 32], digests of their public keys; zeros for the others.
        nonces: uint8 [n, 32]; zeros for the others.
    """

    pledges: Commitments
    revealed: Flags
    keys: Bytes
    nonces: Bytes

    @cached_property
    def seed(self) -> bytes:
        """32 bytes."""
        content = np.packbits(self.revealed).tobytes() + self.keys.tobytes() + self.nonces.tobytes()
        return hashlib.sha256(LABEL + b"seed" + self.pledges.digest + content).digest()

    def check(self, place: int, most: int) -> None:
        """Raises unless it is what was committed to, except for a few who withhold it.

        Args:
            place: the place of who checks, and has revealed.
            most: that may be missing.

        Raises:
            ProtocolError: something revealed is not what was committed to, or too much is missing.
        """
        made = self.pledges.made
        if not self.revealed[place]:
            raise ProtocolError(f"a graph must be drawn with the nonce of client {place}, which it revealed; it is not")
        missing = int((made & ~self.revealed).sum())
        if missing > most:
            raise ProtocolError(f"a graph must be drawn with all nonces but {most} at most; {missing} are missing")
        if self._false is not None:
            raise ProtocolError(f"a graph must be drawn from what was committed to; of client {self._false} it is not")

    @cached_property
    def _false(self) -> int | None:
        """The first client of whom something is revealed that was not committed to."""
        made, entries = self.pledges.made, self.pledges.entries
        for v in np.flatnonzero(self.revealed).tolist():
            entry = commitment_of(v, self.keys[v].tobytes(), self.nonces[v].tobytes())
            if not made[v] or entries[v].tobytes() != entry:
                return v
        return None

    def is_of(self, pledges: Commitments, revealed: Flags, keys: Bytes, nonces: Bytes) -> bool:
        """Whether it is the draw from all of these; clients of one process look through one draw once."""
        return (
            pledges is self.pledges
            and np.array_equal(revealed, self.revealed)
            and np.array_equal(keys, self.keys)
            and np.array_equal(nonces, self.nonces)
        )

    def check_keys(self, public: Mapping[int, tuple[bytes, ...]]) -> None:
        """Raises unless keys, by client, are those that were committed to with the nonces.

        Raises:
            ProtocolError: those of a client are others; names it.
        """
        for v, keys in public.items():
            if not self.revealed[v] or self.keys[v].tobytes() != digest_of_keys(*keys):
                raise ProtocolError(f"a graph must be drawn from the keys that there are; of client {v} it is not")


def digest_of_keys(*keys: bytes) -> bytes:
    """SHA-256 of a client's public keys."""
    return hashlib.sha256(LABEL + b"public keys" + b"".join(keys)).digest()


def commitment_of(place: int, keys: bytes, nonce: bytes) -> bytes:
    """A client's commitment to its nonce, which hides it, and to its keys.

    Args:
        place: of the client.
        keys: as `digest_of_keys` gives them.
        nonce: 32 secret bytes.
    """
    return hashlib.sha256(LABEL + b"pledge" + struct.pack(">I", place) + keys + nonce).digest()


class DrawingClients(MaskedClients):
    """Some clients, as far as they draw a graph."""

    _plan: MaskingPlan
    _seed: bytes

    def _clear(self) -> None:
        super()._clear()
        self._seed, self._lists, self._last = b"", list[Commitments](), None
        self._list_of = np.full(len(self.parties), -1, dtype=np.int64)

    _last: GraphSeed | None

    def _commitments(self, index: int) -> Commitments:
        """What a client was told that all have committed to; the process keeps it once for all that were told alike."""
        number = int(self._list_of[index])
        if number >= 0:
            return self._lists[number]
        n = self.terms.n
        return Commitments(np.zeros(n, dtype=np.bool_), np.zeros((n, COMMITMENT_BYTES), dtype=np.uint8))

    def _keep_commitments(self, index: int, made: Flags, entries: Bytes) -> None:
        for number, known in enumerate(self._lists):
            if np.array_equal(made, known.made) and np.array_equal(entries, known.entries):
                self._list_of[index] = number
                return
        self._list_of[index] = len(self._lists)
        self._lists.append(Commitments(made.copy(), entries.copy()))

    def _nonce(self, index: int) -> bytes:
        """What a client adds to the draw of a sparse graph: public once it is revealed, and used for nothing else."""
        secret, context = self._secrets[index, SHARES].tobytes(), self._plan.context(self.now)
        return self._crypto.derive_key(secret, context, KeyPurpose.NONCE, int(self.parties[index]))

    def _commit(self, index: int) -> bytes:
        return commitment_of(int(self._places[index]), digest_of_keys(*self._public_keys(index)), self._nonce(index))

    def _receive_commitments(self, messages: Messages) -> Store:
        """All commitments, a client's own among them: from now on it takes part in no draw from others."""
        n, least = self.terms.n, self.terms.threshold
        flags, entries = flags_of(messages, "made", n), bytes_of(messages, "pledges", n, COMMITMENT_BYTES)

        def store(row: int, index: int) -> None:
            place = int(self._places[index])
            if int(flags[row].sum()) < least:
                raise ProtocolError(f"a graph must be drawn by {least} clients; found {flags[row].sum()}")
            if not flags[row, place] or entries[row, place].tobytes() != self._commit(index):
                raise ProtocolError(f"own commitment must come back as client {place} made it; it does not")
            self._keep_commitments(index, flags[row], entries[row])

        return store

    def _reveal(self, indices: Ids) -> Iterable[Messages]:
        """What each client committed to."""
        nonces = stack_bytes([self._nonce(index) for index in indices.tolist()])
        return [self._to_server(Phase.DRAW, indices, {"nonce": nonces})]

    def _receive_draw(self, messages: Messages) -> Callable[[int, int], GraphSeed | None]:
        """Reads what a sparse graph is drawn from, the client's own nonce among it; None where all mask with all."""
        if not self._plan.sparse:
            return lambda _row, _at: None
        n, least = self.terms.n, self.terms.threshold
        revealed = flags_of(messages, "revealed", n)
        keys, nonces = (bytes_of(messages, name, n, COMMITMENT_BYTES) for name in ("digests", "nonces"))

        def read(row: int, index: int) -> GraphSeed:
            pledges, reveals = self._commitments(index), (revealed[row], keys[row], nonces[row])
            if self._last is None or not self._last.is_of(pledges, *reveals):
                self._last = GraphSeed(pledges, *(item.copy() for item in reveals))
            draw = self._last
            if int(revealed[row].sum()) < least:
                raise ProtocolError(f"a graph must be drawn by {least} clients; found {revealed[row].sum()}")
            self._check_draw(draw, int(self._places[index]))
            if self._seed not in (b"", draw.seed):
                raise ProtocolError("a graph must be the same for all clients of a process; found another")
            return draw

        return read

    def _check_draw(self, draw: GraphSeed, place: int) -> None:
        draw.check(place, MOST_WITHHELD)

    def _arrays(self) -> dict[str, Array]:
        n = self.terms.n
        arrays: dict[str, Array] = {
            "seed": np.frombuffer(self._seed, dtype=np.uint8),
            "list": self._list_of,
            "pledged": np.array([commitments.made for commitments in self._lists], dtype=np.bool_).reshape(-1, n),
            "pledges": np.array([commitments.entries for commitments in self._lists], dtype=np.uint8).reshape(
                -1, n, COMMITMENT_BYTES
            ),
        }
        return {**super()._arrays(), **arrays}

    def _take_arrays(self, arrays: dict[str, Array]) -> None:
        super()._take_arrays(arrays)
        self._seed, self._list_of, self._last = arrays["seed"].tobytes(), arrays["list"], None
        self._lists = [Commitments(*entry) for entry in zip(arrays["pledged"], arrays["pledges"], strict=True)]
