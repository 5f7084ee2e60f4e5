"""Trains HiFGL to the end and says what came of it."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fgl_secure.backbones import maker
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.runtime import Channel
from fgl_secure.training.backbones import widest
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.presets import Preset
from fgl_secure.training.rounds import run


def silos_of(
    graph: FederatedGraph,
    schemes: Scheme | Mapping[str, Scheme],
    channel: Channel,
    preset: Preset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
) -> OneProcess:
    """HiFGL's silos, ready for their first round.

    Args:
        graph: who has what.
        schemes: by topology, or one for neighbours' rows. What devices hand to their silo goes under the scheme of
            neighbours unless it has one of its own; what is left is in the clear.
        channel: between the parties of `hierarchy_of(graph, ...)`; keeps what its recording says.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
    """
    chosen = {NEIGHBOURS: schemes} if isinstance(schemes, Scheme) else dict(schemes)
    if NEIGHBOURS in chosen:
        chosen.setdefault(MEMBERS, chosen[NEIGHBOURS])
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    rows = widest(maker(backbone, published=preset.published_aggregation), widths)
    return OneProcess(
        graph,
        chosen,
        channel,
        lambda talk: HiFGL(talk, preset, backbone=backbone, seed=seed, device=device),
        width=max(rows, graph.graph.num_features if preset.static_first_layer else 1),
        heard=graph.restricted_to_split() if preset.split_restricted else None,
    )


def train_hifgl(
    graph: FederatedGraph,
    schemes: Scheme | Mapping[str, Scheme],
    channel: Channel,
    preset: Preset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains HiFGL and selects a round as the preset says.

    Args:
        graph: who has what.
        schemes: see `silos_of`.
        channel: see `silos_of`.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        progress: called after each round.
    """
    process = silos_of(graph, schemes, channel, preset, backbone=backbone, seed=seed, device=device)
    return run(process, preset.epochs, channel.transcript, progress)
