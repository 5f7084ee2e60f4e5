"""A server that sees all that passes and sends messages of its own making, and servers that lie."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Context, Cryptography, KeyPurpose, Mask, Partner
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import PHASES, MaskingClients
from fgl_secure.protocols.pairwise_masking.drawing import Commitments, GraphSeed, commitment_of, digest_of_keys
from fgl_secure.protocols.pairwise_masking.plan import MaskingPlan, NeighbourGraph, UnmaskRequest
from fgl_secure.protocols.pairwise_masking.server import MaskingServer
from fgl_secure.protocols.secagg.server import ResponseTracker
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Messages, OwnDraws, Phase, Step, decode
from tests.protocols.secagg.rounds import (
    LEADER,
    NOW,
    SESSION,
    STAGES,
    Ints,
    Sent,
    Sum,
    changed,
    topology_of,
    vectors_of,
)

LENGTH, BOUND = 3, 1000
EVERYBODY = range(5)
TARGET = 2

Roster = NDArray[np.uint8]


def plain(clients: int = 5) -> Ints:
    """The clients' vectors."""
    return vectors_of(clients, LENGTH)


def total_of(some: Sequence[int], clients: int = 5) -> list[int]:
    """The ideal sum over some."""
    found: list[int] = plain(clients)[list(some)].sum(axis=0).tolist()
    return found


def asking(clients: int, gone: Iterable[int]) -> Roster:
    """A roster: some have dropped out after they shared, all others are in the sum."""
    asked = np.full(clients, UnmaskRequest.SELF_MASK, dtype=np.uint8)
    asked[list(gone)] = UnmaskRequest.MASK_KEY
    return asked


class Wire:
    """One sum whose server can say what it wants.

    Attributes:
        run: the parties.
        plan: of the sum.
        said: the fields of every answer, by stage and client.
        requests: the honest server's messages that `until` held back, by client.
    """

    def __init__(
        self,
        threshold: int,
        n: int = 5,
        *,
        known: bool = False,
        step: Step = NOW,
        degree: int | None = None,
        seed: int = 0,
        rows: Ints | None = None,
        **parts: Any,
    ) -> None:
        self.scheme = PairwiseMasking(threshold, degree=degree, **parts)
        topology = topology_of(n, length=LENGTH, bound=BOUND)
        rows = plain(n) if rows is None else rows
        self.run = Sum.of(self.scheme, topology, rows, known=known, step=step, seed=seed)
        self.plan: MaskingPlan = self.scheme.plan_for(topology, SESSION)
        self.drawn = [self.client(u)._public_keys(0) for u in range(n)]
        self.nonces = [self.client(u)._nonce(0) for u in range(n)]
        self.crypto = Cryptography(OwnDraws(SimulationCoins(99)), self.scheme.modulus, self.scheme.keys)
        self.said: dict[Stage, dict[int, Mapping[str, Any]]] = {}
        self.requests: dict[int, Sent] = {}
        self._turns = self.run.turns()

    @property
    def circles(self) -> NeighbourGraph:
        """Who masks with whom, once everybody's keys are there."""
        return self.plan.circles(self.run.step, self.seed())

    @property
    def context(self) -> Context:
        """What keys are bound to."""
        return self.plan.context(self.run.step, self.seed())

    def seed(self, *without: int) -> bytes:
        """That of a sparse graph, drawn from what all clients but some have committed to and revealed."""
        if not self.plan.sparse:
            return b""
        made = ~np.isin(np.arange(self.plan.terms.n), without)
        rows = [digests, nonces, entries] = [np.zeros((len(made), 32), dtype=np.uint8) for _ in range(3)]
        for u in np.flatnonzero(made).tolist():
            own = digest_of_keys(*self.drawn[u]), self.nonces[u]
            for row, value in zip(rows, (*own, commitment_of(u, *own)), strict=True):
                row[u] = np.frombuffer(value, dtype=np.uint8)
        return GraphSeed(Commitments(made, entries), made, digests, nonces).seed

    def order(self, *without: int) -> list[int]:
        """Who stands at each place of the ring."""
        found: list[int] = self.plan.ring_order(self.run.step, self.seed(*without)).tolist()
        return found

    def client(self, u: int) -> MaskingClients:
        """A client's machine."""
        machine = self.run.machines[u + 1]
        assert isinstance(machine, MaskingClients)
        return machine

    def until(self, last: Stage) -> None:
        """Leaves all to the honest server until it asks for a stage; what it asks then is held back."""
        for out in self._turns:
            self.requests = {sent.receiver - 1: sent for sent in out if sent.sender == LEADER}
            if self.requests and PHASES[next(iter(self.requests.values())).phase] is last:
                return
            for sent in out:
                self._note(sent)
                self.run.hand(sent)

    def rest(self) -> list[int]:
        """Hands over what was held back, and lets the honest server finish: the sum."""
        for sent in self.requests.values():
            self.run.hand(sent)
        for out in self._turns:
            for sent in out:
                self._note(sent)
                self.run.hand(sent)
        return self.run.result

    def _note(self, sent: Sent) -> None:
        if sent.receiver == LEADER:
            fields = decode(sent.data, SESSION).fields
            self.said.setdefault(STAGES[sent.phase], {})[sent.sender - 1] = {
                name: value[0] for name, value in fields.items()
            }

    def ask(self, u: int, **fields: Any) -> Mapping[str, Any]:
        """Sends a client what was held back with other fields, each without its axis of messages; its answer."""
        data = changed(self.requests[u], **{name: np.asarray(value)[None] for name, value in fields.items()})
        return self.send(u, decode(data, SESSION))

    def send(self, u: int, messages: Messages) -> Mapping[str, Any]:
        """Sends a client a message; its answer, which the server does not hear."""
        self.client(u).receive(messages)
        (answer,) = self.run.spoken(u + 1)
        self._note(answer)
        return {name: value[0] for name, value in decode(answer.data, SESSION).fields.items()}

    def refused(self, fields: Callable[[int], Mapping[str, Any]]) -> dict[int, str]:
        """Who refuses a message of the server's own making, and why; the others' answers are kept."""
        found = {}
        for u in self.requests:
            try:
                self.ask(u, **fields(u))
            except ProtocolError as error:
                found[u] = str(error)
        return found

    def told(self, rosters: Mapping[int, Roster]) -> dict[int, str]:
        """Tells each client a roster; who refuses, and why."""
        return self.refused(lambda u: {"asked": rosters[u]})

    def votes(self, u: int, rosters: Mapping[int, Roster]) -> dict[str, Any]:
        """The votes that were cast for a client, as the honest server would pass them on."""
        near, back = self.circles.neighbours[u], self.circles.reverse_index[u]
        cast = rosters[u][near] == UnmaskRequest.SELF_MASK
        votes = np.zeros((len(near), self.crypto.vote_bytes), dtype=np.uint8)
        for j, v in enumerate(near.tolist()):
            if v in self.said.get(Stage.AGREEMENT, {}):
                votes[j] = self.said[Stage.AGREEMENT][v]["votes"][back[j]]
        return {"cast": cast, "votes": votes}

    def opened(self, rosters: Mapping[int, Roster]) -> dict[int, str]:
        """Passes the votes on to those that voted; who refuses, and why."""
        found = {}
        for u in sorted(self.said.get(Stage.AGREEMENT, {})):
            fields = {name: value[None] for name, value in self.votes(u, rosters).items()}
            ends = np.array([LEADER]), np.array([u + 1])
            try:
                self.send(u, Messages(Phase.UNMASKING, self.run.step, *ends, fields))
            except ProtocolError as error:
                found[u] = str(error)
        return found

    def vector(self, u: int) -> Ints:
        """A client's masked vector."""
        return np.array(self.said[Stage.VECTORS][u]["vector"], dtype=np.int64)

    def secret(self, shares: Mapping[int, Ints]) -> Ints:
        """A client's secret, from shares by holder: its words."""
        holders = sorted(shares)
        return self.plan.sharing.open(np.stack([shares[v] for v in holders]), holders, None)

    def shares(self, u: int) -> dict[int, Ints]:
        """Opened shares of a client's, by holder."""
        found = {}
        for v, fields in self.said.get(Stage.OPENING, {}).items():
            at = int(np.flatnonzero(self.circles.closed_neighbours[v] == u)[0])
            if fields["given"][at]:
                found[v] = np.array(fields["shares"][at], dtype=np.int64)
        return found

    def keys_of(self, u: int, words: Ints) -> dict[int, Mask]:
        """The pairwise masks of a client whose mask key holds some words, by place of the neighbour."""
        said = {v: bytes(fields["mask"]) for v, fields in self.said[Stage.KEYS].items()}
        circles = self.circles
        near = {
            j: Partner(
                v + 1, said[v], None if circles.initiates[u, j] else self.wrapped(v, int(circles.reverse_index[u, j]))
            )
            for j, v in enumerate(circles.neighbours[u].tolist())
        }
        return self.crypto.masks_of_key(words, said[u], self.context, u + 1, near, LENGTH)

    def wrapped(self, u: int, j: int) -> bytes | None:
        """What a client wrapped for a neighbour that it leads, at a place; None where nothing is wrapped."""
        if not self.crypto.wrapped_bytes:
            return None
        return bytes(self.said[Stage.SHARES][u]["wrapped"][self.circles.leading[u, j]])

    def unmasked(self, u: int, pairs: Mapping[int, Mask], seed: Ints | None) -> list[int]:
        """A client's vector without its pairwise masks, and without its own mask if its seed is known."""
        masks, near = list(pairs.values()), self.circles.neighbours[u]
        signs = [-1 if u < near[j] else 1 for j in pairs]
        if seed is not None:
            masks.append(self.crypto.mask_of_seed(seed, self.context, u + 1, LENGTH))
            signs.append(-1)
        total, p = self.crypto.add_masks(self.vector(u), masks, signs), self.scheme.modulus
        return [value - p if value > p // 2 else value for value in total.tolist()]

    def own_key(self, u: int, words: Ints) -> bytes:
        """What a client's own mask is expanded from."""
        mask = self.crypto.mask_of_seed(words, self.context, u + 1, LENGTH)
        assert isinstance(mask, bytes)
        return mask

    def agreed(
        self, secret: bytes, purpose: KeyPurpose, own: int, other: int, public: bytes, heard: bytes | None = None
    ) -> bytes:
        """The key of two parties, of whom the other one wrapped something, or the first."""
        known = {} if heard is None else {other: heard}
        return self.crypto.agree(secret, self.context, purpose, own, {other: public}, 0, known)[other]

    def said_to(self, secret: bytes, purpose: KeyPurpose, own: int, other: int, public: bytes) -> bytes:
        """What one party wraps for another."""
        return self.crypto.wrap_keys(secret, self.context, purpose, own, {other: public})[other]


class NoThreshold(ResponseTracker):
    """Goes on with however few there are."""

    def require(self, found: int, what: str = "answer") -> None:
        """Nothing."""


class LyingServer(MaskingServer):
    """A server that tells clients rosters of its own choice, and unmasks a sum that it wants.

    Attributes:
        rosters: what each client is told, by client.
        wanted: what is asked in the end, of whose vectors it makes its sum.
    """

    rosters: Mapping[int, Roster]
    wanted: Roster

    def begin(self, step: Step, rows: Any = None) -> None:
        """See `MaskingServer.begin`."""
        self._tracker = NoThreshold(self._plan.terms)
        super().begin(step, rows)

    def _receive_vectors(self, messages: Messages) -> Callable[[int, int], None]:
        self.vectors: dict[int, Ints] = getattr(self, "vectors", {})

        def hear(row: int, client: int) -> None:
            self.vectors[client] = messages["vector"][row].astype(np.int64)

        return hear

    def _send_roster(self) -> Iterable[Messages]:
        (honest,) = super()._send_roster()
        told = np.stack([self.rosters[u] for u in sorted(self.vectors)])
        self._requests = self.wanted.copy()
        p = self._plan.field.modulus
        for u in np.flatnonzero(self.wanted == UnmaskRequest.SELF_MASK).tolist():
            self._total = (self._total + self.vectors[u]) % p
        ends = honest.senders, honest.receivers
        return [Messages(honest.phase, honest.step, *ends, {"asked": told})]

    def _send_votes(self) -> Iterable[Messages]:
        """Passes on the votes of those that a client believes to be in the sum."""
        circles = self._circles
        (honest,) = super()._send_votes()
        who = honest.receivers - 1
        cast = np.stack([self.rosters[u][circles.neighbours[u]] == UnmaskRequest.SELF_MASK for u in who.tolist()])
        votes = self._votes[circles.neighbours[who], circles.reverse_index[who]]
        return [Messages(honest.phase, honest.step, honest.senders, honest.receivers, {"cast": cast, "votes": votes})]

    def _receive_openings(self, messages: Messages) -> Callable[[int, int], None]:
        """Keeps the shares of what it wants."""
        circles = self._circles

        def hear(row: int, client: int) -> None:
            circle = circles.closed_neighbours[client]
            fitting = messages["given"][row] & (self.rosters[client][circle] == self.wanted[circle])
            self._opened[client] = fitting
            self._shares[client] = messages["shares"][row].astype(np.int64)

        return hear


def attacked(wire: Wire, rosters: Mapping[int, Roster], wanted: Roster) -> LyingServer:
    """Puts a lying server in the place of the honest one."""
    server = LyingServer(wire.plan, wire.crypto, OwnDraws(SimulationCoins(3)))
    server.rosters, server.wanted = rosters, wanted
    server.begin(wire.run.step)
    wire.run.machines[LEADER] = server
    return server
