"""What Fed2GNN promises under each scheme for its hop sums, and what it gives away."""

from __future__ import annotations

from dataclasses import replace

from fgl_secure.methods.fedavg.claims import SUM_LEAKS
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.training.server_sums import promises

REFUSAL = "refusal of sums over fewer than k_min clients"

HOP_LEAKS = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.REPEATED_SUM,
        "sums are exact and overlap: a client subtracts those of different nodes from each other, and whoever knows "
        "the graph solves the sums of several hops, which are sums of the same rows; what that determines of single "
        "nodes' rows is read, whatever computes the sums",
    ),
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.SPARSE_SUM,
        "a sum of a few sparse rows can be taken apart by whoever knows what rows look like; rows that were mapped to "
        "a latent space first are dense, and the map is no secret",
    ),
    Leak(
        Secret.FOREIGN_EDGE,
        Role.SILO,
        Circumstance.ANY,
        "the second hop sums the whole neighbourhood of a node: where its row and those around it are known, so are "
        "its edges at other clients",
    ),
    Leak(
        Secret.FOREIGN_NODE,
        Role.SILO,
        Circumstance.ANY,
        "a client that is asked for sums learns which of its nodes are next to which node of another client",
    ),
    Leak(
        Secret.DEGREE,
        Role.SILO,
        Circumstance.ANY,
        "clients tell each other which edges their nodes picked: who hears nothing about an edge learns that its other "
        "end has more neighbours at other clients than it may ask about",
    ),
)
"""What exact sums of several hops tell a client, whatever computes them."""

IN_THE_CLEAR = (
    Leak(
        Secret.NODE_FEATURES,
        Role.SILO,
        Circumstance.ANY,
        "each client's part of a sum arrives by itself: a node's neighbour that is alone at its client is read at "
        "once, and of every later hop the sum over that neighbour's surroundings",
    ),
)

ONE_CLIENT = Leak(
    Secret.NODE_FEATURES,
    Role.SILO,
    Circumstance.SINGLE_NEIGHBOUR,
    "with k_min = 1 a sum over one neighbour is that neighbour's row",
)

MODELS_IN_THE_CLEAR = (
    Leak(
        Secret.SUMMAND,
        Role.SERVER,
        Circumstance.ANY,
        "the server sees every client's model, and how many labelled and validation nodes it has",
    ),
)


PAIR_LEAKS = (
    Leak(
        Secret.SUMMAND,
        Role.SILO,
        Circumstance.ANY,
        "of two clients each can take its own part from the mean that the server sends back: what is left is the "
        "other's model, and of the latent map its perceptron and its mean square",
    ),
)
"""What two clients learn of each other, whatever adds the models up."""


def claim_of(
    scheme: Scheme,
    averaging: Scheme,
    clients: int,
    told: tuple[Leak, ...] = HOP_LEAKS,
    pair: tuple[Leak, ...] = PAIR_LEAKS,
) -> Claim:
    """The claim of a run. The paper promises nothing: it names privacy as work for the future (its conclusion).

    Args:
        scheme: computes the hop sums.
        averaging: adds up the models; one that promises nothing sends them in the clear.
        clients: how many there are.
        told: what exact sums tell a client, whatever computes them.
        pair: what two clients learn of each other's models, whatever adds them up.
    """
    parts = (_hops(scheme, told), _averaging(averaging, clients, pair))
    guarantees = tuple(each for part in parts for each in part.guarantees)
    leaks = tuple(each for part in parts for each in part.leaks_by_design)
    return Claim(guarantees, leaks, tuple(dict.fromkeys(each for part in parts for each in part.assumptions)))


def _hops(scheme: Scheme, told: tuple[Leak, ...]) -> Claim:
    inner, least = scheme.claim_for(Topology.example(NEIGHBOURS)), least_group(scheme)
    hidden = next((each for each in inner.guarantees if each.secret is Secret.EMBEDDING), None)
    if hidden is None:
        return Claim((), (*IN_THE_CLEAR, *told), inner.assumptions)
    relays = hidden.coalition.get(Role.RELAY, 0)
    leaks = tuple(each for each in inner.leaks_by_design if each.role in (Role.SERVER, Role.RELAY))
    assumptions = (*inner.assumptions, _honest(least))
    if least < 2:
        return Claim((_hidden(hidden, relays),), (*leaks, ONE_CLIENT, *told), assumptions)
    promises = (_hidden(hidden, relays), _sums_alone(least, relays))
    return Claim(promises, (*leaks, *told), assumptions)


def _hidden(inner: Guarantee, relays: int) -> Guarantee:
    """What a scheme promises of rows, towards all who are no clients: clients are its senders and its targets here."""
    return replace(
        inner,
        coalition={Role.RELAY: relays, Role.SERVER: 1},
        statement=f"up to T = {relays} relays and the server learn nothing of the rows that are summed",
    )


def _sums_alone(least: int, relays: int) -> Guarantee:
    return Guarantee(
        Secret.NODE_FEATURES,
        {Role.SILO: 1, Role.SERVER: 1, Role.RELAY: relays},
        Strength.COMPUTATIONAL,
        f"of a node's neighbours elsewhere no message tells a client more than the sums of every hop over at least "
        f"{least} clients' parts, and a node with neighbours at fewer clients gets no sum; what several of these sums "
        "determine together is declared beside it",
        REFUSAL,
    )


def _honest(least: int) -> str:
    return (
        f"of the at least {least} clients in a sum no more than all but two pool what they have with the client that "
        "gets it"
    )


def _averaging(averaging: Scheme, clients: int, told: tuple[Leak, ...]) -> Claim:
    inner = promises(averaging, clients)
    if inner is None:
        return Claim((), MODELS_IN_THE_CLEAR, ())
    pair = told if clients == 2 else ()
    return Claim(inner.guarantees, (*inner.leaks_by_design, *SUM_LEAKS, *pair), inner.assumptions)
