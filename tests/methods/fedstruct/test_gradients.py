"""Summed gradients of structure: exact, for whom they are for, and rows that few clients contribute to stay closed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError
from fgl_secure.methods.fedstruct.audit_target import claim_of
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.structure import CONTRIBUTORS, STRUCTURE_SUM, SumsByOwners, SumsByServer
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, needed_marks
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role, Secret, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.program import Program
from fgl_secure.training.server_sums import GRADIENT_BITS
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities

CLIENTS, K_MIN = 5, 2
GRAPH = replace(two_communities(devices=10), silo_of=np.arange(10) // 2)
ROWS = 10
MASKS = PairwiseMasking(threshold=4, keys=KeyAgreement.X25519)
"""Of keys that repeat with their coins: whatever wraps a secret for ML-KEM is drawn by the library."""
STAIRS = np.zeros((CLIENTS, ROWS, 2))
STAIRS[:, :6] = (np.tri(CLIENTS, 6, 0)[:, :, None] * np.arange(1, CLIENTS + 1)[:, None, None]).repeat(2, axis=2)
"""To row j clients j and above contribute: rows have 5, 4, 3, 2, 1 and no contributors."""
TOLERANCE = CLIENTS * 2.0 ** -(GRADIENT_BITS + 1)
MARKS = 0
"""Part of the step in which marks are added up; values follow in the next one."""

Reals = NDArray[np.float64]
matrices = st.lists(st.booleans(), min_size=CLIENTS * ROWS, max_size=CLIENTS * ROWS).map(
    lambda flags: np.array(flags, dtype=float).reshape(CLIENTS, ROWS, 1) * np.array([1.5, -2.0])
)


class Adding(Program):
    """One sum of a matrix of each client."""

    def __init__(self, comm: Collectives, parts: Reals, k_min: int, *, owners: bool) -> None:
        super().__init__(comm)
        self._own, self._k_min, self._owners = parts[comm.silo.silo], k_min, owners

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        if self._owners:
            self.kept = {"own": SumsByOwners(self.comm, GRAPH.silo_of, self._k_min).own(self._own)}
        else:
            self.kept = {"all": SumsByServer(self.comm, self._k_min).all(self._own)}
        return False

    @property
    def report(self) -> dict[str, Array]:
        return self.kept


def summed(
    parts: Reals, scheme: Scheme = MASKS, k_min: int = K_MIN, *, owners: bool = False, loss: Loss | None = None
) -> tuple[Reals, Channel]:
    """The sum of all clients' matrices as the server, or the owners of the rows, have it; and the channel."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything(), loss)
    schemes = {"clients" if owners else "server": scheme}
    process = OneProcess(GRAPH, schemes, channel, lambda comm: Adding(comm, parts, k_min, owners=owners))
    process.round(0)
    reports = [program.report for program in process.programs]
    return (np.concatenate([r["own"] for r in reports]) if owners else reports[0]["all"]), channel


def random_parts() -> Reals:
    return np.random.default_rng(0).normal(size=(CLIENTS, ROWS, 3)).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking(), LightSecAgg()], ids=lambda each: each.name)
def test_the_server_gets_the_sum_of_all(scheme: Scheme) -> None:
    """The plain sum, to the precision of the fixed point, which is what the server is left with."""
    parts = random_parts()
    found, channel = summed(parts, scheme, 1)
    assert np.abs(found - parts.sum(axis=0)).max() <= TOLERANCE
    (known,) = channel.transcript.views(Role.SERVER).own(STRUCTURE_SUM)
    assert np.array_equal(known.values[0], found.reshape(-1))


@pytest.mark.parametrize("scheme", [Plaintext(), PairwiseMasking(), Ckks()], ids=lambda each: each.name)
def test_owners_get_the_sums_of_their_rows(scheme: Scheme) -> None:
    parts = random_parts()
    found, channel = summed(parts, scheme, 1, owners=True)
    bits = 20 if isinstance(scheme, Ckks) else GRADIENT_BITS
    assert np.abs(found - parts.sum(axis=0)).max() <= CLIENTS * 2.0 ** -(bits + 1)
    server = channel.transcript.views(Role.SERVER)
    assert not server.own(STRUCTURE_SUM)
    assert not server.messages(Phase.VECTORS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2000.0])
def test_gradients_that_do_not_fit_are_refused(bad: float) -> None:
    """NaN, infinity and entries beyond the bound are refused before anything is sent."""
    parts = np.zeros((CLIENTS, ROWS, 2))
    parts[1, 2] = bad
    with pytest.raises(InputError, check=about("gradients")):
        summed(parts, k_min=1)


@pytest.mark.parametrize("scheme", [MASKS, LightSecAgg(threshold=4)], ids=lambda scheme: scheme.name)
@given(parts=matrices)
@settings(max_examples=8)
def test_rows_of_enough_clients_are_opened_and_no_others(scheme: Scheme, parts: Reals) -> None:
    """Rows with k_min contributors, and as many more as may vanish, are summed; all others are 0."""
    enough = (parts != 0).any(axis=2).sum(axis=0) >= needed_marks(scheme, CLIENTS, K_MIN)
    assert np.allclose(summed(parts, scheme)[0], np.where(enough[:, None], parts.sum(axis=0), 0), atol=1e-6)


@given(parts=matrices)
@settings(max_examples=5)
def test_owners_open_rows_of_enough_others(parts: Reals) -> None:
    """What the owner itself adds is no contribution; it has that anyway."""
    masks = PairwiseMasking()
    mine = GRAPH.silo_of == np.arange(CLIENTS)[:, None]
    marked = ((parts != 0).any(axis=2) & ~mine).sum(axis=0) >= needed_marks(masks, CLIENTS - 1, K_MIN)
    own = parts[GRAPH.silo_of, np.arange(ROWS)]
    expected = np.where(marked[:, None], parts.sum(axis=0), own)
    assert np.allclose(summed(parts, masks, owners=True)[0], expected, atol=1e-6)


def test_without_k_min_a_row_of_one_client_is_read() -> None:
    """The control: the row is the client's own, to the last digit; with k_min it is 0."""
    assert np.array_equal(summed(STAIRS, k_min=1)[0][4], STAIRS[4, 4])
    assert np.array_equal(summed(STAIRS)[0], np.where(np.arange(ROWS)[:, None] < 3, STAIRS.sum(axis=0), 0))


def said(parts: Reals, k_min: int) -> list[tuple[str, bytes]]:
    """All messages, byte for byte, with the same coins each time."""
    batches = summed(parts, k_min=k_min)[1].transcript.messages
    return [(b.phase.name, value.tobytes()) for b in batches for value in (b.fields or {}).values()]


@given(values=st.lists(st.floats(-8, 8).filter(lambda value: abs(value) > 2**-20), min_size=3, max_size=3))
@settings(max_examples=10)
def test_nothing_of_a_closed_row_leaves_a_client(values: list[float]) -> None:
    """Whatever stands in closed rows, all parties say the same to the last byte, masks and all; in open rows not."""
    other = STAIRS.copy()
    other[3, 3], other[4, 3], other[4, 4] = values
    assert said(STAIRS, K_MIN) == said(other, K_MIN)
    assert said(STAIRS, 1) != said(other, 1) or np.array_equal(STAIRS, other)


def lost_after_its_marks(client: int) -> Loss:
    """A network on which a client is heard of until its vector of values."""
    party = hierarchy_of(GRAPH).ids(Role.SILO)[client]

    def arrives(phase: Phase, step: Step, senders: NDArray[np.int64], _: NDArray[np.int64]) -> NDArray[np.bool_]:
        gone = step.part != MARKS and phase is Phase.MASKED_VECTORS
        kept: NDArray[np.bool_] = senders != party
        return kept | (not gone)

    return arrives


@pytest.mark.parametrize("client", range(CLIENTS))
def test_a_client_that_vanishes_after_its_marks_leaves_k_min(client: int) -> None:
    """No row is opened for fewer than k_min clients, whoever vanishes; as many marks as k_min would open one."""
    found, _ = summed(STAIRS, loss=lost_after_its_marks(client))
    left = np.delete(STAIRS, client, axis=0)
    contributors = (left != 0).any(axis=2).sum(axis=0)
    opened = found.any(axis=1)
    assert np.allclose(found[opened], left.sum(axis=0)[opened])
    assert contributors[opened].min() >= K_MIN
    marked = (STAIRS != 0).any(axis=2).sum(axis=0)
    assert client < 4 or contributors[marked >= K_MIN].min() < K_MIN


@pytest.mark.parametrize("owners", [False, True])
def test_counts_are_for_whoever_is_entitled_to_the_sum(owners: bool) -> None:
    """The server, or the owner of the rows, learns how many contribute; clients are told which rows are open."""
    _, channel = summed(STAIRS, PairwiseMasking(), owners=owners)
    seen = [channel.transcript.view([Party(Role.SILO, k)]) for k in range(CLIENTS)]
    marks = (STAIRS != 0).any(axis=2)
    if owners:
        for k, view in enumerate(seen):
            (counts,) = view.own(CONTRIBUTORS)
            expected = np.delete(marks, k, axis=0).sum(axis=0)[GRAPH.silo_of == k]
            assert np.asarray(counts.values).ravel().tolist() == expected.tolist()
    else:
        (counts,) = channel.transcript.views(Role.SERVER).own(CONTRIBUTORS)
        assert np.asarray(counts.values).ravel().tolist() == marks.sum(axis=0).tolist()
        assert not any(view.own(CONTRIBUTORS) for view in seen)
    assert all(view.messages(Phase.OPENED) for view in seen)


def test_a_k_min_that_cannot_be_reached_is_refused() -> None:
    """More than the clients that a sum has at least is an error before anything is sent."""
    assert [needed_marks(MASKS, CLIENTS, k) for k in (1, 2, 3, 4)] == [1, 3, 4, 5]
    with pytest.raises(InputError, check=about("k_min")):
        summed(STAIRS, k_min=5)


def test_the_claim_says_what_marks_tell() -> None:
    """With k_min somebody learns how many contribute to a row; without it, or in the clear, nobody does."""
    for k_min, telling in ((1, 0), (2, 1)):
        claim = claim_of(RowExchange(MASKS, MASKS, k_min=k_min), "hop2vec", CLIENTS)
        leaks = [leak for leak in claim.leaks_by_design if leak.secret is Secret.FOREIGN_NODE]
        assert sum("fewer than 2" in leak.statement for leak in leaks) == telling
