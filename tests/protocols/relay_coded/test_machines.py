"""The same machines in processes of their own, put down after all that they do and taken up from arrays alone."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import SumMachine
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Direction, Directory, Messages, OwnDraws, Phase, Recording, Role, Step, simulate
from fgl_secure.runtime.channel import Loss
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes
from tests.error_codes import about
from tests.protocols.conformance import ideal
from tests.protocols.relay_coded.test_faults import VALUES, meshed
from tests.protocols.relay_coded.twins import FORGETFUL
from tests.strategies import grouping_over

Array = NDArray[np.generic]
Ids = NDArray[np.int64]
SESSION = bytes(range(16))


class PutDown(SumMachine):
    """A machine that is made anew for everything that it does, from nothing but bytes."""

    def __init__(self, make: Callable[[], SumMachine]) -> None:
        first = make()
        super().__init__(first.parties)
        self._make, self._kept = make, named_to_bytes(first.state())

    def _with(self, act: Callable[[SumMachine], object]) -> object:
        machine = self._make()
        machine.restore(named_from_bytes(self._kept))
        found = act(machine)
        self._kept = named_to_bytes(machine.state())
        self.remarks += machine.remarks
        return found

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._with(lambda machine: machine.begin(step, rows))

    def receive(self, messages: Messages) -> None:
        self._with(lambda machine: machine.receive(messages))

    def step(self) -> Iterable[Messages]:
        return self._with(lambda machine: list(machine.step()))  # type: ignore[return-value]

    def on_idle(self) -> bool:
        return bool(self._with(lambda machine: machine.on_idle()))

    @property
    def sums(self) -> Array | None:
        return self._with(lambda machine: machine.sums)  # type: ignore[return-value]

    def state(self) -> Mapping[str, Array]:
        return named_from_bytes(self._kept)

    def restore(self, state: Mapping[str, Array]) -> None:
        self._kept = named_to_bytes(state)


def nth(made: Callable[[], tuple[SumMachine, ...]], n: int) -> SumMachine:
    """One of the machines of a process."""
    return made()[n]


class Processes:
    """One process a silo, with its devices, and one a relay."""

    def __init__(self, scheme: RelayCoded, loss: Loss | None = None, *, put_down: bool = True) -> None:
        case = meshed(scheme.R)
        parties, self.grouping = case.directory, case.grouping
        self.channel = Channel(parties, SimulationCoins(0), Recording.everything(), loss)
        self.fixed = scheme.fixed_point(self.grouping.largest_group)
        topology = Topology(NEIGHBOURS, self.grouping, 2, helpers=parties.ids(Role.RELAY))
        self.machines: list[SumMachine] = []
        for hosted in hosts(parties):
            draws = OwnDraws(SystemCoins())

            def made(hosted: Ids = hosted, draws: OwnDraws = draws) -> tuple[SumMachine, ...]:
                return scheme.machines(topology, SESSION, draws, hosted)

            for n in range(len(made())):
                make = partial(nth, made, n)
                self.machines.append(PutDown(make) if put_down else make())

    def sum(self, values: NDArray[np.float64], step: Step) -> NDArray[np.float64]:
        way = self.grouping if step.direction is Direction.FORWARD else self.grouping.reverse()
        q = self.fixed.encode(values)
        for machine in self.machines:
            own = np.isin(way.row_owner, machine.parties)
            machine.begin(step, q[own] if own.any() else None)
        simulate(self.machines, self.channel)
        out = np.zeros_like(q)
        for machine in self.machines:
            sums = machine.sums
            if sums is not None:
                out[np.isin(way.group_owner, machine.parties)] = sums
        return self.fixed.decode(out)


def hosts(parties: Directory) -> list[Ids]:
    """Who is hosted together."""
    devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
    return [
        *(np.append(silos[s], devices[s :: len(silos)]) for s in range(len(silos))),
        *parties.ids(Role.RELAY)[:, None],
    ]


SCHEMES = (
    RelayCoded(k_min=1, profile=Profile.SHOWN),
    RelayCoded(k_min=1, T=2, R=4, profile=Profile.SHOWN),
    RelayCoded(k_min=1, profile=Profile.HIDDEN, max_degree=5),
)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_processes_of_their_own_compute_the_same_sums(scheme: RelayCoded) -> None:
    """Each relay expands its masks from keys or seeds of its own, and every machine goes on from bytes."""
    run = Processes(scheme)
    for step in (Step(0, 0), Step(0, 0, Direction.BACKWARD), Step(1, 0)):
        way = run.grouping if step.direction is Direction.FORWARD else run.grouping.reverse()
        assert np.allclose(run.sum(VALUES, step), ideal(way, VALUES), atol=1e-4)
    assert run.channel.transcript.incidents == []


@pytest.mark.parametrize(
    ("scheme", "phase"),
    [(SCHEMES[0], Phase.SHARE_HEADERS), (SCHEMES[1], Phase.SHARES), (SCHEMES[2], Phase.SHARE_SEEDS)],
    ids=lambda each: each.name,
)
def test_what_is_sent_again_is_the_same(scheme: RelayCoded, phase: Phase) -> None:
    """A message that one relay missed is made again by a machine that was put down, and the sums are whole."""
    lost: list[int] = []

    def arrives(now: Phase, _: Step, senders: Ids, __: Ids) -> NDArray[np.bool_]:
        there = np.ones(len(senders), dtype=np.bool_)
        if now is phase and not lost:
            there[0] = False
            lost.append(1)
        return there

    run = Processes(scheme, arrives)
    assert np.allclose(run.sum(VALUES, Step(0, 0)), ideal(run.grouping, VALUES), atol=1e-4)
    assert bool(lost) == any(batch.phase is Phase.RESENDS for batch in run.channel.transcript.messages)


@pytest.mark.parametrize("scheme", SCHEMES[:2], ids=lambda scheme: scheme.name)
def test_who_is_left_out_stays_left_out(scheme: RelayCoded) -> None:
    """A device whose key reached no relay sends nothing in any step, whoever has been started anew since."""
    first = int(meshed(2).directory.ids(Role.DEVICE)[0])
    run = Processes(scheme, lambda phase, _, senders, __: (senders != first) | (phase is not Phase.KEYS))
    without = VALUES * (np.arange(len(VALUES)) > 0)[:, None]
    for step in (Step(0, 0), Step(1, 0)):
        assert np.allclose(run.sum(VALUES, step), ideal(run.grouping, without), atol=1e-4)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_a_step_is_summed_once_by_a_machine_that_was_put_down(scheme: RelayCoded) -> None:
    """Its masks are used up, whoever has been started anew since."""
    run = Processes(scheme)
    run.sum(VALUES, Step(0, 0))
    with pytest.raises(ProtocolError, check=about("a step")):
        run.sum(VALUES, Step(0, 0))


def test_a_machine_that_forgets_its_steps_is_found() -> None:
    """The twin of the test above: by machines that do not look at what was done, the same masks leave again."""
    run = Processes(replace(SCHEMES[0], roles=FORGETFUL))
    run.sum(VALUES, Step(0, 0))
    run.sum(VALUES[::-1], Step(0, 0))
    shares = [b["share"].astype(np.int64) for b in run.channel.transcript.messages if b.phase is Phase.SHARES]
    half, p = len(shares) // 2, SCHEMES[0].field.modulus
    weight = run.fixed.encode(VALUES).astype(np.int64) - run.fixed.encode(VALUES[::-1]).astype(np.int64)
    seen = (np.concatenate(shares[:half]) - np.concatenate(shares[half:])) % p
    assert set(map(tuple, seen.tolist())) <= {tuple(row) for row in ((2 * weight) % p).tolist()} | {
        tuple(row) for row in ((-weight) % p).tolist()
    }


@pytest.mark.skipif(KeyAgreement.best() is KeyAgreement.X25519, reason="needs ML-KEM")
def test_ends_that_agree_on_keys_in_two_ways_get_no_sum() -> None:
    """A silo that was told another key agreement than the relays: its keys are refused, and it is left without."""
    one, other = (
        RelayCoded(k_min=1, profile=Profile.SHOWN),
        RelayCoded(k_min=1, keys=KeyAgreement.X25519, profile=Profile.SHOWN),
    )
    assert (one.name, other.name) == ("relay-coded[k_min=1,graph-shown]", "relay-coded[k_min=1,graph-shown,x25519]")
    assert "X25519 or ML-KEM-768 with" in " ".join(one.claim_for(Topology.example(NEIGHBOURS)).assumptions)
    assert "X25519 with" in " ".join(other.claim_for(Topology.example(NEIGHBOURS)).assumptions)
    run, deviating = Processes(one, put_down=False), Processes(other, put_down=False)
    run.machines[0] = deviating.machines[0]
    with pytest.raises(ProtocolError, check=about("public keys")):
        run.sum(VALUES, Step(0, 0))
    assert any("1216]" in i.what for i in run.channel.transcript.incidents)


def test_topologies_that_it_does_not_serve_are_refused() -> None:
    """Sums for a client or a server have no tags; rows of integers have no fixed point."""
    grouping = meshed(2).grouping
    scheme = RelayCoded(profile=Profile.SHOWN)
    assert scheme.refuses(Topology(NEIGHBOURS, grouping, 2)) is None
    assert scheme.refuses(Topology(MEMBERS, grouping, 2)) is None
    assert "relays add up" in str(scheme.refuses(Topology(CLIENTS, grouping, 2)))
    assert "integers" in str(scheme.refuses(Topology(NEIGHBOURS, grouping, 2, bound=3)))
    with pytest.raises(InputError, check=about("parties")):
        scheme.machines(Topology(NEIGHBOURS, grouping, 2), SESSION, OwnDraws(SystemCoins()))


def test_a_relay_that_is_told_no_messages_is_told_the_degree() -> None:
    """Under anon it has to know when all messages under a tag are there."""
    case, nobody = meshed(2), np.empty(0, dtype=np.int64)
    helpers = case.directory.ids(Role.RELAY)
    nothing = Topology(NEIGHBOURS, Grouping(*[nobody] * 6), 2, helpers=helpers)
    scheme, draws = RelayCoded(profile=Profile.HIDDEN), OwnDraws(SystemCoins())
    with pytest.raises(InputError, check=about("max_degree")):
        scheme.machines(nothing, SESSION, draws, helpers[:1])
    assert len(replace(scheme, max_degree=4).machines(nothing, SESSION, draws, helpers[:1])) == 1


def test_members_are_summed_over_a_larger_field() -> None:
    """Gradients of many members have room: 2^61 - 1, and as many bits as float64 holds exactly."""
    directory, members = Directory.hierarchy(2, 6, 2), np.arange(6)
    silo_of = members % 2
    whole = grouping_over(directory, silo_of, members, members, np.stack([members, silo_of]))
    silos = directory.ids(Role.SILO)
    grouping = replace(whole, group_owner=silos, group_custodian=silos)
    fitted = RelayCoded(k_min=2, profile=Profile.SHOWN).adapt(Topology(MEMBERS, grouping, 4))
    assert (fitted.field.modulus, fitted.bound, fitted.fraction_bits) == (2**61 - 1, 2.0**16, 34)
    assert fitted.k_min == 2
