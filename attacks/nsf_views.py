"""What a FedStruct client holds that attacks on structure features start from, client by client.

Base FedStruct hands every client the structure features of all nodes (FedStruct, ICLR 2025, Algorithms 1 and 2).
Tables are keyed by the party identifier of the client, so that views side by side and views of one party alone give
the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Auxiliary
from fgl_secure.runtime import Phase, PrivateRows, Role, View

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

SHARED_FEATURES = "shared features"
"""Name of a client's rows (node, s_u) of other clients' nodes at the end of training."""
OWN_FEATURES = "own features"
"""Name of a client's rows (node, s_v) of its own nodes at the end of training."""
OWN_EDGES = "own edges"
"""Name of a client's rows (own node, neighbour, client of the neighbour)."""
OWN_NAMES = "own names"
"""Name of a client's rows (own node, index in the list that a crawl goes by)."""

MODEL = "the embedding of structure features that every client holds, where it is not the identity"
"""Auxiliary knowledge behind `embedded`, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldFeatures:
    """Structure features in the hands of one client.

    Attributes:
        nodes: int64 [m], device indices, ascending.
        values: float64 [m, d_s].
        owners: int64 [m], the client of each node by index; -1 where no message tells.
    """

    nodes: Ids
    values: Floats
    owners: Ids

    def only(self, which: NDArray[Any]) -> HeldFeatures:
        """Those of some rows: bool [m] or int64 [k]."""
        return HeldFeatures(self.nodes[which], self.values[which], self.owners[which])


def foreign_features(view: View) -> dict[int, HeldFeatures]:
    """The structure features of other clients' nodes, by observing client: as held in the end, else as received."""
    received = _received(view)
    held = _last_rows(view, SHARED_FEATURES)
    clients = sorted(set(received) | set(held))
    return {client: _joined(held.get(client), received.get(client)) for client in clients}


def own_features(view: View) -> dict[int, HeldFeatures]:
    """The structure features of a client's own nodes, by client."""
    return {client: _joined(rows, None) for client, rows in _last_rows(view, OWN_FEATURES).items()}


def embedded(held: HeldFeatures, auxiliary: Auxiliary) -> Floats:
    """Structure features as the model embeds them, float64 [m, c]; as they are where that is the identity."""
    return held.values if auxiliary.embed is None else np.asarray(auxiliary.embed(held.values), dtype=np.float64)


def own_rows(view: View, name: str) -> dict[int, Ids]:
    """Rows of whole numbers that a client knows from the start, by client: int64 [m, k]."""
    return {client: rows.astype(np.int64) for client, rows in _last_rows(view, name).items()}


def _received(view: View) -> dict[int, tuple[Floats, Ids]]:
    """Rows (node, s_u) as sent, and the index of their sender, by receiver."""
    found: dict[int, list[tuple[Floats, Ids]]] = {}
    for batch in view.messages(Phase.STRUCTURE_FEATURES):
        payload = np.asarray(batch.payload, dtype=np.float64)
        owners = view.parties.index_of(batch.senders, Role.SILO)
        for client in np.unique(batch.receivers).tolist():
            here = batch.receivers == client
            found.setdefault(client, []).append((payload[here], owners[here]))
    return {
        client: (np.concatenate([rows for rows, _ in parts]), np.concatenate([owners for _, owners in parts]))
        for client, parts in found.items()
    }


def _last_rows(view: View, name: str) -> dict[int, NDArray[Any]]:
    """The rows of a name that each owner noted at the last step, float64 [m, k]."""
    batches = view.own(name)
    last = max((batch.step.round for batch in batches), default=None)
    parts: dict[int, list[NDArray[Any]]] = {}
    for batch in batches:
        if batch.step.round == last:
            for owner in np.unique(batch.owners).tolist():
                parts.setdefault(owner, []).append(_of(batch, owner))
    return {owner: np.concatenate(rows) for owner, rows in parts.items()}


def _of(batch: PrivateRows, owner: int) -> NDArray[Any]:
    return np.asarray(batch.values[batch.owners == owner], dtype=np.float64)


def _joined(held: NDArray[Any] | None, received: tuple[Floats, Ids] | None) -> HeldFeatures:
    """Rows as held, with the owners that messages tell; rows as received where none are held."""
    if held is None:
        assert received is not None
        held = received[0]
    nodes, first = np.unique(held[:, 0].astype(np.int64), return_index=True)
    owners = np.full(len(nodes), -1, dtype=np.int64)
    if received is not None:
        sent = received[0][:, 0].astype(np.int64)
        place = np.minimum(np.searchsorted(nodes, sent), len(nodes) - 1)
        known = nodes[place] == sent
        owners[place[known]] = received[1][known]
    return HeldFeatures(nodes, held[first, 1:], owners)
