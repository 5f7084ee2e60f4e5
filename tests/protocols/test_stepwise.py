"""Machines of plaintext and secmp: each step once, states that say whose they are, and messages that are refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import PAYLOAD, Directory, Messages, OwnDraws, Phase, Role, Step
from tests.error_codes import about
from tests.protocols.conformance import BACKWARD, FORWARD, channel_of, ideal, triangle
from tests.strategies import Ints

Array = NDArray[Any]

SESSION = bytes(range(16))
SMALL = PrimeField(251)


def server_topology(width: int = 2) -> Topology:
    """Three silos whose vectors the server adds up."""
    directory = Directory.hierarchy(3, 1)
    server = int(directory.ids(Role.SERVER)[0])
    return Topology.to_one(SERVER, directory.ids(Role.SILO), server, server, width, 1000)


def neighbours(width: int = 2) -> Topology:
    """Four devices in two silos."""
    return Topology(NEIGHBOURS, triangle().grouping, width)


def own_silos(width: int = 2) -> Topology:
    """Two clients that administer themselves."""
    g = triangle().grouping
    own = Grouping(g.row_custodian, g.group_custodian, g.source, g.target, g.row_custodian, g.group_custodian)
    return Topology(NEIGHBOURS, own, width)


@dataclass(frozen=True)
class Case:
    """A scheme, and what it sums."""

    scheme: Scheme
    topology: Callable[..., Topology]

    def machines(self, session: bytes = SESSION, width: int = 2, hosted: Ints | None = None) -> tuple[SumMachine, ...]:
        """Of all parties, with coins of their own each time."""
        draws = OwnDraws(SimulationCoins(session[0]))
        return self.scheme.machines(self.topology(width), session, draws, hosted)

    def rows(self, width: int = 2) -> Array:
        """One row of each owner, as machines take them."""
        count = len(self.topology().grouping.row_owner)
        return np.arange(1, 1 + count * width, dtype=np.int64).reshape(count, width)


CASES = {
    "one sum": Case(Plaintext(), server_topology),
    "neighbours": Case(Plaintext(), neighbours),
    "through silos": Case(Plaintext(Path.SILO), neighbours),
    "silos of their own": Case(Plaintext(Path.SILO), own_silos),
    "secmp": Case(SecretMessagePassing(SMALL), neighbours),
    "secmp, by the target": Case(SecretMessagePassing(SMALL, T=2, delivery=MuDelivery.TARGET), neighbours),
    "secmp, silos of their own": Case(SecretMessagePassing(SMALL), own_silos),
}
SECMP = [name for name in CASES if "secmp" in name]


def begun(case: Case, machines: tuple[SumMachine, ...], step: Step = FORWARD) -> None:
    """All machines at a step; the first has the rows."""
    for place, machine in enumerate(machines):
        machine.begin(step, case.rows() if place == 0 else None)


def played(machines: tuple[SumMachine, ...]) -> Iterator[tuple[SumMachine, Messages]]:
    """Messages of the current step, each before it is handed over."""
    quiet = 0
    while quiet < 2:
        out = [messages for machine in machines for messages in machine.step()]
        quiet = 0 if out else quiet + 1
        for messages in out:
            for machine in machines:
                mine = np.isin(messages.receivers, machine.parties)
                if mine.any():
                    yield machine, messages.rows(mine)
                    machine.receive(messages.rows(mine))


def copied(machine: SumMachine) -> dict[str, list[object]]:
    """Its state, to compare."""
    return {name: value.tolist() for name, value in machine.state().items()}


# ------------------------------------------------------------------------------------------------------------- steps
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_summed_once(name: str) -> None:
    """Begun again after its rows have left, here or where the state went, it is refused; another step is not."""
    case = CASES[name]
    machines, others = case.machines(), case.machines()
    begun(case, machines)
    for _ in played(machines):
        pass
    for machine, other in zip(machines, others, strict=True):
        other.restore(machine.state())
    for each in (machines, others):
        for place, machine in enumerate(each):
            with pytest.raises(ProtocolError, check=about("a step")):
                machine.begin(FORWARD, case.rows() if place == 0 else None)
        begun(case, each, Step(1))


@pytest.mark.parametrize("name", CASES)
def test_a_step_that_was_not_spoken_of_may_begin_again(name: str) -> None:
    """Nothing has left before the first turn."""
    case = CASES[name]
    machines = case.machines()
    begun(case, machines)
    begun(case, machines)
    assert any(True for _ in played(machines))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", [Step(-1), Step(2**40), Step(0, -5), Step(0, 2**16), Step(0, part=-1)])
def test_steps_out_of_range_are_refused(name: str, step: Step) -> None:
    """As in all other schemes; the machine is as it was."""
    case = CASES[name]
    for place, machine in enumerate(case.machines()):
        before = copied(machine)
        with pytest.raises(InputError, check=about("step")):
            machine.begin(step, case.rows() if place == 0 else None)
        assert copied(machine) == before


# ------------------------------------------------------------------------------------------------------------ states
@pytest.mark.parametrize("name", CASES)
def test_states_go_on_in_another_process(name: str) -> None:
    """Taken before every message and restored elsewhere, a state is the same."""
    case = CASES[name]
    machines, others = case.machines(), case.machines()
    begun(case, machines)
    for machine, _ in played(machines):
        other = others[machines.index(machine)]
        other.restore(machine.state())
        assert copied(other) == copied(machine)


@pytest.mark.parametrize("name", CASES)
def test_what_is_no_state_of_the_machine_is_refused(name: str) -> None:
    """Changed, cut, of another session, width, scheme, role or party: MalformedMessageError, and nothing changes."""
    case = CASES[name]
    machines, elsewhere, wider = case.machines(), case.machines(bytes(16)), case.machines(width=3)
    other = Case(SecretMessagePassing(PrimeField(257)) if name in SECMP else Plaintext(minimum_group=2), case.topology)
    begun(case, machines)
    tried = 0
    for _ in played(machines):
        for place, machine in enumerate(machines):
            state = dict(machine.state())
            bad = [{}, {**state, "more": np.zeros(1)}, {"progress": np.zeros(7, dtype=np.int64)}]
            bad += [{k: v for k, v in state.items() if k != key} for key in state]
            for key, value in state.items():
                if value.size:
                    wrong = value.copy()
                    wrong.reshape(-1).view(np.uint8)[0] ^= 1
                    bad.append({**state, key: wrong})
            before = copied(machine)
            for each in bad:
                tried += 1
                with pytest.raises(MalformedMessageError):
                    machine.restore(each)
            assert copied(machine) == before
            strangers = [elsewhere[place], wider[place], *(each for each in machines if each is not machine)]
            if other.scheme.refuses(case.topology()) is None:
                strangers += [each for each in other.machines() if type(each) is type(machine)]
            for stranger in strangers:
                held = copied(stranger)
                with pytest.raises(MalformedMessageError):
                    stranger.restore(state)
                assert copied(stranger) == held
    assert tried


# ---------------------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("name", CASES)
def test_messages_before_a_step_or_of_another_are_stale(name: str) -> None:
    """No machine takes anything before it began, and never a KeyError comes of it."""
    case = CASES[name]
    machines, idle = case.machines(), case.machines()
    begun(case, machines)
    for machine, messages in played(machines):
        with pytest.raises(StaleMessageError):
            idle[machines.index(machine)].receive(messages)
        ends = messages.senders, messages.receivers
        with pytest.raises(StaleMessageError):
            machine.receive(Messages(messages.phase, Step(9), *ends, messages.fields))


@pytest.mark.parametrize("path", Path)
def test_reals_in_the_clear_are_finite_and_have_a_width(path: Path) -> None:
    """NaN, infinity and rows of nothing are refused, as a step begins and in messages."""
    case = Case(Plaintext(path), neighbours)
    rows = case.rows().astype(np.float64)
    for value in (np.nan, np.inf, -np.inf):
        wrong = rows.copy()
        wrong[1, 1] = value
        with pytest.raises(InputError, check=about("rows")):
            case.machines()[0].begin(FORWARD, wrong)
    with pytest.raises(InputError, check=about("rows")):
        case.machines()[0].begin(FORWARD, rows[:, :0])
    machines, phases = case.machines(), set()
    machines[0].begin(FORWARD, rows)
    for machine in machines[1:]:
        machine.begin(FORWARD)
    for machine, messages in played(machines):
        before, payload = copied(machine), messages[PAYLOAD]
        if messages.phase is Phase.ADDRESSES:
            bads = [payload.astype(np.float64), payload[:, :0]]
        else:
            bads = [payload[:, :0], np.full_like(payload, np.nan), np.full_like(payload, np.inf)]
        phases.add(messages.phase)
        for bad in bads:
            ends = messages.senders, messages.receivers
            with pytest.raises(MalformedMessageError):
                machine.receive(Messages(messages.phase, messages.step, *ends, {PAYLOAD: bad}))
            assert copied(machine) == before
    assert Phase.VALUES in phases
    assert np.array_equal(machines[0].sums, ideal(case.topology().grouping, rows))  # type: ignore[arg-type]  # there


def test_integers_through_silos_may_add_up_beyond_one_rows_bound() -> None:
    """What a silo tells is a sum: it is as large as the rows of a group together, and no larger."""
    topology = Topology(NEIGHBOURS, triangle().grouping, 1, 10)
    rows = np.full((4, 1), 10, dtype=np.int64)
    for step in (FORWARD, BACKWARD):
        channel = channel_of(triangle().directory)
        found = Collective(Plaintext(Path.SILO), topology, channel).sum(rows, step)
        way = topology.grouping if step is FORWARD else topology.grouping.reverse()
        assert found.tolist() == ideal(way, rows.astype(np.float64)).tolist()
        assert not channel.transcript.incidents


def test_elements_of_neighbours_are_residues() -> None:
    """Six elements just below the modulus are more than an int64 holds: they add up modulo it."""
    directory, six = Directory.hierarchy(1, 7), np.arange(6)
    devices, silo = directory.ids(Role.DEVICE), np.repeat(directory.ids(Role.SILO), 7)
    grouping = Grouping(devices, devices, six, np.full(6, 6), silo, silo)
    most = 2**61 - 2
    for path in Path:
        collective = Collective(Plaintext(path), Topology(NEIGHBOURS, grouping, 1), channel_of(directory))
        found = collective.sum(np.full((7, 1), most, dtype=np.int64), FORWARD)
        assert found[:, 0].tolist() == [0] * 6 + [6 * most % (2**61 - 1)]
