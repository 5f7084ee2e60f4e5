"""Keys that servers and clients put in others' places: they are refused, and without signatures they open a vector."""

from __future__ import annotations

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyPair
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.masking.keys import Purpose, agreed, seal, unseal
from fgl_secure.protocols.masking.shares import seed_of
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.wire import client_bytes, elements_from
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from tests.protocols.staged import masking_mutations as mutation
from tests.protocols.staged.masking_parties import (
    EVERYBODY,
    PLAIN,
    TARGET,
    Wire,
    identities_of,
    terms_of,
)

FALSE_PAIRS = {u: (KeyPair(bytes([u + 1] * 32)), KeyPair(bytes([u + 101] * 32))) for u in EVERYBODY}
"""The server's own sealing and mask keys, in the place of each client's."""


def substituted(wire: Wire) -> dict[int, str]:
    """The attack: the target hears the server's keys for all others, and the others hear them for the target."""
    wire.until(Stage.SHARES)
    true = wire.said[Stage.KEYS]
    false = {u: [*(pair.public for pair in FALSE_PAIRS[u]), true[u][2]] for u in EVERYBODY}
    lies = {u: {v: false[v] if (u == TARGET) != (v == TARGET) else true[v] for v in EVERYBODY} for u in EVERYBODY}
    return wire.refused(Stage.SHARES, {u: wire.listing(u, lies[u]) for u in EVERYBODY})


def read_by_the_server(wire: Wire) -> list[int]:
    """What the server makes of it: it opens the target's shares, has all its pairwise masks, and gets its vector."""
    plan, session, step = wire.plan, wire.plan.terms.session, wire.plan.step
    sealing, mask, _ = wire.said[Stage.KEYS][TARGET]
    near, pairs, shares, boxes = plan.near(TARGET), {}, [], b""
    for v, box in wire.boxes(TARGET).items():
        ends = (v, TARGET)
        key = agreed(FALSE_PAIRS[v][0], sealing, session, Purpose.PAIR, step, ends)
        pairs[v] = agreed(FALSE_PAIRS[v][1], mask, session, Purpose.PAIR_MASK, step, ends)
        plain = unseal(key, session, step, TARGET, v, box)
        shares.append(elements_from(plan.field, plain, (2, plan.words), "shares")[0])
        boxes += seal(key, session, step, v, TARGET, bytes(len(plain)))
    wire.ask(Stage.VECTORS, TARGET, [client_bytes(near), boxes])
    return wire.unmasked(TARGET, seed_of(plan.field, plan.sharing.open(np.stack(shares), near, None)), pairs)


def test_substituted_keys_are_refused_with_identities() -> None:
    """Everybody who hears a key that its owner did not sign refuses, and goes on with the true ones."""
    wire = Wire.of(4, known=True)
    refusals = substituted(wire)
    assert refusals == {
        u: f"keys of client {0 if u == TARGET else TARGET} must be signed by its identity; they are not"
        for u in EVERYBODY
    }
    run(wire.server, wire.clients)
    assert wire.server.result().tolist() == PLAIN.sum(axis=0).tolist()


@pytest.mark.parametrize("known", [False, True], ids=["no identities", "signatures not checked"])
def test_without_signatures_substituted_keys_open_a_vector(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: with keys of its own in between, the server reads the target's shares and masks."""
    mutation.signatures_are_not_checked(monkeypatch)
    wire = Wire.of(4, known=known)
    assert substituted(wire) == {}
    assert read_by_the_server(wire) == PLAIN[TARGET].tolist()


def test_the_driver_says_who_refused_what() -> None:
    """Where refusals end a sum, its error has a note of each."""
    scheme, (own, everybody) = StagedPairwiseMasking(), identities_of(5)
    forger, lies = Identity.generate(SimulationCoins(7)), dict(everybody.public)
    lies[1] = forger.public
    clients = {u: scheme.client(terms_of(5, 4), u, SimulationCoins(u), own[u], everybody) for u in EVERYBODY if u != 1}
    clients[1] = scheme.client(terms_of(5, 4), 1, SimulationCoins(1), forger, Identities(lies))
    with pytest.raises(TooFewClientsError, match="in stage SHARES") as raised:
        run(scheme.server(terms_of(5, 4), SimulationCoins(0)), clients)
    why = "keys of client 1 must be signed by its identity; they are not"
    assert raised.value.__notes__ == [f"client {u} in stage SHARES: {why}" for u in EVERYBODY if u != 1]


def test_keys_of_a_client_s_own_must_come_back_as_they_were() -> None:
    """Changed, or left out: the client refuses."""
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    true = wire.said[Stage.KEYS]
    for false in ([*(pair.public for pair in FALSE_PAIRS[0]), b""], [true[0][1], true[0][0], b""]):
        with pytest.raises(ProtocolError, match="own keys must come back as client 0 published them"):
            wire.ask(Stage.SHARES, 0, wire.listing(0, {**true, 0: false}))
    listed, *columns = wire.listing(0, true)
    with pytest.raises(ProtocolError, match="own keys must come back"):
        wire.ask(Stage.SHARES, 0, [listed[4:], *(column[32:] for column in columns)])
    wire.ask(Stage.SHARES, 0, wire.listing(0, true))


LOW_ORDER = (bytes(32), bytes([1, *bytes(31)]), bytes([0xEC, *[0xFF] * 30, 0x7F]))


@pytest.mark.parametrize("point", LOW_ORDER, ids=["zero", "one", "p - 1"])
@pytest.mark.parametrize("at", [0, 1], ids=["sealing", "mask"])
def test_keys_of_low_order_are_refused_on_both_sides(point: bytes, at: int) -> None:
    """A client that hears one and a server that is sent one refuse it."""
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    false = list(wire.said[Stage.KEYS][1])
    false[at] = point
    with pytest.raises(ProtocolError, match="must not be a public key of low order"):
        wire.ask(Stage.SHARES, 0, wire.listing(0, {**wire.said[Stage.KEYS], 1: false}))
    server = StagedPairwiseMasking().server(wire.plan.terms, SimulationCoins(0))
    with pytest.raises(ProtocolError, match="must not be points of low order; found one from client 1"):
        server.receive(1, wire.plan.envelope(Stage.KEYS, 1, SERVER).sealed(false))
    server.receive(1, wire.plan.envelope(Stage.KEYS, 1, SERVER).sealed(wire.said[Stage.KEYS][1]))


def test_a_key_is_published_once() -> None:
    """The server takes no key twice, and a client that hears one twice refuses."""
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    true = wire.said[Stage.KEYS]
    with pytest.raises(ProtocolError, match="keys must all differ; found one twice"):
        wire.ask(Stage.SHARES, 0, wire.listing(0, {**true, 1: true[2]}))
    server = StagedPairwiseMasking().server(wire.plan.terms, SimulationCoins(0))
    server.receive(1, wire.plan.envelope(Stage.KEYS, 1, SERVER).sealed(true[1]))
    for said in (true[1], [true[1][1], true[2][0], b""], [true[2][0], true[2][0], b""]):
        with pytest.raises(ProtocolError, match="keys must all differ; found one from client 2"):
            server.receive(2, wire.plan.envelope(Stage.KEYS, 2, SERVER).sealed(said))


def test_too_few_neighbours_are_refused() -> None:
    """A client that hears the keys or the shares of fewer than it needs gives nothing."""
    wire = Wire.of(4)
    wire.until(Stage.SHARES)
    true = wire.said[Stage.KEYS]
    few = [client_bytes([0, 1, 2]), *(b"".join(true[v][at] for v in range(3)) for at in range(3))]
    with pytest.raises(ProtocolError, match="keys must be those of at least 4 clients of a circle; found 3"):
        wire.ask(Stage.SHARES, 0, few)
    wire.until(Stage.VECTORS)
    boxes = b"".join(wire.boxes(v)[0] for v in (1, 2))
    with pytest.raises(ProtocolError, match="shares must be those of at least 4 clients; found 3"):
        wire.ask(Stage.VECTORS, 0, [client_bytes([1, 2]), boxes])
    run(wire.server, wire.clients)
    assert wire.server.included == tuple(EVERYBODY)
