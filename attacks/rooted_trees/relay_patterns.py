"""What a relay sees of edges between clients in hop sums: which clients send a row to which group.

A group is a node, under a pseudonym, and a row is one client's part of the sum over the node's neighbours. Where relays
see who sends to which group, they see at which clients an unnamed node has neighbours. How many neighbours are behind
one row they do not see, and take for one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.recovery import largest_share, share_of_numbers, share_right
from fgl_secure.attacks.rooted_trees.knowledge import FED2GNN_RELAYS, HOP_SUMS
from fgl_secure.attacks.truth import TreeTruth, neighbours_by_silo
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, View
from fgl_secure.typing import Flags, Ids


@dataclass(frozen=True, slots=True, eq=False)
class ClientsOfGroups:
    """Which clients send to groups.

    Attributes:
        tags: int64 [t, 2], pseudonyms of the groups.
        clients: bool [t, s], the clients that send a row to each.
    """

    tags: Ids
    clients: Flags


@dataclass(frozen=True, slots=True)
class _HopPattern(Attack[ClientsOfGroups, TreeTruth]):
    """Each relay lists the clients that opened circuits to a group."""

    card: Card = field()  # no default: the base class has a property of that name

    def infer(self, view: View, public: PublicParameters) -> ClientsOfGroups | None:  # noqa: ARG002  # needs no parameter
        """Read circuits of the first hop that clients opened in their own names; None if there are none."""
        batches = [rows for rows in view.messages(Phase.CIRCUITS) if "pseudonym" in (rows.fields or {})]
        first = min(((rows.step.round, rows.step.layer) for rows in batches), default=None)
        here = [rows for rows in batches if (rows.step.round, rows.step.layer) == first and len(rows.senders)]
        if not here:
            return None
        silos = view.parties.counts[Role.SILO]
        pairs = np.concatenate([np.column_stack([rows.observers, np.asarray(rows["pseudonym"])]) for rows in here])
        senders = view.parties.index_of(np.concatenate([rows.senders for rows in here]), Role.SILO)
        groups, group = np.unique(pairs, axis=0, return_inverse=True)
        clients = np.zeros((len(groups), silos), dtype=np.bool_)
        clients[group.ravel(), senders] = True
        return ClientsOfGroups(groups[:, 1:], clients)

    def score(self, guess: ClientsOfGroups, truth: TreeTruth) -> tuple[Measurement, ...]:
        """Compare with the neighbours of the node behind each group, which the relay does not know by name.

        The prior gives all groups the most frequent answer.
        """
        node_of = {(one, other): node for node, one, other in truth.tags.tolist()}
        nodes = np.array([node_of.get((one, other), -1) for one, other in guess.tags.tolist()], dtype=np.int64)
        known, by_client = nodes >= 0, neighbours_by_silo(truth)
        if not known.any():
            return ()
        nodes, seen, actual = nodes[known], guess.clients[known], by_client[nodes[known]]
        seen = np.pad(seen, ((0, 0), (0, actual.shape[1] - seen.shape[1])))
        count, most = len(np.unique(nodes)), int(by_client.any(axis=1).sum())
        shown = f"(relays see the groups of {count:,} of {most:,} nodes with neighbours elsewhere)"
        if self.card.secret is Secret.DEGREE:
            what = f"numbers of neighbours at other clients are counted right {shown}."
            return (share_of_numbers("degrees", seen.sum(axis=1), actual.sum(axis=1), nodes, what),)
        if self.card.secret is Secret.FOREIGN_NODE:
            metric, right, prior = (
                "neighbouring clients",
                seen == (actual > 0),
                largest_share((actual > 0).astype(np.int64)),
            )
            what = f"groups show at which clients an unnamed node has neighbours {shown}."
        else:
            metric, right, prior = "neighbours by silo", seen == actual, largest_share(actual)
            what = f"groups show how many edges an unnamed node has to each client {shown}."
        return (share_right(metric, right.all(axis=1), nodes, what, prior=prior),)


_SOURCE = "what sums over neighbours leave to relays that see who sends to which group"


def _card(name: str, summary: str, secret: Secret, minimum: float) -> Card:
    return Card(name, summary, _SOURCE, Role.RELAY, secret, HOP_SUMS, FED2GNN_RELAYS, minimum=minimum, truth=TreeTruth)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _HopPattern(_card(
        "hop-clients-relay", "a relay lists the clients that send to a group: those at which an unnamed node has "
        "neighbours", Secret.FOREIGN_NODE, 0.99,
    )),
    _HopPattern(_card(
        "hop-edges-relay", "a relay takes each client that sends to a group for one edge of an unnamed node",
        Secret.CROSS_EDGE, 0.8,
    )),
    _HopPattern(_card(
        "hop-degrees-relay", "a relay counts the clients that send to a group: an unnamed node's neighbours",
        Secret.DEGREE, 0.8,
    )),
)  # fmt: skip
