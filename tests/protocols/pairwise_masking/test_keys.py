"""Keys that servers and clients put in others' places: they are refused, and without signatures they open a vector."""

from typing import Any

import numpy as np
import pytest

from fgl_secure.crypto.cryptography import KeyPurpose, seed_of
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import Messages, Phase, decode
from tests.error_codes import about
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.wire import EVERYBODY, TARGET, Wire, plain, total_of
from tests.protocols.secagg.rounds import LEADER, SESSION, changed

FALSE = {u: (bytes([u + 1] * 32), bytes([u + 101] * 32)) for u in EVERYBODY}
"""The server's own sealing and mask keys, in the place of each client's."""


def listing(wire: Wire, u: int, **others: Any) -> dict[str, Any]:
    """What the honest server held back for a client, with other keys for some: `c3=(sealing, mask)`."""
    fields = decode(wire.requests[u].data, SESSION).fields
    found = {name: fields[name][0].copy() for name in ("sealing", "mask")}
    for name, keys in others.items():
        at = int(np.flatnonzero(wire.circles.closed_neighbours[u] == int(name[1:]))[0])
        for field, key in zip(("sealing", "mask"), keys, strict=True):
            found[field][at] = np.frombuffer(key, dtype=np.uint8)
    return found


def true_keys(wire: Wire, u: int) -> tuple[bytes, bytes]:
    """What a client published."""
    said = wire.said[Stage.KEYS][u]
    return bytes(said["sealing"]), bytes(said["mask"])


def substituted(wire: Wire) -> dict[int, str]:
    """The attack: the target hears the server's keys for all others, and the others hear them for the target."""
    wire.until(Stage.SHARES)
    false = {u: tuple(wire.crypto.public(secret) for secret in FALSE[u]) for u in EVERYBODY}

    def lies(u: int) -> dict[str, Any]:
        return listing(wire, u, **{f"c{v}": false[v] for v in EVERYBODY if (u == TARGET) != (v == TARGET)})

    return wire.refused(lies)


def read_by_the_server(wire: Wire) -> list[int]:
    """What the server makes of it: it opens the target's shares, has all its pairwise masks, and gets its vector."""
    sealing, mask = true_keys(wire, TARGET)
    near, boxes = wire.circles.neighbours[TARGET], wire.said[Stage.SHARES][TARGET]["boxes"]
    size, pairs, shares, back = wire.crypto.wrapped_bytes, {}, {}, []
    wrapped = np.zeros((wire.plan.max_initiated, size), dtype=np.uint8)
    for j, v in enumerate(near.tolist()):
        ends, box = (v + 1, TARGET + 1), boxes[j].tobytes()
        key = wire.agreed(FALSE[v][0], KeyPurpose.PAIR, *ends, sealing, box[:size])
        leads = bool(wire.circles.initiates[TARGET, j])
        pairs[j] = wire.agreed(
            FALSE[v][1], KeyPurpose.PAIR_MASK, *ends, mask, wire.wrapped(TARGET, j) if leads else None
        )
        opened = wire.crypto.unseal(key, wire.context, TARGET + 1, v + 1, box[size:], 2 * wire.plan.words)
        shares[v] = opened[: wire.plan.words]
        own = wire.agreed(FALSE[v][0], KeyPurpose.PAIR, *ends, sealing)
        said = wire.said_to(FALSE[v][0], KeyPurpose.PAIR, *ends, sealing)
        back.append(said + wire.crypto.seal(own, wire.context, *ends, np.zeros_like(opened)))
        if not leads:
            said = wire.said_to(FALSE[v][1], KeyPurpose.PAIR_MASK, *ends, mask)
            wrapped[wire.circles.following[TARGET, j]] = np.frombuffer(said, dtype=np.uint8)
    told = np.ones(len(near), dtype=np.bool_)
    made = np.stack([np.frombuffer(box, dtype=np.uint8) for box in back])
    head = decode(wire.requests[TARGET].data, SESSION)
    fields = {"told": told[None], "boxes": made[None], **({"wrapped": wrapped[None]} if size else {})}
    wire.send(TARGET, Messages(Phase.SECRET_SHARES, head.step, head.senders, head.receivers, fields))
    return wire.unmasked(TARGET, dict(pairs), wire.secret(shares))


def test_substituted_keys_are_refused_with_identities() -> None:
    """Everybody who hears a key that its owner did not sign refuses, and goes on with the true ones."""
    wire = Wire(4, known=True)
    refusals = substituted(wire)
    assert refusals == {
        u: f"keys of client {0 if u == TARGET else TARGET} must be signed by its identity; they are not"
        for u in EVERYBODY
    }
    assert wire.rest() == total_of(EVERYBODY)


@pytest.mark.parametrize("known", [False, True], ids=["no identities", "signatures not checked"])
def test_without_signatures_substituted_keys_open_a_vector(known: bool) -> None:
    """The broken twin: with keys of its own in between, the server reads the target's shares and masks."""
    wire = Wire(4, known=known, clients=flaws.SignaturesAreNotChecked)
    assert substituted(wire) == {}
    assert read_by_the_server(wire) == plain()[TARGET].tolist()


def test_keys_of_a_client_s_own_must_come_back_as_they_were() -> None:
    """Changed, exchanged, or left out: the client refuses."""
    wire = Wire(4)
    wire.until(Stage.SHARES)
    sealing, mask = true_keys(wire, 0)
    for false in (tuple(map(wire.crypto.public, FALSE[0])), (mask, sealing)):
        with pytest.raises(ProtocolError, check=about("own keys")):
            wire.ask(0, **listing(wire, 0, c0=false))
    with pytest.raises(ProtocolError, check=about("own keys")):
        wire.ask(0, listed=np.array([False, True, True, True, True]))
    assert wire.rest() == total_of(EVERYBODY)


LOW_ORDER = (bytes(32), bytes([1, *bytes(31)]), bytes([0xEC, *[0xFF] * 30, 0x7F]))


@pytest.mark.parametrize("point", LOW_ORDER, ids=["zero", "one", "p - 1"])
@pytest.mark.parametrize("at", [0, 1], ids=["sealing", "mask"])
def test_keys_of_low_order_are_refused_on_both_sides(point: bytes, at: int) -> None:
    """A client that hears one and a server that is sent one refuse it."""
    wire = Wire(4)
    wire.until(Stage.SHARES)
    false = list(true_keys(wire, 1))
    false[at] = point + false[at][32:]
    with pytest.raises(ProtocolError, check=about("the key of party 2")):
        wire.ask(0, **listing(wire, 0, c1=tuple(false)))
    fresh = Wire(4)
    (sent,) = [one for one in next(fresh.run.turns()) if one.sender == 2]  # client 1
    bad = changed(sent, **{("sealing", "mask")[at]: np.frombuffer(false[at], dtype=np.uint8)[None]})
    with pytest.raises(ProtocolError, check=about("keys")):
        fresh.run.server.receive(decode(bad, SESSION))
    fresh.run.hand(sent)
    assert wire.rest() == total_of(EVERYBODY)


def test_a_key_is_published_once() -> None:
    """The server takes no key twice, and a client that hears one twice refuses."""
    wire = Wire(4)
    wire.until(Stage.SHARES)
    with pytest.raises(ProtocolError, check=about("keys")):
        wire.ask(0, **listing(wire, 0, c1=true_keys(wire, 2)))
    fresh = Wire(4)
    first, second = [one for one in next(fresh.run.turns()) if one.receiver == LEADER][:2]
    fresh.run.hand(first)
    mine, theirs = (decode(one.data, SESSION).fields for one in (first, second))
    for said in (dict(mine), {**theirs, "mask": mine["sealing"]}, {**theirs, "mask": theirs["sealing"]}):
        with pytest.raises(ProtocolError, check=about("keys")):
            fresh.run.server.receive(decode(changed(second, **said), SESSION))
    fresh.run.hand(second)


def test_too_few_neighbours_are_refused() -> None:
    """A client that hears the keys or the shares of fewer than it needs gives nothing."""
    wire = Wire(4)
    wire.until(Stage.SHARES)
    with pytest.raises(ProtocolError, check=about("keys")):
        wire.ask(0, listed=np.array([True, True, True, False, False]))
    for sent in wire.requests.values():
        wire.run.hand(sent)
    wire.until(Stage.VECTORS)
    with pytest.raises(ProtocolError, check=about("shares")):
        wire.ask(0, told=np.array([True, True, False, False]))
    assert wire.rest() == total_of(EVERYBODY)


def test_a_seed_is_what_its_words_hold() -> None:
    """Elements beyond the words of a seed raise, and the message shows none of them."""
    with pytest.raises(ProtocolError, check=about("opened shares")):
        seed_of(np.full(5, 2**61 - 2), 2**61 - 1)
