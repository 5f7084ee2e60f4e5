"""What a listing says of each method: its task, what is summed, who sees what under each scheme, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fgl_secure.commands.options import BACKBONES
from fgl_secure.commands.tables.reproduce import TABLES


@dataclass(frozen=True, slots=True)
class MethodPage:
    """One method, in words.

    Attributes:
        name: on the command line.
        title: as its paper calls it.
        task: what is learnt, and where that was published.
        summed: what the grouped sums add up, and for whom.
        sees: by scheme, or group of schemes, what parties see beside their own.
    """

    name: str
    title: str
    task: str
    summed: str
    sees: Mapping[str, str] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables and figures of its paper that `fgl-secure reproduce` runs."""
        return tuple(name for name in TABLES if name.split("-")[0] == self.name)


_STAGED = "pairwise-masking, lightsecagg, ckks"

METHOD_PAGES = (
    MethodPage(
        "hifgl",
        "HiFGL",
        "node classification over devices, silos and a server (KDD 2024)",
        "embeddings of a device's neighbours for the device, and their gradients backward; parameter gradients of a "
        "silo's devices for the silo",
        {
            "plaintext": "a device its neighbours' embeddings, a silo each device's gradient",
            "secmp": "a device codes that it can decode (broken), a silo who asks for whom and each device's gradient",
            "relay-coded": "a device the sum over k_min neighbours or more, a silo sums of gradients, relays who sends",
        },
    ),
    MethodPage(
        "fedstruct",
        "FedStruct",
        "node classification with shared structure features (ICLR 2025)",
        "terms B_ijk of adjacency powers for client i; gradients of the structure features for the server or the "
        "owners of the rows",
        {
            "plaintext": "a client every term, the server every gradient",
            "ckks, pairwise-masking": "a client the sum of the terms, the server the sum of the gradients",
            "hopwise": "a client sums over foreign neighbours hop by hop, under --protocol",
        },
    ),
    MethodPage(
        "fedspray",
        "FedSpray",
        "node classification with personal models and shared structure proxies (KDD 2024)",
        "encoders weighted by nodes, class-wise proxies weighted by class shares, and these weights, for the server",
        {
            "plaintext": "the server each client's encoder, node count, proxies and class shares",
            _STAGED: "the server the sums, so the means, the number of nodes and the class shares of all together, "
            "which say more the fewer and the more unlike clients are",
        },
    ),
    MethodPage(
        "fed2gnn",
        "Fed2GNN",
        "node classification by deep models on rebuilt neighbourhoods (anonymous submission)",
        "features of a node's k-hop neighbours at other clients, for the client of the node; then models for the "
        "server",
        {
            "plaintext": "a client each other client's part of every sum, so rows of single neighbours; the server "
            "each client's model",
            "relay-coded": "a client sums over k_min other clients or more, and their differences; the server the sum "
            "of the models",
        },
    ),
    MethodPage(
        "fedvn",
        "FedVN",
        "graph classification and regression under distribution shift (AAAI 2025)",
        "models and virtual nodes weighted by graphs, and the weights, for the server; edge generators stay home",
        {
            "plaintext": "the server each client's model, virtual nodes and number of graphs",
            _STAGED: "the server the sums, so the means and the number of graphs of all together",
        },
    ),
    MethodPage(
        "fedavg",
        "FedAvg",
        "node classification on local subgraphs, as existing loops do it (AISTATS 2017)",
        "model updates for the server",
        {
            "plaintext": "the server each client's update",
            _STAGED: "the server the sum of the updates",
        },
    ),
)


def lines_of(page: MethodPage) -> list[tuple[str, str]]:
    """The lines of one method: first column and second; the first column is empty but on the first line."""
    lines = [(page.name, f"{page.title}: {page.task}"), ("", f"sums      {page.summed}")]
    lines += [("", f"sees      {scheme}: {what}") for scheme, what in page.sees.items()]
    lines.append(("", f"backbones {', '.join(BACKBONES[page.name])}"))
    lines.append(("", f"tables    {', '.join(page.tables) or 'none'}"))
    return lines
