"""FedStruct as programs of silos trains what FedStruct in one process trains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import RowExchange, run_fedstruct
from fgl_secure.methods.fedstruct.presets import Averaging, FeatureModelKind, FedStructPreset, Stepping, Weighting
from fgl_secure.methods.fedstruct.program import FedStruct
from fgl_secure.methods.silos.fedstruct import FedStructSilo, FedStructTask
from fgl_secure.protocols.ckks import SharedKeyCkks
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.processes.process import SERVER
from fgl_secure.training.silo import Silo
from tests.graphs import two_communities
from tests.methods.silos.runs import FEDSTRUCT, fedstruct_makes
from tests.training.processes.runs import company, same_everywhere, together

CLOSE = 1e-6
"""Gradients in float32 are added up in another order; everything else is the same to the last bit."""

TASKS = {
    "hop2vec": FedStructTask(FEDSTRUCT),
    "degree": FedStructTask(replace(FEDSTRUCT, structure_width=12), "degree"),
    "joint pruning": FedStructTask(replace(FEDSTRUCT, kept=5)),
    "sage, gradient descent": FedStructTask(
        replace(FEDSTRUCT, feature_model=FeatureModelKind.SAGE, stepping=Stepping.DESCENT)
    ),
    "no g, clients' shares": FedStructTask(replace(FEDSTRUCT, structure_hidden=None, weighting=Weighting.NODES)),
}


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=48, silos=3)


def in_process(graph: FederatedGraph, task: FedStructTask) -> tuple[TrainingResult, FedStruct]:
    seen: list[FedStruct] = []
    masks = PairwiseMasking()  # of the same range as the staged schemes: fixed point has as many bits
    channel = Channel(hierarchy_of(graph), SimulationCoins(0))
    result = run_fedstruct(
        graph, task.preset, RowExchange(masks, masks), channel, features=task.features, seed=task.seed, seen=seen.append
    )
    return result, seen[-1]


@pytest.mark.parametrize(
    ("name", "scheme", "put_down"),
    [*((name, Plaintext(), False) for name in TASKS), ("hop2vec", PairwiseMasking(), True)],
)
def test_training_is_that_of_one_process(graph: FederatedGraph, name: str, scheme: Scheme, put_down: bool) -> None:
    """Losses, parameters, selected round and accuracies agree, whoever adds up and though silos are put down."""
    task = TASKS[name]
    expected, method = in_process(graph, task)
    reports = together(fedstruct_makes(graph, task, scheme), graph, scheme, put_down=put_down)
    assert same_everywhere(reports)
    found = reports[0]
    assert np.allclose(found["losses"], expected.losses, atol=CLOSE, rtol=0)
    theta = np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in method.theta])
    assert np.allclose(found["theta"], theta, atol=CLOSE, rtol=0)
    if method.structure_features is not None:
        assert np.allclose(found["structure"], method.structure_features, atol=CLOSE, rtol=0)
    assert int(found["selected round"]) == expected.selected_round
    assert float(found["test"]) == expected.accuracy.test
    assert float(found["validation"]) == expected.accuracy.validation


def test_another_seed_trains_something_else(graph: FederatedGraph) -> None:
    """The comparison can fail: with another seed of the weights parameters differ by far more than rounding."""
    _, method = in_process(graph, TASKS["hop2vec"])
    other = FedStructTask(FEDSTRUCT, seed=1)
    found = together(fedstruct_makes(graph, other, Plaintext()), graph, Plaintext())[0]
    theta = np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in method.theta])
    assert np.abs(found["theta"] - theta).max() > 100 * CLOSE


def test_the_server_is_sent_parts_of_sums_and_nothing_else(graph: FederatedGraph) -> None:
    """Under masking no silo sends the server a vector, a feature or a count in the clear."""
    channel = Channel(hierarchy_of(graph), SystemCoins(), Recording.everything())
    scheme = PairwiseMasking()
    together(fedstruct_makes(graph, TASKS["degree"], scheme), graph, scheme, channel)
    server = channel.parties.ids(Role.SERVER)[0]
    to_server = {batch.phase for batch in channel.transcript.messages if server in batch.receivers}
    assert to_server == {
        Phase.CAPACITIES, Phase.KEYS, Phase.SECRET_SHARES, Phase.MASKED_VECTORS, Phase.ROSTERS, Phase.UNMASKING,
    }  # fmt: skip


@pytest.mark.parametrize(
    "preset", [replace(FEDSTRUCT, averaging=Averaging.CLIENTS), replace(FEDSTRUCT, averaging=Averaging.NODES)]
)
def test_averages_over_clients_are_refused(graph: FederatedGraph, preset: FedStructPreset) -> None:
    """Counts that are added up do not tell how well single clients do."""
    with pytest.raises(InputError, match="averaging must be pooled"):
        fedstruct_makes(graph, FedStructTask(preset), Plaintext())[0]()


def test_a_scheme_that_hides_no_sum_from_the_server_is_refused(graph: FederatedGraph) -> None:
    """Sums for one silo need a scheme whose server does not learn them."""
    scheme = SharedKeyCkks()
    with pytest.raises(InputError, match="must serve the topology clients"):
        together(fedstruct_makes(graph, TASKS["hop2vec"], scheme), graph, scheme)


def test_features_of_others_nodes_are_refused(graph: FederatedGraph) -> None:
    """A silo takes structure features from the owners of nodes alone."""
    share = Silo.of(graph, 0)
    task = TASKS["degree"]
    silo = FedStructSilo(
        share, replace(task, preset=replace(task.preset, hops=1)), company(graph, Plaintext()), SystemCoins()
    )
    sent = silo.turn({})
    (parcel,) = sent[1]
    assert SERVER not in sent
    with pytest.raises(ProtocolError, match="nodes of its own"):
        silo.turn({1: [parcel], 2: [parcel]})
