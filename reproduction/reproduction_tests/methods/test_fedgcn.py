"""FedGCN computes what its name says, secured as in the clear; no client is told of fewer than k_min others."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fgl_reproduction.methods import FedGCN
from fgl_reproduction.methods.fedgcn import program
from fgl_reproduction.methods.fedgcn.program import HONEST, clients_of, fedgcn_preset
from fgl_reproduction.tables.fed2gnn_baselines import Fed2GNNBaseline, baseline_of
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Recording, Role
from fgl_secure.training.job import Job
from fgl_secure.training.one_process import OneProcess
from tests.error_codes import about
from tests.methods.fed2gnn.oracles import graph_of, random_graph
from tests.methods.fed2gnn.small import channel_of, some_digits
from tests.training.processes.runs import agree, apart, in_lockstep

Floats = NDArray[np.float64]
SHORT = replace(HONEST, epochs=3)
CALM = replace(SHORT, dropout=0.0)


def begin_exchange(
    graph: FederatedGraph, hops: int = 2, scheme: Scheme | None = None
) -> tuple[list[program.FedGCNClient], OneProcess]:
    """All clients after the exchange."""
    scheme = scheme or Plaintext()
    job = clients_of(graph, {"neighbours": scheme}, replace(SHORT, hops=hops))
    process = job.open(job.channel(SimulationCoins(0), Recording.everything(1)))
    process.begin()
    return [each for each in process.programs if isinstance(each, program.FedGCNClient)], process


def scores(client: program.FedGCNClient) -> Floats:
    """Of the client's own nodes, before training."""
    model = client.learner.model.eval()
    with torch.no_grad():
        found = model(client.graph, client.learner._dropout)[: len(client.silo.nodes)]
    return np.asarray(found.numpy(), dtype=np.float64)


def propagation(graph: FederatedGraph) -> Floats:
    """A-hat of the whole graph, dense."""
    n = graph.num_devices
    whole = np.eye(n)
    whole[graph.edges[1], graph.edges[0]] += 1
    root = np.sqrt(graph.in_degree + 1)
    return np.asarray(whole / root[:, None] / root[None, :])


def expected_logits(graph: FederatedGraph, hops: int, client: program.FedGCNClient) -> Floats:
    """A network of two layers on the whole graph; of one hop, the second layer lacks edges between clients."""
    parameters = [each.detach().numpy().astype(np.float64) for each in client.learner.model.parameters()]
    (first, second), (shift, last) = parameters[:2], parameters[2:]
    full = propagation(graph)
    again = full if hops == 2 else full * (graph.silo_of[:, None] == graph.silo_of[None, :])
    hidden = np.maximum(full @ graph.features.astype(np.float64) @ first + shift, 0)
    return np.asarray((again @ (hidden @ second) + last)[client.silo.nodes])


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("edges", [0, 15, 60, 200])
def test_scores_are_those_of_the_whole_graph(edges: int, hops: int) -> None:
    """With a hub, isolated nodes, and clients of few nodes; without edges, too."""
    graph = random_graph(60, edges, 4, edges)
    for client in begin_exchange(graph, hops)[0]:
        assert scores(client) == pytest.approx(expected_logits(graph, hops, client), abs=1e-5)


def test_one_hop_is_less_than_two() -> None:
    """The oracle tells them apart."""
    graph = random_graph(60, 60, 4, 1)
    client = begin_exchange(graph, 1)[0][0]
    assert not np.allclose(scores(client), expected_logits(graph, 2, client), atol=1e-3)


def test_two_hops_train_as_averaging_on_full_neighbourhoods() -> None:
    """Round by round, without dropout, the losses of FedAvg whose clients see the whole graph around their nodes."""
    graph = some_digits(150, 3)
    alike = replace(CALM, local_steps=1, descent=False, learning_rate=0.01)
    full = Fed2GNNPreset("honest", epochs=3, dropout=0.0, weight_decay=CALM.weight_decay, latent=None)
    seen = baseline_of(graph, Fed2GNNBaseline.FULL, full).train()
    assert clients_of(graph, {}, alike).train().losses == pytest.approx(seen.losses, abs=1e-6)


@pytest.mark.parametrize("hops", [1, 2])
def test_secured_training_is_that_in_the_clear(hops: int) -> None:
    """Where both leave out the same sums: up to rounding under relays, with models under masks."""
    graph, preset = some_digits(150, 4), replace(SHORT, hops=hops)
    for least in (1, 2):
        clear = clients_of(graph, {"neighbours": Plaintext(minimum_group=least)}, preset).train()
        relays = RelayCoded(bound=64.0, k_min=least, profile=Profile.SHOWN)
        secured = clients_of(graph, {"neighbours": relays, "server": PairwiseMasking()}, preset).train()
        assert secured.losses == pytest.approx(clear.losses, abs=1e-5)


def exchanged_rows(process: OneProcess) -> list[tuple[int, Floats]]:
    """What clients told each other around nodes: to which client, and the rows."""
    channel = process._channel
    found = []
    for batch in channel.transcript.messages:
        if batch.phase is program.GCNMessage.NEIGHBOURHOODS:
            assert batch.payload is not None
            to = channel.parties.index_of(batch.receivers, Role.SILO)
            found += [(int(client), np.asarray(row)) for client, row in zip(to, batch.payload, strict=True)]
    return found


def others_in(graph: FederatedGraph, node: int, receiver: int, least: int) -> set[int]:
    """Clients beside the receiver with a part in the sum around a node, from the whole graph."""
    around = graph.edges[0, graph.edges[1] == node]
    elsewhere = set(graph.silo_of[around].tolist()) - {int(graph.silo_of[node])}
    heard = elsewhere if len(elsewhere) >= least else set()
    return ({int(graph.silo_of[node])} | heard) - {receiver}


def fewest(graph: FederatedGraph, process: OneProcess, least: int) -> int:
    """Fewest clients in a sum that was told."""
    return min(len(others_in(graph, int(row[0]), to, least)) for to, row in exchanged_rows(process))


@pytest.mark.parametrize("least", [1, 2, 3])
def test_no_sum_told_is_over_fewer_clients(least: int) -> None:
    """Than the scheme's least, its receiver not counted; and some have no more."""
    graph = random_graph(80, 120, 5, 3)
    process = begin_exchange(graph, 2, Plaintext(minimum_group=least))[1]
    assert fewest(graph, process, least) == least


def test_a_client_that_tells_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: it hands sums over whatever is in them, and one over itself alone is no sum."""
    graph = random_graph(80, 120, 5, 3)
    monkeypatch.setattr(program.FedGCNClient, "_has_sum", lambda _, nodes: np.ones(len(nodes), dtype=np.bool_))
    process = begin_exchange(graph, 2, Plaintext(minimum_group=3))[1]
    assert fewest(graph, process, 3) == 1


def test_in_the_clear_a_sum_around_a_node_is_its_row() -> None:
    """A node with no neighbours but the client's own: two hops of FedGCN as published tell that client all of it."""
    graph = graph_of([[0, 2], [1, 2], [2, 3]], 4, [0, 0, 1, 0], np.arange(8.0).reshape(4, 2))
    process = begin_exchange(graph)[1]
    ((to, row),) = [(to, row) for to, row in exchanged_rows(process) if row[0] == 2]
    own = graph.features[[0, 1, 3]] / np.sqrt(2)
    assert to == 0
    assert (row[program.KEY :] - own.sum(axis=0)) * np.sqrt(row[1] + 1) == pytest.approx(graph.features[2])


class Liar(program.FedGCNClient):
    """Tells of a node that nobody asked about."""

    def _rows_by_client(self, table: Floats) -> dict[int, Floats]:
        sent = super()._rows_by_client(table)
        return {client: rows + np.eye(1, rows.shape[1]) for client, rows in sent.items()}


def test_a_client_that_tells_of_other_nodes_is_refused() -> None:
    graph = some_digits(80, 3)
    job = clients_of(graph, {}, SHORT)
    lying = replace(job, task=replace(job.task, make=lambda comm, _: Liar(comm, SHORT)))
    with pytest.raises(ProtocolError, check=about("sums of client 1")):
        lying.open(lying.channel()).begin()


RUNS: Mapping[str, tuple[int, Scheme, Scheme, bool]] = {
    "one hop, models masked, put down": (1, Plaintext(), PairwiseMasking(), True),
    "over relays": (2, RelayCoded(k_min=2, profile=Profile.SHOWN), PairwiseMasking(), False),
}


@pytest.mark.parametrize("name", RUNS)
def test_training_is_that_of_one_process(name: str) -> None:
    """With a process for each client, to the last bit."""
    hops, rows, server, put_down = RUNS[name]
    job = clients_of(some_digits(80, 3), {"neighbours": rows, "server": server}, replace(SHORT, hops=hops))
    agree(apart(job, put_down=put_down), in_lockstep(job.open(job.channel(SimulationCoins(0)))))


def train_job(graph: FederatedGraph, **schemes: Scheme) -> Job:
    return clients_of(graph, schemes, SHORT)


def test_clients_without_labels_or_with_a_class_of_their_own_train() -> None:
    """One has nothing to learn from and no weight; in another a class is alone. All are scored."""
    graph = some_digits(150, 3)
    first = graph.silo_of == 0
    lacking = replace(graph, train_mask=graph.train_mask & ~first & ((graph.labels != 0) | (graph.silo_of == 1)))
    result = train_job(lacking, server=PairwiseMasking()).train()
    assert np.isfinite(result.losses).all()
    assert all(share is not None for share in result.accuracy.per_silo)


def test_a_graph_without_edges_between_clients_trains_in_the_clear() -> None:
    """Both hops then are FedAvg, bit for bit; a scheme that refuses small sums has none to compute."""
    inside = some_digits(150, 3).restricted_to_silos()
    one, two = (clients_of(inside, {}, replace(SHORT, hops=hops)).train().losses for hops in (1, 2))
    assert one == two
    with pytest.raises(FglSecureError, check=about("k_min")):
        FedGCN().plan(inside, ["relay-coded"])


@pytest.mark.parametrize(
    ("choice", "rule"),
    [({"hops": 3}, r"hops must lie in 1\.\.2; found 3"), ({"preset": "none"}, "preset must be one of")],
)
def test_choices_out_of_range_are_refused(choice: dict[str, object], rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(FglSecureError, match=rule):
        FedGCN(**choice).plan(some_digits(80, 3))  # type: ignore[arg-type]  # wrong on purpose
    assert fedgcn_preset("paper").descent


@pytest.mark.parametrize(
    ("schemes", "rule"),
    [("secmp", "scheme must not be secmp"), ("relay-coded[k_min=9]", "k_min must leave some node a sum")],
)
def test_runs_that_cannot_be_are_refused(schemes: str, rule: str) -> None:
    """Before anything runs."""
    with pytest.raises(FglSecureError, match=rule):
        FedGCN().plan(some_digits(80, 3), schemes)


def test_graphs_that_do_not_fit_are_refused() -> None:
    """One client, edges of one direction."""
    graph = some_digits(80, 3)
    with pytest.raises(InputError, check=about("silos")):
        FedGCN().plan(graph.in_one_silo())
    directed = replace(graph, graph=replace(graph.graph, edges=graph.edges[:, graph.edges[0] < graph.edges[1]]))
    with pytest.raises(InputError, check=about("graph")):
        FedGCN().plan(directed, "plaintext")


def test_rows_beyond_the_range_are_refused() -> None:
    """Where a scheme wants to know how large they get."""
    graph = some_digits(80, 3)
    relays = RelayCoded(k_min=1, profile=Profile.SHOWN)
    job = clients_of(graph, {"neighbours": relays}, replace(SHORT, row_range=0.01))
    with pytest.raises(InputError, check=about("rows of hop 1")):
        job.open(channel_of(graph, relays)).begin()
