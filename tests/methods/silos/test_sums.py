"""Sums of silos are exact, for everybody or for one; the server learns nothing of those for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.methods.silos.mailbox import Mailbox
from fgl_secure.methods.silos.parcels import Arrays, Parcel
from fgl_secure.methods.silos.program import Inbox, Outbox
from fgl_secure.methods.silos.sum_server import SumServer
from fgl_secure.methods.silos.sums import EVERYBODY, Company, SiloSums
from fgl_secure.protocols.staged.envelope import SERVER
from fgl_secure.protocols.staged.interface import StagedScheme, SumTerms
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from fgl_secure.protocols.staged.plain import StagedPlain
from fgl_secure.runtime import Phase, Step
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes

SILOS = 4
SESSION = bytes(16)
RNG = np.random.default_rng(0)
VECTORS = RNG.integers(0, 1000, (SILOS, SILOS, 5))
"""What each silo adds for each silo."""
ADDED = VECTORS.sum(axis=0) - VECTORS[range(SILOS), range(SILOS)]
"""What each silo is to learn: it adds nothing to its own sum."""

SCHEMES = [StagedPlain(), StagedPairwiseMasking()]


class RepeatingCoins(Coins):
    """The broken twin: the same coins whenever they are asked for."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return ()

    def uniform(self, modulus: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.full(shape, 12345 % modulus, dtype=np.int64)


def parts(scheme: StagedScheme, coins: Coins | None = None) -> tuple[list[SiloSums], SumServer]:
    company = Company(SILOS, scheme, SESSION)
    silos = [SiloSums(company, silo, coins or SystemCoins()) for silo in range(SILOS)]
    return silos, SumServer(company, SystemCoins())


def put_down(part: SiloSums, scheme: StagedScheme, silo: int) -> SiloSums:
    """The same part, taken up from bytes."""
    state: Arrays = named_from_bytes(named_to_bytes(part.state()))
    fresh = SiloSums(Company(SILOS, scheme, SESSION), silo, SystemCoins())
    fresh.restore(state)
    return fresh


def run(
    silos: list[SiloSums], server: SumServer, begun: list[Outbox], scheme: StagedScheme | None = None
) -> list[Parcel]:
    """Runs sums to their end; what the server sent in its last turn to all, in order of receivers."""
    mailbox, outboxes = Mailbox(SILOS), dict(enumerate(begun))
    last: list[Parcel] = []
    done: set[int] = set()
    while len(done) < SILOS:
        inboxes: dict[int, Inbox] = mailbox.served(outboxes, server)
        last = [parcel for silo in range(SILOS) for parcel in inboxes[silo][SERVER]]
        for silo in range(SILOS):
            silos[silo] = put_down(silos[silo], scheme, silo) if scheme is not None else silos[silo]
            out = silos[silo].take(inboxes[silo])
            outboxes[silo] = {} if out is None else out
            done |= {silo} if out is None else set()
    return last


def begin_for_each(silos: list[SiloSums], step: Step) -> list[Outbox]:
    return [
        part.begin({i: 5 if i == silo else VECTORS[silo, i] for i in range(SILOS)}, 1, step)
        for silo, part in enumerate(silos)
    ]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_sums_are_exact(scheme: StagedScheme) -> None:
    """One sum for each silo, then one for everybody, in one session, though parts are put down after every turn."""
    silos, server = parts(scheme)
    run(silos, server, begin_for_each(silos, Step(0)), scheme)
    for silo, part in enumerate(silos):
        assert list(part.results) == [silo]
        assert np.array_equal(part.results[silo], ADDED[silo])
    begun = [part.begin({EVERYBODY: VECTORS[silo, 0] - 500}, 1000, Step(1)) for silo, part in enumerate(silos)]
    run(silos, server, begun)
    assert all(np.array_equal(part.results[EVERYBODY], (VECTORS[:, 0] - 500).sum(axis=0)) for part in silos)


def pads(coins: Coins | None) -> np.ndarray:
    """What the server's sums for silo 0 are too large by, in two steps: [2, 5]."""
    silos, server = parts(StagedPairwiseMasking(), coins)
    found = []
    for number in range(2):
        last = run(silos, server, begin_for_each(silos, Step(number)))
        told = next(parcel for parcel in last if parcel.phase is Phase.MASKED_SUMS and len(parcel.arrays[1]))
        found.append((told.arrays[1] - ADDED[0]) % MERSENNE_61)
    return np.array(found)


def covers_each_sum_anew(found: np.ndarray) -> bool:
    """Whether no entry of a pad is small or used again: ten uniform elements of 61 bits are so by accident never."""
    return len(np.unique(found)) == found.size and bool((found > 2**40).all())


def test_what_the_server_learns_of_a_sum_for_one_silo_is_under_a_pad_used_once() -> None:
    """Every sum has a pad of its own; with coins that repeat the test notices."""
    assert covers_each_sum_anew(pads(None))
    # Only the pads are what repeats: keys that repeat would be refused by the scheme itself.
    one, other = (SiloSums(Company(SILOS, StagedPlain(), SESSION), 0, RepeatingCoins()) for _ in range(2))
    begun = [part.begin({0: 5}, 1, Step(0)) for part in (one, other)]
    assert all(SERVER in outbox for outbox in begun)
    repeated = np.stack([part.state()["pad0"] for part in (one, other)])
    assert not covers_each_sum_anew(repeated)


def test_silos_must_open_the_same_sums() -> None:
    """A silo that opens another sum is noticed by the server, which names it."""
    silos, server = parts(StagedPlain())
    begun = [part.begin({EVERYBODY: VECTORS[0, 0]}, 1000, Step(silo == 2)) for silo, part in enumerate(silos)]
    with pytest.raises(ProtocolError, match="silos 0 and 2 differ"):
        run(silos, server, begun)


def test_too_few_silos_stop_a_sum() -> None:
    """Silos that fall silent leave fewer than the threshold, and the error says so."""
    silos, server = parts(StagedPairwiseMasking())
    begun = begin_for_each(silos, Step(0))
    mailbox = Mailbox(SILOS)
    inboxes = mailbox.served(dict(enumerate(begun)), server)
    answers = {silo: silos[silo].take(inboxes[silo]) or {} for silo in (0, 1)}
    with pytest.raises(TooFewClientsError, match="found 2"):
        mailbox.served(answers, server)


class WithoutOne(Company):
    """The broken twin: sums go on without a silo."""

    def terms(self, number: int, length: int, bound: int) -> SumTerms:
        return replace(super().terms(number, length, bound), threshold=SILOS - 1)


@pytest.mark.parametrize("kind", [Company, WithoutOne])
def test_no_sum_goes_on_without_its_receiver(kind: type[Company]) -> None:
    """When silo 0 falls silent its sum stops; if it went on, the server would learn what the others add."""
    company = kind(SILOS, StagedPlain(), SESSION)
    silos, server = [SiloSums(company, silo, SystemCoins()) for silo in range(SILOS)], SumServer(company, SystemCoins())
    mailbox = Mailbox(SILOS)
    begun = [part.begin({0: 5 if silo == 0 else VECTORS[silo, 0]}, 1, Step(0)) for silo, part in enumerate(silos)]
    inboxes = mailbox.served(dict(enumerate(begun)), server)
    answers = {silo: silos[silo].take(inboxes[silo]) or {} for silo in range(1, SILOS)}
    if kind is Company:
        with pytest.raises(TooFewClientsError, match="found 3"):
            mailbox.served(answers, server)
    else:
        (told,) = mailbox.served(answers, server)[0][SERVER]
        assert np.array_equal(told.arrays[1], ADDED[0])


@pytest.mark.parametrize(
    "forged",
    [
        Parcel(Phase.VECTOR_SUMS, Step(0), (np.asarray(7), np.zeros(5, dtype=np.int64))),
        Parcel(Phase.VECTOR_SUMS, Step(0), (np.asarray(0), np.zeros(4, dtype=np.int64))),
        Parcel(Phase.MASKED_SUMS, Step(0), (np.asarray(0), np.full(5, -1, dtype=np.int64))),
        Parcel(Phase.MASKED_VECTORS, Step(0), (np.asarray(9), np.zeros(3, dtype=np.uint8))),
        Parcel(Phase.MASKED_VECTORS, Step(0), (np.asarray(0), np.zeros(3, dtype=np.uint8))),
        Parcel(Phase.MASKED_VECTORS, Step(0), (np.zeros(2),)),
    ],
    ids=["sum not open", "wrong length", "no residue", "not open", "no envelope", "other arrays"],
)
def test_a_server_that_departs_from_the_protocol_is_refused(forged: Parcel) -> None:
    """A typed error, and nothing that is added up by accident."""
    silos, _ = parts(StagedPlain())
    begin_for_each(silos, Step(0))
    with pytest.raises(ProtocolError):
        silos[0].take({SERVER: [forged]})
