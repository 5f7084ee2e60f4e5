"""Sums of silos are exact, for everybody or for one; the server learns nothing of those for one."""

import numpy as np
import pytest

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import ProtocolError, TooFewClientsError
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Step, decode
from fgl_secure.runtime.packing import Arrays, named_from_bytes, named_to_bytes
from fgl_secure.training.processes.process import SERVER, Inbox, Outbox, Parcel
from fgl_secure.training.processes.sums import EVERYBODY, UNBOUNDED, Company, SiloSums, SumServer
from tests.error_codes import about
from tests.training.processes.mailbox import Mailbox

SILOS = 4
SESSION = bytes(16)
RNG = np.random.default_rng(0)
VECTORS = RNG.integers(0, 1000, (SILOS, SILOS, 5))
"""What each silo adds for each silo."""
ADDED = VECTORS.sum(axis=0) - VECTORS[range(SILOS), range(SILOS)]
"""What each silo is to learn: it adds nothing to its own sum."""

ADDED_FOR = {0: VECTORS[1:, 0].sum(axis=0), EVERYBODY: VECTORS[:, 0].sum(axis=0)}
"""What the sums of the first vectors are, for silo 0, which adds none, and for everybody."""

SCHEMES = [Plaintext(), PairwiseMasking()]


def parts(scheme: Scheme) -> tuple[list[SiloSums], SumServer]:
    company = Company(SILOS, scheme, SESSION)
    silos = [SiloSums(company, silo, SystemCoins()) for silo in range(SILOS)]
    return silos, SumServer(company, SystemCoins())


def put_down(part: SiloSums, scheme: Scheme, silo: int) -> SiloSums:
    """The same part, taken up from bytes."""
    state: Arrays = named_from_bytes(named_to_bytes(part.state()))
    fresh = SiloSums(Company(SILOS, scheme, SESSION), silo, SystemCoins())
    fresh.restore(state)
    return fresh


def run(silos: list[SiloSums], server: SumServer, begun: list[Outbox], scheme: Scheme | None = None) -> list[Parcel]:
    """Runs sums to their end; what the server sent in its last turn to all, in order of receivers."""
    mailbox, outboxes = Mailbox(SILOS), dict(enumerate(begun))
    last: list[Parcel] = []
    done: set[int] = set()
    while len(done) < SILOS:
        inboxes: dict[int, Inbox] = mailbox.served(outboxes, server)
        last = [parcel for silo in range(SILOS) for parcel in inboxes.get(silo, {}).get(SERVER, ())]
        for silo in range(SILOS):
            silos[silo] = put_down(silos[silo], scheme, silo) if scheme is not None else silos[silo]
            out = silos[silo].take(inboxes.get(silo, {}))
            outboxes[silo] = {} if out is None else out
            done |= {silo} if out is None else set()
    return last


def begin_for_each(silos: list[SiloSums], step: Step) -> list[Outbox]:
    return [
        part.begin({i: 5 if i == silo else VECTORS[silo, i] for i in range(SILOS)}, UNBOUNDED, step)
        for silo, part in enumerate(silos)
    ]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_sums_are_exact(scheme: Scheme) -> None:
    """One sum for each silo, then one for everybody, in one session, though parts are put down after every turn."""
    silos, server = parts(scheme)
    run(silos, server, begin_for_each(silos, Step(0)), scheme)
    for silo, part in enumerate(silos):
        assert list(part.results) == [silo]
        assert np.array_equal(part.results[silo], ADDED[silo])
    begun = [part.begin({EVERYBODY: VECTORS[silo, 0] - 500}, 1000, Step(1)) for silo, part in enumerate(silos)]
    run(silos, server, begun)
    assert all(np.array_equal(part.results[EVERYBODY], (VECTORS[:, 0] - 500).sum(axis=0)) for part in silos)


def pads(scheme: Scheme, receiver: int) -> np.ndarray:
    """What the server's sums, as it sends them on, are too large by, in two steps: [2, 5]."""
    silos, server = parts(scheme)
    found = []
    for number in range(2):
        begun = [part.begin(_adding(silo, receiver), 1000, Step(number)) for silo, part in enumerate(silos)]
        last = run(silos, server, begun)
        found.append((_told(last) - ADDED_FOR[receiver]) % MERSENNE_61)
    return np.array(found)


def _adding(silo: int, receiver: int) -> dict[int, np.ndarray | int]:
    return {receiver: 5 if silo == receiver else VECTORS[silo, 0]}


def _told(last: list[Parcel]) -> np.ndarray:
    """The sum in what the server sent last."""
    masked = [parcel for parcel in last if parcel.phase is Phase.MASKED_SUMS]
    if masked:
        return np.asarray(decode(masked[0].arrays[1].tobytes(), SESSION)["sum"][0]).astype(np.int64)
    return np.asarray(last[0].arrays[1])


def covers_each_sum_anew(found: np.ndarray) -> bool:
    """Whether no entry of a pad is small or used again: ten uniform elements of 61 bits are so by accident never."""
    return len(np.unique(found)) == found.size and bool((found > 2**40).all())


def test_what_the_server_learns_of_a_sum_for_one_silo_is_under_a_pad_used_once() -> None:
    """Every sum has a pad of its own; a sum for everybody, the broken twin, has none, and the test notices."""
    assert covers_each_sum_anew(pads(PairwiseMasking(), 0))
    assert not covers_each_sum_anew(pads(PairwiseMasking(), EVERYBODY))


def test_silos_must_open_the_same_sums() -> None:
    """A silo that opens another sum is noticed by the server, which names it."""
    silos, server = parts(Plaintext())
    begun = [part.begin({EVERYBODY: VECTORS[0, 0]}, 1000, Step(silo == 2)) for silo, part in enumerate(silos)]
    with pytest.raises(ProtocolError, check=about("silos")):
        run(silos, server, begun)


def test_too_few_silos_stop_a_sum() -> None:
    """Silos that fall silent leave fewer than the threshold, and the error says so."""
    silos, server = parts(PairwiseMasking())
    begun = begin_for_each(silos, Step(0))
    mailbox = Mailbox(SILOS)
    inboxes = mailbox.served(dict(enumerate(begun)), server)
    answers = {silo: silos[silo].take(inboxes[silo]) or {} for silo in (0, 1)}
    with pytest.raises(TooFewClientsError, check=about("at least threshold = 3 of 3 clients")):
        mailbox.served(answers, server)


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
    ids=["sum not open", "wrong length", "no message of sums", "not open", "no message", "other arrays"],
)
def test_a_server_that_departs_from_the_protocol_is_refused(forged: Parcel) -> None:
    """A typed error, and nothing that is added up by accident."""
    silos, _ = parts(Plaintext())
    begun = begin_for_each(silos, Step(0))
    assert silos[0].take(Mailbox(SILOS).sorted(dict(enumerate(begun)))[0]) == {}
    with pytest.raises(ProtocolError):
        silos[0].take({SERVER: [forged]})


@pytest.mark.parametrize("left", [[], [1, 2]], ids=["none", "not all"])
def test_a_silo_goes_on_when_all_others_have_confirmed(left: list[int]) -> None:
    """A server that holds a confirmation back is refused."""
    silos, _ = parts(PairwiseMasking())
    arrived = Mailbox(SILOS).sorted(dict(enumerate(begin_for_each(silos, Step(0)))))[0]
    with pytest.raises(ProtocolError):
        silos[0].take({silo: arrived[silo] for silo in left})
    assert silos[0].take(arrived) == {}


def test_silos_that_open_other_sums_find_out_without_the_server() -> None:
    """Lengths, bounds and steps are confirmed with the results."""
    silos, _ = parts(PairwiseMasking())
    begun = [part.begin({EVERYBODY: VECTORS[0, 0]}, 1000 + silo, Step(0)) for silo, part in enumerate(silos)]
    with pytest.raises(ProtocolError):
        silos[0].take(Mailbox(SILOS).sorted(dict(enumerate(begun)))[0])
