"""FedVN with a process for each client trains what FedVN in one process trains, to the last bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fgl_secure.methods.fedvn.preset import FedVNPreset, Injection, fedvn_preset
from fgl_secure.methods.fedvn.program import ClientGraphs, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.training.silo import Silo
from tests.methods.fedvn.sets import bonded, random_set
from tests.training.processes.runs import agree_with_one_process

HONEST, PAPER = (
    replace(fedvn_preset(name, "random"), hidden=6, virtual_nodes=3, batch=4, epochs=2, floor=0.01)
    for name in ("honest", "paper")
)
RUNS: dict[str, tuple[FedVNPreset, Scheme, bool, bool]] = {
    "in the clear": (HONEST, Plaintext(), False, False),
    "masked, put down": (replace(HONEST, dropout=0.3), PairwiseMasking(), True, False),
    "as published, masked": (replace(PAPER, injection=Injection.OUTPUT), PairwiseMasking(), False, False),
    "with types of edges, masked": (HONEST, PairwiseMasking(), False, True),
}


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(name: str, values: bool) -> None:
    """Losses, what clients share, selected round and accuracies agree, of labels and of values."""
    preset, scheme, put_down, typed = RUNS[name]
    sets = random_set(values=values)
    sets = bonded(sets) if typed else sets
    found = agree_with_one_process(clients_of(sets, scheme, preset), put_down=put_down)
    assert [len(report["losses"]) for report in found.values()] == [2] * sets.num_clients


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_a_share_in_a_file_has_the_graphs_of_its_client(tmp_path: Path, *, constant: bool, values: bool) -> None:
    """What a client reads is what is cut out for it: its graphs with targets and splits, and how many all have."""
    same = ["features", "edges", "graph_of", "targets", "train", "validation", "test", "node_starts", "edge_starts"]
    same += ["edge_types"]
    plain = random_set(constant=constant, values=values)
    for sets, client in [(sets, client) for sets in (plain, bonded(plain)) for client in range(plain.num_clients)]:
        ClientGraphs.share_of(sets, client).save(tmp_path / "share")
        found, expected = ClientGraphs.of_silo(Silo.load(tmp_path / "share")), sets.only(client)
        assert (found.graphs, found.outputs, found.types) == (sets.num_graphs, max(sets.num_classes, 1), 0)
        assert found.bonds == (0 if sets is plain else 3)
        for name in same:
            assert np.array_equal(getattr(found.own, name), getattr(expected, name)), name
