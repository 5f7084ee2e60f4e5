"""Rounds of a stand-in for FedVN, with rows laid out as its own: a linear last layer that is really trained."""

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fgl_secure.attacks.truth import VirtualNodeTruth
from fgl_secure.attacks.virtual_nodes.knowledge import LocalWork, VirtualSlices
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.schemes import server_scheme
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import ServerSums
from tests.attacks.recorded import Run, federated
from tests.sums import clear_sums

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

ENCODER, CLASSES, HIDDEN, NODES, WIDTH = 12, 3, 5, 2, 6
"""Entries of the stand-in for the encoder, classes, columns of the last weight, virtual nodes and their columns."""
SCORES = 4
"""Entries of a score vector."""

PARAMETERS = ENCODER + CLASSES * HIDDEN + CLASSES


WORK = LocalWork(rate=0.05, batch=16, epochs=1, whole=1000)


@dataclass(frozen=True, slots=True)
class Federation:
    """How rounds are trained.

    Attributes:
        clients: how many.
        rounds: how many.
        graphs: training graphs of the smallest client; others have up to half as many more.
        skew: share of a client's labels that are all the same; 0 for even labels.
        pull: how much stronger than noise a client's own pull at virtual nodes and encoder is.
        scale: of what enters the last layer; 0 leaves its bias alone.
        scheme: how summands are summed; None for in the clear.
        leaking: whether clients also send their summands as they are.
        work: what a client does in a round.
        seed: of everything.
    """

    clients: int = 6
    rounds: int = 1
    graphs: int = 64
    skew: float = 0.5
    pull: float = 3.0
    scale: float = 0.3
    scheme: str | None = None
    leaking: bool = False
    work: LocalWork = WORK
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """A client's training graphs, as they enter the last layer, their labels, and where it pulls everything else."""

    rows: Floats
    labels: Ids
    pull: Floats
    scores: Floats


def slices() -> VirtualSlices:
    """Where the parts lie."""
    return VirtualSlices(PARAMETERS, slice(PARAMETERS - CLASSES, PARAMETERS), NODES, WIDTH, HIDDEN, scores=SCORES)


def record_rounds(setting: Federation, *, loss: Loss | None = None, recording: Recording | None = None) -> Run:
    """Some rounds of training."""
    graph = lonely(setting.clients)
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    rng = np.random.default_rng(setting.seed)
    held = [holding(setting, client, rng) for client in range(setting.clients)]
    state = rng.normal(size=PARAMETERS + NODES * WIDTH) * 0.1
    layout = replace(slices(), start=state, work=setting.work)
    sums = clear_sums(channel) if setting.scheme is None else ServerSums(server_scheme(setting.scheme), channel)
    for number in range(setting.rounds):
        rows = np.stack([row_of(setting, state, each, rng) for each in held])
        with suppress(TooFewClientsError) if loss else nullcontext():  # a round that is lost changes nothing
            state = _summed(setting, channel, sums, rows, Step(number))
    return Run(graph, PublicParameters(), channel.transcript, secrets(held), (layout,))


def _summed(setting: Federation, channel: Channel, sums: ServerSums, rows: Floats, step: Step) -> Floats:
    if setting.leaking:
        clients, server = channel.parties.ids(Role.SILO), channel.parties.ids(Role.SERVER)
        channel.send(Phase.VECTORS, step, clients, np.repeat(server, len(clients)), rows)
    total = sums(rows, step)
    mean: Floats = total[: slices().entries] / total[-1]
    return mean


def holding(setting: Federation, client: int, rng: np.random.Generator) -> Holding:
    """What a client trains on: as many of each label but for the skew, which lies on one label each.

    The first label is the commonest of every second client and of one more, so that it is with all together.
    """
    count = setting.graphs + rng.integers(setting.graphs // 2 + 1)
    labels = np.arange(count) % CLASSES
    favourite = (0, 1, 0, 2, 0)[client % 5]
    labels[rng.random(count) < setting.skew] = favourite
    rows = np.maximum(rng.normal(size=(count, HIDDEN)) + 0.5, 0) * setting.scale
    return Holding(rows, rng.permutation(labels), rng.normal(size=ENCODER + NODES * WIDTH), rng.random(SCORES))


def row_of(setting: Federation, sent: Floats, held: Holding, rng: np.random.Generator) -> Floats:
    """What a client sends: model, virtual nodes, scores, and the weight."""
    weight = len(held.labels) / setting.work.whole
    state = trained(setting, sent, held, rng)
    scores = setting.pull * held.scores + 0.1 * rng.normal(size=SCORES)
    return np.concatenate([weight * state, weight * scores, [weight]])


def trained(setting: Federation, sent: Floats, held: Holding, rng: np.random.Generator) -> Floats:
    """Gradient descent on the last layer, and a pull at the rest."""
    work, where = setting.work, slices()
    weight = sent[where.head_weight].reshape(CLASSES, HIDDEN).copy()
    bias = sent[where.head_bias].copy()
    for _ in range(work.epochs):
        order = rng.permutation(len(held.labels))
        for start in range(0, len(order), work.batch):
            batch = order[start : start + work.batch]
            x, y = held.rows[batch], held.labels[batch]
            excess = softmax(x @ weight.T + bias, axis=1) - np.eye(CLASSES)[y]
            weight -= work.rate * excess.T @ x / len(batch)
            bias -= work.rate * excess.mean(axis=0)
    pulled = 0.1 * (setting.pull * held.pull + rng.normal(size=held.pull.shape))
    encoder, nodes = sent[:ENCODER] + pulled[:ENCODER], sent[where.nodes] + pulled[ENCODER:]
    return np.concatenate([encoder, weight.ravel(), bias, nodes])


def secrets(held: list[Holding]) -> VirtualNodeTruth:
    """What attacks are scored on."""
    counts = np.stack([np.bincount(each.labels, minlength=CLASSES) for each in held])
    shares, all_together = counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=0) / counts.sum()
    return VirtualNodeTruth(np.arange(len(held)), shares, all_together)


def lonely(clients: int) -> FederatedGraph:
    """A node for each client."""
    return federated(np.empty((2, 0), dtype=np.int64), np.arange(clients))
