from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.messages import CountedMessages, MessageCountsAtRelay, MessageCountsAtSilo
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.message_passing.tagged import record_tagged
from tests.attacks.recorded import Run, random_graph, record, words


class Counts(AttackConformance):
    """What both observers keep."""

    reads_sizes = True

    def claims(self, guess: CountedMessages) -> Claims:
        return Counter(zip(guess.devices.tolist(), guess.counts.tolist(), strict=True))


class TestMessageCountsAtSilo(Counts):
    attack: Attack[CountedMessages, Any] = MessageCountsAtSilo()
    rests_on = (frozenset({Phase.VALUES}),)

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record(graph, Plaintext(Path.SILO), values, loss=loss, recording=recording)

    @pytest.mark.parametrize("scheme", [SecretMessagePassing(), Plaintext(Path.SILO)])
    def test_counts_neighbours_in_the_silo(self, scheme: SecretMessagePassing | Plaintext) -> None:
        """Requests for parameters and values in the clear tell a silo how many of its devices each device sends to."""
        graph = random_graph(4, directed=True)
        run = record(graph, scheme, words(graph.num_devices, 4))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        expected = Counter((int(graph.silo_of[t]), first + s) for s, t in messages_of(graph))
        named = zip(guess.observers.tolist(), guess.devices.tolist(), guess.counts.tolist(), strict=True)
        assert {(silo, device): count for silo, device, count in named} == dict(expected)
        assert self.attack.score(guess, run.truth)[0].value == 1

    def test_padding_hides_the_counts(self) -> None:
        """With every device sending as many sealed messages as any other, the best guess is the commonest number."""
        graph = random_graph(4, directed=False)
        run = record(graph, RelayCoded(k_min=1, profile=Profile.HIDDEN), words(graph.num_devices, 4))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        assert len(set(guess.counts.tolist())) == 1
        (found,) = self.attack.score(guess, run.truth)
        assert found.value <= found.prior


class TestMessageCountsAtRelay(Counts):
    attack: Attack[CountedMessages, Any] = MessageCountsAtRelay()
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # counts do not depend on it
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record_tagged(graph, loss=loss, recording=recording)

    def test_counts_answered_messages(self) -> None:
        """A relay sees how many messages each device sends for sums that are computed."""
        graph = random_graph(4, directed=False)
        run = record(graph, RelayCoded(k_min=2, profile=Profile.SHOWN), words(graph.num_devices, 4))
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        answered = Counter(first + s for s, t in messages_of(graph) if graph.in_degree[t] >= 2)
        assert self.read(run) == Counter(dict.fromkeys(answered.items(), 2))

    def test_proxies_and_padding_hide_the_counts(self) -> None:
        """Where silos forward sealed messages, a relay sees no device at all."""
        graph = random_graph(4, directed=False)
        run = record(graph, RelayCoded(k_min=1, profile=Profile.HIDDEN), words(graph.num_devices, 4))
        assert self.attack.infer(run.transcript.views(Role.RELAY), run.public) is None
