from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.silo_pattern import Patterns, SiloPattern
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import OF_OWN_SILOS
from fgl_secure.methods.hifgl.scenarios import recorded_exchange
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import record_forwarded
from tests.attacks.message_passing.test_tag_matching import meshed
from tests.attacks.recorded import Run, random_graph, words


class TestSiloPattern(AttackConformance):
    attack: Attack[Patterns, Any] = SiloPattern()
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def claims(self, guess: Patterns) -> Claims:
        rows = zip(guess.tags.tolist(), guess.counts.tolist(), strict=True)
        return Counter((*tag, *counts) for tag, counts in rows)

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # counts do not depend on it
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record_forwarded(graph, loss=loss, recording=recording)

    @pytest.mark.parametrize(("mixed", "most"), [(False, 1.0), (True, 0.5)])
    def test_counts_are_right_where_silos_do_not_mix(self, mixed: bool, most: float) -> None:
        """Those of silos that hand on what their own devices send are all right, drawn ones hardly ever."""
        run = record_forwarded(random_graph(5, directed=False, pairs=22), mixed=mixed)
        guess = self.attack.infer(run.transcript.views(Role.RELAY), run.public)
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.value <= most
        assert mixed or found.value == 1

    @pytest.mark.parametrize("tags", Tagging)
    @pytest.mark.parametrize("scheme", [RelayCoded(k_min=1, profile=Profile.HIDDEN), OF_OWN_SILOS])
    def test_silos_that_mix_stop_it(self, scheme: RelayCoded, tags: Tagging) -> None:
        """By way of silos that are drawn no count tells of neighbours; by way of its own silo each is right."""
        run = recorded_exchange(replace(scheme, tags=tags), meshed(), words(60, 8), "rows", 0, both_ways=True)
        guess = self.attack.infer(run.transcript.views(Role.RELAY), run.public)
        assert guess is not None
        (found,) = run.score(self.attack, guess)
        assert found.value == 1 if scheme is OF_OWN_SILOS else found.interval.low <= found.prior

    def test_named_senders_are_not_its_business(self) -> None:
        """Where devices send in their own name silos send nothing; `tag-matching` is for that."""
        run = recorded_exchange(
            RelayCoded(k_min=1, profile=Profile.SHOWN), meshed(), words(60, 8), "rows", 0, both_ways=True
        )
        assert self.attack.infer(run.transcript.views(Role.RELAY), run.public) is None
