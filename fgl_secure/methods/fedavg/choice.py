"""What a caller chooses about federated averaging."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods.fedavg.program import LocalTraining
from fgl_secure.protocols.staged.registry import STAGED

DELTA = 1e-5
"""Of all rounds together."""

CLEAR = "plaintext"


@dataclass(frozen=True, slots=True)
class UpdateChoice:
    """How the sums of the server are protected, and what a client does in a round of federated averaging.

    Schemes and threshold are for every method whose server sums something, the rest for federated averaging alone.

    Attributes:
        schemes: how updates are summed, names of `STAGED`.
        threshold: least clients that must be left; None takes the scheme's own.
        batch: labelled nodes that a client takes a step on; None takes all.
        local_steps: steps that a client takes in a round.
        local_rate: learning rate of these steps.
        noise: sigma of the noise on the sum of the updates over the clip; None for no noise.
        clip: L2 norm to which updates are clipped where there is noise.
    """

    schemes: tuple[str, ...] = ()
    threshold: int | None = None
    batch: int | None = None
    local_steps: int = 1
    local_rate: float = 0.1
    noise: float | None = None
    clip: float = 1.0

    def check(self) -> None:
        """Raises unless names are known and numbers in range."""
        for name in self.schemes:
            if name not in STAGED:
                raise UnknownNameError("scheme", name, tuple(STAGED))
        if self.threshold is not None and self.threshold < 1:
            raise InputError(f"threshold must be at least 1; found {self.threshold}")
        if self.threshold is not None and set(self.schemes) == {CLEAR}:
            raise InputError(f"threshold must go with a scheme other than {CLEAR}; found {self.threshold}")
        if self.noise is not None and not (isfinite(self.noise) and self.noise > 0):
            raise InputError(f"noise must be positive; found {self.noise}")
        if self.noise is None and self.clip != UpdateChoice().clip:
            raise InputError(f"clip must go with noise, without which nothing is clipped; found {self.clip}")
        self.local()
        self.distributed(1)

    def local(self) -> LocalTraining:
        """What a client does in a round."""
        return LocalTraining(self.local_steps, self.local_rate, self.batch)

    def distributed(self, rounds: int) -> DistributedNoise | None:
        """Clip and budget of so many rounds; None for no noise."""
        if self.noise is None:
            return None
        return DistributedNoise.of_multiplier(self.noise, clip=self.clip, delta=DELTA, rounds=rounds)
