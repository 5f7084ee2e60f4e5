"""FedStruct with a process for each client trains what FedStruct in one process trains, to the last bit."""

from dataclasses import replace

import pytest

from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import (
    AuditRule,
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    NoExchange,
    Pruning,
    RowExchange,
)
from fgl_secure.methods.fedstruct.preset import (
    AccuracyAveraging,
    FeatureModelKind,
    FedStructPreset,
    Stepping,
    Weighting,
    fedstruct_preset,
)
from fgl_secure.methods.fedstruct.program import FedStructTask, clients_of
from fgl_secure.protocols.ckks import Ckks, SharedKeyCkks
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Phase, Recording, Role
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import agree, agree_with_one_process, apart, in_lockstep, same_everywhere

SMALL: FedStructPreset = replace(
    fedstruct_preset("honest", "Cora"), epochs=2, hops=3, kept=None, structure_width=8, structure_hidden=(8,),
    feature_hidden=(8,), dropout=0.3, learning_rate=0.05, structure_rate=0.05,
)  # fmt: skip
MASKS, OWNER, QUERIES = PairwiseMasking(), GradientDelivery.OWNER, FeatureSharing.QUERIES
RUNS: dict[str, tuple[FedStructTask, bool]] = {
    "masked": (FedStructTask(SMALL, RowExchange(MASKS, MASKS)), True),
    "masked, rows of two": (FedStructTask(SMALL, RowExchange(MASKS, MASKS, k_min=2)), False),
    "masked, to owners, rows of two": (
        FedStructTask(SMALL, RowExchange(MASKS, MASKS, delivery=OWNER, k_min=2)), False
    ),
    "ckks": (FedStructTask(SMALL, RowExchange(Ckks(), MASKS)), False),
    "queries": (FedStructTask(SMALL, RowExchange(MASKS, LightSecAgg(), sharing=QUERIES, rule=AuditRule(0.6, 2))), True),
    "queries, counted, to owners": (
        FedStructTask(SMALL, RowExchange(MASKS, MASKS, sharing=QUERIES, delivery=OWNER, rule=None)), False
    ),
    "hop by hop": (FedStructTask(SMALL, HopwiseExchange(Plaintext(minimum_group=2), MASKS)), True),
    "hop by hop over relays": (
        FedStructTask(SMALL, HopwiseExchange(RelayCoded(k_min=2, profile=Profile.SHOWN), MASKS)), False
    ),
    "degrees, pruned as a matrix": (
        FedStructTask(replace(SMALL, structure_width=12, kept=5), RowExchange(MASKS, MASKS), "degree"), False
    ),
    "pruned as shares": (
        FedStructTask(replace(SMALL, kept=5), RowExchange(MASKS, MASKS, pruning=Pruning.SHARES)), False
    ),
    "sage, gradient descent": (
        FedStructTask(
            replace(SMALL, feature_model=FeatureModelKind.SAGE, stepping=Stepping.DESCENT), RowExchange(MASKS, MASKS)
        ), False,
    ),
    "no g, clients' shares, mean over clients": (
        FedStructTask(
            replace(
                SMALL, structure_hidden=None, weighting=Weighting.NODES,
                averaging=AccuracyAveraging.CLIENTS, selection=None,
            ),
            RowExchange(MASKS, MASKS),
        ), False,
    ),
    "nothing shared": (FedStructTask(SMALL, NoExchange()), True),
}  # fmt: skip


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=32, silos=4)


@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(graph: FederatedGraph, name: str) -> None:
    """Losses, parameters, structure features, selected round and accuracies agree, whoever adds up."""
    task, put_down = RUNS[name]
    found = agree_with_one_process(clients_of(graph, task), put_down=put_down)
    figures = ("losses", "selected round", "test", "validation", "theta")
    assert same_everywhere({silo: {name: report[name] for name in figures} for silo, report in found.items()})


def test_another_seed_trains_something_else(graph: FederatedGraph) -> None:
    """The comparison can fail."""
    task, _ = RUNS["masked"]
    job, other = clients_of(graph, task), clients_of(graph, replace(task, seed=1))
    with pytest.raises(AssertionError):
        agree(apart(other), in_lockstep(job.open(job.channel(SimulationCoins(0)))))


def test_the_server_is_sent_parts_of_sums_and_nothing_else(graph: FederatedGraph) -> None:
    """Under masks no client sends the server a vector, a feature or a count in the clear."""
    job = clients_of(graph, RUNS["masked, rows of two"][0])
    channel = job.channel(SystemCoins(), Recording.everything())
    apart(job, channel)
    server = channel.parties.ids(Role.SERVER)[0]
    to_server = {batch.phase for batch in channel.transcript.messages if server in batch.receivers}
    assert to_server == {
        Phase.CAPACITIES, Phase.KEYS, Phase.SECRET_SHARES, Phase.MASKED_VECTORS, Phase.ROSTERS, Phase.UNMASKING,
    }  # fmt: skip


def test_a_scheme_that_hides_no_sum_from_the_server_is_refused(graph: FederatedGraph) -> None:
    """Sums for one client need a scheme whose server does not learn them."""
    exchange: Exchange = RowExchange(SharedKeyCkks(), MASKS)
    with pytest.raises(InputError, check=about("scheme")):
        apart(clients_of(graph, FedStructTask(SMALL, exchange)))
