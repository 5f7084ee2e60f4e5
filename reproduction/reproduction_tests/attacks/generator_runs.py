"""One round for generators of a few clients, and nothing else of FedSage+."""

from contextlib import nullcontext, suppress
from dataclasses import replace

import numpy as np
import torch

from fgl_reproduction.attacks.generators import GRADIENT_SUM, INPUTS, OWN_GENERATOR, ClientRows, GeneratorShape
from fgl_reproduction.methods.fedsage.audit_target import FEW, reference
from fgl_reproduction.methods.fedsage.generator import GeneratorPreset, NeighGen
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import TooFewClientsError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parameters import flat
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.server_sums import grid_for
from fgl_secure.training.silo import Silo
from tests.attacks.recorded import Run

SETTINGS = replace(FEW.generator, alone=0)
GRAPH = reference(3, 90)


def record_round(
    scheme: Scheme | None = None,
    *,
    graph: FederatedGraph = GRAPH,
    settings: GeneratorPreset = SETTINGS,
    leaking: bool = False,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """A round in which each client gets the sum of the others' gradients of its generator.

    Args:
        scheme: adds them up; in the clear unless given.
        graph: who has what.
        settings: of all generators.
        leaking: whether clients also send their gradients as they are.
        loss: a network that loses messages.
        recording: what is kept; everything unless given.
    """
    scheme = scheme or Plaintext()
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), recording or Recording.everything(), loss)
    clients = [NeighGen(Silo.of(graph, silo), settings, 0, torch.device("cpu")) for silo in range(graph.num_silos)]
    silos, grid = channel.parties.ids(Role.SILO), grid_for(scheme, graph.num_silos - 1)
    for receiver, client in enumerate(clients):
        inputs, theta, own = client.inputs(0), flat(client.theta), silos[receiver : receiver + 1]
        channel.note_inputs(INPUTS, Step(0), np.repeat(own, len(inputs)), inputs)
        channel.note_inputs(OWN_GENERATOR, Step(0), own, theta[None])
        others = [silo for silo in range(len(clients)) if silo != receiver]
        answers = [clients[silo].gradient_for(theta, inputs).astype(np.float64) for silo in others]
        units = np.stack([grid.encode(answer) for answer in answers])
        topology = Topology.to_client(channel.parties, silos[others], int(own[0]), len(theta), grid.largest)
        if leaking:
            channel.send(Phase.VECTORS, Step(0), silos[others], np.repeat(own, len(others)), units)
        with suppress(TooFewClientsError) if loss else nullcontext():
            Collective(scheme, topology, channel, output=GRADIENT_SUM).sum(units, Step(0))
    shape = GeneratorShape(
        settings.latent, settings.width, graph.graph.num_features, grid.fraction_bits, settings.cross
    )
    truth = ClientRows(graph.silo_of, graph.features)
    return Run(graph, PublicParameters(), channel.transcript, truth, (shape,))
