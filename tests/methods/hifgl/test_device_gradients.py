"""Parameter gradients of single devices: as factors, in the clear, and as sums that nobody can take apart."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.graph import Graph
from fgl_secure.methods.hifgl.program import HiFGLSilo, silos_of
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.wire import SUM
from fgl_secure.runtime import Channel, Phase, Recording, Step
from fgl_secure.training import gradient_sums as of_members
from fgl_secure.training.calls import Call
from fgl_secure.training.gradient_sums import (
    DeviceFactors,
    Factors,
    HostedMembers,
    SummedGradients,
    gather_factors,
    gradient_sums,
)
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import helpers_of, hierarchy_of
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities(devices=24)
QUICK = replace(HONEST, hidden=4, epochs=2)
MODELS = {
    "gcn": ("gcn", QUICK, [0]),
    "static sage": ("sage", replace(QUICK, static_first_layer=True), [0, 1]),
    "published gcn": ("gcn", replace(QUICK, layers_of="public-code"), [0]),
    "published sage": ("sage", replace(QUICK, layers_of="public-code"), [0, 1]),
}
"""By name: the backbone, the preset, and the products whose left factors devices share once."""
models = pytest.mark.parametrize("model", MODELS)


class Caught(OneProcess):
    """Keeps the factors, and autograd's sums, of its last round."""

    factors: list[Factors]
    by_silo: list[list[torch.Tensor]]

    def _gradients_of(self, calls: list[Call]) -> list[None]:
        order = np.argsort(np.concatenate(self._nodes))
        self.factors = gather_factors([call.factors for call in calls], order)
        self.by_silo = [
            [p.grad.detach().clone() for p in model.parameters() if p.grad is not None] for model in models_of(self)
        ]
        return [None] * len(calls)


def models_of(process: OneProcess) -> list[torch.nn.ModuleList]:
    """The model of every silo."""
    return [program.layers for program in process.programs if isinstance(program, HiFGLSilo)]


@cache
def factors_of(model: str = "gcn") -> Caught:
    """One round of plaintext training, of which everything is kept."""
    backbone, preset, _ = MODELS[model]
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0), Recording.everything())
    widest = max(preset.widths(GRAPH.graph.num_features, GRAPH.num_classes))
    method = Caught(GRAPH, {}, channel, lambda comm: HiFGLSilo(comm, preset, backbone=backbone), width=widest)
    method.round(0)
    return method


SCHEMES = (RelayCoded(k_min=3, T=2, R=3, profile=Profile.SHOWN), CodedProducts(k_min=3))
schemes = pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)


def summed(scheme: RelayCoded, recording: Recording | None = None) -> tuple[SummedGradients, Channel]:
    """The sums of a scheme on a channel of their own."""
    channel = Channel(hierarchy_of(GRAPH, scheme.helpers), SimulationCoins(1), recording)
    return gradient_sums(scheme, channel, GRAPH.silo_of), channel


@models
def test_factors_sum_to_autograds_gradient(model: str) -> None:
    """The dense gradients of a silo's devices add up to what autograd computes for the silo, parameter by parameter."""
    method = factors_of(model)
    for number, factors in enumerate(method.factors):
        dense = factors.dense(0, factors.height)
        for silo, theirs in enumerate(method.by_silo):
            ours = dense[GRAPH.silo_of == silo].sum(axis=0)
            assert np.allclose(ours, theirs[number].reshape(-1), atol=1e-5)
            assert np.abs(ours).max() > 0


def answers(channel: Channel) -> list[dict[int, np.ndarray]]:
    """What silos get of gradients in each recorded round: arrays by round and place."""
    found: dict[int, list[np.ndarray]] = {}
    for batch in channel.transcript.messages:
        if batch.fields is not None and batch.phase in (Phase.SHARE_SUMS, Phase.PRODUCT_SHARES):
            shares = [value for name, value in batch.fields.items() if name.startswith(SUM)]
            found.setdefault(batch.step.round, []).extend(map(np.asarray, shares))
    return [dict(enumerate(found[number])) for number in sorted(found)]


@models
@schemes
def test_every_round_runs_the_scheme(model: str, scheme: RelayCoded) -> None:
    """Equal gradients have equal sums and as many messages in each round, under masks of that round."""
    factors = factors_of(model).factors
    sums, channel = summed(scheme, Recording.everything())
    rounds = [sums.sums(factors, Step(r)) for r in range(3)]
    for other in rounds[1:]:
        assert all(np.array_equal(a, b) and a.dtype == np.float64 for a, b in zip(rounds[0], other, strict=True))
    first, second, third = answers(channel)
    assert all((first[at] != second[at]).any() for at in first)
    assert all((third[at] != second[at]).any() for at in first)
    sent = [[b for b in channel.transcript.messages if b.step.round == r and b.phase is not Phase.KEYS] for r in (1, 2)]
    counts = [[(b.phase, b.messages, b.item_bytes) for b in batches] for batches in sent]
    assert counts[0] == counts[1] != []


@models
def test_coded_sums_are_the_dense_ones_up_to_rounding(model: str) -> None:
    """Products of rounded factors, and rounded products; a bias's left factor is 1, so that but one is rounded."""
    factors = factors_of(model).factors
    dense, coded = (summed(scheme)[0].sums(factors, Step(0)) for scheme in SCHEMES)
    for each, one, other in zip(factors, dense, coded, strict=True):
        assert np.allclose(one, other, rtol=0, atol=0.001 if each.is_bias else 0.02)
        assert one.shape == other.shape
        assert np.abs(one).max() > 0


@models
def test_rows_of_the_first_layer_are_static(model: str) -> None:
    """They are the features, or sums of them that are kept, and of biases ones: devices share them once."""
    factors = factors_of(model).factors
    assert [number for number, each in enumerate(factors) if each.static and not each.is_bias] == MODELS[model][2]
    assert all(each.static and (each.left[0] == 1).all() for each in factors if each.is_bias)
    assert all(each.layer == 0 for each in factors if each.static and not each.is_bias)


def test_a_silos_process_has_the_bits_of_one_process() -> None:
    """Whether devices are hosted by their silo or talk to relays: gradients, and other rows."""
    caught = factors_of("published sage")
    sizes = tuple(np.bincount(GRAPH.silo_of).tolist())
    for scheme in (*SCHEMES, RelayCoded(k_min=13, profile=Profile.SHOWN), CodedProducts(k_min=13)):
        whole = summed(scheme)[0].sums(caught.factors, Step(0))
        for silo in range(len(sizes)):
            own = [
                DeviceFactors(each.layer, each.left[silo], each.right[silo], each.is_bias, each.static)
                for each in caught.factors
            ]
            found = HostedMembers(scheme, sizes, silo).gradients(own)
            assert found is not None
            assert all(np.array_equal(mine, theirs[silo]) for mine, theirs in zip(found, whole, strict=True))


def worded(bits: int | None, odd: float = 1.0) -> list[Factors]:
    """Factors of a first layer whose rows are words, one of them odd, and of a second one."""
    first, *rest = factors_of().factors
    left = tuple((part > 0).astype(np.float32) for part in first.left)
    left[1][0, 2, 1] = odd
    return [replace(first, left=left, left_bits=bits), *rest]


def test_rows_of_few_bits_have_the_same_sums_and_smaller_messages() -> None:
    """Words take no bits behind the point: the bits of every sum are those of rows of which nothing is known."""
    found = {bits: summed(SCHEMES[1], Recording.everything()) for bits in (None, 0, 6)}
    totals = {bits: [sums.sums(worded(bits), Step(r)) for r in range(2)] for bits, (sums, _) in found.items()}
    sizes = {bits: sum(b.bytes for b in channel.transcript.messages) for bits, (_, channel) in found.items()}
    for bits in (0, 6):
        for ours, theirs in zip(totals[bits], totals[None], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert sizes[0] < sizes[6] < sizes[None]
    for silo, size in enumerate(np.bincount(GRAPH.silo_of)):
        own = [DeviceFactors(f.layer, f.left[silo], f.right[silo], f.is_bias, f.static, f.left_bits) for f in worded(0)]
        hosted = HostedMembers(SCHEMES[1], tuple(np.bincount(GRAPH.silo_of).tolist()), silo).gradients(own)
        assert hosted is not None
        assert len(own[0].left[0]) == size
        assert all(np.array_equal(a, b[silo]) for a, b in zip(hosted, totals[0][0], strict=True))


def test_rows_of_more_bits_than_all_are_told_are_refused() -> None:
    """At a silo that hosts its devices as among them and relays; nothing is rounded in silence."""
    for odd in (0.5, np.inf, np.nan):
        sums, channel = summed(SCHEMES[1])
        with pytest.raises(InputError):
            sums.sums(worded(0, odd), Step(0))
        assert not channel.transcript.messages
    own = [DeviceFactors(f.layer, f.left[1], f.right[1], f.is_bias, f.static, f.left_bits) for f in worded(0, 0.5)]
    with pytest.raises(InputError, check=about("left factors of product 0")):
        HostedMembers(SCHEMES[1], tuple(np.bincount(GRAPH.silo_of).tolist()), 1).gradients(own)


@pytest.mark.parametrize(("scale", "bits"), [(1.0, 0), (0.25, 2), (2.0**-8, 8), (2.0**-9, None), (0.1, None)])
def test_everybody_is_told_how_many_bits_features_have(scale: float, bits: int | None) -> None:
    """It reaches the factors of the first layer; hidden rows have any."""
    words = np.arange(GRAPH.graph.num_nodes)[:, None] % np.array([2, 3, 5]) * scale
    graph = replace(GRAPH, graph=Graph.from_arrays("words", words, GRAPH.graph.labels, GRAPH.graph.edges))
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    method = Caught(graph, {}, channel, lambda comm: HiFGLSilo(comm, QUICK), width=max(QUICK.widths(3, 2)))
    method.round(0)
    assert [each.left_bits for each in method.factors] == [bits, 0, None, 0]


def test_hosted_devices_are_refused_what_others_are() -> None:
    """Entries within their bounds whose product is beyond its own; a silo without them is not concerned."""
    sizes, scheme = tuple(np.bincount(GRAPH.silo_of).tolist()), CodedProducts()
    first, *rest = factors_of().factors
    left, right = ([part.copy() for part in side] for side in (first.left, first.right))
    left[0][0, 0, 0], right[0][0, 0, 0] = 60, 30
    factors = [replace(first, left=tuple(left), right=tuple(right)), *rest]
    with pytest.raises(FieldRangeError, check=about("an entry of a device's left row times one of its right row")):
        summed(scheme)[0].sums(factors, Step(0))
    for silo in range(len(sizes)):
        own = [DeviceFactors(f.layer, f.left[silo], f.right[silo], f.is_bias, f.static) for f in factors]
        if silo:
            assert HostedMembers(scheme, sizes, silo).gradients(own) is not None
        else:
            with pytest.raises(
                FieldRangeError, check=about("an entry of a device's left row times one of its right row")
            ):
                HostedMembers(scheme, sizes, silo).gradients(own)


@models
def test_the_silo_is_sent_nothing_but_sums(model: str) -> None:
    """Under the scheme no device's gradient travels in the clear; the clear path, by the same judge, sends each."""
    backbone, preset, _ = MODELS[model]
    recorded = []
    coded = {"neighbours": RelayCoded(profile=Profile.SHOWN), "members": CodedProducts()}
    for chosen in (coded, {"neighbours": RelayCoded(profile=Profile.SHOWN)}, {"neighbours": Plaintext()}):
        parties = hierarchy_of(GRAPH, helpers_of(chosen.values()))
        channel = Channel(parties, SimulationCoins(0), Recording.everything())
        silos_of(GRAPH, chosen, preset, backbone=backbone).open(channel).round(0)
        recorded.append(sum(b.messages for b in channel.transcript.messages if b.phase is Phase.GRADIENT))
    assert recorded[:2] == [0, 0]
    assert recorded[2] % GRAPH.num_devices == 0 < recorded[2]


def scaled(factors: list[Factors], by: float) -> list[Factors]:
    """The same factors with one device's gradient multiplied."""
    changed = [part.copy() for part in factors[0].right]
    changed[0][:, 0] *= by
    return [replace(factors[0], right=tuple(changed)), *factors[1:]]


@pytest.mark.parametrize("by", [1e8, np.nan, np.inf])
@schemes
def test_values_beyond_the_bound_are_refused(by: float, scheme: RelayCoded) -> None:
    factors = factors_of().factors
    sums, _ = summed(scheme)
    with np.errstate(invalid="ignore"), pytest.raises(InputError):
        sums.sums(scaled(factors, by), Step(0))


@pytest.mark.parametrize("k_min", [12, 13])
@schemes
def test_a_silo_below_k_min_gets_zero(k_min: int, scheme: RelayCoded) -> None:
    factors = factors_of().factors
    found = summed(replace(scheme, k_min=k_min))[0].sums(factors, Step(0))
    assert all(bool(part.any()) == (k_min <= 12) for part in found)


def test_wide_gradients_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix beyond the largest part is summed row by row of it, each part a step of its own, to the same sums."""
    factors = factors_of().factors
    whole, _ = summed(RelayCoded(profile=Profile.SHOWN))
    expected = whole.sums(factors, Step(0))
    monkeypatch.setattr(of_members, "LARGEST_PART", 24 * 8)
    parted, channel = summed(RelayCoded(profile=Profile.SHOWN))
    found = parted.sums(factors, Step(0))
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    parts = {b.step.part for b in channel.transcript.messages if b.phase is Phase.SHARES}
    assert parts == set(range(len(parts)))
    assert len(parts) > len(factors)
