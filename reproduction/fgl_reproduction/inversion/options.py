"""Options of a gradient inversion, checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgl_secure.attacks.gradients.model import Activation, Convolution
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods.fedavg.program import GradientNoise
from fgl_secure.schemes import names

CLEAR = "plaintext"
MATCHING = ("dlg", "idlg", "inverting", "joint")
"""Attacks that search for inputs with an equal gradient."""
ATTACKS = (*MATCHING, "analytic", "span", "filter")
SINGLE = "analytic"
"""Applies to one layer and one node per batch."""


@dataclass(frozen=True, slots=True)
class InvertOptions:
    """Options of one run.

    Attributes:
        dataset: name of a data set, or path of an .npz file.
        backbone: "gcn", "sage" or "sgc".
        batch: labelled nodes behind each client's gradient.
        silos: number of clients.
        partition: how nodes are assigned to them.
        scheme: how gradients are summed; "plaintext" sends each to the server unprotected.
        noise: noise multiplier z; None for none.
        clip: clipping norm of gradients under noise.
        delta: of the statement of differential privacy.
        attack: one of `ATTACKS`.
        activation: between layers; gradient matching needs a smooth one.
        steps: of the optimiser; None takes the attack's default.
        restarts: tries; None takes the attack's default.
        seed: of partition, batches, weights, randomness and first guesses.
        data_root: folder of raw data sets; None takes the environment's.
    """

    dataset: str = "digits"
    backbone: str = "sage"
    batch: int = 1
    silos: int = 5
    partition: str = "random"
    scheme: str = CLEAR
    noise: float | None = None
    clip: float = 1.0
    delta: float = 1e-5
    attack: str = "inverting"
    activation: str = "softplus"
    steps: int | None = None
    restarts: int | None = None
    seed: int = 0
    data_root: Path | None = None

    def check(self) -> None:
        """Raise unless every option is a known name or a number in range."""
        for kind, name, known in (
            ("backbone", self.backbone, tuple(Convolution)),
            ("attack", self.attack, ATTACKS),
            ("activation", self.activation, tuple(item.value for item in Activation)),
            ("scheme", self.scheme, names("server")),
        ):
            if name not in known:
                raise UnknownNameError(kind, name, known)
        for label, value in (("batch", self.batch), ("steps", self.steps), ("restarts", self.restarts)):
            if value is not None and value < 1:
                raise InputError(f"{label} must be at least 1; found {value}")
        if not 0 < self.delta < 1:
            raise InputError(f"delta must lie inside (0, 1); found {self.delta}")
        if self.silos < 2 and self.scheme != CLEAR:
            raise InputError(f"silos must be at least 2 for sums under {self.scheme}; found {self.silos}")
        if self.attack == SINGLE and self.batch != 1:
            raise InputError(f"batch must be 1 for the analytic attack on single nodes; found {self.batch}")
        if self.attack not in MATCHING and (self.steps or self.restarts):
            raise InputError(f"steps and restarts must be left out for {self.attack}, which takes none; found some")
        self.chosen_noise()

    def chosen_noise(self) -> GradientNoise | None:
        """Return the noise, None for none."""
        return None if self.noise is None else GradientNoise(self.noise, self.clip)
