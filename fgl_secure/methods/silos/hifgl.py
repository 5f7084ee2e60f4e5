"""HiFGL (KDD 2024) as the program of one silo, which hosts its devices.

Devices of different silos hear of each other under a scheme for grouped sums; what passes between the devices of a
silo, and their gradients on the way to it, stay in its process. A silo that reads its memory learns what they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import UnknownNameError
from fgl_secure.methods.silos.hifgl_model import SiloModel
from fgl_secure.methods.silos.hifgl_pass import Pass
from fgl_secure.methods.silos.hifgl_rounds import HiFGLRounds
from fgl_secure.methods.silos.neighbour_sums import NeighbourSums
from fgl_secure.methods.silos.parcels import Array, Arrays, under, within
from fgl_secure.methods.silos.program import NOTHING, Inbox, Outbox, Program
from fgl_secure.methods.silos.share import SiloShare
from fgl_secure.methods.silos.sums import Company, SiloSums
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.training.backbones import LAYERS
from fgl_secure.training.presets import Preset


@dataclass(frozen=True, slots=True)
class HiFGLTask:
    """What is trained; the same for all silos.

    Attributes:
        preset: how.
        backbone: "gcn" or "sage".
        seed: of the initial weights and of dropout.
    """

    preset: Preset
    backbone: str = "gcn"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.backbone not in LAYERS:
            raise UnknownNameError("backbone", self.backbone, tuple(LAYERS))


class _Due(IntEnum):
    START = 0
    PREPARING = 1
    ROUNDS = 2
    NOTHING = 3


class HiFGLSilo(Program):
    """The program of one silo.

    Args:
        share: what it holds.
        task: what is trained.
        company: who adds models up, and how.
        neighbours: its part in sums over neighbours.
        coins: its own, secret; those of a program that is taken up again must not repeat.
        identity: signs its keys; None sends them unsigned.
        identities: of all silos.
    """

    def __init__(
        self,
        share: SiloShare,
        task: HiFGLTask,
        company: Company,
        neighbours: NeighbourSums,
        coins: Coins,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> None:
        self._share, self._task, self._neighbours = share, task, neighbours
        self._sums = SiloSums(company, share.silo, coins, identity, identities)
        passes = Pass(share.features, neighbours, static=task.preset.static_first_layer)
        self._rounds = HiFGLRounds(share, task.preset, self._sums, passes, self._model)
        self._due = _Due.START

    def _model(self) -> SiloModel:
        task = self._task
        return SiloModel(self._share, task.preset, task.backbone, task.seed, self._neighbours.summed())

    def turn(self, inbox: Inbox) -> Outbox:
        """One turn."""
        if self._due is _Due.START:
            self._due = _Due.PREPARING
            return self._neighbours.prepare()
        if self._due is _Due.PREPARING:
            out = self._neighbours.take(inbox)
            if out is not None:
                return out
            self._due, inbox = _Due.ROUNDS, {}
        if self._due is _Due.NOTHING:
            return NOTHING
        out = self._rounds.take(inbox)
        if out is None:
            self._due = _Due.NOTHING
        return NOTHING if out is None else out

    @property
    def report(self) -> dict[str, Array] | None:
        """Losses, the selected round and its accuracies, and the parameters after the last round."""
        return self._rounds.report if self._due is _Due.NOTHING else None

    def state(self) -> dict[str, Array]:
        """All that changes, as arrays by name; secret, for this party alone."""
        return {
            "due": np.asarray(self._due, dtype=np.int64),
            **under("sums", self._sums.state()),
            **under("neighbours", self._neighbours.state()),
            **under("rounds", self._rounds.state()),
        }

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._due = _Due(int(state["due"]))
        self._sums.restore(within("sums", state))
        self._neighbours.restore(within("neighbours", state))
        self._rounds.restore(within("rounds", state))
