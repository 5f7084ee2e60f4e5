from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.messages import NamedDevices, VisibleDevices, VisibleEdges
from fgl_secure.graph import FederatedGraph, boundary_share
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Phase, Role
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.recovered import messages_of
from tests.attacks.recorded import federated, random_graph, record, star_and_path, words

ASKING, FORWARDING = SecretMessagePassing(), SecretMessagePassing(delivery=MuDelivery.TARGET)
SEEDS = st.integers(0, 10_000)


class TestVisibleDevices(AttackConformance):
    attack: Attack[NamedDevices, Any] = VisibleDevices()
    rests_on = (frozenset({Phase.VALUES, Phase.ADDRESSES}),)

    def claims(self, guess: NamedDevices) -> Claims:
        return Counter(guess.devices.tolist())

    @given(SEEDS)
    def test_asking_silos_shows_them_the_boundary(self, seed: int) -> None:
        """If sources ask the target's silo, silos see exactly the devices on the boundary: eps_p of HiFGL."""
        graph = _graph(seed)
        seen, advantage = _measured(self.attack, graph, ASKING)
        assert seen.value == pytest.approx(boundary_share(graph))
        assert seen.value == seen.reachable
        assert advantage.value == (1 if boundary_share(graph) else 0)

    @given(SEEDS, st.sampled_from([FORWARDING, Plaintext()]))
    def test_devices_that_talk_to_devices_show_silos_nothing(self, seed: int, scheme: Scheme) -> None:
        """If targets forward mu, and in the clear from device to device, no silo hears from a foreign device."""
        seen, advantage = _measured(self.attack, _graph(seed), scheme)
        assert (seen.value, advantage.value) == (0, 0)

    @given(SEEDS)
    def test_summing_silos_see_everything(self, seed: int) -> None:
        """If silos add up in the clear they see every device on the boundary."""
        graph = _graph(seed)
        seen, _ = _measured(self.attack, graph, Plaintext(Path.SILO))
        assert seen.value == pytest.approx(boundary_share(graph))

    @given(SEEDS, st.sampled_from([ASKING, Plaintext(Path.SILO)]))
    def test_names_the_senders_to_each_silo(self, seed: int, scheme: Scheme) -> None:
        """On directed graphs a silo names the foreign devices that send to its own, and no other."""
        graph = random_graph(seed, directed=True, devices=9, pairs=8)
        run = record(graph, scheme, words(9, 2))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        devices = run.transcript.parties.index_of(guess.devices, Role.DEVICE)
        silo = graph.silo_of.tolist()
        expected = {(silo[target], source) for source, target in messages_of(graph) if silo[source] != silo[target]}
        named = list(zip(guess.silos.tolist(), devices.tolist(), strict=True))
        assert len(named) == len(set(named))
        assert set(named) == expected

    def test_star_and_path_by_hand(self) -> None:
        """Of a star, a path and a lonely device in three silos by turns, all but 3 and 8 have foreign neighbours."""
        seen, advantage = _measured(self.attack, star_and_path(), ASKING)
        assert seen.value == pytest.approx(7 / 9)
        assert seen.n == 9
        # 0 has neighbours in both other silos, 6 too; 1, 2, 4, 5 and 7 in one: nine pairs of 18.
        assert "Of 9 pairs" in advantage.finding
        assert advantage.arms == (6, 6, 0.0)  # fewer than devices, as some have two pairs

    def test_a_silo_that_names_wrongly_counts_for_nothing(self) -> None:
        """One false name makes a silo a guesser, and none of its names counts as seen."""
        run = record(star_and_path(), ASKING, words(9, 2))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        everything = NamedDevices(guess.silos * 0 + 1, run.transcript.parties.ids(Role.DEVICE)[: len(guess.silos)])
        seen, _ = self.attack.score(everything, run.truth)
        assert seen.value == 0


class TestVisibleEdges(AttackConformance):
    attack: Attack[ClaimedEdges, Any] = VisibleEdges()
    rests_on = (frozenset({Phase.ADDRESSES}),)

    def claims(self, guess: ClaimedEdges) -> Claims:
        return Counter(zip(guess.sources.tolist(), guess.targets.tolist(), strict=True))

    @given(SEEDS)
    def test_summing_silos_read_all_edges(self, seed: int) -> None:
        """If silos add up in the clear, messages to them spell out every edge."""
        graph = random_graph(seed, directed=True, devices=9, pairs=12)
        run = record(graph, Plaintext(Path.SILO), words(9, 2))
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        expected = Counter((first + source, first + target) for source, target in messages_of(graph))
        assert self.read(run) == expected

    def test_figures_are_one_for_summing_silos_and_zero_for_codes(self) -> None:
        """vis_edge is 1 where silos add up in the clear, and 0 under both readings of the published scheme."""
        graph = random_graph(2, directed=False)
        values = [_measured(self.attack, graph, each)[0].value for each in (Plaintext(Path.SILO), ASKING, FORWARDING)]
        assert values == [1, 0, 0]

    def test_messages_that_name_no_edge_are_no_evidence(self) -> None:
        """Where no message names both ends there is nothing to read: context, and else evidence."""
        graph = random_graph(2, directed=False)
        context = [
            _measured(self.attack, graph, each)[0].context for each in (Plaintext(Path.SILO), ASKING, FORWARDING)
        ]
        assert context == [False, True, True]

    def test_one_wrong_name_makes_all_uncertain(self) -> None:
        """Edges named beside one that does not exist count for nothing, and still are evidence."""
        run = record(star_and_path(), Plaintext(Path.SILO), words(9, 2))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        lonely = run.transcript.parties.ids(Role.DEVICE)[8:]
        wrong = ClaimedEdges(np.append(guess.sources, lonely), np.append(guess.targets, lonely))
        values = [
            (found.value, found.context) for each in (guess, wrong) for found in self.attack.score(each, run.truth)
        ]
        assert values == [(1, False), (0, False)]

    def test_chance_is_the_density_of_crossing_edges(self) -> None:
        """The baseline is the share of ordered pairs of devices that are cross-silo edges."""
        graph = star_and_path()
        crossing = sum(1 for s, t in messages_of(graph) if graph.silo_of[s] != graph.silo_of[t])
        (found,) = _measured(self.attack, graph, ASKING)
        assert found.random == found.prior == pytest.approx(crossing / (9 * 8))

    def test_a_single_silo_has_no_crossing_edges(self) -> None:
        """With one silo nothing can cross, and the figure is 0 over no units."""
        (found,) = _measured(self.attack, federated([[0, 1], [1, 0]], [0, 0]), Plaintext(Path.SILO))
        assert (found.value, found.n) == (0, 0)


def _graph(seed: int) -> FederatedGraph:
    return random_graph(seed, directed=False, devices=9, pairs=6)


def _measured(attack: Attack[NamedDevices, Any] | Attack[ClaimedEdges, Any], graph: FederatedGraph, scheme: Scheme
              ) -> tuple[Measurement, ...]:  # fmt: skip
    run = record(graph, scheme, words(graph.num_devices, 4))
    guess = attack.infer(run.transcript.views(Role.SILO), run.public)
    assert guess is not None
    return attack.score(guess, run.truth)  # type: ignore[arg-type]  # the attack's own guess
