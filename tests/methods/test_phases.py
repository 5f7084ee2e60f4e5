"""What is said in secured runs: messages of collectives under their schemes, and what a method declares beside them."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fgl_secure.auditing.method import Method, Source
from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, FedVN, HiFGL
from fgl_secure.methods.fed2gnn.grouping import OwnPairs
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER
from fgl_secure.runtime import Channel, Phase, Role, Step
from fgl_secure.training.backbones import GCNLayer
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Figures, TrainingRounds
from fgl_secure.training.one_process import OneProcess
from tests.graphs import two_communities

Said = set[tuple[str, str, str]]
"""Kinds of messages, with the role of the sender and of the receiver."""

GRAPH, FOUR = (two_communities(devices=48, silos=silos) for silos in (3, 4))
DATA: Mapping[str, Source] = {"fedvn": GraphSets("Motif-mini"), "fed2gnn": FOUR}
OF_ROWS = FedStruct(epochs=1, hops=2)
Runs = tuple[tuple[Method, str | None], ...]
RUNS: Mapping[str, Runs] = {
    "hifgl": ((HiFGL(epochs=2), None), (HiFGL(epochs=1, gradients="dense"), "relay-coded")),
    "fedstruct": (
        (FedStruct(epochs=2), None),
        (replace(OF_ROWS, delivery="owner"), "ckks"),
        (replace(OF_ROWS, features="degree", pruning="shares", kept=4), "ckks"),
        (replace(OF_ROWS, sharing="queries"), "ckks,server=lightsecagg"),
    ),
    "fedavg": ((FedAvg(epochs=2), None),),
    "fedspray": ((FedSpray(epochs=2), None),),
    "fed2gnn": ((Fed2GNN(epochs=1, hops=1, neighbours=4), None),),
    "fedvn": ((FedVN(epochs=1), None),),
}
"""Small runs of methods, under the default secure schemes where none is named."""


def secured(method: Method, scheme: str | None = None, data: Source = GRAPH) -> Job:
    """A run, no scheme of which is in the clear; under those that the method trains under unless others are named."""
    (subject,) = method.plan(data, scheme or method.trained).subjects
    assert subject.job is not None
    assert all(scheme.label != Plaintext.label for scheme in subject.job.task.schemes.values())
    return subject.job


class EveryCollective(TrainingRounds):
    """Calls each collective of a run once, and says nothing else."""

    def __init__(self, comm: Collectives, topologies: frozenset[str], *, between: bool) -> None:
        super().__init__(comm, 1, None, None)
        self._topologies, self._between = topologies, between
        self._layer = GCNLayer(1, 1)
        comm.watch(nn.ModuleList([self._layer]))

    def train(self, number: int) -> Figures:  # noqa: ARG002  # there is one round
        """Of round 0."""
        comm, silo, nothing = self.comm, self.silo.silo, np.zeros(2)
        if NEIGHBOURS in self._topologies:
            count = OwnPairs.of(self.silo, comm.summed_edges).sums.shape[0] if self._between else len(self.silo.nodes)
            rows = torch.ones((count, 1), requires_grad=not self._between)
            comm.backward(comm.neighbours(rows)[1].sum())
        if MEMBERS in self._topologies:
            comm.members(np.zeros((len(self.silo.nodes), 2)))
            layer, ones = self._layer, torch.ones((len(self.silo.nodes), 1))
            comm.backward(layer.shift(layer.project(ones, layer.weight), layer.bias).sum())
            comm.gradients()
        if SERVER in self._topologies:
            comm.server(nothing)
            comm.mean(nothing, 1, 1)
            comm.ratios([nothing], np.ones(1))
            comm.enough(np.ones(2, dtype=np.bool_), 2)
        if CLIENTS in self._topologies:
            length = np.zeros(2, dtype=np.int64)
            comm.clients({each: 2 if each == silo else length for each in range(self.silo.facts.silos)}, 1)
        none = np.zeros(4, dtype=np.int64)
        return Figures(0.0, none, none)

    def judge(self, number: int) -> None:
        """Nobody looks again."""


def said(channel: Channel) -> Said:
    """All kinds of messages of a run."""
    found = set()
    role_of = {int(number): role.value for role in channel.parties.roles for number in channel.parties.ids(role)}
    for batch in channel.transcript.messages:
        ends = np.unique(np.stack([batch.senders, batch.receivers]), axis=1).T.tolist()
        found |= {(batch.phase.label, role_of[sender], role_of[receiver]) for sender, receiver in ends}
    return found


def said_in(job: Job) -> Said:
    """What is said in a run of a job, from the first message to the last."""
    channel = job.channel(SimulationCoins(0))
    job.train(channel)
    return said(channel)


def of_collectives(job: Job) -> Said:
    """What the job's collectives say under their schemes, whatever they sum."""
    task, between = job.task, job.settle(job.channel(SimulationCoins(0)))
    topologies = frozenset(task.schemes)

    def make(comm: Collectives, _coins: Coins) -> TrainingRounds:
        return EveryCollective(comm, topologies, between=task.between)

    alone = replace(job, task=replace(task, make=make), settle=lambda _: between, driver=OneProcess, shown=None)
    return said_in(alone)


class InTheClear(OneProcess):
    """The broken twin: every silo tells the server, beside all sums, how many predictions are right."""

    def round(self, number: int) -> bool:
        """Tells, and goes on."""
        silos, server = (self._channel.parties.ids(role) for role in (Role.SILO, Role.SERVER))
        self._channel.send_sizes(Phase.CORRECT, Step(number), silos, np.repeat(server, len(silos)), 4)
        return super().round(number)


def undeclared(method: Method, job: Job, allowed: Said) -> Said:
    return said_in(job) - allowed - set(method.tells)


def check_said(runs: Runs, data: Source = GRAPH) -> None:
    """Nothing of secured runs is left over, and what is declared is said; counts in the clear beside it are found."""
    declared: Said = set()
    for method, scheme in runs:
        job = secured(method, scheme, data)
        allowed, found, tells = of_collectives(job), said_in(job), set(method.tells)
        assert found - allowed - tells == set()
        declared |= tells & found
    twin = replace(job, driver=InTheClear)
    assert undeclared(method, twin, allowed) == {("correct predictions", "silo", "server")}
    assert declared == set(runs[0][0].tells)


@pytest.mark.parametrize("name", RUNS)
def test_all_that_is_said_is_a_collective_s_or_declared(name: str) -> None:
    check_said(RUNS[name], DATA.get(name, GRAPH))


def test_what_devices_hand_over_in_the_clear_is_found() -> None:
    """The broken twin of HiFGL's sums over devices: gradients and counts go to the silo as they are."""
    method = HiFGL(epochs=2)
    job = secured(method)
    clear = replace(job, task=replace(job.task, schemes={**job.task.schemes, MEMBERS: Plaintext()}))
    found = undeclared(method, clear, of_collectives(job))
    assert found == {("correct predictions", "device", "silo"), ("parameter gradient", "device", "silo")}
