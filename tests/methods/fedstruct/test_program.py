"""FedStruct: what clients add to the gradient of the whole loss, what is said in a run, and what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.structure_features import adjacency_powers
from fgl_secure.methods.fedstruct.client import ClientModel, first_features, loss_weight
from fgl_secure.methods.fedstruct.exchange import (
    AuditRule,
    Exchange,
    FeatureSharing,
    GradientDelivery,
    HopwiseExchange,
    NoExchange,
    RowExchange,
)
from fgl_secure.methods.fedstruct.preset import (
    AccuracyAveraging,
    FeatureModelKind,
    FedStructPreset,
    Stepping,
    Weighting,
)
from fgl_secure.methods.fedstruct.program import FedStructClient, FedStructTask, SimulatedInputs, clients_of
from fgl_secure.methods.fedstruct.structure import HeldRows
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel
from fgl_secure.training.calls import Call, CollectiveSetting
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.loop import Figures
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import grid_for
from fgl_secure.training.silo import Silo
from tests.error_codes import about
from tests.graphs import lacking, two_communities

CPU = torch.device("cpu")
GRAPH = two_communities(silos=3)
QUICK = FedStructPreset(
    "quick", 4, 0.02, 0.03, 1e-3, 0.3, (6,), 2, (6, 5), (7,), 3, structure_width=8, kept=None, selection=None
)
KINDS = {
    "hop2vec": (QUICK, None),
    "identity": (replace(QUICK, structure_hidden=None), None),
    "fixed": (QUICK, np.eye(40, 8, dtype=np.float32)),
    "sage": (replace(QUICK, feature_model=FeatureModelKind.SAGE), None),
    "mlp": (replace(QUICK, feature_hops=0, weighting=Weighting.NODES), None),
    "double softmax": (replace(QUICK, double_softmax=True, stepping=Stepping.DESCENT), None),
}
EXCHANGES: dict[str, Exchange] = {
    "server": RowExchange(),
    "owner": RowExchange(delivery=GradientDelivery.OWNER),
    "queries": RowExchange(sharing=FeatureSharing.QUERIES, rule=AuditRule(1.0, 1)),
    "hopwise": HopwiseExchange(Plaintext()),
}


def gradients(
    graph: FederatedGraph, preset: FedStructPreset, features: NDArray[np.float32] | None, seed: int = 0
) -> list[tuple[NDArray[np.float32], NDArray[np.float32] | None]]:
    """Each client's gradients of theta, and of all structure features, where it holds its rows and these."""
    power, found = adjacency_powers(graph.graph, preset.hops)[-1], []
    everyone = Silo.of(graph.in_one_silo(), 0)
    table = first_features(everyone, preset, seed) if features is None else features
    for number in range(graph.num_silos):
        silo = Silo.of(graph, number)
        model = ClientModel(silo, preset, table, learnt=features is None, seed=seed, device=CPU)
        model.train()
        scores = model.scores() + HeldRows(power[silo.nodes]).combine(model.embeddings())
        torch.autograd.backward(model.loss(scores))
        found.append((model.gradient(), model.structure_gradient() if features is None else None))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_clients_gradients_add_up_to_the_joint_one(kind: str) -> None:
    """Of models and of structure features: the sum over clients is what one client with everything has."""
    preset, features = KINDS[kind]
    preset = replace(preset, weighting=Weighting.LABELLED)
    apart = gradients(GRAPH, preset, features)
    joint = _joint(preset, features)
    assert np.allclose(sum(theta for theta, _ in apart), joint[0], atol=1e-6)
    if features is None:
        total = np.sum([structure for _, structure in apart if structure is not None], axis=0)
        assert np.abs(total).max() > 0
        assert np.allclose(total, joint[1], atol=1e-6)


def _joint(preset: FedStructPreset, features: NDArray[np.float32] | None) -> tuple[NDArray[np.float32], ...]:
    """One client with all nodes, whose f sees edges inside the real clients alone."""
    whole = GRAPH.in_one_silo()
    silo = Silo.of(whole, 0, GRAPH.restricted_to_silos().in_one_silo())
    power = adjacency_powers(GRAPH.graph, preset.hops)[-1]
    table = first_features(silo, preset, 0) if features is None else features
    model = ClientModel(silo, preset, table, learnt=features is None, seed=0, device=CPU)
    model.train()
    scores = model.scores() + HeldRows(power).combine(model.embeddings())
    torch.autograd.backward(model.loss(scores))
    return model.gradient(), (model.structure_gradient() if features is None else model.gradient())


def clients(exchange: Exchange, preset: FedStructPreset = QUICK, features: str = "hop2vec") -> list[FedStructClient]:
    """All clients after two rounds."""
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    process = clients_of(GRAPH, FedStructTask(preset, exchange, features)).open(channel)
    process.begin()
    for number in range(2):
        process.round(number)
    return list(process.programs)  # type: ignore[arg-type]  # as they were made


@pytest.mark.parametrize("name", EXCHANGES)
def test_learnt_features_move_everywhere(name: str) -> None:
    """Only Hop2Vec's are stepped on, also those of nodes without a label; and all who hold them hold the same."""
    found = clients(EXCHANGES[name])
    for client in found:
        now = client.model.own_features
        assert now is not None
        assert (now != first_features(client.silo, QUICK, 0)).any(axis=1).all()
    if name == "server":
        tables = [client.model.learnt.detach().numpy() for client in found if client.model.learnt is not None]
        assert all(np.array_equal(each, tables[0]) for each in tables)
    fixed = clients(EXCHANGES[name], replace(QUICK, structure_width=30), "degree")
    assert all(client.model.own_features is None for client in fixed)


def test_the_identity_is_the_papers_gradient() -> None:
    """With z = A-bar S the gradient of S is A-bar^T (y^ - y) over the labelled nodes (Proposition 2)."""
    preset = replace(QUICK, structure_hidden=None, dropout=0.0)
    total = np.sum([structure for _, structure in gradients(GRAPH, preset, None) if structure is not None], axis=0)
    rows, scores = adjacency_powers(GRAPH.graph, 3)[-1].toarray(), np.zeros((40, 2))
    for number in range(3):
        silo = Silo.of(GRAPH, number)
        model = ClientModel(silo, preset, None, learnt=False, seed=0, device=CPU)
        scores[silo.nodes] = model.scores().detach().numpy()
    scores += rows @ first_features(Silo.of(GRAPH.in_one_silo(), 0), preset, 0)
    probabilities = functional.softmax(torch.from_numpy(scores), dim=1).numpy()
    errors = (probabilities - np.eye(2)[GRAPH.labels]) * GRAPH.train_mask[:, None] / GRAPH.train_mask.sum()
    assert np.allclose(total, rows.T @ errors, atol=1e-6)


class Scripted(FedStructClient):
    """Right about so many nodes of each community after each round."""

    right = (0, 20, 25, 30, 20, 10)

    def train(self, number: int) -> Figures:
        own = self._counts(number)
        _, sums = self.comm.server(np.empty(0), own)
        return Figures(0.0, sums, own, self._score(sums, number))

    def _counts(self, number: int):  # type: ignore[no-untyped-def]  # as above it
        self._number = number
        return super()._counts(number)

    def scores(self) -> torch.Tensor:
        labels, right = torch.from_numpy(self.silo.labels.copy()), self.silo.nodes < self.right[self._number]
        return torch.eye(2)[torch.where(torch.from_numpy(right), labels, 1 - labels)]


def scripted(preset: FedStructPreset, graph: FederatedGraph = GRAPH) -> tuple[dict[str, float], list[dict[str, float]]]:
    """What the first client reports of a scripted run, and all of them."""
    from fgl_secure.training.one_process import OneProcess

    task = FedStructTask(replace(preset, epochs=5), NoExchange())
    process = OneProcess(graph, {}, Channel(hierarchy_of(graph), SimulationCoins(0)), lambda comm: Scripted(comm, task))
    process.begin()
    while process.round(len(process.programs[0].losses)):  # type: ignore[attr-defined]  # they train
        pass
    reports = [{k: float(v) for k, v in p.report.items() if v.ndim == 0} for p in process.programs]
    return reports[0], reports


@pytest.mark.parametrize("averaging", AccuracyAveraging)
def test_averages_over_clients(averaging: AccuracyAveraging) -> None:
    """Pooled, plain and by numbers of nodes; a client without tested nodes counts in none of them."""
    nodes = np.arange(40)
    silo_of = np.where(nodes < 8, 0, np.where(nodes < 30, 1, 2))
    lopsided = replace(GRAPH, silo_of=silo_of, train_mask=nodes % 4 == 0, test_mask=(nodes % 4 == 1) & (silo_of != 0))
    found, reports = scripted(replace(QUICK, averaging=averaging), lopsided)
    right = np.arange(40) < 10
    shares = [right[lopsided.test_mask & (lopsided.silo_of == silo)].mean() for silo in (1, 2)]
    expected = {
        AccuracyAveraging.POOLED: right[lopsided.test_mask].mean(),
        AccuracyAveraging.CLIENTS: np.mean(shares),
        AccuracyAveraging.NODES: np.average(shares, weights=[22, 10]),
    }[averaging]
    assert found["test"] == pytest.approx(expected, abs=1e-6)
    assert np.isnan(reports[0]["own test"])
    assert [report["own test"] for report in reports[1:]] == pytest.approx(shares)


def talking(graph: FederatedGraph, heard: list[NDArray[np.float32]]) -> Collectives:
    """What client 0 talks through, where the others say what is given."""
    silo = Silo.of(graph, 0)
    nobody, scheme = np.zeros(len(silo.nodes), dtype=np.int64), Plaintext()
    setting = CollectiveSetting(
        nobody, grid_for(scheme, 3), lambda _step: False, schemes={"clients": scheme, "server": scheme}
    )
    comm = Collectives(silo, setting)

    def ask(_call: Call) -> list[NDArray[np.float32]]:
        return heard

    comm.start(None, ask)
    return comm


@pytest.mark.parametrize("wrong", ["theirs", "not finite"])
def test_features_of_others_nodes_are_refused(wrong: str) -> None:
    width = 4
    tables = [np.zeros((len(GRAPH.devices_of(silo)), 1 + width), dtype=np.float32) for silo in range(3)]
    for silo, table in enumerate(tables):
        table[:, 0] = GRAPH.devices_of(1 if wrong == "theirs" and silo == 2 else silo)[: len(table)]
    tables[2][0, 1] = np.nan if wrong == "not finite" else 0
    preset = replace(QUICK, hops=1, structure_width=width)
    power = adjacency_powers(GRAPH.graph, 1)[-1]
    given = SimulatedInputs(rows=power[GRAPH.devices_of(0)])
    client = FedStructClient(talking(GRAPH, tables), FedStructTask(preset, RowExchange()), given=given)
    with pytest.raises(ProtocolError, check=about("silo 2")):
        client.begin()


def test_bad_input_is_refused() -> None:
    """Fixed features without g, nobody to exchange with, and published features that no client could compute."""
    with pytest.raises(InputError, check=about("structure_hidden")):
        clients(RowExchange(), replace(QUICK, structure_hidden=None), "degree")
    alone = GRAPH.in_one_silo()
    with pytest.raises(InputError, check=about("silos")):
        clients_of(alone, FedStructTask(QUICK, RowExchange())).train(Channel(hierarchy_of(alone), SimulationCoins(0)))
    silo = Silo.of(GRAPH, 0)
    setting = CollectiveSetting(
        np.zeros(len(silo.nodes), dtype=np.int64), grid_for(Plaintext(), 3), lambda _step: False
    )
    task = FedStructTask(replace(QUICK, name="paper"), HopwiseExchange(Plaintext()), "degree")
    with pytest.raises(InputError, check=about("features")):
        FedStructClient(Collectives(silo, setting), task).begin()


LACKING = {what: graph for what, graph in lacking(GRAPH).items() if what != "nodes to score in a silo"}
SECURED: dict[str, Exchange] = {
    "rows": RowExchange(PairwiseMasking(), PairwiseMasking()),
    "hopwise": HopwiseExchange(RelayCoded(k_min=1, profile=Profile.SHOWN), PairwiseMasking()),
}


@pytest.mark.parametrize("name", SECURED)
@pytest.mark.parametrize("what", LACKING)
def test_secured_exchanges_get_over_what_is_absent(what: str, name: str) -> None:
    """The model is that of training in the clear, with finite losses, and every client is scored."""
    graph = LACKING[what]
    plain, secured = (
        clients_of(graph, FedStructTask(replace(QUICK, epochs=2), exchange)).train()
        for exchange in (RowExchange(), SECURED[name])
    )
    assert np.isfinite(secured.losses).all()
    assert secured.losses == pytest.approx(plain.losses, abs=1e-4)
    assert secured.accuracy == plain.accuracy
    assert all(share is not None for share in secured.accuracy.per_silo)


@pytest.mark.parametrize("weighting", Weighting)
def test_weights_of_losses(weighting: Weighting) -> None:
    """Alike for all labelled nodes (Eq. 5), or a client's share of all nodes spread over its labelled ones."""
    silo_of = np.where(np.arange(40) < 10, 0, 1)
    uneven = replace(GRAPH, silo_of=silo_of, train_mask=np.arange(40) < 15)
    found = [loss_weight(Silo.of(uneven, silo), weighting) for silo in range(2)]
    assert np.allclose(found, [1 / 15, 1 / 15] if weighting is Weighting.LABELLED else [0.25 / 10, 0.75 / 5])
    assert loss_weight(Silo.of(uneven, 1), weighting, alone=True) == pytest.approx(1 / 5)
