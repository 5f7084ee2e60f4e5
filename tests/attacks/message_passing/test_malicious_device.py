from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.scope import MessageTruth
from fgl_secure.attacks.message_passing.sums import CHOSEN, MaliciousSingleNeighbour
from fgl_secure.attacks.recovery import Recovered
from fgl_secure.auditing.programs import public_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.networks import Deviation
from fgl_secure.methods.hifgl.program import exchange
from fgl_secure.methods.hifgl.scenarios import deviating_run
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import claimed_rows, messages_of
from tests.attacks.recorded import Run, random_graph, record, star_and_path, words


class TestMaliciousSingleNeighbour(AttackConformance):
    attack: Attack[Recovered, Any] = MaliciousSingleNeighbour()
    rests_on = (frozenset({Phase.DECODED}),)

    def claims(self, guess: Recovered) -> Claims:
        return claimed_rows(guess)

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        scheme, deviation = SecretMessagePassing(), Deviation()
        parties, kept = hierarchy_of(graph), recording or Recording.everything()
        channel = Channel(parties, SimulationCoins(0), kept, loss, deviation)
        exchange(graph, scheme, channel, values)
        if len(deviation.devices):
            channel.note_inputs(CHOSEN, Step(0, 0), deviation.devices, deviation.chosen)
        truth = MessageTruth.of(channel.transcript, graph)
        return Run(graph, public_of(scheme, graph), channel.transcript, truth)

    def test_reads_one_neighbour_of_every_device_with_several(self) -> None:
        """Every device with two neighbours or more has that of the lowest number read, and nobody else anything."""
        graph = random_graph(5, directed=True)
        run = self.exchange(graph, words(24, 16))
        heard: dict[int, list[int]] = {}
        for source, target in messages_of(graph):
            heard.setdefault(target, []).append(source)
        first, secret = int(run.transcript.parties.ids(Role.DEVICE)[0]), run.truth.embeddings[Step(0, 0)]
        chosen = [min(sources) for sources in heard.values() if len(sources) > 1]
        assert self.read(run) == Counter((Step(0, 0), first + s, tuple(secret[s].tolist())) for s in chosen)

    def test_devices_that_keep_to_the_protocol_read_nothing(self) -> None:
        """In a run without deviation there is no guess."""
        run = record(star_and_path(), SecretMessagePassing(), words(9, 4))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None


@pytest.mark.parametrize("scheme", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)])
def test_nobody_deviates_where_silos_decode_nothing(scheme: Plaintext | RelayCoded) -> None:
    """The deviating run exists for schemes in which a device hands something over to be decoded."""
    assert deviating_run(scheme, star_and_path(), 0) is None
