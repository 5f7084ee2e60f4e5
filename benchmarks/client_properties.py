"""What a client's update tells of its graph: class shares, density and homophily, alone and in sums.

Half of a data set's nodes are the attacker's, who draws shadow clients from it. Clients with a hundred nodes each are
drawn from the other half. Each trains a GCN of PyTorch Geometric from one model by gradient descent, and sends the
change of all weights. The active server sends a model whose weights are nearly zero.

    python benchmarks/client_properties.py --dataset Cora
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fgl_secure.attacks.outputs import answer_spread, audit_properties, draw_clients, flatten_model, label_shares
from fgl_secure.attacks.outputs.properties import induced_graph, properties_of
from fgl_secure.graph import Graph
from fgl_secure.graph.datasets import load

with warnings.catch_warnings():  # torch_geometric compiles a class with what torch deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GCN

HIDDEN, NODES, RATE, LAST = 32, 100, 0.5, "convs.1.bias"
State = dict[str, torch.Tensor]


class Client:
    """Trains from one model.

    Args:
        graph: gives the numbers of features and classes.
        epochs: steps of gradient descent on all nodes of a client.
    """

    def __init__(self, graph: Graph, epochs: int) -> None:
        torch.manual_seed(0)
        self.model, self.epochs = GCN(graph.num_features, HIDDEN, 2, graph.num_classes), epochs
        self.start: State = {name: value.clone() for name, value in self.model.state_dict().items()}

    def train(self, client: Graph, sent: State) -> State:
        """The weights of a client that was sent a model."""
        self.model.load_state_dict(sent)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        for _ in range(self.epochs):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.scores(client), torch.tensor(client.labels))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def scores(self, client: Graph) -> torch.Tensor:
        """Class scores of the current model."""
        scores: torch.Tensor = self.model(torch.tensor(client.features), torch.tensor(client.edges))
        return scores

    def update(self, client: Graph, _seed: int) -> NDArray[np.float32]:
        """The change of all weights from the first model, as one vector."""
        after = self.train(client, self.start)
        return np.concatenate([(after[name] - self.start[name]).ravel().numpy() for name in self.start])

    def flattened(self, client: Graph) -> NDArray[np.float64]:
        """Class shares that an active server reads."""
        sent = flatten_model(self.start)
        after = self.train(client, sent)
        return label_shares(sent[LAST], after[LAST], RATE, self.epochs)


def main() -> None:
    """Print errors by property."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--clients", type=int, default=40)
    parser.add_argument("--shadows", type=int, default=200)
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 5])
    chosen = parser.parse_args()
    graph = load(chosen.dataset)
    halves = np.array_split(np.random.default_rng(7).permutation(graph.num_nodes), 2)
    mine, theirs = (induced_graph(graph, half) for half in halves)
    clients = draw_clients(theirs, chosen.clients, nodes=NODES, seed=5)
    truth = np.stack([properties_of(client, graph.num_classes)[:-2] for client in clients])
    for epochs in chosen.epochs:
        client = Client(graph, epochs)
        print(f"{chosen.dataset}, {epochs} epochs")
        for summed in (1, 2, 5, 20):
            print(audit_properties(client.update, mine, clients, shadows=chosen.shadows, summed=summed, seed=3))
        shares = np.stack([client.flattened(each) for each in clients])
        errors = np.abs(shares - truth).sum(axis=1) / 2
        print(
            f"active server, single updates: class shares, mean error {errors.mean():.1e}, largest {errors.max():.1e}"
        )
    for name, sent in (("honest", client.start), ("flattened", flatten_model(client.start))):
        client.model.load_state_dict(sent)
        spreads = [answer_spread(client.scores(each).softmax(1)) for each in clients]
        print(f"spread of answers, {name} model: {min(spreads):.1e} to {max(spreads):.1e}")


if __name__ == "__main__":
    main()
