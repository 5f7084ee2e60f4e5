"""Fed2GNN with a process for each client trains what Fed2GNN in one process trains, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.baselines import Fed2GNNBaseline, Seen, seen_by
from fgl_secure.methods.fed2gnn.grouping import sampled_neighbours
from fgl_secure.methods.fed2gnn.preset import DecoderPreset, Fed2GNNPreset, LatentPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNN
from fgl_secure.methods.fed2gnn.training import clients_of, row_range
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime.packing import Array
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.one_process import OneProcess
from tests.methods.fed2gnn.small import channel_of, some_digits
from tests.training.processes.runs import silo_makes, together

SHORT = Fed2GNNPreset(
    "honest",
    epochs=2,
    neighbours=3,
    decoder=DecoderPreset(epochs=3, width=16, coordinates=8),
    latent=LatentPreset(width=16, epochs=1),
)
RUNS: dict[str, tuple[Fed2GNNPreset, Scheme, Scheme, bool]] = {
    "in the clear, put down": (SHORT, Plaintext(), Plaintext(), True),
    "models masked, put down": (SHORT, Plaintext(), PairwiseMasking(), True),
    "small sums refused": (replace(SHORT, hops=3, decoded=0), Plaintext(minimum_group=2), PairwiseMasking(), False),
    "over relays": (SHORT, RelayCoded(k_min=2), PairwiseMasking(), False),
}
Reports = dict[int, dict[str, Array]]


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return some_digits(80, 3)


def ran(process: OneProcess) -> Reports:
    """What the programs of all clients report."""
    process.begin()
    number = 0
    while process.round(number):
        number += 1
    return {silo: program.report for silo, program in enumerate(process.programs)}


def check(found: Reports, expected: Reports) -> None:
    for silo, report in expected.items():
        assert found[silo].keys() == report.keys()
        for name, value in report.items():
            assert np.array_equal(found[silo][name], value, equal_nan=True), name


@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(graph: FederatedGraph, name: str) -> None:
    """Losses, models, selected round and accuracies agree: the latent map, requests, hops, decoders and averaging."""
    preset, rows, server, put_down = RUNS[name]
    schemes = {"neighbours": rows, "server": server}
    process, _, _ = clients_of(graph, schemes, channel_of(graph, rows), preset)
    limits, sampled = row_range(preset, rows), sampled_neighbours(graph, preset.neighbours, 0)
    makes = silo_makes(sampled, lambda talk: Fed2GNN(talk, preset, rows=limits), schemes, between=True)
    expected = ran(process)
    check(together(makes, graph, server, put_down=put_down), expected)


@pytest.mark.parametrize("baseline", [Fed2GNNBaseline.FEDAVG, Fed2GNNBaseline.FULL])
def test_baselines_are_those_of_one_process(graph: FederatedGraph, baseline: Fed2GNNBaseline) -> None:
    """Under masks, put down after each turn."""
    seen, reach = seen_by(graph, baseline, SHORT.hops)
    schemes = {"server": PairwiseMasking()}

    def make(talk: Collectives) -> Seen:
        return Seen(talk, SHORT, seen, reach)

    expected = ran(OneProcess(graph, schemes, channel_of(graph), make))
    check(together(silo_makes(graph, make, schemes), graph, PairwiseMasking(), put_down=True), expected)
