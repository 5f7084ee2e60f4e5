"""Methods whose clients hear sums of features at other clients before they train, under each scheme."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fgl_secure.auditing.method import Method
from fgl_secure.auditing.plan import Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme, least_group
from fgl_secure.protocols.topology import NEIGHBOURS, SERVER
from fgl_secure.schemes import parse, promises
from fgl_secure.training.loop import TrainingResult

AVERAGING: Scheme = PairwiseMasking()
"""What adds up the models beside a protocol that hides messages, when no scheme is named."""

NOTES = (
    "Attacks read a second exchange of hop sums with the same seed, and so the same messages; what clients have of "
    "their own nodes is noted beside it.",
    "Models are added up by pairwise masking where hop sums are not in the clear, unless a scheme is named; what their "
    "sum tells the server is what federated averaging is audited for.",
    "A scheme that refuses small sums leaves nodes with neighbours at few clients without any: the more clients there "
    "are and the less they follow communities, the fewer.",
)


@dataclass(frozen=True, slots=True, eq=False)
class HopSubject(Subject):
    """A method under one scheme for hop sums and one for models.

    Attributes:
        seed: of all that is drawn.
        graph: who has what.
        scheme: computes the hop sums.
        averaging: adds up the models.
        device: where model compute runs.
    """

    seed: int
    graph: FederatedGraph
    scheme: Scheme
    averaging: Scheme
    device: torch.device

    @property
    def name(self) -> str:
        """The scheme's for hop sums; with the one for models where that is another than goes with it."""
        if self.averaging == usual_for(self.scheme):
            return self.scheme.name
        return f"neighbours={self.scheme.name},server={self.averaging.name}"

    @property
    def schemes(self) -> Mapping[str, Scheme]:
        """Both, by topology."""
        return {NEIGHBOURS: self.scheme, SERVER: self.averaging}

    @abstractmethod
    def exchange(self) -> RecordedRun:
        """The exchange of hop sums, run without training."""

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # the exchange is run once more
        """The exchange of hop sums."""
        yield replace(self.exchange(), protocol=self.name)

    def independent(self, seed: int) -> Subject:
        """On a graph whose nodes have swapped places inside their clients."""
        return replace(self, seed=seed, graph=self.graph.redealt(seed))

    def unprotected(self) -> tuple[Subject, ...]:
        """Hop sums and models in the clear."""
        return (replace(self, scheme=Plaintext(), averaging=Plaintext()),)

    def recorded(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002  # of the coins, which are of the run's seed
        """The exchange of hop sums, which is run without training."""
        yield replace(self.exchange(), protocol=self.name)


def schemes_of(method: Method, run: Mapping[str, Scheme]) -> tuple[Scheme, Scheme]:
    """What computes the hop sums, and what adds up the models.

    Raises:
        InputError: the scheme for hop sums has the client that gets a sum decode it.
    """
    named = run.get(NEIGHBOURS) or parse(method.trained, (NEIGHBOURS,), method.usual)[1]
    if named.custodian_decodes:
        raise InputError(
            f"scheme must not be {named.label} for {method.name}: the client that gets a sum would be the silo that "
            f"decodes it, and reads every part; found {named.name}"
        )
    return named, run.get(SERVER, usual_for(named))


def usual_for(scheme: Scheme) -> Scheme:
    """What adds up the models where no scheme is named for them: in the clear beside sums in the clear."""
    return AVERAGING if promises(scheme, NEIGHBOURS) else Plaintext()


def check_sums(asked: FederatedGraph, scheme: Scheme, averaging: Scheme, among: str = "") -> None:
    """Raises unless some sum can be computed, and models added up.

    Args:
        asked: the graph along whose edges clients ask.
        scheme: computes the hop sums.
        averaging: adds up the models.
        among: what errors say of the graph beside its number of silos.
    """
    most, least = int(_clients_around(asked).max(initial=0)), least_group(scheme)
    if 1 < least > most:
        raise InputError(
            f"k_min must leave some node a sum under {scheme.name}: neighbours at {least} other clients "
            f"or more; found at most {most} over {asked.num_silos} silos{among}"
        )
    averaging.threshold_for(asked.num_silos)


def _clients_around(graph: FederatedGraph) -> NDArray[np.int64]:
    """int64 [n], at how many other clients each node has neighbours."""
    source, target = graph.edges[:, graph.crosses_silos]
    pairs = np.unique(target * graph.num_silos + graph.silo_of[source])
    return np.bincount(pairs // graph.num_silos, minlength=graph.num_devices).astype(np.int64)
