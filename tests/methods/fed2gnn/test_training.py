"""Fed2GNN trains to what its sums allow, whoever computes them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, Graph, SplitMasks
from fgl_secure.methods.fed2gnn.decoder import Decoder, Neighbourhoods
from fgl_secure.methods.fed2gnn.preset import Fed2GNNPreset
from fgl_secure.methods.fed2gnn.program import Fed2GNNClient, clients_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import least_group
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.transcript import SERVER_SUM
from fgl_secure.schemes import server_scheme
from fgl_secure.training.loop import TrainingResult
from tests.error_codes import about
from tests.methods.fed2gnn.small import PLAIN, QUICK, channel_of, some_digits, train, true_children

GRAPH = some_digits()


def losses(result: TrainingResult) -> np.ndarray:
    return np.array(result.losses)


def test_equal_seeds_give_equal_bits() -> None:
    """Losses, accuracies and messages repeat; another seed gives others."""
    one, same, other = (train(GRAPH, backbone="sage", seed=seed) for seed in (0, 0, 1))
    assert one.losses == same.losses
    assert one.accuracy == same.accuracy
    assert one.losses != other.losses


def test_secured_and_clear_training_agree() -> None:
    """Sums over relays and masked models, against sums of the same groups in the clear: within .2 points."""
    graph, preset = some_digits(clients=6), replace(QUICK, epochs=4)
    scheme = RelayCoded(profile=Profile.SHOWN)
    secured = train(graph, preset, scheme, server_scheme("pairwise-masking"))
    clear = train(graph, preset, Plaintext(minimum_group=least_group(scheme)))
    assert secured.accuracy.test is not None
    assert clear.accuracy.test is not None
    assert abs(secured.accuracy.test - clear.accuracy.test) <= 0.002
    np.testing.assert_allclose(losses(secured), losses(clear), rtol=1e-3)


def test_the_server_learns_sums_alone_under_a_scheme() -> None:
    """No client's row travels in the clear, and what the server is left with is one row a call."""
    secured = train(GRAPH, updates=server_scheme("pairwise-masking"), recording=Recording.everything())
    view = secured.transcript.views(Role.SERVER)
    assert len(view.messages(Phase.VECTORS)) == 0
    calls = QUICK.latent.epochs + 1 + 2 * QUICK.epochs + 1 if QUICK.latent else 0
    assert len(view.own(SERVER_SUM)) == calls
    clear = train(GRAPH, recording=Recording.everything())
    seen = clear.transcript.views(Role.SERVER)
    assert len(seen.messages(Phase.VECTORS)) == calls


def test_counts_are_those_that_choose_the_round() -> None:
    """The sums over clients give the pooled validation accuracy of every round: the best is the reported one."""
    preset = replace(PLAIN, epochs=6)
    result = train(GRAPH, preset, recording=Recording.everything(), children=true_children(GRAPH, preset))
    view = result.transcript.views(Role.SERVER)
    batches = [batch for batch in view.messages(Phase.VECTORS) if batch.step.evaluation]
    totals = [np.asarray(batch.payload).sum(axis=0) for batch in batches]
    accuracy = [total[1] / total[2] for total in totals]
    assert len(totals) == preset.epochs + 1
    assert int(np.argmax(accuracy)) == result.selected_round
    assert max(accuracy) == pytest.approx(result.accuracy.validation)
    assert totals[0][2] == GRAPH.validation_mask.sum()


def small(pairs: list[list[int]], silo_of: list[int]) -> FederatedGraph:
    """Two classes, every node trains."""
    n = len(silo_of)
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    edges = np.concatenate([ends, ends[::-1]], axis=1)
    rows = np.random.default_rng(0).normal(size=(n, 3))
    everyone, nobody = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    graph = Graph.from_arrays("small", rows, np.arange(n) % 2, edges)
    return FederatedGraph.from_assignment(graph, silo_of, SplitMasks(everyone, nobody, nobody))


@pytest.mark.parametrize(
    ("backbone", "pairs"),
    [
        pytest.param("gcn", [], id="no edges"),
        pytest.param("sage", [[0, 1], [2, 3], [3, 4]], id="no cross edges, isolated node"),
        pytest.param("dagnn", [[0, 2], [1, 3]], id="cross edges alone"),
    ],
)
def test_sparse_graphs_train(backbone: str, pairs: list[list[int]]) -> None:
    """A graph without edges, a client without cross edges, an isolated node, clients without edges of their own."""
    result = train(small(pairs, [0, 0, 1, 1, 1, 2]), QUICK, backbone=backbone)
    assert np.isfinite(result.losses).all()
    assert result.accuracy.test is None


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("backbone", ["gcn", "sage", "dagnn"])
def test_trees_of_few_nodes_stay_within_float32(backbone: str) -> None:
    """Decoders that saw a handful of neighbourhoods predict no more neighbours than there are nodes."""
    graph = some_digits(60, 3)
    for preset in (QUICK, replace(QUICK, hops=3), replace(PLAIN, hops=5, neighbours=3, decoded=2)):
        result = train(graph, replace(preset, epochs=2), backbone=backbone)
        assert np.isfinite(result.losses).all()


def test_one_decoder_serves_all_levels() -> None:
    """`decoder="shared"` trains one decoder a client and decodes K - 1 levels; K = 2 has one level either way."""
    graph, made = some_digits(120, 3), []

    class Counting(Fed2GNNClient):
        def decoder(self, data: Neighbourhoods, seed: int) -> Decoder:
            made.append(data.elements.shape[1])
            return super().decoder(data, seed)

    def losses(hops: int, decoder: str) -> list[float]:
        made.clear()
        preset = replace(QUICK, neighbours=2, epochs=1).with_trees(hops, None, decoder)
        return list(clients_of(graph, {}, preset, kind=Counting).train(channel_of(graph)).losses)

    shared = losses(3, "shared")
    assert made == [3, 3, 3]
    assert losses(3, "per-level") != shared
    assert losses(2, "shared") == losses(2, "per-level")
    assert made == [2, 2, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": 0}, "hops"),
        ({"neighbours": 0}, "neighbours"),
        ({"decoded": -1}, "decoded"),
        ({"dropout": 1.0}, "dropout"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    """K = 0, d = 0 and their like: the message names the argument, the rule and what was found."""
    with pytest.raises(InputError, check=about(message)):
        replace(QUICK, **change)


def test_a_directed_graph_is_refused() -> None:
    base = small([[0, 1], [2, 3]], [0, 0, 1, 1])
    directed = Graph.from_arrays("directed", base.features, base.labels, base.edges[:, :1])
    graph = FederatedGraph.from_assignment(
        directed, base.silo_of, SplitMasks(base.train_mask, base.validation_mask, base.test_mask)
    )
    with pytest.raises(InputError, check=about("graph")):
        train(graph)


def test_features_that_say_nothing_are_refused() -> None:
    zeros = Graph.from_arrays("zeros", np.zeros_like(GRAPH.features), GRAPH.labels, GRAPH.edges)
    with pytest.raises(InputError, check=about("features")):
        train(replace(GRAPH, graph=zeros))


def test_the_method_learns() -> None:
    """On a few hundred digits, far better than chance after 40 rounds, and the training loss falls."""
    preset: Fed2GNNPreset = replace(QUICK, epochs=40)
    result = train(GRAPH, preset)
    assert result.accuracy.test is not None
    assert result.accuracy.test > 0.5
    assert result.losses[-1] < 0.5 * result.losses[0]
