"""The frameworks that HiFGL is compared with (KDD 2024, 6.1, A.5): its program on fewer edges or federated otherwise.

Restricting the edges and choosing how silos' models become one is all that tells these frameworks apart, so none of
them has a training loop of its own. What they share follows from that:

- A round is one full-graph step of every silo.
- One round is reported for all silos: the one with the best *pooled* accuracy on the nodes that the preset selects on,
  also under Local, where silos that train alone could each have chosen a round of their own.
- Messages within a silo still count as messages, and the sizes of models that a server would collect are counted under
  every federation. Compare accuracies here, not traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.configuration import HiFGL as Choices
from fgl_secure.methods.hifgl.training import silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.training.loop import Progress, TrainingResult
from fgl_secure.training.presets import Federation, Preset


@dataclass(frozen=True, slots=True)
class Framework:
    """What a model may see, and how the silos' models become one.

    Attributes:
        name: what tables call it.
        sees: from the whole federated graph to the one that messages travel on.
        federation: how the silos' models become one; None takes the preset's.
    """

    name: str
    sees: Callable[[FederatedGraph], FederatedGraph]
    federation: Federation | None = None


def _everything(graph: FederatedGraph) -> FederatedGraph:
    return graph


LOCAL_MLP = Framework("Local-MLP", FederatedGraph.without_edges, Federation.LOCAL)
"""Each silo alone, on features: a layer without messages is a layer of a perceptron."""
LOCAL = Framework("Local", FederatedGraph.restricted_to_silos, Federation.LOCAL)
"""Each silo alone, on the edges within it."""
FEDAVG = Framework("FedAvg", FederatedGraph.restricted_to_silos, Federation.FEDAVG)
"""Models are averaged, edges between silos are lost (McMahan et al. 2017)."""
FEDPROX = Framework("FedProx", FederatedGraph.restricted_to_silos, Federation.FEDPROX)
"""FedAvg with a proximal term (Li et al. 2020), which one local step a round does not feel: see `Federation`."""
FEDPER = Framework("FedPer", FederatedGraph.restricted_to_silos, Federation.FEDPER)
"""FedAvg with a last layer for each silo (Arivazhagan et al. 2019)."""
HIFGL = Framework("HiFGL", _everything)
"""All edges, federated as the preset says."""
GLOBAL = Framework("Global", FederatedGraph.in_one_silo)
"""One silo that has everything: centralised training."""


def train_framework(
    framework: Framework,
    graph: FederatedGraph,
    preset: Preset,
    *,
    backbone: str,
    seed: int,
    scheme: Scheme | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> TrainingResult:
    """Trains a model under a framework.

    Args:
        framework: what it may see, and how it is federated.
        graph: who has what, with all edges.
        preset: how to train.
        backbone: "gcn" or "sage".
        seed: of initial weights and dropout.
        scheme: how neighbourhood sums are computed, and those of gradients where it serves them; in the clear by
            default. Its masks come from the system.
        device: where model compute runs; the CPU by default.
        progress: called after each round.

    Returns:
        Accuracies are of the devices' own silo models, pooled over all devices.
    """
    scheme = scheme or Plaintext()
    seen = framework.sees(graph)
    federated = replace(preset, federation=framework.federation or preset.federation)
    schemes = Choices().assigned({NEIGHBOURS: scheme, MEMBERS: scheme})
    silos = silos_of(seen, schemes, federated, backbone=backbone, seed=seed, device=device)
    return silos.train(progress=progress)
