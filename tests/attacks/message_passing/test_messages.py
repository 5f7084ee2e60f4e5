from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.message_passing.knowledge import SECMP, SILO_PATH, SMALL_FIELD
from fgl_secure.attacks.recovery import RecoveredRows
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.federated_graph import boundary_nodes
from fgl_secure.methods.hifgl.controls import send_gradients
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims, guess_on
from tests.attacks.message_passing.tagged import claimed_rows, messages_of, record_tagged, without_steps
from tests.attacks.recorded import SCHEMES, Run, random_graph, record, star_and_path, words


class TestClearValues(AttackConformance):
    attack = named("clear-values")
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


class Counts(AttackConformance):
    """What both observers keep."""

    reads_sizes = True

    def claims(self, guess: Any) -> Claims:
        return Counter(zip(guess.devices.tolist(), guess.counts.tolist(), strict=True))


class TestMessageCountsAtSilo(Counts):
    attack: Attack[Any, Any] = named("message-counts-silo")
    rests_on = (frozenset({Phase.VALUES}),)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return record(graph, Plaintext(Path.SILO), values, **network)

    @pytest.mark.parametrize("scheme", [SecretMessagePassing(), Plaintext(Path.SILO)])
    def test_counts_neighbours_in_the_silo(self, scheme: SecretMessagePassing | Plaintext) -> None:
        """Requests for parameters and values in the clear tell a silo how many of its devices each device sends to."""
        graph = random_graph(4, directed=True)
        run = record(graph, scheme, words(graph.num_devices, 4))
        guess = self.guess(run)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        expected = Counter((int(graph.silo_of[t]), first + s) for s, t in messages_of(graph))
        named = zip(guess.observers.tolist(), guess.devices.tolist(), guess.counts.tolist(), strict=True)
        assert {(silo, device): count for silo, device, count in named} == dict(expected)
        assert self.attack.score(guess, run.truth)[0].value == 1

    def test_padding_hides_the_counts(self) -> None:
        """With every device sending as many sealed messages as any other, the best guess is the commonest number."""
        graph = random_graph(4, directed=False)
        run = record(graph, RelayCoded(k_min=1, profile=Profile.HIDDEN), words(graph.num_devices, 4))
        guess = self.guess(run)
        assert len(set(guess.counts.tolist())) == 1
        (found,) = self.attack.score(guess, run.truth)
        assert found.value <= found.prior


class TestMessageCountsAtRelay(Counts):
    attack: Attack[Any, Any] = named("message-counts-relay")
    rests_on = (frozenset({Phase.CIRCUITS, Phase.SHARES}),)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        return record_tagged(graph, **network)

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


ASKING, FORWARDING = SecretMessagePassing(), SecretMessagePassing(delivery=MuDelivery.TARGET)
SEEDS = st.integers(0, 10_000)


class TestVisibleDevices(AttackConformance):
    attack: Attack[Any, Any] = named("visible-devices")
    rests_on = (frozenset({Phase.VALUES, Phase.ADDRESSES}),)

    def claims(self, guess: Any) -> Claims:
        return Counter(guess.devices.tolist())

    @given(SEEDS)
    def test_asking_silos_shows_them_the_boundary(self, seed: int) -> None:
        """If sources ask the target's silo, silos see exactly the devices on the boundary: eps_p of HiFGL."""
        graph = _graph(seed)
        seen, advantage = _measured(self.attack, graph, ASKING)
        assert seen.value == pytest.approx(boundary_nodes(graph).mean())
        assert seen.value == seen.reachable
        assert advantage.value == (1 if boundary_nodes(graph).mean() else 0)

    @given(SEEDS, st.sampled_from([FORWARDING, Plaintext()]))
    def test_devices_that_talk_to_devices_show_silos_nothing(self, seed: int, scheme: Scheme) -> None:
        """If targets forward mu, and in the clear from device to device, no silo hears from a foreign device."""
        seen, advantage = _measured(self.attack, _graph(seed), scheme)
        assert (seen.value, advantage.value) == (0, 0)

    @given(SEEDS, st.sampled_from([ASKING, Plaintext(Path.SILO)]))
    def test_names_the_senders_to_each_silo(self, seed: int, scheme: Scheme) -> None:
        """On directed graphs a silo names the foreign devices that send to its own, and no other."""
        graph = random_graph(seed, directed=True, devices=9, pairs=8)
        run = record(graph, scheme, words(9, 2))
        guess = self.guess(run)
        devices = run.transcript.parties.index_of(guess.devices, Role.DEVICE)
        silo = graph.silo_of.tolist()
        expected = {(silo[target], source) for source, target in messages_of(graph) if silo[source] != silo[target]}
        named = list(zip(guess.silos.tolist(), devices.tolist(), strict=True))
        assert len(named) == len(set(named))
        assert set(named) == expected

    def test_a_silo_that_names_wrongly_counts_for_nothing(self) -> None:
        """One false name makes a silo a guesser, and none of its names counts as seen."""
        run = record(star_and_path(), ASKING, words(9, 2))
        guess = self.guess(run)
        everything = replace(
            guess, silos=guess.silos * 0 + 1, devices=run.transcript.parties.ids(Role.DEVICE)[: len(guess.silos)]
        )
        seen, _ = self.attack.score(everything, run.truth)
        assert seen.value == 0


class TestVisibleEdges(AttackConformance):
    attack: Attack[ClaimedEdges, Any] = named("visible-edges")
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
        """vis_edge is 1 where silos add up in the clear; codes name no edge, which is context and no evidence."""
        graph = random_graph(2, directed=False)
        found = [_measured(self.attack, graph, each)[0] for each in (Plaintext(Path.SILO), ASKING, FORWARDING)]
        assert [(each.value, each.context) for each in found] == [(1, False), (0, True), (0, True)]

    def test_one_wrong_name_makes_all_uncertain(self) -> None:
        """Edges named beside one that does not exist count for nothing, and still are evidence."""
        run = record(star_and_path(), Plaintext(Path.SILO), words(9, 2))
        guess = self.guess(run)
        lonely = run.transcript.parties.ids(Role.DEVICE)[8:]
        wrong = ClaimedEdges(np.append(guess.sources, lonely), np.append(guess.targets, lonely))
        values = [
            (found.value, found.context) for each in (guess, wrong) for found in self.attack.score(each, run.truth)
        ]
        assert values == [(1, False), (0, False)]


def _graph(seed: int) -> FederatedGraph:
    return random_graph(seed, directed=False, devices=9, pairs=6)


def _measured(attack: Attack[Any, Any] | Attack[ClaimedEdges, Any], graph: FederatedGraph, scheme: Scheme
              ) -> tuple[Measurement, ...]:  # fmt: skip
    run = record(graph, scheme, words(graph.num_devices, 4))
    guess = guess_on(attack, run)
    return attack.score(guess, run.truth)


Floats = NDArray[np.float32]


class TestDeviceGradients(AttackConformance):
    attack: Attack[Any, Any] = named("device-gradients")
    rests_on = (frozenset({Phase.GRADIENT}),)
    needs_edges = False  # a device without neighbours has a gradient too

    def claims(self, guess: Any) -> Claims:
        labels: Claims = Counter(zip(guess.labelled.tolist(), guess.labels.tolist(), strict=True))
        for layer, devices in guess.devices.items():
            rows = guess.rows[layer]
            labels += Counter((layer, d, tuple(r.tolist())) for d, r in zip(devices.tolist(), rows, strict=True))
        return labels

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:  # noqa: ARG002  # for others
        kept = network.get("recording") or Recording.everything()
        channel = Channel(hierarchy_of(graph), SimulationCoins(0), kept, network.get("loss"))
        send_gradients(channel, graph, 0)
        return Run(graph, PublicParameters(), channel.transcript, MessageTruth.of(channel.transcript, graph))

    def test_reads_label_and_row_of_a_bias_on_the_product(self) -> None:
        """Where bias and weights share a gradient, the row has its length: x = dW_i / db_i to 1e-6 of it."""
        rows = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
        delta = _deltas(6, 3)
        guess = self._read([(0, rows, delta, delta)])
        assert guess.labels.tolist() == [0, 1, 2, 0, 1, 2]
        error = np.linalg.norm(guess.rows[0] - rows, axis=1) / np.linalg.norm(rows, axis=1)
        assert error.max() < 1e-6

    def test_reads_zeros_and_ones_where_gradients_were_passed_on(self) -> None:
        """Where weights also get gradients of neighbours, 0/1 rows are still exact, and others up to their length."""
        rng = np.random.default_rng(1)
        words = (rng.random((6, 30)) < 0.3).astype(np.float32)
        hidden = rng.normal(size=(6, 4)).astype(np.float32)
        delta, passed = _deltas(6, 3), rng.normal(size=(6, 4)).astype(np.float32)
        last = rng.normal(size=(6, 3)).astype(np.float32)
        guess = self._read([(0, words, passed, rng.normal(size=(6, 4)).astype(np.float32)), (1, hidden, last, delta)])
        assert guess.labels.tolist() == [0, 1, 2, 0, 1, 2]
        assert np.allclose(guess.rows[0], words, atol=1e-6)
        unit = hidden / np.abs(hidden).max(axis=1, keepdims=True)
        assert np.allclose(np.abs(guess.rows[1]), np.abs(unit), atol=1e-6)

    def _read(self, layers: list[tuple[int, Floats, Floats, Floats]]) -> Any:
        """The guess from layers of (number, input rows, gradients at the product, gradients of the bias)."""
        graph = random_graph(0, directed=False, devices=len(layers[0][1]), silos=1, pairs=4)
        channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
        devices = channel.parties.ids(Role.DEVICE)
        silos = np.full(len(devices), channel.parties.ids(Role.SILO)[0])
        for layer, rows, product, bias in layers:
            factors = np.concatenate([rows, product], axis=1)
            size = 4 * rows.shape[1] * product.shape[1]
            channel.send(Phase.GRADIENT, Step(0, layer), devices, silos, factors, wire_bytes=size)
            channel.send(Phase.GRADIENT, Step(0, layer), devices, silos, bias)
        guess = self.attack.infer(channel.transcript.views(Role.SILO), PublicParameters())
        assert guess is not None
        return guess


def _deltas(devices: int, classes: int) -> Floats:
    """Soft-max less one-hot, labels dealt in turn."""
    chances = np.random.default_rng(2).dirichlet(np.ones(classes), size=devices)
    return (chances - np.eye(classes)[np.arange(devices) % classes]).astype(np.float32)
