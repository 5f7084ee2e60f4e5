from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.messages import DeviceGradients, GradientGuess
from fgl_secure.attacks.message_passing.scope import MessageTruth
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import send_gradients
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.recorded import Run, random_graph

Floats = NDArray[np.float32]


class TestDeviceGradients(AttackConformance):
    attack: Attack[GradientGuess, Any] = DeviceGradients()
    rests_on = (frozenset({Phase.GRADIENT}),)
    needs_edges = False  # a device without neighbours has a gradient too

    def claims(self, guess: GradientGuess) -> Claims:
        labels: Claims = Counter(zip(guess.labelled.tolist(), guess.labels.tolist(), strict=True))
        for layer, devices in guess.devices.items():
            rows = guess.rows[layer]
            labels += Counter((layer, d, tuple(r.tolist())) for d, r in zip(devices.tolist(), rows, strict=True))
        return labels

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # gradients of the graph's own features
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
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

    def test_devices_without_a_loss_have_no_label(self) -> None:
        """A bias gradient of zeros is no label, and a weight gradient of zeros no row."""
        delta = _deltas(4, 3)
        delta[2] = 0
        guess = self._read([(0, np.ones((4, 2), dtype=np.float32), delta, delta)])
        assert len(guess.labelled) == 3
        assert len(guess.devices[0]) == 3

    @pytest.mark.parametrize("d_in", [2, 3])
    def test_works_from_the_dense_matrix(self, d_in: int) -> None:
        """Factors that are scaled against each other give the same matrix and so the same guess."""
        rows = np.random.default_rng(0).normal(size=(5, d_in)).astype(np.float32)
        delta = _deltas(5, 2)
        quarter = (delta / 4).astype(np.float32)
        once, scaled = self._read([(0, rows, delta, delta)]), self._read([(0, rows * 4, quarter, delta)])
        assert np.array_equal(once.rows[0], scaled.rows[0])

    def test_wrong_labels_and_rows_count_against_it(self) -> None:
        """The score of a guess with one wrong label and one wrong row says so."""
        run = self.exchange(random_graph(1, directed=False), np.zeros((24, 1)))
        guess = self.attack.infer(run.transcript.views(Role.SILO), run.public)
        assert guess is not None
        guess.labels[0] = 1 - guess.labels[0]
        guess.rows[0][0] *= -1
        labels, rows = self.attack.score(guess, run.truth)
        assert labels.value == pytest.approx(1 - 1 / labels.n)
        assert rows.value == pytest.approx(1 - 1 / rows.n)

    def _read(self, layers: list[tuple[int, Floats, Floats, Floats]]) -> GradientGuess:
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
