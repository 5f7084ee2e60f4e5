"""FedSpray's training: learning, schemes, switches, and input that is out of the ordinary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.networks import NETWORKS
from fgl_secure.methods.fedspray.preset import HONEST, FedSprayPreset, RoundChoice, fedspray_preset
from fgl_secure.methods.fedspray.scoring import minority_nodes
from fgl_secure.methods.fedspray.training import FedSpray, FedSprayOutcome, train_fedspray
from fgl_secure.runtime import Channel, Phase, Recording, Role, Step
from fgl_secure.schemes import server_scheme
from fgl_secure.training.server_sums import RECEIVED, SERVER_SUM, CollectiveSums, ServerSums
from tests.methods.fedspray.runs import SMALL, channel_of, digits, tiny, with_epochs

SCHEMES = ("pairwise-masking", "lightsecagg", "ckks-shared-key")
PUBLISHED = fedspray_preset("paper", "PubMed")


def trained(
    graph: FederatedGraph,
    preset: FedSprayPreset = SMALL,
    scheme: str | None = None,
    *,
    recording: Recording | None = None,
    backbone: str = "gcn",
    seed: int = 0,
) -> tuple[FedSprayOutcome, Channel]:
    """A run and its channel."""
    channel = channel_of(graph, recording)
    sums = CollectiveSums(server_scheme(scheme or "plaintext"), channel)
    return train_fedspray(graph, channel, preset, sums, backbone=backbone, seed=seed), channel


class Noted(ServerSums):
    """Sums that keep the rows."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []

    def __call__(self, rows: np.ndarray, step: Step) -> np.ndarray:  # noqa: ARG002  # as the interface has it
        """Adds up in the clear."""
        self.rows.append(rows)
        total: np.ndarray = rows.sum(axis=0)
        return total


@pytest.mark.parametrize("backbone", NETWORKS)
@pytest.mark.parametrize("name", ["honest", "paper"])
def test_training_learns(backbone: str, name: str) -> None:
    """Twelve rounds of either preset reach half of the test nodes with every backbone, and losses fall."""
    preset = replace(fedspray_preset(name, "digits"), epochs=12, hidden=16, width=16)
    preset = replace(preset, learning_rate=0.03, teaching=1.0)
    result = trained(digits(), preset, backbone=backbone)[0].result
    assert result.accuracy.test is not None
    assert result.accuracy.test > 0.5
    assert result.losses[-1] < result.losses[0]
    assert len(result.losses) == result.rounds == 12


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    """Two runs with one seed agree in every loss; another seed has other losses."""
    losses = [trained(digits(), seed=seed)[0].result.losses for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_secured_training_is_clear_training(scheme: str) -> None:
    """Every scheme has room for the 32 bits of the clear, so that losses and accuracies agree to the bit."""
    clear, secured = trained(digits())[0], trained(digits(), scheme=scheme)[0]
    assert secured.result.losses == clear.result.losses
    assert secured.result.accuracy == clear.result.accuracy
    assert secured.result.selected_round == clear.result.selected_round
    assert secured.minority == clear.minority


class Coarse(ServerSums):
    """Sums of entries that are rounded to 16 bits behind the point, for schemes with less room."""

    def __call__(self, rows: np.ndarray, step: Step) -> np.ndarray:  # noqa: ARG002  # as the interface has it
        """Rounds and adds up."""
        total: np.ndarray = np.rint(rows * 2.0**16).sum(axis=0) / 2.0**16
        return total


def test_fewer_bits_keep_the_accuracy() -> None:
    """With 16 bits, losses differ in the fourth digit at most, and a test node in a hundred."""
    channel = channel_of(digits())
    coarse, clear = train_fedspray(digits(), channel, SMALL, Coarse()), trained(digits())[0]
    assert coarse.result.losses != clear.result.losses
    np.testing.assert_allclose(coarse.result.losses, clear.result.losses, rtol=1e-3)
    assert coarse.result.accuracy.test == pytest.approx(clear.result.accuracy.test, abs=0.01)


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
def test_the_server_gets_no_clients_numbers_under_a_scheme(scheme: str | None) -> None:
    """In the clear every client's shares and weight arrive; under a scheme no row of anything that arrives is one."""
    graph, preset = digits(), replace(SMALL, epochs=1)
    _, channel = trained(graph, preset, scheme, recording=Recording.everything())
    noted = Noted()
    FedSpray(graph, preset, noted).round(0)
    (rows,) = noted.rows
    server = int(channel.parties.ids(Role.SERVER)[0])
    arrived = [
        np.asarray(field)[batch.receivers == server]
        for batch in channel.transcript.messages
        if batch.fields is not None and (batch.receivers == server).any()
        for field in batch.fields.values()
    ]
    told = [payload for payload in arrived if payload.ndim == 2 and payload.shape[1] == rows.shape[1]]
    exact = [row for payload in told for row in payload if (np.abs(rows - row).max(axis=1) < 1e-6).any()]
    assert len(exact) == (len(rows) if scheme is None else 0)
    phases = {batch.phase for batch in channel.transcript.messages}
    assert (Phase.VECTORS in phases) == (scheme is None)
    assert not phases & {Phase.COUNTS, Phase.CORRECT, Phase.GRADIENT}
    learnt = [batch for batch in channel.transcript.private if batch.name == SERVER_SUM]
    assert len(learnt) == 1
    np.testing.assert_allclose(learnt[0].values[0], rows.sum(axis=0), atol=1e-4)


def test_summands_are_made_of_what_clients_have() -> None:
    """Weights are shares of all nodes, class shares those of labelled nodes on the grid, in numerators and denominators
    alike, and validation figures sums."""
    graph, noted = digits(), Noted()
    method = FedSpray(graph, replace(SMALL, choice=RoundChoice.ACCURACY), noted)
    method.round(0)
    n, layout = graph.num_devices, method.layout
    for k, row in enumerate(noted.rows[0]):
        mine = graph.silo_of == k
        counts = np.bincount(graph.labels[mine & graph.train_mask], minlength=graph.num_classes)
        shares = np.rint(1024 * row[layout.shares]) / 1024
        np.testing.assert_array_equal(row[layout.shares], shares)
        assert (np.abs(shares - counts / counts.sum()) < 1 / 1024).all()
        assert row[layout.weight] == mine.sum() / n
        assert row[layout.scored] == (mine & graph.validation_mask).sum() / n
        predicted = method.clients[k].predictions.argmax(dim=1).numpy()
        right = (predicted == graph.labels[mine])[graph.validation_mask[mine]].sum()
        assert row[layout.right][0] == pytest.approx(right / n)
        proxies, labels = method.clients[k].proxies.detach().numpy(), method.clients[k].subgraph.labelled_labels.numpy()
        for j in np.flatnonzero(counts):
            part = row[layout.proxies].reshape(-1, layout.width)[j]
            np.testing.assert_allclose(part, shares[j] * proxies[labels == j].mean(axis=0), rtol=1e-5)


def test_clients_note_what_they_receive() -> None:
    """Every client notes encoder and proxies of a round, which is what the server counts as sent."""
    _, channel = trained(digits(), recording=Recording.everything())
    received = [batch for batch in channel.transcript.private if batch.name == RECEIVED]
    models = [batch for batch in channel.transcript.messages if batch.phase is Phase.MODEL]
    assert len(received) == len(models) == SMALL.epochs
    clients = channel.parties.ids(Role.SILO).tolist()
    for note, sent in zip(received, models, strict=True):
        assert note.owners.tolist() == sent.receivers.tolist() == clients
        assert (note.values == note.values[0]).all()


def test_without_proxies_there_are_none() -> None:
    """With S = 0 every proxy is zero in every summand and at the server; the rest trains on."""
    noted, preset = Noted(), replace(SMALL, proxies=False)
    method = FedSpray(digits(), preset, noted)
    for number in range(2):
        method.round(number)
    for rows in noted.rows:
        assert not rows[:, method.layout.proxies].any()
        assert rows[:, method.layout.shares].any()
    assert not method.proxies.any()
    assert trained(digits(), preset)[0].result.losses != trained(digits())[0].result.losses


@pytest.mark.parametrize(
    "switch",
    [
        {"confidence": 0.7},
        {"classifier_projects": True},
        {"own_proxies": True},
        {"uniform_weights": True},
        {"teaching": 5.0},
        {"learning": 0.5},
        {"first_class_proxy": 0.5},
    ],
    ids=lambda switch: next(iter(switch)),
)
def test_every_switch_makes_a_difference(switch: dict[str, float]) -> None:
    """Each oddity by itself changes what is learnt."""
    changed = replace(SMALL, **switch)  # type: ignore[arg-type]
    assert trained(digits(), changed)[0].result.losses != trained(digits())[0].result.losses


def test_own_proxies_last_and_global_ones_are_taken_anew() -> None:
    """At the start of a round labelled nodes have the global proxy of their class, unless they keep their own."""
    class_proxies = torch.arange(10.0)[:, None].expand(10, SMALL.width)
    for own in (False, True):
        method = FedSpray(digits(), replace(SMALL, own_proxies=own), Noted())
        client = method.clients[0]
        before = client.proxies.detach().clone()
        client._soft_targets(method.encoder, class_proxies)
        expected = before if own else class_proxies[client.subgraph.labelled_labels]
        assert torch.equal(client.proxies.detach(), expected)


def test_networks_never_leave_their_clients() -> None:
    """Clients' networks differ from the start, and a summand has room for the encoder alone."""
    noted = Noted()
    method = FedSpray(digits(), SMALL, noted)
    method.round(0)
    firsts = [next(client.network.parameters()) for client in method.clients]
    assert not torch.equal(firsts[0], firsts[1])
    encoder = sum(parameter.numel() for parameter in method.encoder.parameters())
    assert noted.rows[0].shape == (3, encoder + 1 + 10 * SMALL.width + 10 + 2)


def test_the_round_is_chosen_by_the_sum_alone() -> None:
    """The reported round is the one with the lowest mean loss, or the highest accuracy, that the server learns."""
    for choice, sign in ((RoundChoice.LOSS, -1), (RoundChoice.ACCURACY, 1)):
        preset = replace(SMALL, epochs=8, choice=choice)
        outcome, channel = trained(digits(), preset, recording=Recording.everything())
        sent = [batch.payload for batch in channel.transcript.messages if batch.phase is Phase.VECTORS]
        sums = [payload.sum(axis=0) for payload in sent if payload is not None]
        layout = outcome.layout
        figures = [float(total[layout.right][0] / total[layout.scored][0]) for total in sums]
        assert outcome.result.selected_round == int(np.argmax(sign * np.array(figures)))
        if choice is RoundChoice.ACCURACY:
            assert outcome.result.accuracy.validation == pytest.approx(max(figures))


def test_patience_ends_a_run() -> None:
    """A run without improvement stops after so many rounds."""
    preset = replace(with_epochs(HONEST, 200), learning_rate=0.5, patience=2)
    result = trained(tiny(), preset)[0].result
    assert result.rounds == result.selected_round + 1 + 2 < 200


def test_minority_nodes_have_another_label_than_most_training_nodes() -> None:
    """Counted by client from training labels alone; the accuracy is over test nodes of that kind."""
    graph = digits()
    found = minority_nodes(graph)
    for k in range(3):
        mine = graph.silo_of == k
        majority = np.bincount(graph.labels[mine & graph.train_mask]).argmax()
        np.testing.assert_array_equal(found[mine], graph.labels[mine] != majority)
    outcome = trained(graph)[0]
    assert outcome.minority is not None
    assert outcome.minority != outcome.result.accuracy.test


def test_a_graph_without_minority_nodes_has_no_such_accuracy() -> None:
    """One class only: nothing to score, and None says so."""
    assert trained(tiny(classes=(0,)), with_epochs(HONEST, 2))[0].minority is None


@pytest.mark.parametrize("backbone", NETWORKS)
@pytest.mark.parametrize("preset", [HONEST, PUBLISHED], ids=["honest", "paper"])
@pytest.mark.parametrize("graph", [tiny(edges=False), tiny(classes=(0, 2)), tiny(labelled=1)], ids=["a", "b", "c"])
def test_unusual_graphs_train(graph: FederatedGraph, preset: FedSprayPreset, backbone: str) -> None:
    """No edges, a class that nobody has, and one labelled node a client give finite losses and an accuracy."""
    outcome = trained(graph, with_epochs(preset, 3), backbone=backbone)[0]
    assert np.isfinite(outcome.result.losses).all()
    assert outcome.result.accuracy.test is not None


def test_the_proxy_of_a_class_that_nobody_has_stays() -> None:
    """Class 1 of 0, 1 and 2 is absent: its proxy is that of the start after two rounds, the others' are not."""
    method = FedSpray(tiny(classes=(0, 2)), with_epochs(HONEST, 2), Noted())
    before = method.proxies.copy()
    for number in range(2):
        method.round(number)
    np.testing.assert_array_equal(method.proxies[1], before[1])
    assert (method.proxies[[0, 2]] != before[[0, 2]]).any(axis=1).all()


def test_clients_without_labels_and_graphs_without_validation_nodes_are_refused() -> None:
    """Both raise before anything is sent, and name the client or the mask; so does an unknown backbone."""
    graph = digits()
    unlabelled = replace(graph, train_mask=graph.train_mask & (graph.silo_of != 1))
    with pytest.raises(InputError, match=r"masks\.train must mark .* client 1 has none"):
        trained(unlabelled)
    unchosen = replace(graph, validation_mask=np.zeros_like(graph.validation_mask))
    with pytest.raises(InputError, match=r"masks\.validation must mark .* found none"):
        trained(unchosen)
    with pytest.raises(UnknownNameError, match="backbone"):
        trained(graph, backbone="gat")
