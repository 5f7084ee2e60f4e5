"""The server's third stage of pairwise masking: masked vectors, added up as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from fgl_secure.protocols.pairwise_masking.requests import request_of
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking.closing import AgreementStage, Gathered
from fgl_secure.protocols.staged.masking.plan import MaskingPlan
from fgl_secure.protocols.staged.masking.stage import ServerStage
from fgl_secure.protocols.staged.masking.wire import client_bytes, elements_from


class VectorStage(ServerStage[None]):
    """Stage VECTORS: clients hear who shared, and hand in their vectors.

    Args:
        plan: of the sum.
        masks: the mask key that each client published.
        boxes: sealed shares, by owner and holder.
    """

    stage: ClassVar[Stage] = Stage.VECTORS

    def __init__(self, plan: MaskingPlan, masks: Mapping[int, bytes], boxes: Mapping[int, Mapping[int, bytes]]) -> None:
        self._told = {v: tuple(u for u in plan.near(v) if v in boxes.get(u, {})) for v in sorted(boxes)}
        super().__init__(plan, [v for v, told in self._told.items() if len(told) + 1 >= plan.needed])
        self._masks, self._boxes = masks, boxes
        self._total = np.zeros(plan.terms.length, dtype=np.int64)

    def request(self, client: int) -> list[bytes]:
        """Whose shares it holds from now on, and the shares."""
        told = self._told[client]
        return [client_bytes(told), b"".join(self._boxes[u][client] for u in told)]

    def take(self, client: int, fields: Sequence[bytes]) -> None:
        """A masked vector."""
        field = self.plan.field
        vector = elements_from(field, fields[0], (self.plan.terms.length,), "masked vector")
        self._total = field.add(self._total, vector).astype(np.int64, copy=False)
        self.answers[client] = None

    def after(self) -> AgreementStage:
        """For those whose vectors are in the sum.

        Nothing is asked about a client that shared and then dropped out together with all its neighbours: no mask of
        its is left, and nobody who could open one.
        """
        shared, survived = np.zeros((2, self.plan.terms.clients), dtype=np.bool_)
        shared[[u for v in self.answers for u in self._told[v]]] = True
        survived[list(self.answers)] = True
        gathered = Gathered(request_of(shared, survived), self._total, self._masks, self._told)
        return AgreementStage(self.plan, gathered)
