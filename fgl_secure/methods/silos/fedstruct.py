"""FedStruct (ICLR 2025) as the program of one silo: the exchange of rows, then of structure features, then training."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.coins import Coins
from fgl_secure.errors import ProtocolError
from fgl_secure.graph import Graph
from fgl_secure.graph.structure_features import LEARNT, structure_features
from fgl_secure.methods.fedstruct.presets import FedStructPreset
from fgl_secure.methods.silos.fedstruct_model import ClientModel
from fgl_secure.methods.silos.fedstruct_rounds import FedStructRounds
from fgl_secure.methods.silos.hop_exchange import HopExchange
from fgl_secure.protocols.hop_adjacency import HopSettings, Pruning
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.runtime import Phase, Step
from fgl_secure.runtime.packing import Array, Arrays, under, within
from fgl_secure.training.processes.parcels import Parcel
from fgl_secure.training.processes.process import NOTHING, Inbox, Outbox, Process, fitting, only
from fgl_secure.training.processes.sums import Company, SiloSums
from fgl_secure.training.silo import Silo


@dataclass(frozen=True, slots=True)
class FedStructTask:
    """What is trained; the same for all silos.

    Attributes:
        preset: how; `hops` and `kept` say what is exchanged.
        features: name of the structure features; "hop2vec" learns them.
        seed: of initial weights, learnt structure features, node2vec's walks and dropout.
    """

    preset: FedStructPreset
    features: str = LEARNT
    seed: int = 0

    @property
    def hops(self) -> HopSettings:
        """What is exchanged: all entries, or the largest of all silos together."""
        kept = self.preset.kept
        return HopSettings(self.preset.hops, Pruning.NONE if kept is None else Pruning.MATRIX, kept or 1)


class _Due(IntEnum):
    ROWS = 0
    FEATURES = 1
    ROUNDS = 2
    NOTHING = 3


class FedStructSilo(Process):
    """The program of one silo.

    Args:
        share: what it holds.
        task: what is trained.
        company: who adds up, and how.
        coins: its own, secret; those of a program that is taken up again must not repeat.
        identity: signs its keys; None sends them unsigned.
        identities: of all silos.
        device: where model compute runs; the CPU by default.
    """

    def __init__(
        self,
        share: Silo,
        task: FedStructTask,
        company: Company,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._share, self._task, self._device = share, task, device or torch.device("cpu")
        self._sums = SiloSums(company, share.silo, coins, identity, identities)
        self._exchange = HopExchange(share, task.hops, self._sums, coins)
        self._rounds = FedStructRounds(task.preset, self._sums, self._model)
        self._features: NDArray[np.float32] | None = None
        self._due = _Due.ROWS

    def _model(self) -> ClientModel:
        rows, task = self._exchange.rows, self._task
        return ClientModel(self._share, task.preset, rows, self._features, task.seed, self._device)

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn."""
        if self._due is _Due.ROWS:
            out = self._exchange.take(inbox)
            return self._rows_done() if out is None else out
        if self._due is _Due.FEATURES:
            self._hear_features(inbox)
            self._due, inbox = _Due.ROUNDS, {}
        if self._due is _Due.NOTHING:
            return NOTHING
        out = self._rounds.take(inbox)
        if out is None:
            self._due = _Due.NOTHING
        return NOTHING if out is None else out

    def _rows_done(self) -> Outbox:
        if self._task.features == LEARNT:
            self._due = _Due.ROUNDS
            return self._rounds.take({}) or NOTHING
        self._due = _Due.FEATURES
        own = self._own_features()
        self._features = np.zeros((self._share.facts.nodes, own.shape[1]), dtype=np.float32)
        self._features[self._share.nodes] = own
        parcel = Parcel(Phase.STRUCTURE_FEATURES, Step(0), (self._share.nodes, own))
        return {silo: [parcel] for silo in self._share.others}

    def _own_features(self) -> NDArray[np.float32]:
        """Of own nodes, from what the silo knows: its nodes, their edges, and where these end."""
        share = self._share
        nodes = np.union1d(share.nodes, share.foreign[:, 0])
        blank = np.zeros((len(nodes), 1)), np.zeros(len(nodes), dtype=np.int64)
        known = Graph.from_arrays("known", *blank, np.searchsorted(nodes, share.edges))
        found = structure_features(self._task.features, known, self._task.preset.structure_width, self._task.seed)
        return found[np.searchsorted(nodes, share.nodes)]

    def _hear_features(self, inbox: Inbox) -> None:
        assert self._features is not None
        whole = np.zeros(len(self._features), dtype=np.bool_)
        whole[self._share.nodes] = True
        table = self._features.copy()
        for silo in self._share.others:
            size, width = self._share.facts.sizes[silo], table.shape[1]
            parcel = only(inbox, silo, Phase.STRUCTURE_FEATURES)
            nodes, rows = fitting(parcel, ("<i8", (size,)), ("<f4", (size, width)))
            if not ((nodes >= 0) & (nodes < len(whole))).all() or whole[nodes].any() or not np.isfinite(rows).all():
                raise ProtocolError(f"silo {silo} must send finite features of nodes of its own; it does not")
            whole[nodes], table[nodes] = True, rows
        self._features = table

    @property
    def report(self) -> dict[str, Array] | None:
        """Losses, the selected round and its accuracies, and the parameters after the last round."""
        return self._rounds.report if self._due is _Due.NOTHING else None

    def state(self) -> dict[str, Array]:
        """All that changes, as arrays by name; secret, for this party alone."""
        return {
            "due": np.asarray(self._due, dtype=np.int64),
            **({} if self._features is None else {"features": self._features}),
            **under("sums", self._sums.state()),
            **under("exchange", self._exchange.state()),
            **under("rounds", self._rounds.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._due, self._features = _Due(int(state["due"])), state.get("features")
        self._sums.restore(within("sums", state))
        self._exchange.restore(within("exchange", state))
        self._rounds.restore(within("rounds", state))
