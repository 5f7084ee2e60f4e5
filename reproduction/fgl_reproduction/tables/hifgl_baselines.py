"""The frameworks that HiFGL is compared with (KDD 2024, 6.1, A.5): its program on fewer edges or federated otherwise.

Restricting the edges, on which models are tested, and how silos' models become one are all that tells these frameworks
apart, so none of them has a training loop of its own. What they share follows from that:

- A round is one full-graph step of every silo.
- One round is reported for all silos: the one with the best *pooled* accuracy on the nodes that the preset selects on,
  also under Local, where silos that train alone could each have chosen a round of their own.
- Messages within a silo still count as messages, and the sizes of models that a server would collect are counted under
  every federation. Compare accuracies here, not traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import torch

from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.configuration import HiFGL as Choices
from fgl_secure.methods.hifgl.program import HiFGLSilo, silos_of
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS
from fgl_secure.runtime.packing import Arrays
from fgl_secure.training.backbones import Degrees, MessageLayer
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.job import Job
from fgl_secure.training.loop import Figures, Progress, TrainingResult
from fgl_secure.training.parameters import flat, overwrite
from fgl_secure.training.presets import Federation, Preset
from fgl_secure.training.sparse_products import SparseMatrix
from fgl_secure.typing import Array


class ModelAveraging(Enum):
    """How silos' models become one, each after steps of its own optimiser."""

    MODELS = "models"
    """Models are averaged (FedAvg)."""
    NOTHING = "nothing"
    """Each silo keeps what it has learnt."""
    PULLED = "pulled"
    """FedAvg with (mu / 2) |w - w_global|^2 added to each silo's loss (Li et al. 2020, Eq. 2), w_global being the model
    that the server sent last. With one local step, which starts at w_global, the step is FedAvg's for every mu."""
    FIRST_LAYERS = "first layers"
    """All layers but the last, which stays with its silo (Arivazhagan et al. 2019)."""


class HiFGLUnderAveraging(HiFGLSilo):
    """A silo's model under another way of averaging.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        averaging: how the silos' models become one; None leaves that to the preset.
        local_steps: rounds after which they do, each of one step; none of the rounds between can be the reported one.
        proximal: mu of FedProx.
        rest: as for `HiFGLSilo`.
    """

    def __init__(
        self,
        comm: Collectives,
        preset: Preset,
        *,
        averaging: ModelAveraging | None = None,
        local_steps: int = 1,
        proximal: float = 0.01,
        **rest: Any,
    ) -> None:
        super().__init__(comm, preset, **rest)
        self._averaging, self._local_steps, self._proximal = averaging, local_steps, proximal
        self._anchor = self._copy_layers() if averaging is ModelAveraging.PULLED else []

    def train(self, number: int) -> Figures:
        """A round; between two averages it is not to be chosen."""
        figures = super().train(number)
        return replace(figures, score=-1.0) if number % self._local_steps else figures

    def judge(self, number: int) -> Figures | None:
        """Scores the models, but not between two averages."""
        return None if number % self._local_steps else super().judge(number)

    @property
    def averaged_tensors(self) -> list[torch.Tensor]:
        """What is averaged after a step: nothing where the next one is as local."""
        if self._averaging is ModelAveraging.NOTHING or self._steps % self._local_steps:
            return []
        kept = len(self.layers) - (self._averaging is ModelAveraging.FIRST_LAYERS)
        return list(self.layers[:kept].parameters())

    def _step(self, judged: torch.Tensor, losses: torch.Tensor) -> Figures:
        figures = super()._step(judged, losses)
        if self._anchor and self.averaged_tensors:
            self._anchor = self._copy_layers()
        return figures

    def _take_step(self) -> None:
        with torch.no_grad():
            for parameter, anchor in zip(self.layers.parameters(), self._anchor, strict=bool(self._anchor)):
                if parameter.grad is not None:
                    parameter.grad += self._proximal * (parameter - anchor)
        super()._take_step()

    def _copy_layers(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.layers.parameters()]

    def state(self) -> dict[str, Array]:
        """As of HiFGL, with the server's last model."""
        return {**super().state(), **({"anchor": flat(self._anchor)} if self._anchor else {})}

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        super().restore(state)
        if self._anchor:
            overwrite(self._anchor, state["anchor"])


@dataclass(frozen=True, slots=True)
class Framework:
    """What a model may see, and how the silos' models become one.

    Attributes:
        name: what tables call it.
        sees: from the whole federated graph to the one that messages travel on.
        averaging: how the silos' models become one; None takes the preset's.
        tested_on_all: whether models are scored on all edges, whatever they are trained on.
        local_steps: steps of a silo between two averages.
    """

    name: str
    sees: Callable[[FederatedGraph], FederatedGraph]
    averaging: ModelAveraging | None = None
    tested_on_all: bool = False
    local_steps: int = 1

    @property
    def on_all_edges(self) -> Framework:
        """The same, with models scored on all edges."""
        return replace(self, tested_on_all=True)


def _everything(graph: FederatedGraph) -> FederatedGraph:
    return graph


LOCAL_MLP = Framework("Local-MLP", FederatedGraph.without_edges, ModelAveraging.NOTHING)
"""Each silo alone, on features: a layer that adds the own row is a layer of a perceptron where no message arrives."""
LOCAL = Framework("Local", FederatedGraph.restricted_to_silos, ModelAveraging.NOTHING)
"""Each silo alone, on the edges within it."""
FEDAVG = Framework("FedAvg", FederatedGraph.restricted_to_silos, ModelAveraging.MODELS)
"""Models are averaged, edges between silos are lost (McMahan et al. 2017)."""
FEDPROX = Framework("FedProx", FederatedGraph.restricted_to_silos, ModelAveraging.PULLED, local_steps=5)
"""FedAvg with a proximal term (Li et al. 2020), which the second local step is the first to feel."""
FEDPER = Framework("FedPer", FederatedGraph.restricted_to_silos, ModelAveraging.FIRST_LAYERS)
"""FedAvg with a last layer for each silo (Arivazhagan et al. 2019)."""
HIFGL = Framework("HiFGL", _everything)
"""All edges, federated as the preset says."""
GLOBAL = Framework("Global", FederatedGraph.in_one_silo)
"""One silo that has everything: centralised training."""


class Examiner:
    """Scores models on the whole graph, which no silo has: the party that tests a model on all edges has them all.

    Args:
        graph: who has what, with all edges.
        heard: the graph along whose edges rows travel: the same, or its restriction to splits.
        device: where model compute runs.
    """

    def __init__(self, graph: FederatedGraph, heard: FederatedGraph, device: torch.device) -> None:
        self._features = torch.tensor(graph.features).to(device)
        self._neighbours = SparseMatrix.of_edges(heard.edges, heard.num_devices, device)
        full, summed = (torch.tensor(item.in_degree[:, None]).to(device, torch.float32) for item in (graph, heard))
        self._degrees = Degrees(full, summed, summed)

    def __call__(self, layers: torch.nn.ModuleList) -> torch.Tensor:
        """Logits [n, classes] of all nodes, all of them by the same model; no gradients."""
        h = self._features
        with torch.no_grad():
            for number, layer in enumerate(layers):
                assert isinstance(layer, MessageLayer)
                kept = layer.local_state(h)
                messages = layer.message(kept, self._degrees)
                h = layer.update(kept, self._neighbours(messages), self._degrees)
                h = torch.relu(h) if number < len(layers) - 1 else h
        return h


class GloballyScoredSilo(HiFGLUnderAveraging):
    """A silo's model, trained on the edges that the silo sees, and scored on its nodes by who has all of them.

    Args:
        comm: the collectives of the run.
        preset: how to train.
        examiner: scores models.
        rest: as for `HiFGLUnderAveraging`.
    """

    def __init__(self, comm: Collectives, preset: Preset, *, examiner: Examiner, **rest: Any) -> None:
        super().__init__(comm, preset, **rest)
        self._examiner = examiner

    @property
    def judges_apart(self) -> bool:
        """Always: what a step computes is on the silo's edges."""
        return True

    def predict_logits(self) -> torch.Tensor:
        """Logits [m, classes] of the silo's nodes, by its own model on all edges."""
        return self._examiner(self.layers)[torch.from_numpy(self.silo.nodes)]


def framework_job(
    framework: Framework,
    graph: FederatedGraph,
    preset: Preset,
    *,
    backbone: str,
    seed: int,
    scheme: Scheme | None = None,
    device: torch.device | None = None,
    kind: Callable[..., HiFGLUnderAveraging] | None = None,
) -> Job:
    """A framework's silos, ready to be trained.

    Args:
        framework: what a model may see, and how it is federated.
        graph: who has what, with all edges.
        preset: how to train.
        backbone: a name of `fgl_secure.backbones`.
        seed: of initial weights and dropout.
        scheme: how neighbourhood sums are computed, and those of gradients where it serves them; in plaintext by
            default.
        device: where model compute runs; the CPU by default.
        kind: makes a silo's program, where models are not tested on all edges; `HiFGLUnderAveraging` unless given.
    """
    scheme = scheme or Plaintext()
    seen = framework.sees(graph)
    federated = preset if framework.averaging is None else replace(preset, federation=Federation.FEDAVG)
    schemes = Choices().assign_schemes({NEIGHBOURS: scheme, MEMBERS: scheme})
    if framework.tested_on_all:
        received = graph.restricted_to_split() if preset.split_restricted else graph
        kind = partial(GloballyScoredSilo, examiner=Examiner(graph, received, device or torch.device("cpu")))
    kind = partial(kind or HiFGLUnderAveraging, averaging=framework.averaging, local_steps=framework.local_steps)
    return silos_of(seen, schemes, federated, backbone=backbone, seed=seed, device=device, kind=kind)


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
        framework: as for `framework_job`.
        graph: the same.
        preset: the same.
        backbone: the same.
        seed: the same.
        scheme: the same; its masks come from the system.
        device: the same.
        progress: called after each round.

    Returns:
        Accuracies are of the devices' own silo models, pooled over all devices.
    """
    job = framework_job(framework, graph, preset, backbone=backbone, seed=seed, scheme=scheme, device=device)
    return job.train(progress=progress)
