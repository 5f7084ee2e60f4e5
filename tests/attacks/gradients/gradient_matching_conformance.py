"""What every attack by gradient matching must keep, with short tries wherever the outcome does not matter."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.attacks.gradients.knowledge import FEDAVG_SMOOTH, UPDATES
from fgl_secure.attacks.gradients.matching import GradientMatching, Inverted
from fgl_secure.attacks.truth import GradientTruth
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedavg.audit_runs import CONTROLS, with_fields
from fgl_secure.runtime import Recording, View
from fgl_secure.runtime.channel import Loss
from tests.attacks import conformance
from tests.attacks.conformance import Claims, References
from tests.attacks.gradients.gradient_conformance import GradientConformance
from tests.attacks.gradients.gradient_runs import Setting, clusters, drawn_batches, record_round
from tests.attacks.recorded import Run

SHORT = Effort(steps=2)


@pytest.fixture(scope="session", name="references")
def matching_references() -> References:
    """The run that gradient matching must break, recorded once."""
    return {FEDAVG_SMOOTH: CONTROLS[FEDAVG_SMOOTH]()}


@pytest.fixture(autouse=True)
def guesses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference run is attacked once; attacks keep no state and are deterministic, as other tests say."""
    monkeypatch.setattr(conformance, "_guess", _guess)


_KNOWN: dict[str, Any] = {}


def _guess(attack: Any, run: RecordedRun) -> Any:
    name = attack.card.name
    if name not in _KNOWN:
        _KNOWN[name] = run.guess(attack)
    return _KNOWN[name]


class MatchingConformance(GradientConformance):
    """Inherit as `Test...` and name the attack."""

    setting = Setting(batch=1, hidden=8)

    @property
    def attack(self) -> GradientMatching:
        """The attack under test."""
        raise NotImplementedError

    def read(self, run: Run, view: View | None = None) -> Claims:
        """The claims on a run after very few steps."""
        view = view or run.transcript.views(self.attack.card.observer)
        guess = guess_of(replace(self.attack, effort=SHORT), view, run.public, run.knowledge)
        return Counter() if guess is None else self.claims(guess)

    def claims(self, guess: Inverted) -> Claims:
        """Whose gradient it was, and what it was taken over."""
        pairs = zip(guess.exhibits, guess.found, strict=True)
        return Counter((tuple(each.clients.tolist()), found.features.tobytes()) for each, found in pairs)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """A round of four clients on small graphs."""
        return shaped(clusters(nodes=24, words=8), self.setting, loss, recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        """A round on a graph with other features."""
        plain = super().exchange(graph, values, **network)
        return _with_shapes(plain, self.setting)


def shaped(
    graph: FederatedGraph, setting: Setting, loss: Loss | None = None, recording: Recording | None = None
) -> Run:
    """A round for attackers who know how the nodes behind gradients are joined."""
    return _with_shapes(record_round(graph, setting, loss=loss, recording=recording), setting)


def _with_shapes(run: Run, setting: Setting) -> Run:
    known = with_fields(run.recorded(UPDATES), run.graph.restricted_to_silos(), drawn_batches(run.graph, setting))
    return Run(run.graph, run.public, run.transcript, known.truth(GradientTruth), known.knowledge)


def figures(attack: GradientMatching, run: RecordedRun) -> Mapping[str, float]:
    """The figures of an attack on a run, by metric."""
    guess = run.guess(attack)
    assert guess is not None
    return {found.metric: found.value for found in run.score(attack, guess)}
