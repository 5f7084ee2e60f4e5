from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from fgl_secure.attacks.message_passing.messages import ClearValues
from fgl_secure.attacks.message_passing.scope import SECMP, SILO_PATH, SMALL_FIELD
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import claimed_rows, messages_of, without_steps
from tests.attacks.recorded import SCHEMES, random_graph, record


class TestClearValues(AttackConformance):
    attack = ClearValues()
    rests_on = (frozenset({Phase.VALUES}),)

    def claims(self, guess: Iterable[RecoveredRows]) -> Claims:
        return claimed_rows(guess)

    def test_reads_every_message_bit_for_bit(self) -> None:
        """Each message is read as the very floats that its sender put into it."""
        graph = random_graph(1, directed=True)
        values = np.random.default_rng(0).normal(size=(graph.num_devices, 3))
        run = record(graph, Plaintext(), values)
        first_device = int(run.transcript.parties.ids(Role.DEVICE)[0])
        read = without_steps(self.read(run))
        assert read.total() == graph.edges.shape[1]
        for source, _ in messages_of(graph):
            assert read[first_device + source, tuple(values[source].tolist())] > 0

    @pytest.mark.parametrize("reference", [SECMP, SMALL_FIELD, SILO_PATH])
    def test_devices_see_no_values_elsewhere(self, reference: str) -> None:
        """Under codes, and where silos do the summing, no value reaches a device in the clear."""
        graph = random_graph(1, directed=False)
        run = record(graph, SCHEMES[reference], np.zeros((graph.num_devices, 4)))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None
