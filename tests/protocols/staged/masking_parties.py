"""Staged pairwise masking taken apart, for tests that stand between server and clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.masking.keys import TAG_BYTES, Purpose, agreed
from fgl_secure.protocols.masking.opening import masks_left, open_each, published_pair, self_mask_key
from fgl_secure.protocols.masking.shares import seed_of
from fgl_secure.protocols.pairwise_masking.requests import NO_SHARE, Ask, mask_sign, signed
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import Stage, StagedClient, StagedServer, SumTerms
from fgl_secure.protocols.staged.masking.plan import MaskingPlan, plan_of
from fgl_secure.protocols.staged.masking.wire import client_bytes, clients_from, elements_from, rows_from
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking

Ints = NDArray[np.int64]
Rosters = Mapping[int, NDArray[np.uint8]]

LENGTH = 3
BOUND = 1000


def terms_of(clients: int, threshold: int, number: int = 0, length: int = LENGTH) -> SumTerms:
    """Of a small sum in a session of zeros."""
    return SumTerms(bytes(16), number, clients, threshold, length, BOUND)


def vectors_of(clients: int, length: int = LENGTH) -> Ints:
    """Different vectors of small numbers, int64 [clients, length]."""
    return (np.arange(clients * length, dtype=np.int64).reshape(clients, length) * 37) % 101 - 50


EVERYBODY = range(5)
TARGET = 2
PLAIN = vectors_of(5)
"""Five clients' vectors, and the one that servers of these tests are after."""


def identities_of(clients: int) -> tuple[list[Identity], Identities]:
    """Everybody's signing key, and what everybody knows of them."""
    own = [Identity.generate(SimulationCoins(1000 + u)) for u in range(clients)]
    return own, Identities({u: identity.public for u, identity in enumerate(own)})


def clients_of(
    scheme: StagedPairwiseMasking, terms: SumTerms, vectors: Ints | None = None, *, known: bool = False
) -> dict[int, StagedClient]:
    """All clients, each with its vector; with identities (known) or without."""
    vectors = vectors_of(terms.clients, terms.length) if vectors is None else vectors
    own, everybody = identities_of(terms.clients)
    found: dict[int, StagedClient] = {}
    for u in range(terms.clients):
        coins = SimulationCoins(u + 100 * terms.number)
        found[u] = scheme.client(terms, u, coins, own[u] if known else None, everybody if known else None)
        found[u].provide(vectors[u])
    return found


def asking(clients: int, gone: Iterable[int]) -> NDArray[np.uint8]:
    """A roster: some have dropped out after they shared, all others are in the sum."""
    asked = np.full(clients, Ask.SELF_MASK, dtype=np.uint8)
    asked[list(gone)] = Ask.MASK_KEY
    return asked


@dataclass
class Wire:
    """A server's view of one sum: all that passes, and messages of its own making.

    Attributes:
        plan: of the sum.
        clients: by number.
        server: an honest one, that some stages are left to.
        said: the fields of every answer, by stage and client.
    """

    plan: MaskingPlan
    clients: Mapping[int, StagedClient]
    server: StagedServer
    said: dict[Stage, dict[int, list[bytes]]] = field(default_factory=dict)

    @classmethod
    def of(cls, threshold: int, clients: int = 5, *, known: bool = False, number: int = 0, degree: int = 0) -> Wire:
        """Five clients who are all neighbours, unless told otherwise, and a server."""
        scheme, terms = StagedPairwiseMasking(degree=degree or None), terms_of(clients, threshold, number)
        plan = plan_of(terms, scheme.modulus, scheme.degree_for(clients))
        server = scheme.server(terms, SimulationCoins(99))
        return cls(plan, clients_of(scheme, terms, known=known), server)

    def ask(self, stage: Stage, u: int, fields: Sequence[bytes]) -> list[bytes]:
        """Sends a client a message of the server's own making; the fields of its answer."""
        message = self.clients[u].reply(self.plan.envelope(stage, SERVER, u).sealed(fields))
        return self.heard(stage, u, message)

    def heard(self, stage: Stage, u: int, message: bytes) -> list[bytes]:
        """Keeps the fields of an answer."""
        counts = {Stage.KEYS: 3, Stage.OPENING: 2}
        fields = self.plan.envelope(stage, u, SERVER).opened(message, counts.get(stage, 1))
        self.said.setdefault(stage, {})[u] = fields
        return fields

    def until(self, last: Stage) -> None:
        """Leaves all stages before one to the honest server."""
        while self.server.stage is not None and self.server.stage < last:
            stage = self.server.stage
            for u, message in self.server.requests().items():
                answer = self.clients[u].reply(message)
                self.heard(stage, u, answer)
                self.server.receive(u, answer)
            self.server.advance()

    def refused(self, stage: Stage, fields: Mapping[int, Sequence[bytes]]) -> dict[int, str]:
        """Who refuses a message of the server's own making, and why; the others' answers are kept."""
        found = {}
        for u, message in fields.items():
            try:
                self.ask(stage, u, message)
            except ProtocolError as error:
                found[u] = str(error)
        return found

    def votes_for(self, u: int, rosters: Rosters) -> list[bytes]:
        """The message of stage OPENING for one client: the votes that were cast for it, and zeros for all others."""
        voters = [v for v in self.plan.near(u) if rosters[u][v] == Ask.SELF_MASK]
        return [client_bytes(voters), b"".join(self._vote(v, u, rosters) for v in voters)]

    def _vote(self, v: int, u: int, rosters: Rosters) -> bytes:
        to = [w for w in self.plan.near(v) if rosters[v][w] == Ask.SELF_MASK]
        if u not in to or v not in self.said.get(Stage.AGREEMENT, {}):
            return bytes(TAG_BYTES)
        return self.said[Stage.AGREEMENT][v][0][TAG_BYTES * to.index(u) :][:TAG_BYTES]

    def shares(self, want: Ask, rosters: Rosters) -> Ints:
        """Opened shares of one of the two secrets: int64 [n owners, n holders, words]."""
        n, words = self.plan.terms.clients, self.plan.words
        found = np.full((n, n, words), NO_SHARE, dtype=np.int64)
        for holder, fields in self.said.get(Stage.OPENING, {}).items():
            owners = clients_from(fields[0], range(n), "owners")
            for owner, share in zip(
                owners, elements_from(self.plan.field, fields[1], (len(owners), words), "shares"), strict=True
            ):
                if rosters[holder][owner] == want:
                    found[owner, holder] = share
        return found

    def mask_keys(self) -> dict[int, bytes]:
        """The mask key that each client published."""
        return {u: fields[1] for u, fields in self.said[Stage.KEYS].items()}

    def vector(self, u: int) -> Ints:
        """A client's masked vector."""
        fields = self.said[Stage.VECTORS][u]
        return np.array(elements_from(self.plan.field, fields[0], (self.plan.terms.length,), "vector"))

    def sum_over(self, some: Sequence[int], rosters: Rosters) -> list[int]:
        """What opened shares tell of the sum over some clients, all others taken for dropped out."""
        plan, n = self.plan, self.plan.terms.clients
        asked = asking(n, [u for u in range(n) if u not in some])
        shares = self.shares(Ask.SELF_MASK, rosters)
        dropped = asked == Ask.MASK_KEY
        shares[dropped] = self.shares(Ask.MASK_KEY, rosters)[dropped]
        secrets = open_each(plan.sharing, shares, asked, None)
        columns = zip(*(self.vector(u).tolist() for u in some), strict=True)
        total = np.array([sum(column) % plan.field.modulus for column in columns])
        rest = plan.neighbours, self.mask_keys(), range(n), plan.terms.session, plan.step
        add_masks(total, *masks_left(plan.field, secrets, asked, *rest), plan.field.modulus)
        return list(signed(total, plan.field.modulus).tolist())

    def vector_of(self, u: int, seeds: Ints, keys: Ints) -> list[int]:
        """A client's vector from the shares [n holders, words] of both its secrets."""
        return self.unmasked(u, seed_of(self.plan.field, self.opened(u, seeds)), self.pairs_of(u, keys))

    def without_pair_masks(self, u: int, keys: Ints) -> list[int]:
        """A client's vector with its pairwise masks taken away, from shares [n holders, words] of its mask key."""
        return self.unmasked(u, b"", self.pairs_of(u, keys))

    def opened(self, u: int, shares: Ints) -> Ints:
        """A client's secret from shares [n holders, words]: its words."""
        every = np.full((self.plan.terms.clients, *shares.shape), NO_SHARE, dtype=np.int64)
        every[u] = shares
        wanted = (np.arange(self.plan.terms.clients) == u).astype(np.uint8)
        return np.asarray(open_each(self.plan.sharing, every, wanted, None)[u])

    def pairs_of(self, u: int, keys: Ints) -> dict[int, bytes]:
        """The keys of a client's pairwise masks, from shares [n holders, words] of its mask key."""
        plan, public = self.plan, self.mask_keys()
        pair = published_pair(plan.field, self.opened(u, keys), public[u], u)
        rest = plan.terms.session, Purpose.PAIR_MASK, plan.step
        return {v: agreed(pair, public[v], *rest, (u, v)) for v in plan.near(u)}

    def unmasked(self, u: int, seed: bytes, pairs: Mapping[int, bytes]) -> list[int]:
        """A client's vector without its pairwise masks, and without its self mask if its seed is known."""
        plan, total = self.plan, self.vector(u)
        add_masks(total, list(pairs.values()), [-mask_sign(u, v) for v in pairs], plan.field.modulus)
        if seed:
            add_masks(total, [self_mask_key(seed, plan.terms.session, plan.step, u)], [-1], plan.field.modulus)
        return list(signed(total, plan.field.modulus).tolist())

    def listing(self, u: int, keys: Mapping[int, Sequence[bytes]]) -> list[bytes]:
        """The message of stage SHARES for a client that says these are everybody's keys and signatures."""
        near = self.plan.circle(u)
        columns = [b"".join(keys[v][at] for v in near) for at in range(3)]
        return [client_bytes(near), *columns]

    def boxes(self, u: int) -> dict[int, bytes]:
        """What a client sealed for each neighbour."""
        near = self.plan.near(u)
        rows = rows_from(self.said[Stage.SHARES][u][0], len(near), self.plan.box_bytes, "boxes")
        return dict(zip(near, rows, strict=True))


def told(wire: Wire, rosters: Rosters) -> dict[int, str]:
    """Stage AGREEMENT by a server that tells each client a roster of its own choice; who refuses, and why."""
    return wire.refused(Stage.AGREEMENT, {u: [roster.tobytes()] for u, roster in rosters.items()})


def opened(wire: Wire, rosters: Rosters) -> dict[int, str]:
    """Stage OPENING for those that voted, with the votes as they were cast; who refuses, and why."""
    voted = wire.said.get(Stage.AGREEMENT, {})
    return wire.refused(Stage.OPENING, {u: wire.votes_for(u, rosters) for u in voted})
