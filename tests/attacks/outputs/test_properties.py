"""Properties of clients: exact from flattened models, by scikit-learn's regressions, and not from noise."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

from fgl_secure.attacks.outputs import answer_spread, audit_properties, draw_clients, flatten_model, label_shares
from fgl_secure.attacks.outputs.properties import (
    HOMOPHILY,
    PENALTIES,
    QUANTILES,
    SHARES,
    induced_graph,
    infer_properties,
    properties_of,
)
from fgl_secure.errors import InputError
from fgl_secure.graph import Graph, load
from fgl_secure.typing import Floats
from tests.error_codes import about

with warnings.catch_warnings():  # torch_geometric compiles a class with what torch deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GraphSAGE

RATE = 0.3


@pytest.fixture(scope="module")
def halves() -> tuple[Graph, Graph]:
    """The embedded graph in two parts without a common node."""
    graph = load("digits")
    first, second = np.array_split(np.random.default_rng(3).permutation(graph.num_nodes), 2)
    return induced_graph(graph, first), induced_graph(graph, second)


def _send_shares(client: Graph, seed: int) -> Floats:
    """An update that holds class shares beside much noise."""
    noise = np.random.default_rng([seed, 9]).normal(size=30)
    return np.concatenate([properties_of(client, 10)[:-2], noise * 0.01])


def _send_noise(_client: Graph, seed: int) -> Floats:
    return np.random.default_rng([seed, 9]).normal(size=40)


def _last_bias(client: Graph, steps: int, *, flat: bool, seed: int) -> tuple[Floats, Floats, float]:
    """The last bias before and after training by gradient descent, and the spread of answers before."""
    torch.manual_seed(seed)
    model = GraphSAGE(client.num_features, 16, 2, 10)
    with torch.no_grad():
        model.convs[-1].lin_l.bias.copy_(torch.linspace(-1, 1, 10))
    if flat:
        model.load_state_dict(flatten_model(model.state_dict()))
    x, labels, edges = (torch.tensor(each) for each in (client.features, client.labels, client.edges))
    before, spread = model.convs[-1].lin_l.bias.detach().clone(), answer_spread(model(x, edges).softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x, edges), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return before.numpy(), model.convs[-1].lin_l.bias.detach().numpy(), spread


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_flattened_model_gives_class_shares_exactly(halves: tuple[Graph, Graph], steps: int) -> None:
    """The same solution misses on an honest model, whose answers to a client's own nodes are much farther apart."""
    for seed, client in enumerate(draw_clients(halves[0], 3, nodes=60, seed=11)):
        true, spreads = properties_of(client, 10)[:-2], []
        for flat, right in ((True, True), (False, False)):
            before, after, spread = _last_bias(client, steps, flat=flat, seed=seed)
            shares = label_shares(before, after, RATE, steps)
            assert shares.sum() == pytest.approx(1)
            assert bool(np.abs(shares - true).max() < 1e-5) is right
            spreads.append(spread)
        assert spreads[0] < 1e-3 * spreads[1]


def test_class_shares_are_inferred_where_an_update_holds_them(halves: tuple[Graph, Graph]) -> None:
    """Errors are far below the baseline; shuffled properties teach nothing; sums of many hide each client."""
    clients = draw_clients(halves[1], 20, nodes=60, seed=5)
    single = audit_properties(_send_shares, halves[0], clients, shadows=40)
    rows = {row.name: row for row in single.rows}
    assert rows[SHARES].is_inferred
    assert rows[SHARES].error < 0.2 * rows[SHARES].baseline
    assert rows[SHARES].null > 0.8 * rows[SHARES].baseline
    assert not rows[HOMOPHILY].is_inferred
    (summed, *_) = audit_properties(_send_shares, halves[0], clients, shadows=40, summed=20).rows
    assert summed.error > 0.8 * summed.baseline
    assert str(single).splitlines()[0] == "Property audit: single updates, 40 shadow clients"


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_is_inferred_from_noise(halves: tuple[Graph, Graph], seed: int) -> None:
    audit = audit_properties(_send_noise, halves[0], draw_clients(halves[1], 20, nodes=60), shadows=40, seed=seed)
    assert not audit.rows[0].is_inferred


def test_regressions_are_those_of_scikit_learn() -> None:
    """On updates or on quantiles of them, standardised, with the penalty over the number of columns."""
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(30, 50)), rng.normal(size=(7, 50))
    targets = rows[:, :3] @ rng.normal(size=(3, 2)) + 0.1 * rng.normal(size=(30, 2))
    guesses, left_out = infer_properties(rows, targets, others, np.arange(30) % 3)
    assert left_out.shape == targets.shape
    for column in range(2):
        expected = []
        for mine, theirs in ((rows, others), (_quantiles(rows), _quantiles(others))):
            scale = np.maximum(mine.std(axis=0), mine.std(axis=0).mean())
            for penalty in PENALTIES:
                model = Ridge(alpha=penalty * mine.shape[1]).fit((mine - mine.mean(axis=0)) / scale, targets[:, column])
                expected.append(model.predict((theirs - mine.mean(axis=0)) / scale))
        assert min(np.abs(each - guesses[:, column]).max() for each in expected) < 1e-8


def _quantiles(rows: Floats) -> Floats:
    return np.quantile(rows, QUANTILES, axis=1).T


def test_drawn_clients_are_parts_of_the_graph_and_differ(halves: tuple[Graph, Graph]) -> None:
    graph, _ = halves
    clients = draw_clients(graph, 12, nodes=50, seed=2)
    shares = np.stack([properties_of(client, 10) for client in clients])
    assert {client.num_nodes for client in clients} == {50}
    assert all(client.is_symmetric for client in clients)
    assert shares[:, :-2].std(axis=0).mean() > 0.03
    assert shares[:, -2].max() > 1.3 * shares[:, -2].min()
    whole = properties_of(graph, 10)
    assert whole[:-2].sum() == pytest.approx(1)
    assert whole[-2] == graph.edges.shape[1] / 2 / graph.num_nodes
    assert properties_of(
        Graph.from_arrays("points", [[0.0], [1.0]], [0, 1], np.zeros((2, 0), np.int64)), 2
    ).tolist() == [0.5, 0.5, 0, 0]


def test_bad_input_is_refused(halves: tuple[Graph, Graph]) -> None:
    graph, other = halves
    clients = draw_clients(other, 4, nodes=30)
    for call, name in (
        (lambda: audit_properties(_send_noise, graph, clients[:2]), "clients"),
        (lambda: audit_properties(_send_noise, graph, clients, shadows=9), "clients"),
        (lambda: audit_properties(_send_noise, graph, clients, summed=5), "summed"),
        (lambda: audit_properties(lambda client, _: np.ones(client.labels[0] + 1), graph, clients), "train"),
        (lambda: audit_properties(lambda *_: [np.nan], graph, clients), "train"),
        (lambda: draw_clients(graph, 1, nodes=10**6), "nodes"),
        (lambda: label_shares([0.0, 0.0], [0.0], 0.1), "after"),
        (lambda: label_shares([0.0, 0.0], [0.1, 0.0], 0.0), "rate"),
        (lambda: label_shares([0.0, 0.0], [0.1, 0.0], 0.1, 0), "rate"),
    ):
        with pytest.raises(InputError, check=about(name)):
            call()
