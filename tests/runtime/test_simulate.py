"""The driver of simulations: lockstep turns, deliveries, refusals and remarks."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import MalformedMessageError, ProtocolError
from fgl_secure.runtime import Channel, Directory, Machine, Messages, Phase, Recording, Role, Step, simulate
from tests.error_codes import about

Ids = NDArray[np.int64]
PARTIES = Directory({Role.SERVER: 1, Role.SILO: 3})
SILOS, SERVER = PARTIES.ids(Role.SILO), PARTIES.ids(Role.SERVER)
NOW = Step(0)


class Senders(Machine):
    """Sends one number each, and takes none."""

    def __init__(self, parties: Ids, values: Ids) -> None:
        super().__init__(parties)
        self._values: Ids | None = values

    def receive(self, messages: Messages) -> None:
        raise ProtocolError(f"senders must not be told anything; found {messages.phase.label}")

    def step(self) -> Iterable[Messages]:
        values, self._values = self._values, None
        if values is None:
            return ()
        to = np.repeat(SERVER, len(self.parties))
        return (Messages(Phase.VECTORS, NOW, self.parties, to, {"vector": values[:, None]}),)

    def state(self) -> Mapping[str, NDArray[Any]]:
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: ARG002
        raise MalformedMessageError("senders have no state")


class Adder(Machine):
    """Adds up what has come when it has its turn, and tells everybody."""

    def __init__(self, *, endless: bool = False) -> None:
        super().__init__(SERVER)
        self._taken, self._endless = [0], endless
        self.turns: list[int] = []

    def receive(self, messages: Messages) -> None:
        self._taken += messages["vector"][:, 0].tolist()

    def step(self) -> Iterable[Messages]:
        self.turns.append(sum(self._taken))
        if len(self._taken) == 1 and not self._endless:
            return ()
        self._taken = [0]
        self.remark(NOW, int(SILOS[0]), "was heard of")
        told = np.full((len(SILOS), 1), self.turns[-1])
        return (Messages(Phase.VECTOR_SUMS, NOW, np.repeat(SERVER, len(SILOS)), SILOS, {"sum": told}),)

    def state(self) -> Mapping[str, NDArray[Any]]:
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:  # noqa: ARG002
        raise MalformedMessageError("adders have no state")


def senders(*values: int) -> list[Senders]:
    """A machine for each of some silos."""
    return [Senders(SILOS[[k]], np.array([value])) for k, value in enumerate(values)]


@pytest.mark.parametrize("first", [True, False])
def test_everybody_has_turns_at_one_time(first: bool) -> None:
    """Whatever the order of machines, the adder has its turn when all have sent."""
    adder, others = Adder(), senders(1, 2, 4)
    simulate([adder, *others] if first else [*others[:2], adder, others[2]], Channel(PARTIES, SimulationCoins(0)))
    assert [heard for heard in adder.turns if heard] == [7]


def test_what_is_refused_is_noted_and_lost() -> None:
    """Refusals and remarks are incidents; the run goes on."""
    channel = Channel(PARTIES, SimulationCoins(0), Recording.everything())
    simulate([Adder(), *senders(1, 2, 4)], channel)
    incidents = [(str(incident.party), incident.what) for incident in channel.transcript.incidents]
    assert ("silo 0", "was heard of") in incidents
    refused = [what for who, what in incidents if who == "server 0"]
    assert len(refused) == 3
    assert all("is refused: senders must not be told" in what for what in refused)


def test_machines_that_never_end_are_stopped() -> None:
    """Machines that always say something are an error, not a hang."""
    with pytest.raises(ProtocolError, check=about("machines")):
        simulate([Adder(endless=True)], Channel(PARTIES, SimulationCoins(0)), most_turns=5)
