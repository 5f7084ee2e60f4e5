"""No two messages share a mask: contexts name everything, keys are of pairs, and streams never overlap."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement, KeyPair
from fgl_secure.crypto.streams import BLOCK_BYTES, FieldStream, KeyedStreams, word_of
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.agreement import SendersKeys
from fgl_secure.protocols.relay_coded.cryptography import Cryptography, Keys, mask_context, mask_nonce
from fgl_secure.protocols.relay_coded.relays import Relays
from fgl_secure.protocols.relay_coded.wire import Wire
from fgl_secure.runtime import (
    PAYLOAD,
    Channel,
    Direction,
    Messages,
    OwnDraws,
    Phase,
    Recording,
    Role,
    Step,
    TamperedBatch,
    Transcript,
)
from fgl_secure.runtime.machine import SETUP
from tests.error_codes import about
from tests.protocols.conformance import opened
from tests.protocols.hostile import small
from tests.protocols.relay_coded import twins
from tests.protocols.relay_coded.test_faults import meshed
from tests.protocols.relay_coded.twins import Twin, under

steps = st.builds(
    Step,
    st.integers(0, 2**32 - 1),
    st.integers(-1, 2**16 - 2),
    st.sampled_from(Direction),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
contexts = st.tuples(steps, st.integers(0, 255))
nearby = st.tuples(
    st.builds(
        Step, st.integers(0, 1), st.integers(-1, 1), st.sampled_from(Direction), st.booleans(), st.integers(0, 1)
    ),
    st.integers(0, 1),
)
APART = 2**32
"""Blocks between the counters of two contexts: 64 GiB of masks."""


@given(st.one_of(contexts, nearby), st.one_of(contexts, nearby))
def test_different_contexts_start_far_apart(one: tuple[Step, int], other: tuple[Step, int]) -> None:
    """Contexts that differ in round, layer, part, direction, evaluation or attempt are 2^32 blocks apart at least."""
    first, second = (int.from_bytes(mask_nonce(*context), "big") for context in (one, other))
    assert len(mask_nonce(*one)) == BLOCK_BYTES
    assert (first == second) == (one == other)
    assert one == other or min(abs(first - second), 2**128 - abs(first - second)) >= APART


def test_all_contexts_of_a_small_run_differ() -> None:
    """Every combination of two rounds, layers, parts, directions, evaluation and attempts has a block of its own."""
    every = itertools.product((0, 1), (-1, 0, 1), Direction, (False, True), (0, 1))
    nonces = [mask_nonce(Step(*step), attempt) for step in every for attempt in (0, 1)]
    assert len(set(nonces)) == len(nonces) == 96


def test_no_two_steps_share_a_key_stream() -> None:
    """Rows on their way to a relay, and masks that it expands, differ in each round, layer, direction and attempt."""
    crypto = Cryptography(PrimeField(2**31 - 1), 1)
    keys, zeros = np.zeros((1, 32), dtype=np.uint8), np.zeros((1, 8), dtype=np.uint32)
    every = [Step(*step) for step in itertools.product((0, 1), (0, 1), Direction, (False, True))]
    hidden = [crypto.hide(step, attempt, keys, zeros).tobytes() for step in every for attempt in (0, 1)]
    masks = [crypto.circuit_masks(step, attempt, keys, 8).tobytes() for step in every for attempt in (0, 1)]
    assert len({*hidden, *masks}) == 2 * len(hidden) == 64


@pytest.mark.parametrize(
    ("step", "attempt"),
    [(Step(-1), 0), (Step(2**32), 0), (Step(0, 2**16 - 1), 0), (Step(0, part=2**32), 0), (Step(0), 256), (Step(0), -1)],
)
def test_contexts_out_of_range_are_refused(step: Step, attempt: int) -> None:
    """A number that does not fit its place raises and is never cut short."""
    with pytest.raises(InputError, check=about("step")):
        mask_nonce(step, attempt)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a key stream that was used: its key, and the blocks from `start` up to `stop`, in bytes."""

    key: bytes
    start: int
    stop: int


@contextmanager
def recorded() -> Iterator[list[Span]]:
    """All key stream that senders read masks from, while this lasts; relays expand the same seeds again."""
    spans: list[Span] = []
    at_relays: list[bool] = []
    honest, expanded, opened_rows = KeyedStreams.uniform, Relays._make_expander, Cryptography.reveal

    def uniform(self: Any, modulus: int, counts: Any, nonce: bytes, dtype: Any = None) -> Any:
        start, size = int.from_bytes(nonce, "big") * BLOCK_BYTES, word_of(modulus)[0].itemsize
        if not at_relays:
            read = zip(self._keys, counts.tolist(), strict=True)
            spans.extend(Span(key.tobytes(), start, start + count * size) for key, count in read if count)
        return honest(self, modulus, counts, nonce, dtype)

    def quiet(work: Any) -> Any:
        def run(*given: Any) -> Any:
            at_relays.append(True)
            found = work(*given)
            at_relays.pop()
            return found

        return run

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(KeyedStreams, "uniform", uniform)
        monkeypatch.setattr(Relays, "_make_expander", lambda self, relay: quiet(expanded(self, relay)))
        monkeypatch.setattr(Cryptography, "reveal", quiet(opened_rows))
        yield spans


def overlaps(spans: list[Span]) -> int:
    """How many pieces begin before the one before them in the same stream ends."""
    in_order = sorted(spans, key=lambda span: (span.key, span.start))
    return sum(a.key == b.key and b.start < a.stop for a, b in itertools.pairwise(in_order))


STEPS = tuple(
    Step(r, layer, direction, evaluation, part)
    for r, layer, direction, evaluation, part in itertools.product(
        range(3), (-1, 0, 1), Direction, (False, True), (0, 1)
    )
)


def whole_run(scheme: RelayCoded, twin: Twin = lambda scheme: scheme) -> tuple[list[Span], Transcript]:
    """Three rounds, three layers, both directions, training and evaluation, two parts, widths that differ."""
    case = meshed(scheme.R)
    channel = Channel(case.directory, SimulationCoins(5), Recording.everything())
    with recorded() as spans:
        session = opened(twin(scheme), channel, case.grouping, 5)
        for step in STEPS:
            session.sum(np.ones((6, 1 + step.round)), step)
    return spans, channel.transcript


SCHEMES = (
    RelayCoded(k_min=1, profile=Profile.SHOWN),
    RelayCoded(T=2, R=4, profile=Profile.SHOWN),
    RelayCoded(T=2, R=3, profile=Profile.HIDDEN),
)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_no_two_messages_share_a_mask(scheme: RelayCoded) -> None:
    """Over a whole run no piece of key stream is read twice, and every message has a piece for each masked relay.

    Nor is a tag seen in two steps.
    """
    spans, transcript = whole_run(scheme)
    assert overlaps(spans) == 0
    elements = sum(span.stop - span.start for span in spans) // scheme.field.dtype.itemsize
    shares = [b for b in transcript.messages if b.phase is Phase.SHARES]
    masks = sum(b.messages * (1 + b.step.round) for b in shares) // (scheme.R - scheme.T) * scheme.T
    answers = [b for b in transcript.messages if b.phase is Phase.SEALED and b.senders[0] >= RELAYS]
    hidden = [*answers, *(b for b in shares if scheme.anonymous)]
    assert elements == masks + sum(b.messages * (b.item_bytes // 4 + 4) for b in hidden)


RELAYS = int(meshed(2).directory.ids(Role.RELAY)[0])

FORGETTING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("round", {"round": 0}),
    ("layer", {"layer": 0}),
    ("part", {"part": 0}),
    ("direction", {"direction": Direction.FORWARD}),
    ("evaluation", {"evaluation": False}),
)


@pytest.mark.parametrize(("name", "gone"), FORGETTING, ids=[name for name, _ in FORGETTING])
def test_a_nonce_that_forgets_something_is_found(name: str, gone: dict[str, Any]) -> None:
    """The same judge rejects a run whose counter blocks leave out any part of the step."""
    spans, _ = whole_run(RelayCoded(k_min=1, profile=Profile.SHOWN), under(twins.nonce_without(**gone)))
    assert overlaps(spans) > 0, name


def test_a_nonce_without_the_attempt_is_found() -> None:
    """Two attempts at one message under one block would overlap: the attempt is in the nonce."""
    step, key = Step(0, 0), bytes(32)
    for nonces, expected in (([mask_nonce(step, a) for a in (0, 1)], 0), ([mask_nonce(step, 0)] * 2, 1)):
        starts = [int.from_bytes(nonce, "big") * BLOCK_BYTES for nonce in nonces]
        assert overlaps([Span(key, start, start + 64) for start in starts]) == expected


def test_one_key_for_all_senders_is_found() -> None:
    """The same judge rejects keys that do not depend on the pair."""
    spans, _ = whole_run(RelayCoded(T=2, R=3, profile=Profile.SHOWN), under(twins.OneKeyForAll))
    assert overlaps(spans) > 0


AGREEMENTS = sorted({KeyAgreement.X25519, KeyAgreement.best()})


def test_simulations_repeat_whatever_the_library_draws() -> None:
    """Keys come from the caller's coins, although encapsulation draws randomness of its own."""
    one, other = (agreements(RelayCoded(T=2, R=3, profile=Profile.SHOWN)).at_senders for _ in range(2))
    assert all(np.array_equal(keys, other[relay]) for relay, keys in one.items())


class Agreements(Cryptography):
    """Keeps what both ends of every pair derive."""

    made: ClassVar[list[Agreements]] = []

    def __init__(self, *rest: Any, **options: Any) -> None:
        super().__init__(*rest, **options)
        self.at_senders: dict[int, Any] = {}
        self.at_relays: dict[int, Any] = {}
        self.made.append(self)

    def sender_keys(self, offers: Any, senders: Any, answered: Any, relay: int, session: bytes) -> Any:
        self.at_senders[relay] = super().sender_keys(offers, senders, answered, relay, session)
        self._agreed.clear()  # so that the relay derives its own
        return self.at_senders[relay]

    def relay_keys(self, *ends: Any) -> Any:
        self.at_relays[ends[1]] = super().relay_keys(*ends)
        return self.at_relays[ends[1]]


def agreements(scheme: RelayCoded) -> Agreements:
    """Keys as senders and relays derive them in the first sum."""
    case = meshed(scheme.R)
    channel = Channel(case.directory, SimulationCoins(0))
    opened(under(Agreements)(scheme), channel, case.grouping, 1).sum(np.ones((6, 1)), Step(0))
    return Agreements.made.pop()


def test_every_pair_has_a_key_of_its_own() -> None:
    """Six senders and three relays: eighteen different keys."""
    found = agreements(RelayCoded(T=3, R=4, profile=Profile.SHOWN)).at_senders
    keys = [row.tobytes() for each in found.values() for row in each]
    assert len(set(keys)) == len(keys) == 18


@pytest.mark.parametrize("keys", AGREEMENTS)
def test_both_sides_derive_the_same_key(keys: KeyAgreement) -> None:
    """A relay, with its private key and the sender's public one, derives what the sender derives."""
    found = agreements(RelayCoded(T=2, R=3, keys=keys, profile=Profile.SHOWN))
    assert set(found.at_senders) == set(found.at_relays)
    assert all(np.array_equal(keys, found.at_relays[relay]) for relay, keys in found.at_senders.items())


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(0, 3))
def test_contexts_of_different_pairs_differ(sender_key: bytes, relay_key: bytes, party: int) -> None:
    """Contexts have fixed fields, so that they are equal for equal keys and parties only."""
    context = mask_context(sender_key, relay_key, party, party + 1)
    assert context != mask_context(sender_key, relay_key, party + 1, party)
    assert (context == mask_context(relay_key, sender_key, party, party + 1)) == (sender_key == relay_key)


LOW_ORDER = (bytes(32), bytes([1, *bytes(31)]), bytes([0xEC, *[0xFF] * 30, 0x7F]))


@pytest.mark.parametrize("point", LOW_ORDER)
def test_public_keys_of_low_order_are_refused(point: bytes) -> None:
    """A relay that offers a point with which everybody would share one key stops the set-up."""
    case = meshed(2)

    def offered(messages: Messages) -> TamperedBatch | None:
        if messages.phase is not Phase.KEYS or messages.senders[0] not in case.directory.ids(Role.RELAY):
            return None
        keys = messages[PAYLOAD].copy()
        keys[:, :32] = np.frombuffer(point, dtype=np.uint8)
        return TamperedBatch.of_payload(np.arange(len(messages)), keys)

    channel = Channel(case.directory, SimulationCoins(0), tamper=offered)
    with pytest.raises(ProtocolError, check=about("other")):
        opened(RelayCoded(k_min=1, profile=Profile.SHOWN), channel, case.grouping, 1).sum(np.ones((6, 1)), Step(0))


def first_bytes(key: bytes) -> bytes:
    """What a mask stream under a key begins with."""
    streams = KeyedStreams(np.frombuffer(key, dtype=np.uint8)[None])
    return streams.uniform(256, np.array([32]), mask_nonce(Step(0))).astype(np.uint8).tobytes()


def bits_that_matter(stream: Callable[[bytes], bytes]) -> int:
    """How many of the 256 bits of a key change the stream when they are flipped."""
    key = bytes(range(32))
    flipped = [bytes(b ^ (1 << bit % 8 if bit // 8 == i else 0) for i, b in enumerate(key)) for bit in range(256)]
    return sum(stream(other) != stream(key) for other in flipped)


def test_key_material_enters_whole() -> None:
    """Each of a key's 256 bits matters; the judge finds 32 where a key is folded to that."""
    assert bits_that_matter(first_bytes) == 256
    assert bits_that_matter(lambda key: first_bytes(key[:4] * 8)) == 32


def test_no_secret_shows_in_a_repr() -> None:
    """Neither key pairs nor streams, coins or supplies show a key when they are printed."""
    secret = bytes(range(32))
    streams = KeyedStreams(np.frombuffer(secret, dtype=np.uint8)[None])
    shown = [repr(KeyPair(secret)), repr(streams), repr(FieldStream(secret))]
    crypto = Cryptography(RelayCoded(profile=Profile.SHOWN).field, 1)
    shown += [repr(Keys(np.array([1]), [np.frombuffer(secret, dtype=np.uint8)[None]])), repr(crypto)]
    forms = (secret.hex(), repr(secret)[2:-1], str(list(secret))[1:-1])
    assert not any(form in text for form in forms for text in shown)


class OneMaskASender(Cryptography):
    """All messages of a sender in a step are under the mask of its first slot."""

    def _read(self, step: Step, attempt: int, keys: Any, ends: Any, width: int) -> Any:
        first = np.repeat(np.cumsum(ends) - ends, ends)
        return super()._read(step, attempt, keys, ends, width)[first]


def repeated_shares(scheme: RelayCoded) -> int:
    """How many shares of rows of zeros are there twice, at the relays that are sent theirs."""
    parties, topology = small("neighbours", scheme)
    channel = Channel(parties, SimulationCoins(0), Recording.everything())
    collective = Collective(scheme, topology, channel)
    for step in (Step(0), Step(0, 1), Step(1)):
        collective.sum(np.zeros((5, 3)), step)
    sent = [np.asarray(batch["share"]) for batch in channel.transcript.messages if batch.phase is Phase.SHARES]
    shares = np.concatenate(sent)
    assert len(shares) == 3 * 15 * (scheme.R - scheme.T)
    return len(shares) - len(np.unique(shares, axis=0))


@pytest.mark.parametrize(
    "scheme",
    [
        RelayCoded(k_min=1, profile=Profile.SHOWN),
        RelayCoded(k_min=1, T=2, R=4, profile=Profile.SHOWN),
        RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=3),
    ],
    ids=lambda scheme: scheme.name,
)
def test_no_two_messages_are_under_one_mask(scheme: RelayCoded) -> None:
    """Rows of zeros have shares that all differ, within a sender's messages and between steps; the twin's do not."""
    assert repeated_shares(scheme) == 0
    if not scheme.anonymous:
        assert repeated_shares(replace(scheme, cryptography=OneMaskASender)) > 0


def test_a_relay_that_tells_two_public_keys_is_named() -> None:
    """One that could tell senders apart by the key that they took is refused before anything is sent."""
    senders, agreement = np.array([1, 2, 3]), KeyAgreement.X25519
    crypto = Cryptography(PrimeField(), 1, session=bytes(16), agreement=agreement)
    keys = [np.frombuffer(KeyPair(bytes([n]) * 32).public, dtype=np.uint8) for n in (7, 8)]
    for told, two in (([0, 0, 0], False), ([0, 1, 0], True)):
        machine = SendersKeys(senders, np.array([9]), crypto, Wire(()), OwnDraws(SimulationCoins(0)))
        machine.publish()
        rows = np.stack([keys[which] for which in told])
        machine.receive(Messages(Phase.KEYS, SETUP, np.full(3, 9), senders, {PAYLOAD: rows}))
        with pytest.raises(ProtocolError, check=about("party 9")) if two else nullcontext():
            machine.agree()
