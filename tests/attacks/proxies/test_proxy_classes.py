from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Measurement, guess_of
from fgl_secure.attacks.proxies.counts import ClassPresence, ProxyClasses, ProxyCounts, ProxySingletons
from fgl_secure.auditing.verdict import Verdict, judge
from fgl_secure.methods.fedspray.alignment import ProxyLayout
from fgl_secure.methods.fedspray.controls import drawn_nodes, recorded_rounds
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.server_sums import ServerSums
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of, one_round, proxy_references

__all__ = ["proxy_references"]


class TellingSums(ServerSums):
    """The broken twin: masked sums, and beside them every client's shares as they are."""

    def __init__(self, channel: Channel) -> None:
        self._inner, self._channel = masked(channel), channel

    def __call__(self, rows: NDArray[np.float64], step: Step) -> NDArray[np.float64]:
        clients = self._channel.parties.ids(Role.SILO)
        server = np.full(len(clients), self._channel.parties.ids(Role.SERVER)[0])
        shares = ProxyLayout(3, 6, 8).shares
        self._channel.send(Phase.VECTORS, step, clients, server, rows[:, shares])
        return self._inner(rows, step)


class TestProxyClasses(ProxyConformance):
    attack = ProxyClasses()

    def claims(self, guess: ClassPresence) -> Claims:
        return Counter(
            (client, kind, bool(there))
            for client, row in zip(guess.clients.tolist(), guess.present, strict=True)
            for kind, there in enumerate(row)
        )

    def test_reads_classes_that_are_there(self) -> None:
        """Zeros stand for classes without a labelled node, and for nothing else."""
        run = one_round(nodes_of([[2, 0, 1], [0, 3, 1]]))
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        assert guess.present.tolist() == [[True, False, True], [False, True, True]]

    def test_a_proxy_alone_gives_a_class_away(self) -> None:
        """A mean of zeros, as of proxies that are not learnt, leaves the share to tell."""
        held = nodes_of([[2, 0], [1, 1]])
        held.proxies[:] = 0
        assert measured(self.attack, one_round(held))["classes of clients"].value == 1

    def test_masks_leave_what_all_have_together(self) -> None:
        """From the sum no client is told from another, and a class that nobody has is seen to be missing."""
        found = measured(self.attack, one_round(nodes_of([[2, 0, 1, 0], [0, 0, 1, 3], [1, 0, 0, 1]]), masked))
        presence = found["classes of clients"]
        assert not _verdict(presence).is_exposure
        assert "1 of 4 classes are labelled by nobody" in presence.finding

    def test_where_every_client_has_every_class_nothing_is_learned(self) -> None:
        """All right, and no better than guessing: that is no leak."""
        found = measured(self.attack, one_round(nodes_of([[2, 1], [1, 3]])))["classes of clients"]
        assert found.value == found.prior == 1
        assert judge(found.value, found.interval, found.prior, exact=True) is Verdict.NOT_DETECTED


@pytest.mark.parametrize("attack", [ProxyClasses(), ProxyCounts(), ProxySingletons()], ids=lambda each: each.card.name)
def test_shares_in_the_clear_beside_a_masked_sum_are_caught(attack: ProxyClasses) -> None:
    """The broken twin is read; the honest sum is not."""
    leaky, honest = (recorded_rounds([drawn_nodes(0)], "a round", make_sums=make) for make in (TellingSums, masked))
    bad, good = measured(attack, leaky), measured(attack, honest)
    exposed = [each for each in bad.values() if _verdict(each).is_exposure]
    assert exposed
    assert not any(_verdict(each).is_exposure for each in good.values())


def _verdict(found: Measurement) -> Verdict:
    return judge(found.value, found.interval, found.prior, exact=found.exact)
