"""Parameter gradients of single devices: as factors, in the clear, and as sums that nobody can take apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.relay_coded.wire import SUM
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.training.collectives import Call
from fgl_secure.training.device_gradients import ClearGradients, Collector, Factors, SummedGradients, gathered
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset
from tests.graphs import two_communities

GRAPH = two_communities(devices=24)
QUICK = replace(HONEST, hidden=4, epochs=2)
MODELS = [
    ("gcn", QUICK),
    ("sage", QUICK),
    ("gcn", replace(QUICK, published_aggregation=True)),
    ("sage", replace(QUICK, static_first_layer=True)),
]
NAMES = ["gcn", "sage", "published gcn", "static sage"]
models = pytest.mark.parametrize(("backbone", "preset"), MODELS, ids=NAMES)


class Caught(OneProcess):
    """Keeps the factors, and autograd's sums, of its last round."""

    factors: list[Factors]
    by_silo: list[list[torch.Tensor]]

    def _gradients_of(self, calls: list[Call]) -> list[None]:
        order = np.argsort(np.concatenate(self._nodes))
        self.factors = gathered([call.factors for call in calls], order)
        self.by_silo = [
            [p.grad.detach().clone() for p in model.parameters() if p.grad is not None] for model in models_of(self)
        ]
        return [None] * len(calls)


def models_of(process: OneProcess) -> list[torch.nn.ModuleList]:
    """The model of every silo."""
    return [program.layers for program in process.programs if isinstance(program, HiFGL)]


def factors_of(backbone: str, preset: Preset) -> Caught:
    """One round of plaintext training, of which everything is kept."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    widest = max(preset.widths(GRAPH.graph.num_features, GRAPH.num_classes))
    method = Caught(GRAPH, {}, channel, lambda talk: HiFGL(talk, preset, backbone=backbone), width=widest)
    method.round(0)
    return method


def summed(scheme: RelayCoded, recording: Recording | None = None) -> tuple[SummedGradients, Channel]:
    """The sums of a scheme on a channel of their own."""
    channel = Channel(hierarchy_of(GRAPH, scheme.helpers), SimulationCoins(1), recording)
    return SummedGradients(scheme, channel, GRAPH.silo_of), channel


@models
def test_factors_sum_to_autograds_gradient(backbone: str, preset: Preset) -> None:
    """The dense gradients of a silo's devices add up to what autograd computes for the silo, parameter by parameter."""
    method = factors_of(backbone, preset)
    for number, factors in enumerate(method.factors):
        dense = factors.dense(0, factors.height)
        for silo, theirs in enumerate(method.by_silo):
            ours = dense[GRAPH.silo_of == silo].sum(axis=0)
            assert np.allclose(ours, theirs[number].reshape(-1), atol=1e-5)
            assert np.abs(ours).max() > 0


@models
def test_the_shortcut_is_the_scheme_bit_for_bit(backbone: str, preset: Preset) -> None:
    """Rounds without masks give the very sums of a round with them, and count the same messages and bytes."""
    factors = factors_of(backbone, preset).factors
    sums, channel = summed(RelayCoded(k_min=3, T=2, R=3))
    whole = sums.sums(factors, Step(0))
    first = channel.transcript.message_count, channel.transcript.byte_count
    keys = [b for b in channel.transcript.messages if b.phase is Phase.KEYS]
    short = sums.sums(factors, Step(1))
    for a, b in zip(whole, short, strict=True):
        assert a.dtype == b.dtype == np.float64
        assert np.array_equal(a, b)
    assert channel.transcript.message_count == 2 * first[0] - sum(b.messages for b in keys)
    assert channel.transcript.byte_count == 2 * first[1] - sum(b.bytes for b in keys)
    shares = [b for b in channel.transcript.messages if b.phase is Phase.SHARES]
    assert [b.step.round for b in shares] == sorted(b.step.round for b in shares)
    sizes = [sum(b.bytes for b in shares if b.step.round == number) for number in (0, 1)]
    assert sizes[0] == sizes[1] > 0


def test_recorded_rounds_run_the_scheme() -> None:
    """Every round that is recorded has masks of its own: shares of equal gradients differ between rounds."""
    factors = factors_of("gcn", QUICK).factors
    sums, channel = summed(RelayCoded(), Recording.everything(rounds=2))
    rounds = [sums.sums(factors, Step(r)) for r in range(3)]
    assert all(np.array_equal(a, b) for a, b in zip(rounds[0], rounds[2], strict=True))
    kept = [(b.step.round, b.fields) for b in channel.transcript.messages if b.phase is Phase.SHARE_SUMS and b.fields]
    assert {number for number, _ in kept} == {0, 1}
    one, other = (next(fields[SUM] for number, fields in kept if number == r) for r in (0, 1))
    assert (one != other).any()


@models
def test_the_silo_is_sent_nothing_but_sums(backbone: str, preset: Preset) -> None:
    """Under the scheme no device's gradient travels in the clear; the clear path, by the same judge, sends each."""
    recorded = []
    for scheme in (RelayCoded(), Plaintext()):
        channel = Channel(hierarchy_of(GRAPH, scheme.helpers), SimulationCoins(0), Recording.everything())
        silos_of(GRAPH, scheme, preset, backbone=backbone).opened(channel).round(0)
        recorded.append(sum(b.messages for b in channel.transcript.messages if b.phase is Phase.GRADIENT))
    assert recorded[0] == 0
    assert recorded[1] % GRAPH.num_devices == 0 < recorded[1]


@models
def test_gradients_that_nobody_looks_at_are_counted(backbone: str, preset: Preset) -> None:
    """A round of which sizes alone are kept trains the same model and has the same messages of the same sizes."""
    counts, weights = [], []
    for recording in (Recording(), Recording.everything()):
        channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), recording)
        method = silos_of(GRAPH, Plaintext(), preset, backbone=backbone).opened(channel)
        method.round(0)
        sent = [b for b in channel.transcript.messages if b.phase is Phase.GRADIENT]
        counts.append([(b.step.layer, b.messages, b.item_bytes) for b in sent])
        weights.append([p.detach() for model in models_of(method) for p in model.parameters()])
    assert counts[0] == counts[1] != []
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


@models
def test_clear_messages_rebuild_the_dense_gradient(backbone: str, preset: Preset) -> None:
    """What is sent in the clear, factors side by side, gives each device's gradient exactly."""
    method = factors_of(backbone, preset)
    factors = method.factors
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    ClearGradients(channel, GRAPH.silo_of).send(factors, Step(0))
    sent = channel.transcript.messages
    assert len(sent) == len(factors)
    for batch, each in zip(sent, factors, strict=True):
        payload, terms = np.asarray(batch.payload), each.right[0].shape[0]
        assert batch.item_bytes == 4 * each.height * each.width
        rebuilt = np.zeros((len(payload), each.height, each.width), dtype=np.float32)
        for term in np.split(payload, terms, axis=1):
            left = np.ones((len(term), 1), np.float32) if each.is_bias else term[:, : each.height]
            product = left[:, :, None] * term[:, None, -each.width :]
            rebuilt = rebuilt + product
        assert np.array_equal(rebuilt.reshape(len(payload), -1), each.dense(0, each.height))
        assert np.array_equal(batch.senders, channel.parties.ids(Role.DEVICE))


def scaled(factors: list[Factors], by: float) -> list[Factors]:
    """The same factors with one device's gradient multiplied."""
    changed = [part.copy() for part in factors[0].right]
    changed[0][:, 0] *= by
    return [replace(factors[0], right=tuple(changed)), *factors[1:]]


@pytest.mark.parametrize("by", [1e6, np.nan, np.inf])
def test_values_beyond_the_bound_are_refused_by_both(by: float) -> None:
    """What the scheme refuses, its shortcut refuses as well, and nothing is clipped."""
    factors = factors_of("gcn", QUICK).factors
    sums, _ = summed(RelayCoded())
    with np.errstate(invalid="ignore"):
        bad = scaled(factors, by)
        with pytest.raises(InputError):
            sums.sums(bad, Step(0))
        good, _ = summed(RelayCoded())
        good.sums(factors, Step(0))
        with pytest.raises(InputError):
            good.sums(bad, Step(1))


@pytest.mark.parametrize("k_min", [12, 13])
def test_a_silo_below_k_min_gets_zero(k_min: int) -> None:
    """With k_min above a silo's twelve devices its gradients are zero, in recorded rounds and in others."""
    factors = factors_of("gcn", QUICK).factors
    sums, _ = summed(RelayCoded(k_min=k_min))
    for step in (Step(0), Step(1)):
        found = sums.sums(factors, step)
        assert all(bool(part.any()) == (k_min <= 12) for part in found)


def test_a_small_silo_learns_from_the_others_alone() -> None:
    """Of two silos with five and nineteen devices, the smaller below k_min, one gets zero and the other its sum."""
    silo_of = (np.arange(24) >= 5).astype(np.int64)
    rng = np.random.default_rng(0)
    left = tuple(rng.normal(size=(2, n, 3)).astype(np.float32) for n in (5, 19))
    right = tuple(rng.normal(size=(2, n, 2)).astype(np.float32) for n in (5, 19))
    factors = [Factors(0, left, right, np.arange(24), False)]
    channel = Channel(hierarchy_of(GRAPH, {Role.RELAY: 2}), SimulationCoins(0))
    sums = SummedGradients(RelayCoded(k_min=6), channel, silo_of)
    whole, short = (sums.sums(factors, Step(r))[0] for r in range(2))
    assert np.array_equal(whole, short)
    assert not whole[0].any()
    assert np.allclose(whole[1], factors[0].dense(0, 3)[5:].sum(axis=0), atol=1e-4)


def test_wide_gradients_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix beyond the largest part is summed row by row of it, each part a step of its own, to the same sums."""
    from fgl_secure.training import device_gradients

    factors = factors_of("gcn", QUICK).factors
    whole, _ = summed(RelayCoded())
    expected = whole.sums(factors, Step(0))
    monkeypatch.setattr(device_gradients, "LARGEST_PART", 24 * 8)
    parted, channel = summed(RelayCoded())
    found = parted.sums(factors, Step(0))
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    parts = {b.step.part for b in channel.transcript.messages if b.phase is Phase.SHARES}
    assert parts == set(range(len(parts)))
    assert len(parts) > len(factors)


def test_collectors_forget_what_they_gave() -> None:
    """Factors are of one round: a second take without another backward pass finds nothing."""
    collector = factors_of("gcn", QUICK)._talks[0]._collector
    assert isinstance(collector, Collector)
    with pytest.raises(KeyError):
        collector.take()
