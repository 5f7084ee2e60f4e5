"""Rounds of federated averaging for attacks: what attackers know beside their views, and the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fgl_secure.attacks.gradients.knowledge import UPDATES, Candidates, GradientKnowledge
from fgl_secure.attacks.gradients.model import Convolution, GradientModel, receptive_field
from fgl_secure.attacks.truth import ClientBatch, GradientTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.training import LocalTraining, UpdateRule, batch_of, clients_of
from fgl_secure.runtime import PublicParameters, Recording, Transcript
from fgl_secure.training.backbones import LAYERS, make_layers
from fgl_secure.training.parameters import flat
from fgl_secure.training.presets import Preset
from fgl_secure.typing import Ids


def drawn_batches(graph: FederatedGraph, size: int | None, seed: int) -> tuple[Ids, ...]:
    """So many labelled nodes of each client, at random: int64 [b], ascending; all where it has no more."""
    rng = np.random.default_rng(seed)
    labelled = [np.flatnonzero((graph.silo_of == client) & graph.train_mask) for client in range(graph.num_silos)]
    return tuple(batch_of(nodes, size, rng) for nodes in labelled)


def one_round(
    graph: FederatedGraph,
    preset: Preset,
    rule: UpdateRule,
    what: str,
    *,
    label: str = "drawn for attacks",
    local: LocalTraining | None = None,
    backbone: str = "gcn",
    seed: int = 0,
) -> RecordedRun:
    """One round with everything recorded, under repeatable coins.

    Args:
        graph: who has what.
        preset: width and layers of the model.
        rule: how updates become their mean.
        what: what was exchanged, in words.
        label: what the scheme is called.
        local: what a client does in a round.
        backbone: "gcn" or "sage".
        seed: of weights, batches and coins.
    """
    local = local or LocalTraining()
    batches = drawn_batches(graph, local.batch, seed)
    job = clients_of(graph, rule, preset, local, backbone=backbone, seed=seed, first=batches)
    channel = job.channel(SimulationCoins(seed), Recording.everything())
    job.opened(channel).round(0)
    model = gradient_model(graph, preset, local, backbone, seed)
    return attacked_round(channel.transcript, graph, model, batches, label, what)


def gradient_model(
    graph: FederatedGraph, preset: Preset, local: LocalTraining, backbone: str, seed: int
) -> GradientModel:
    """What the server knows of the model before the first round."""
    widths = preset.widths(graph.graph.num_features, graph.num_classes)
    start = flat(list(make_layers(LAYERS[backbone], widths, seed).parameters()))
    return GradientModel(Convolution(backbone), widths, start.astype(np.float64), rate=float(local.steps))


def attacked_round(
    transcript: Transcript,
    graph: FederatedGraph,
    model: GradientModel,
    batches: tuple[Ids, ...],
    label: str,
    what: str,
) -> RecordedRun:
    """A recorded first round as attacks read it.

    Args:
        transcript: what was said.
        graph: who has what.
        model: what the server handed out.
        batches: for each client the nodes of its first step.
        label: what the scheme is called.
        what: what was exchanged, in words.
    """
    local = graph.restricted_to_silos()
    candidates = Candidates(graph.features, local.edges, graph.silo_of.astype(np.int64))
    model = replace(model, sizes=tuple(len(nodes) for nodes in batches))
    truth = replace(
        GradientTruth.of(local),
        entering=candidates.entering(model),
        batches=tuple(
            ClientBatch(0, client, nodes, _receptive(local, nodes, model.layers - 1))
            for client, nodes in enumerate(batches)
        ),
    )
    known = GradientKnowledge(model, candidates)
    return RecordedRun(label, what, UPDATES, PublicParameters(), transcript, (truth,), (known,))


def with_fields(
    made: RecordedRun, local: FederatedGraph, batches: Sequence[Ids], clip: float | None = None
) -> RecordedRun:
    """The same run for attackers who know how the nodes behind each gradient are joined.

    Args:
        made: a round of a known model.
        local: the graph without edges between clients.
        batches: the nodes of each client's step.
        clip: the norm that clients cut their gradients down to, which is public; None where they don't.

    Raises:
        InputError: nothing is known of the round's model.
    """
    known, truth = made.knows(GradientKnowledge), made.truth(GradientTruth)
    pairs = [receptive_field(local.edges, batch, known.model.reach) for batch in batches]
    fields = {client: field for client, (field, _) in enumerate(pairs)}
    known = replace(known, fields=fields, image_shape=local.graph.image_shape, clip=clip)
    entering = {} if known.candidates is None else known.candidates.entering(known.model)
    members = {client: found for client, (_, found) in enumerate(pairs)}
    return replace(made, knowledge=(known,), truths=(replace(truth, fields=members, entering=entering),))


def _receptive(local: FederatedGraph, nodes: Ids, hops: int) -> Ids:
    """The nodes at most so many hops from some, themselves included, ascending."""
    inside = np.zeros(local.num_devices, dtype=np.bool_)
    inside[nodes] = True
    for _ in range(hops):
        inside[local.edges[0][inside[local.edges[1]]]] = True
    return np.flatnonzero(inside)
