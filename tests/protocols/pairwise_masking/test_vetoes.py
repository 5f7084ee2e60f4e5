"""Sums that a client may veto: nobody learns a vetoed one, nor who vetoed it, and one that nobody vetoes is as ever."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Elements, KeyPurpose
from fgl_secure.errors import InputError, TooFewClientsError, TooManyErrors
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.pairwise_masking.clients import MaskingClients
from fgl_secure.protocols.pairwise_masking.drawing import Vetoes
from fgl_secure.protocols.pairwise_masking.scheme import VETOES
from fgl_secure.protocols.pairwise_masking.server import MaskingServer
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Messages, Party, Phase, Step, TamperedBatch, simulate
from fgl_secure.testing import Protocol
from fgl_secure.testing.affine import Judge, distance
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.cases import SERVER, TAPES_SESSION, silo
from tests.protocols.secagg.rounds import NEVER, NOW, STAGES, Sum, directory_of, topology_of, vectors_of
from tests.protocols.secagg.sums import channel_of

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MODULUS = 13


def vetoable(clients: int, *, bound: int | None = 50, length: int = 2) -> Topology:
    """A sum that its clients may veto."""
    return replace(topology_of(clients, bound=bound, length=length), veto=True)


def who(clients: int, some: Iterable[int]) -> Flags:
    """Flags of some clients."""
    return np.isin(np.arange(clients), list(some))


def summed(clients: int, vetoing: Sequence[int], channel: Channel, threshold: int | None = None) -> Collective:
    """A sum, done."""
    collective = Collective(PairwiseMasking(threshold), vetoable(clients), channel)
    total = collective.sum(vectors_of(clients), NOW, who(clients, vetoing))
    there = collective.contributors
    places = [] if there is None else np.flatnonzero(np.isin(collective.topology.senders, there)).tolist()
    assert total[0].tolist() == vectors_of(clients)[places].sum(axis=0).tolist()
    return collective


@pytest.mark.parametrize("clients", [2, 4])
def test_any_client_vetoes_and_nobody_else(clients: int) -> None:
    """A sum is opened exactly where no client vetoes it."""
    for size in range(clients + 1):
        for some in itertools.combinations(range(clients), size):
            found = summed(clients, some, channel_of(clients))
            assert found.is_vetoed == bool(some)
            assert (found.contributors is None) == bool(some)


@pytest.mark.parametrize("stage", [Stage.SHARES, Stage.VECTORS, Stage.AGREEMENT, Stage.VETO, Stage.OPENING])
def test_vetoes_count_of_those_in_the_sum(stage: Stage) -> None:
    """Of a client that drops out before its vector came the veto is nothing; later on it counts."""

    def arrives(phase: Phase, _: Step, senders: Ints, __: Ints) -> Flags:
        since = {3: stage}  # the third client's identifier
        return np.array([STAGES.get(phase, Stage.KEYS) < since.get(int(end), NEVER) for end in senders], dtype=np.bool_)

    assert summed(5, [2], channel_of(5, arrives), 3).is_vetoed == (stage > Stage.VECTORS)
    assert not summed(5, [], channel_of(5, arrives), 3).is_vetoed


def test_states_go_on_in_the_middle_of_a_vetoed_sum() -> None:
    """Every party in a process of its own, one of which is another one after each turn."""
    scheme = PairwiseMasking(3)
    for vetoing in ([], [1, 4]):
        run = Sum.of(scheme, vetoable(5), vectors_of(5))
        for party, machine in run.machines.items():
            if party:
                machine.veto(np.array([party - 1 in vetoing]))
        for turn, out in enumerate(run.turns()):
            for sent in out:
                run.hand(sent)
            run.restart(scheme, turn % 6)
        assert run.server.is_vetoed == bool(vetoing)
        assert (run.server.sums is None) == bool(vetoing)


def test_a_false_share_is_corrected_and_too_many_stop_the_sum() -> None:
    """One client of five that lies neither makes nor undoes a veto; two stop the sum."""
    for vetoing in ([], [0]):
        for liars in ([4], [3, 4]):

            def lie(messages: Messages, liars: list[int] = liars) -> TamperedBatch | None:
                if messages.phase is not Phase.VETOES or "share" not in messages.fields:
                    return None
                share = messages["share"].copy()
                share[np.isin(messages.senders, [u + 1 for u in liars])] ^= 1
                return TamperedBatch(np.arange(len(messages)), {**messages.fields, "share": share})

            channel = Channel(directory_of(5), SimulationCoins(0), tamper=lie)
            if len(liars) == 1:
                assert summed(5, vetoing, channel, 3).is_vetoed == bool(vetoing)
            else:
                with pytest.raises(TooManyErrors):
                    summed(5, vetoing, channel, 3)


def test_too_few_shares_stop_the_sum() -> None:
    """Below the threshold it isn't known whether anybody vetoes, and nothing is opened."""

    def arrives(phase: Phase, _: Step, senders: Ints, __: Ints) -> Flags:
        return np.asarray((phase is not Phase.VETOES) | (senders < 4))

    with pytest.raises(TooFewClientsError, check=about("at least threshold = 4 of 5 clients")):
        summed(5, [], channel_of(5, arrives), 4)


def test_who_can_t_veto_is_told_so() -> None:
    """Other schemes, sparse graphs, few bits and other receivers refuse; and it is too late after the shares."""
    for scheme in (LightSecAgg(), PairwiseMasking(degree=2), PairwiseMasking(precision=8)):
        with pytest.raises(InputError, check=about("scheme")):
            Collective(scheme, vetoable(5), channel_of(5))
    with pytest.raises(InputError, check=about("scheme")):
        Collective(PairwiseMasking(), replace(topology_of(5, split=True), veto=True), channel_of(5))
    with pytest.raises(InputError, check=about("veto")):
        Collective(PairwiseMasking(), topology_of(5), channel_of(5)).sum(vectors_of(5), NOW, who(5, [1]))
    run = Sum.of(PairwiseMasking(), vetoable(5), vectors_of(5))
    run.play()
    with pytest.raises(InputError, check=about("veto")):
        run.machines[1].veto(np.ones(1, dtype=np.bool_))


def test_the_claim_says_what_a_veto_tells() -> None:
    """Only of sums that may be vetoed."""
    assert VETOES in PairwiseMasking().claim_for(vetoable(5)).assumptions
    assert VETOES not in PairwiseMasking().claim_for(topology_of(5)).assumptions


# ------------------------------------------------------------------------------------------------- over every coin
class OpensAllTheSame(MaskingServer):
    """A server that lies, or one that has not noticed: it has a vetoed sum opened."""

    def _send_vetoes(self) -> Iterable[Messages]:
        answered = self._tracker.answered.copy()
        self._tracker.go(Stage.OPENING, answered)
        return [self._to_clients(Phase.UNMASKING, answered, {})]


class Ones(Vetoes):
    """A veto is 1, so that their sum counts them."""

    def _secret(self, drawn: Elements, at: int) -> Elements:
        return np.full_like(drawn, int(self.cast[at]))


class VetoesAreOnes(MaskingClients):
    """With vetoes like that."""

    vetoes = Ones


class VectorsOfWhoVetoes(MaskingClients):
    """Who vetoes hands in its vector without anything uniform on top."""

    def _masks(self, at: int, context: Any) -> Any:
        masks, signs = super()._masks(at, context)
        return (masks[:-1], signs[:-1]) if self._vetoes.cast[at] else (masks, signs)


def protocol(
    clients: int, threshold: int, *, parts: dict[str, Any] | None = None, lies: bool = False, **given: Any
) -> Protocol:
    """A sum under ideal cryptography; inputs [n, 2, 1]: what a client adds, and whether it vetoes."""
    topology = vetoable(clients, bound=None, length=1)
    made: dict[str, Any] = {"cryptography": IdealCryptography, **(parts or {}), **given}
    scheme = PairwiseMasking(threshold, MODULUS, **made)

    def run(inputs: Inputs, channel: Channel) -> None:
        machines = scheme.machines(topology, TAPES_SESSION, channel)
        if lies:
            machines = tuple(_lying(each) for each in machines)
        for machine in machines:
            own = np.isin(machine.parties, topology.senders).all()
            machine.begin(NOW, np.ascontiguousarray(inputs[:, 0]) % MODULUS if own else None)
            if own:
                machine.veto(inputs[:, 1, 0] != 0)
        channel.note_inputs("vectors", NOW, topology.senders, np.ascontiguousarray(inputs[:, 0]) % MODULUS)
        simulate(machines, channel)

    return Protocol(run, directory_of(clients), MODULUS, topology.senders, name="a sum to veto")


def _lying(machine: Any) -> Any:
    if isinstance(machine, MaskingServer):
        machine.__class__ = OpensAllTheSame
    return machine


def held(clients: int, values: dict[int, int] | None = None, vetoing: Iterable[int] = ()) -> Ints:
    """What clients add, 0 unless said, and who vetoes: int64 [n, 2, 1]."""
    out = np.zeros((clients, 2, 1), dtype=np.int64)
    for u, value in (values or {}).items():
        out[u, 0, 0] = value
    out[list(vetoing), 1, 0] = 1
    return out


def coalitions(clients: int, threshold: int) -> Iterable[tuple[Party, ...]]:
    """The server with up to t - 1 clients."""
    for size in range(threshold):
        for some in itertools.combinations(range(clients), size):
            yield (SERVER, *map(silo, some))


def test_nobody_learns_who_vetoes_nor_what_anybody_added() -> None:
    """To every coalition below the threshold vetoed sums look alike, whoever and however many veto; others do not."""
    judge, clients = Judge(protocol(3, 2)), 3
    for coalition in coalitions(clients, 2):
        honest = [u for u in range(clients) if silo(u) not in coalition]
        if len(honest) < 2:
            continue
        first, *others = ({u} for u in honest)
        for vetoing in (*others, set(honest)):
            assert judge.distance(held(clients, {}, first), held(clients, {}, vetoing), coalition) == 0
        for u in honest:
            assert judge.distance(held(clients, {}, first), held(clients, {u: 3}, first), coalition) == 0
        assert judge.distance(held(clients), held(clients, {}, first), coalition) > 0
        assert judge.distance(held(clients), held(clients, {honest[0]: 1, honest[1]: -1}), coalition) == 0


def test_a_vetoed_sum_that_is_opened_all_the_same_is_uniform() -> None:
    """A server that goes on in spite of a veto of somebody honest learns nothing of what the others added."""
    judge, clients = Judge(protocol(3, 2, lies=True)), 3
    for coalition in coalitions(clients, 2):
        honest = [u for u in range(clients) if silo(u) not in coalition]
        if len(honest) < 2:
            continue
        for u in honest:
            vetoing = honest[:1]
            assert judge.distance(held(clients, {}, vetoing), held(clients, {u: 3}, vetoing), coalition) == 0
        assert judge.distance(held(clients), held(clients, {honest[0]: 3}), coalition) == 1


TWINS: dict[str, tuple[dict[str, Any], bool, Ints, Ints, tuple[Party, ...]]] = {
    "vetoes are ones": (
        {"clients": VetoesAreOnes}, False, held(3, {}, [0]), held(3, {}, [0, 1]), (SERVER,),
    ),
    "polynomials without coins": (
        {"cryptography": partial(flaws.Without, purpose=KeyPurpose.VETO), "clients": VetoesAreOnes}, False,
        held(3, {}, [0]), held(3, {}, [1]), (SERVER, silo(2)),
    ),
    "who vetoes adds its vector": (
        {"clients": VectorsOfWhoVetoes}, True, held(3, {}, [0]), held(3, {1: 3}, [0]), (SERVER,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWINS)
def test_the_proof_rejects_the_flaw(name: str) -> None:
    """What holds of the scheme fails for a twin with one flaw."""
    parts, lies, a, b, coalition = TWINS[name]
    assert distance(protocol(3, 2, lies=lies), a, b, coalition) == 0
    assert distance(protocol(3, 2, parts=parts, lies=lies), a, b, coalition) == 1
