"""FedSpray's training: learning, schemes, switches, and input that is out of the ordinary."""

from dataclasses import fields, replace

import numpy as np
import pytest

from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedspray.client import FedSprayClient, ProxyLayout, clients_of, first_proxies, minority_nodes
from fgl_secure.methods.fedspray.preset import HONEST, FedSprayPreset, RoundChoice, fedspray_preset
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Channel, Phase, Recording, Role
from fgl_secure.runtime.transcript import SERVER_SUM
from fgl_secure.schemes import server_scheme
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.silo import Silo
from tests.error_codes import about
from tests.graphs import two_communities
from tests.methods.fedspray.runs import SMALL, channel_of, digits, sent, tiny, with_epochs
from tests.training.processes.runs import agree_with_one_process

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
) -> tuple[TrainingResult, Channel]:
    """A run and its channel."""
    channel = channel_of(graph, recording)
    adding = server_scheme(scheme or "plaintext")
    return clients_of(graph, adding, preset, backbone=backbone, seed=seed).train(channel), channel


def begun(
    graph: FederatedGraph, preset: FedSprayPreset = SMALL, rounds: int = 1
) -> tuple[list[FedSprayClient], Channel]:
    """Clients after some rounds in the clear, with everything recorded."""
    channel = channel_of(graph, Recording.everything())
    process = clients_of(graph, Plaintext(threshold=1), preset).open(channel)
    for number in range(rounds):
        process.round(number)
    return [each for each in process.programs if isinstance(each, FedSprayClient)], channel


LAYOUT = ProxyLayout.of(64, 10, SMALL.width)
"""Of the embedded graph."""


@pytest.mark.parametrize(("backbone", "name"), [("gcn", "honest"), ("sage", "paper")])
def test_training_learns(backbone: str, name: str) -> None:
    """Eight rounds of either preset reach half of the test nodes, and losses fall."""
    preset = replace(fedspray_preset(name, "digits"), epochs=8, hidden=16, width=16)
    preset = replace(preset, learning_rate=0.03, teaching=1.0)
    result = trained(digits(), preset, backbone=backbone)[0]
    assert result.accuracy.test is not None
    assert result.accuracy.test > 0.5
    assert result.losses[-1] < result.losses[0]
    assert len(result.losses) == result.rounds == 8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_secured_training_is_clear_training(scheme: str) -> None:
    """Every scheme has room for the 32 bits of the clear, so that losses and accuracies agree to the bit."""
    clear, secured = trained(digits())[0], trained(digits(), scheme=scheme)[0]
    assert secured.losses == clear.losses
    assert secured.accuracy == clear.accuracy
    assert secured.selected_round == clear.selected_round
    assert secured.report["minority"] == clear.report["minority"]


@pytest.mark.parametrize("scheme", [None, *SCHEMES])
def test_the_server_gets_no_clients_numbers_under_a_scheme(scheme: str | None) -> None:
    """In the clear every client's shares and weight arrive; under a scheme no row of anything that arrives is one."""
    graph, preset = digits(), replace(SMALL, epochs=1)
    _, channel = trained(graph, preset, scheme, recording=Recording.everything())
    (rows,) = sent(begun(graph, preset)[1])
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
    alike, and figures sums."""
    graph = digits()
    clients, channel = begun(graph, replace(SMALL, choice=RoundChoice.ACCURACY))
    n, layout, half = graph.num_devices, LAYOUT, 2.0**-33
    for k, (client, row) in enumerate(zip(clients, sent(channel)[0], strict=True)):
        mine = graph.silo_of == k
        counts = np.bincount(graph.labels[mine & graph.train_mask], minlength=graph.num_classes)
        shares = np.rint(1024 * row[layout.shares]) / 1024
        np.testing.assert_array_equal(row[layout.shares], shares)
        assert (np.abs(shares - counts / counts.sum()) < 1 / 1024).all()
        assert row[layout.weight][0] == pytest.approx(mine.sum() / n, abs=half)
        assert row[layout.validation_entry][0] == pytest.approx((mine & graph.validation_mask).sum() / n, abs=half)
        predicted = client.predictions.argmax(dim=1).numpy()
        correct = predicted == graph.labels[mine]
        right = correct[graph.validation_mask[mine]].sum()
        assert row[layout.right][0] == pytest.approx(right / n, abs=half)
        test, minority = graph.test_mask[mine], graph.labels[mine] != counts.argmax()
        masks = (graph.validation_mask[mine], test, test & minority)
        assert row[layout.length :].tolist() == [side.sum() for mask in masks for side in (correct & mask, mask)]
        proxies, labels = client.proxies.detach().numpy(), client.subgraph.labelled_labels.numpy()
        for j in np.flatnonzero(counts):
            part = row[layout.proxies].reshape(-1, layout.width)[j]
            np.testing.assert_allclose(part, shares[j] * proxies[labels == j].mean(axis=0), rtol=1e-5, atol=half)


def test_the_round_is_chosen_by_the_sum_alone() -> None:
    """The reported round is the one with the lowest mean loss, or the highest accuracy, that all are told."""
    for choice, sign in ((RoundChoice.LOSS, -1), (RoundChoice.ACCURACY, 1)):
        preset = replace(SMALL, epochs=8, choice=choice)
        outcome, channel = trained(digits(), preset, recording=Recording.everything())
        sums = [rows.sum(axis=0) for rows in sent(channel)]
        figures = [float(total[LAYOUT.right][0] / total[LAYOUT.validation_entry][0]) for total in sums]
        assert outcome.selected_round == int(np.argmax(sign * np.array(figures)))
        if choice is RoundChoice.ACCURACY:
            assert outcome.accuracy.validation == pytest.approx(max(figures))


RUNS: dict[str, tuple[FedSprayPreset, str, Scheme, bool]] = {
    "honest": (SMALL, "gcn", Plaintext(threshold=1), True),
    "paper": (replace(PUBLISHED, epochs=2, local_epochs=2, hidden=8, width=6), "sage", PairwiseMasking(), True),
    "no proxies, stops early": (
        replace(SMALL, epochs=40, proxies=False, patience=1, learning_rate=0.5), "sgc", Plaintext(threshold=1), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_process_for_each_client_trains_the_same_bits(name: str) -> None:
    """Losses, models, proxies, selected round and accuracies agree, though clients are put down after each turn."""
    preset, backbone, scheme, put_down = RUNS[name]
    graph = two_communities(devices=48, silos=3)
    found = agree_with_one_process(clients_of(graph, scheme, preset, backbone=backbone), put_down=put_down)
    assert 1 < len(found[0]["losses"]) < 40


def test_minority_nodes_have_another_label_than_most_training_nodes() -> None:
    """Counted by client from training labels alone; the accuracy is over test nodes of that kind."""
    graph = digits()
    for k in range(3):
        mine = graph.silo_of == k
        majority = np.bincount(graph.labels[mine & graph.train_mask]).argmax()
        np.testing.assert_array_equal(minority_nodes(Silo.of(graph, k)), graph.labels[mine] != majority)
    outcome = trained(graph)[0]
    assert 0 <= outcome.report["minority"] != outcome.accuracy.test


@pytest.mark.parametrize(
    ("graph", "preset", "backbone"),
    [(tiny(edges=False), HONEST, "sage"), (tiny(classes=(0, 2)), PUBLISHED, "gcn"), (tiny(labelled=1), HONEST, "sgc")],
    ids=["a", "b", "c"],
)
def test_unusual_graphs_train(graph: FederatedGraph, preset: FedSprayPreset, backbone: str) -> None:
    """No edges, a class that nobody has, and one labelled node a client give finite losses and an accuracy."""
    outcome = trained(graph, with_epochs(preset, 3), backbone=backbone)[0]
    assert np.isfinite(outcome.losses).all()
    assert outcome.accuracy.test is not None


def test_the_proxy_of_a_class_that_nobody_has_stays() -> None:
    """Class 1 of 0, 1 and 2 is absent: its proxy is that of the start after two rounds, the others' are not."""
    preset = with_epochs(HONEST, 3)
    (first, after), before = begun(tiny(classes=(0, 2)), preset, 2)[0], first_proxies(3, preset)
    np.testing.assert_array_equal(first.class_proxies, after.class_proxies)
    np.testing.assert_array_equal(after.class_proxies[1], before[1])
    assert (after.class_proxies[[0, 2]] != before[[0, 2]]).any(axis=1).all()


def test_clients_without_labels_are_refused() -> None:
    """Before anything is sent, with the client's number; so is an unknown backbone."""
    graph = digits()
    unlabelled = replace(graph, train_mask=graph.train_mask & (graph.silo_of != 1))
    with pytest.raises(InputError, check=about("masks.train")):
        trained(unlabelled)
    with pytest.raises(UnknownNameError, check=about("backbone")):
        trained(graph, backbone="gat")


def test_the_honest_preset_is_the_papers_text() -> None:
    """The numbers of section 5.1.3, with lambda_1 chosen on validation nodes, and no oddity of the code."""
    found = fedspray_preset("honest", "PubMed")
    assert (found.epochs, found.local_epochs, found.hidden, found.width) == (300, 5, 64, 64)
    assert (found.learning_rate, found.proxy_rate, found.teaching, found.learning) == (0.003, 0.02, 1.0, 1.0)
    assert found.share_grid == 1024
    assert found.confidence is None
    assert not any((found.classifier_projects, found.own_proxies, found.uniform_weights))


def test_the_paper_preset_differs_by_named_switches() -> None:
    honest, paper = fedspray_preset("honest", "Physics"), fedspray_preset("paper", "Physics")
    assert (honest.name, paper.name) == ("honest", "paper")
    differing = {each.name for each in fields(honest) if getattr(honest, each.name) != getattr(paper, each.name)}
    assert differing == {
        "name", "teaching", "confidence", "classifier_projects", "own_proxies", "uniform_weights", "share_grid"
    }  # fmt: skip
    assert (paper.epochs, paper.teaching, paper.confidence) == (300, 5.0, 0.7)
    assert paper.share_grid is None


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epochs", 0), ("local_epochs", 0), ("hidden", 0), ("width", 0), ("patience", 0), ("learning_rate", 0.0),
        ("proxy_rate", np.nan), ("teaching", -1.0), ("learning", np.inf), ("confidence", 1.0), ("confidence", -0.1),
        ("share_grid", 0),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(argument: str, value: float) -> None:
    with pytest.raises(InputError, check=about(argument)):
        replace(HONEST, **{argument: value})  # type: ignore[arg-type]
