"""Decoders that clients train together: one network, found from sums, that knows what no client alone does."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_reproduction.tables.fed2gnn_together import JointDecoding, TogetherClient, TogetherDecoder
from fgl_secure.methods.fed2gnn.decoder import Coordinates, Decoder, Neighbourhoods
from fgl_secure.methods.fed2gnn.preset import DecoderPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.topology import SERVER
from fgl_secure.runtime import Phase, Recording
from fgl_secure.schemes import server_scheme
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parameters import flat
from fgl_secure.training.program import Program
from fgl_secure.typing import Array
from tests.methods.fed2gnn.small import QUICK, channel_of, some_digits
from tests.methods.fed2gnn.test_decoder import MOST, PRESET, sets, variance_within
from tests.training.processes.runs import agree, apart, in_lockstep

GRAPH = some_digits(200, 3)
CPU = torch.device("cpu")
SHORT = replace(PRESET, epochs=3)
NOTHING = Neighbourhoods(np.empty((0, 2, 6)), *(np.empty(0, dtype=np.int64) for _ in range(3)))


class Decoding(Program):
    """Trains a decoder on the neighbourhoods that a client is given."""

    decoder: Decoder
    space: Coordinates

    def __init__(self, comm: Collectives, data: Sequence[Neighbourhoods], preset: DecoderPreset) -> None:
        super().__init__(comm)
        self._data, self._preset = data[comm.silo.silo], preset

    def round(self, number: int) -> bool:  # noqa: ARG002  # there is one
        together = JointDecoding(self.comm, 7, 32.0)
        self.space = together.coordinates(self._data, self._preset.coordinates, CPU)
        self.decoder = TogetherDecoder(self._data, MOST, self._preset, self.silo.silo, CPU, together)
        return False

    @property
    def report(self) -> dict[str, Array]:
        return {}


def decoding(
    data: Sequence[Neighbourhoods], preset: DecoderPreset = SHORT, scheme: str = "plaintext"
) -> list[Decoding]:
    schemes = {SERVER: server_scheme(scheme)}
    process = OneProcess(GRAPH, schemes, channel_of(GRAPH), lambda comm: Decoding(comm, data, preset))
    process.round(0)
    return [program for program in process.programs if isinstance(program, Decoding)]


def weights(decoder: Decoder) -> np.ndarray:
    return flat([*decoder.separator.parameters(), *decoder.predictor.parameters()])


def pool(data: Sequence[Neighbourhoods]) -> Neighbourhoods:
    size = np.concatenate([each.size for each in data])
    elements, others = (np.concatenate([getattr(each, name) for each in data]) for name in ("elements", "others"))
    return Neighbourhoods(elements, others, np.cumsum(size) - size, size)


@pytest.mark.parametrize("most", [3, 16])
def test_coordinates_are_those_of_all_neighbourhoods(most: int) -> None:
    """Directions, centre and unit of sums are those of everybody's elements in one place; also of far larger parts."""
    data = [sets(80, 1), sets(5, 2), NOTHING]
    for each in data:
        each.elements[:, 1] *= 40
    expected = Coordinates.of(pool(data), most, CPU)
    for found in (client.space for client in decoding(data, replace(SHORT, coordinates=most, epochs=0))):
        torch.testing.assert_close(found.basis, expected.basis, rtol=0, atol=1e-3)
        torch.testing.assert_close(found.centre, expected.centre, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(found.unit, expected.unit, rtol=1e-4, atol=1e-5)


def test_clients_end_with_one_decoder_that_keeps_sums() -> None:
    """Networks and space are the same for all, also for one without neighbourhoods; others' data change them."""
    data = [sets(60, 1), sets(40, 2), NOTHING]
    one, *others = (client.decoder for client in decoding(data))
    assert all(np.array_equal(weights(one), weights(other)) for other in others)
    sums, counts = np.random.default_rng(0).normal(size=(20, 2, 6)), np.full(20, 3)
    found = others[-1].decode(sums, counts)
    assert np.array_equal(found, one.decode(sums, counts))
    np.testing.assert_allclose(found.reshape(20, 3, 2, 6).sum(axis=1), sums, atol=1e-9)
    changed = decoding([sets(60, 1), sets(40, 3), NOTHING])[0].decoder
    assert not np.allclose(weights(one), weights(changed))


def test_a_client_with_little_learns_from_the_others() -> None:
    """With two neighbourhoods of its own it decodes held-out ones better than with a decoder of its own."""
    few, held_out = sets(2, 4), sets(100, 2)
    alone = Decoder(few, MOST, PRESET, seed=0)
    together = decoding([sets(200, 1), sets(200, 3), few], PRESET)[-1].decoder
    share = together.loss(held_out) / variance_within(held_out, together)
    assert share < 0.3
    assert share < 0.5 * alone.loss(held_out) / variance_within(held_out, alone)


def test_neighbourhoods_weigh_alike() -> None:
    """A mean is weighted by neighbourhoods: with all of them at one client it is what that one trains."""
    data = sets(60, 1)
    one = decoding([data, NOTHING, NOTHING], replace(SHORT, epochs=1))[0].decoder
    same = decoding([NOTHING, data, NOTHING], replace(SHORT, epochs=1))[0].decoder
    assert one.losses != []
    assert same.losses == []
    untrained = decoding([data, NOTHING, NOTHING], replace(SHORT, epochs=0))[0].decoder
    moved = [np.abs(weights(each) - weights(untrained)).max() for each in (one, same)]
    assert min(moved) > 0.9 * SHORT.separator_rate  # a step of Adam, undiluted


def test_where_nobody_has_neighbourhoods_all_have_the_first_network() -> None:
    """There is no mean to take."""
    found, untrained = (decoding([NOTHING] * 3, preset)[0].decoder for preset in (SHORT, replace(SHORT, epochs=0)))
    assert np.array_equal(weights(found), weights(untrained))
    assert float(found._space.unit.min()) == 1


def test_fed2gnn_trains_decoders_together_before_the_first_round() -> None:
    """Trees are others, which the seed repeats; the server adds up four moments, and the networks after each pass."""
    results = []
    for kind in (Fed2GNNClient, TogetherClient, TogetherClient):
        channel = channel_of(GRAPH, recording=Recording.everything())
        results.append(clients_of(GRAPH, {}, QUICK, kind=kind).train(channel))
    alone, together, again = (result.losses for result in results)
    assert alone[0] != together[0]
    assert together == again
    sums = [sum(batch.phase is Phase.VECTORS for batch in result.transcript.messages) for result in results]
    assert sums[1] - sums[0] == 4 + QUICK.decoder.epochs


def test_training_is_that_of_one_process() -> None:
    """Under masks, with a process for each client, put down after each turn."""
    preset = replace(QUICK, epochs=2, neighbours=3)
    job = clients_of(GRAPH, {SERVER: PairwiseMasking()}, preset, kind=TogetherClient)
    agree(apart(job, put_down=True), in_lockstep(job.open(channel_of(GRAPH))))
