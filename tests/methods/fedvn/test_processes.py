"""FedVN with a process for each client trains what FedVN in one process trains, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.methods.fedvn.preset import FEDBN, FEDPROX, FEDVN, FedVNPreset, GraphMethod, Injection, fedvn_preset
from fgl_secure.methods.fedvn.program import ClientGraphs, FedVN
from fgl_secure.methods.fedvn.training import clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parties import hierarchy_of
from tests.methods.fedvn.sets import random_set
from tests.training.processes.runs import silo_makes, together

HONEST, PAPER = (
    replace(fedvn_preset(name, "random"), hidden=6, virtual_nodes=3, batch=4, epochs=2, floor=0.01)
    for name in ("honest", "paper")
)
RUNS: dict[str, tuple[GraphMethod, FedVNPreset, Scheme, bool]] = {
    "in the clear, put down": (FEDVN, HONEST, Plaintext(), True),
    "masked, put down": (FEDVN, replace(HONEST, dropout=0.3), PairwiseMasking(), True),
    "as published, masked": (FEDVN, replace(PAPER, injection=Injection.OUTPUT), PairwiseMasking(), False),
    "norms at home, put down": (FEDBN, HONEST, Plaintext(), True),
    "held back": (FEDPROX, PAPER, Plaintext(), False),
}


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(name: str, values: bool) -> None:
    """Losses, what clients share, selected round and accuracies agree, of labels and of values."""
    method, preset, scheme, put_down = RUNS[name]
    sets = random_set(values=values)
    process = clients_of(sets, scheme, Channel(hierarchy_of(sets.union()), SimulationCoins(0)), preset, method=method)
    process.begin()
    assert [process.round(number) for number in range(3)] == [True, True, False]

    def make(talk: Collectives) -> FedVN:
        return FedVN(talk, ClientGraphs.of(sets, talk.silo.silo), method, preset)

    makes = silo_makes(sets.union(), make, {"server": scheme})
    found = together(makes, sets.union(), scheme, put_down=put_down)
    for silo, program in enumerate(process.programs):
        assert found[silo].keys() == program.report.keys()
        for key, value in program.report.items():
            assert np.array_equal(found[silo][key], value, equal_nan=True), key
