"""HiFGL's silos, ready to be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from fgl_secure.backbones import maker
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.training.backbones import widest
from fgl_secure.training.job import Job, Task
from fgl_secure.training.presets import Preset


def silos_of(
    graph: FederatedGraph,
    schemes: Scheme | Mapping[str, Scheme],
    preset: Preset,
    *,
    backbone: str = "gcn",
    seed: int = 0,
    device: torch.device | None = None,
    kind: Callable[..., HiFGL] = HiFGL,
) -> Job:
    """The silos; a round is selected as the preset says.

    Args:
        graph: who has what.
        schemes: by topology, or one for neighbours' rows. What devices hand to their silo goes under the scheme of
            neighbours unless it has one of its own; what is left is in the clear.
        preset: how to train.
        backbone: a name of `fgl_secure.backbones`.
        seed: of initial weights and dropout.
        device: where model compute runs; the CPU by default.
        kind: makes a silo's program, as `HiFGL` does.
    """
    chosen = {NEIGHBOURS: schemes} if isinstance(schemes, Scheme) else dict(schemes)
    if NEIGHBOURS in chosen:
        chosen.setdefault(MEMBERS, chosen[NEIGHBOURS])
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    rows = widest(maker(backbone, published=preset.published_layers), widths)
    task = Task(
        lambda talk, _: kind(talk, preset, backbone=backbone, seed=seed, device=device),
        chosen,
        preset.epochs,
        width=max(rows, graph.graph.num_features if preset.static_first_layer else 1),
    )
    return Job(task, graph, graph.restricted_to_split() if preset.split_restricted else None)
