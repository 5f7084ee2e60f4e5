"""Local differential privacy in training: devices perturb their features once, and means over neighbours smooth them.

All that is computed from perturbed feature vectors costs no further epsilon (post-processing). Each mean averages the
noise of more devices, and their features with it. So accuracy has to be read beside that of the same run without
features.

Source: Sajadmanesh and Gatica-Perez, CCS 2021 (arXiv:2006.05535v9), sections 4.1 and 4.2; labels by randomised
response, with the forward correction of Patrini et al., CVPR 2017, section 4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fgl_secure.config_fields import check_choices, choice, required_field
from fgl_secure.errors import InputError

if TYPE_CHECKING:  # the options of a command line are made without numpy and torch
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from fgl_secure.coins import Coins
    from fgl_secure.dp.local import PerturbedRows
    from fgl_secure.graph import FederatedGraph
    from fgl_secure.training.silo import Silo

_TAIL = 8.0
"""Standard deviations of Gaussian noise beyond the clip that an entry hardly ever exceeds."""


@dataclass(frozen=True, slots=True)
class LocalPerturbation:
    """Perturbation of each device's features before the device sends anything; it trusts no other party.

    Epsilon bounds what all other parties together learn about one device's whole feature vector, replaced by any other
    one. Edges and the split are not protected, labels only with `label_epsilon`.

    Attributes:
        epsilon: per device, spent once for the whole run.
        mechanism: "multi-bit" (pure) or "gaussian"; see `fgl_secure.perturb`.
        hops: number of means over neighbours, each of the one before; the model is trained on the last.
        least: smallest value of a feature, for multi-bit; public.
        largest: largest value of a feature, for multi-bit; public.
        clip: L2 norm to which feature vectors are clipped, for gaussian; public.
        delta: for gaussian; None takes 1 / (10 n) for n devices.
        label_epsilon: per label of a training or validation device, by randomised response; None keeps labels.

    Raises:
        InputError: a number is out of range.

    Examples:
        >>> LocalPerturbation(epsilon=1.0).mechanism
        'multi-bit'
    """

    epsilon: float = required_field("per device's features, once for the whole run", shown="E")
    mechanism: str = choice("multi-bit", "how features are perturbed", known=("multi-bit", "gaussian"))
    hops: int = choice(16, "means over neighbours of the perturbed features", least=0, shown="K")
    least: float = choice(0.0, "smallest value of a feature, for multi-bit", shown="A")
    largest: float = choice(1.0, "largest value of a feature, for multi-bit", shown="B")
    clip: float = choice(1.0, "L2 norm to which features are clipped, for gaussian", shown="C")
    delta: float | None = choice(None, "for gaussian; 1 / (10 n) by default", shown="D")
    label_epsilon: float | None = choice(
        None, "per label, by randomised response; None trains on labels as they are", above=0, shown="E"
    )

    def __post_init__(self) -> None:
        check_choices(self)
        if not 0 < self.epsilon < math.inf:
            raise InputError(f"epsilon must be positive and finite; found {self.epsilon}")
        if not self.least < self.largest:
            raise InputError(f"largest must exceed least, {self.least:g}; found {self.largest:g}")
        if self.delta is not None and self.has_range:
            raise InputError(f"delta must not be given for multi-bit, which needs none; found {self.delta}")

    @property
    def has_range(self) -> bool:
        """Whether features lie in a public range, as multi-bit has it; else their norm is clipped."""
        return self.mechanism == "multi-bit"

    @property
    def middle(self) -> float:
        """The value of a feature that reveals nothing."""
        return (self.least + self.largest) / 2 if self.has_range else 0.0

    def perturb_features(self, features: NDArray[Any], devices: int, coins: Coins | None = None) -> PerturbedRows:
        """Perturb each feature vector independently.

        Args:
            features: float [m, d], of some devices.
            devices: n, of the whole run.
            coins: where the noise comes from; the operating system's entropy unless given.

        Raises:
            InputError: epsilon, delta, the range or the clip does not suit the mechanism.
        """
        from fgl_secure.dp.local import perturb  # noqa: PLC0415  # see above

        if not self.has_range:
            delta = 1 / (10 * devices) if self.delta is None else self.delta
            return perturb(features, self.epsilon, mechanism="gaussian", clip=self.clip, delta=delta, coins=coins)
        return perturb(features, self.epsilon, bounds=(self.least, self.largest), coins=coins)

    def model_inputs(self, features: NDArray[Any], devices: int, coins: Coins | None = None) -> NDArray[np.float32]:
        """Return perturbed features float32 [m, d], centred and scaled into [-1, 1] by public numbers.

        Arguments and errors are those of `perturb_features`. Gaussian noise may exceed the range in rare cases.
        """
        perturbed, width = self.perturb_features(features, devices, coins), features.shape[1]
        largest = perturbed.deviation * math.sqrt(width) if self.has_range else self.clip + _TAIL * perturbed.deviation
        return ((perturbed.rows - self.middle) / largest).astype("float32")

    def perturb_graph(self, graph: FederatedGraph, coins: Coins | None = None) -> FederatedGraph:
        """Return the graph as devices send it, for any method: all that it sends then costs no further epsilon.

        Features are as `model_inputs` makes them, and labels of training and validation devices as `label_epsilon` has
        them. Call it once and keep the result. Methods with a `perturbation` of their own also average over neighbours.

        Args:
            graph: what devices have.
            coins: where the noise comes from; the operating system's entropy unless given.

        Raises:
            InputError: as `perturb_features`.

        Examples:
            >>> from fgl_secure.graph.data import Data
            >>> graph = Data("digits").load(0)
            >>> LocalPerturbation(epsilon=1.0).perturb_graph(graph).num_devices
            1797
        """
        from fgl_secure.dp.local import randomize_labels  # noqa: PLC0415  # see above

        sent = graph.with_features(self.model_inputs(graph.features, graph.num_devices, coins))
        if self.label_epsilon is None:
            return sent
        known = (graph.train_mask | graph.validation_mask) & (graph.labels >= 0)
        labels = graph.labels.copy()
        labels[known] = randomize_labels(labels[known], graph.num_classes, self.label_epsilon, coins)
        return replace(sent, graph=replace(sent.graph, labels=labels))


def perturb_labels(silo: Silo, epsilon: float, coins: Coins | None = None) -> Silo:
    """Return a silo whose training and validation labels went through randomised response, each device's once.

    Labels of test devices stay: they score a run and enter nothing else.

    Args:
        silo: what it holds.
        epsilon: per label.
        coins: where the noise comes from; the operating system's entropy unless given.
    """
    from fgl_secure.dp.local import randomize_labels  # noqa: PLC0415  # see above

    drawn = randomize_labels(silo.labels, silo.facts.classes, epsilon, coins)
    return replace(silo, labels=(silo.train | silo.validation) * (drawn - silo.labels) + silo.labels)


def correct_scores(scores: torch.Tensor, response: torch.Tensor) -> torch.Tensor:
    """Return log probabilities [m, classes] of labels as they are sent, for scores [m, classes] of true labels.

    Their cross-entropy with sent labels has its minimum where that of the scores with true labels has it.

    Args:
        scores: float [m, classes].
        response: float [classes, classes], as `fgl_secure.dp.response_matrix` gives it.
    """
    import torch  # noqa: PLC0415  # see above

    return torch.log(torch.softmax(scores, dim=1) @ response)
