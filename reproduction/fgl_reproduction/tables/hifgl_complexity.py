"""Appendix A.4 of HiFGL (KDD 2024): the terms of its complexity beside what a round of its scheme sends and computes.

The appendix prints orders, no numbers. A term is an order with the sizes of the run and every constant 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np

from fgl_reproduction.tables.hifgl import BACKBONES, PAPER, SILOS, load_graph
from fgl_reproduction.tables.hifgl_baselines import HIFGL, train_framework
from fgl_reproduction.tables.table import Choices, Metric, PaperTable, TableCase
from fgl_secure.graph import Graph
from fgl_secure.protocols.secmp.scheme import SecretMessagePassing
from fgl_secure.runtime import MessageKind, Phase, Role
from fgl_secure.training.presets import preset

COUNTED = Metric("counted", 1)
"""Thousands of numbers that are sent, four bytes each, or of products in the field, in the first round."""
TERM = Metric("term", 1)
"""The paper's, in thousands."""
BYTES_OF_A_NUMBER = 4

MU, CODES, ENCODED, DECODED, MODEL, SERVER, ENCODING, DECODING = LINES = (
    "mu per edge: 3T + 2",
    "codes per edge: d (T + 1)",
    "codes to silos: d T |N|",
    "sums from silos: d",
    "devices' models: 2 xi",
    "silos' models: 2 xi",
    "products, encoding",
    "products, decoding",
)


@dataclass(frozen=True, slots=True)
class HiFGLSizes:
    """What the terms are made of.

    Attributes:
        masks: T.
        edges: directed edges between devices; the sum of all |N_j|.
        devices: |V|, of all silos, that have a neighbour.
        members: devices of all silos.
        silos: |C|.
        width: d, the widths of the rows that are exchanged in a round, added up.
        parameters: xi.
    """

    masks: int
    edges: int
    devices: int
    members: int
    silos: int
    width: int
    parameters: int

    def terms(self) -> Mapping[str, float]:
        """Each line's term for all who pay it together."""
        T, d = self.masks, self.width
        return {
            MU: self.edges * (3 * T + 2),
            CODES: self.edges * d * (T + 1),
            ENCODED: self.edges * d * T,
            DECODED: self.devices * d,
            MODEL: self.members * 2 * self.parameters,
            SERVER: self.silos * 2 * self.parameters,
            ENCODING: self.edges * d * (T + 1) * _logs(T + 1),
            DECODING: self.devices * d * (T + 1) * _logs(T),
        }


def _logs(k: int) -> float:
    """Return log^2(k) log log(k) to base 2, and 0 below 3, where it says nothing."""
    return log2(k) ** 2 * log2(log2(k)) if k > 2 else 0.0


@dataclass(frozen=True, slots=True)
class Complexity:
    """One line of a run under SecMP with T masks, as a measure."""

    masks: int
    line: str

    def __call__(self, data: Graph, choices: Choices, seed: int) -> Mapping[Metric, float]:
        """Trains for one round; lines of a run are measured together."""
        counted, terms = _first_round(self.masks, data, choices, seed)
        return {COUNTED: counted[self.line] / 1e3, TERM: terms[self.line] / 1e3}


@lru_cache(maxsize=1)
def _first_round(
    masks: int, data: Graph, choices: Choices, seed: int
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return by line what the first round sends or computes, and the paper's terms for it."""
    result = train_framework(
        HIFGL,
        load_graph(data, SILOS, seed),
        preset(choices.preset, data.name).with_epochs(1),
        backbone=BACKBONES["GCN"],
        seed=seed,
        device=choices.place,
        scheme=SecretMessagePassing(T=masks),
    )
    batches = [item for item in result.transcript.messages if item.step.round == 0]
    width = sum(item.item_bytes for item in batches if item.phase is Phase.CODES) // BYTES_OF_A_NUMBER // (masks + 1)
    parties, sent, models = result.transcript.parties, Counter[MessageKind](), 0
    for batch in batches:
        ends = {parties.roles[parties.role_of(some)[0]] for some in (batch.senders[:1], batch.receivers[:1])}
        numbers = batch.bytes // BYTES_OF_A_NUMBER
        if Role.SERVER in ends:
            models += numbers
        else:
            sent[batch.phase] += numbers
    edges, asking = data.edges.shape[1], len(np.unique(data.edges[1]))
    sizes = HiFGLSizes(masks, edges, asking, data.num_nodes, SILOS, width, len(result.report["theta"]))
    return {
        MU: sent[Phase.PARAMETERS],
        CODES: sent[Phase.CODES],
        ENCODED: sent[Phase.AGGREGATE],
        DECODED: sent[Phase.DECODED],
        MODEL: sent[Phase.MODEL] + sent[Phase.GRADIENT],
        SERVER: models,
        ENCODING: sent[Phase.CODES] + SILOS * masks * (masks + 1) * width,
        DECODING: sent[Phase.AGGREGATE],
    }, sizes.terms()


COMPLEXITY = PaperTable(
    "hifgl-a4",
    "HiFGL (KDD 2024), Appendix A.4: complexity of SecMP, in thousands of numbers",
    PAPER.datasets,
    tuple(TableCase(f"T {masks}", line, Complexity(masks, line)) for masks in (1, 2, 4) for line in LINES),
    (COUNTED, TERM),
    notes=(
        "The first round, all devices and silos together. The paper prints orders; a term is an order with the sizes "
        "of the run and every constant 1. d adds up the widths of the rows that a round exchanges, forth and back; xi "
        "counts parameters.",
        "mu has 2T + 2 points and T masks. The paper counts a mask as one number; here it is a vector of the widest "
        "row, without which all numbers of a row would have the same mask. mu is sent once a round.",
        "The paper counts T codes of each neighbour on the way to a silo. Devices add them up first (Eq. 5), so a "
        "device sends T + 1 sums whatever its degree.",
        "The terms of products are d (T + 1) log^2(T + 1) log log(T + 1) per edge and d (T + 1) log^2(T) log log(T) "
        "per device. Counted are one for each number of a code, and T (T + 1) d for the masks of each silo; a silo "
        "takes one for each number that it decodes. At T = 1 log(T) and log log(T + 1) are 0: the terms say nothing.",
        "Silos send the server eight bytes a number, and a loss and counts of right predictions beside their models. A "
        "choice of scheme changes nothing.",
    ),
    method="HiFGL",
)
