from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.gradients.fields import FieldGuess
from fgl_secure.attacks.gradients.knowledge import GradientKnowledge
from fgl_secure.attacks.gradients.model import Convolution
from fgl_secure.attacks.registry import attack as named
from fgl_secure.runtime import PublicParameters, Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.gradients.gradient_runs import (
    GradientConformance,
    Setting,
    area_of,
    clusters,
    pairs_of,
    record_round,
)

PAIRS, NEAR = "nodes in a client's gradient", "nodes in it or one hop outside"


class TestGradientSpan(GradientConformance):
    attack = named("gradient-span")

    def claims(self, guess: FieldGuess) -> Claims:
        return Counter(pairs_of(guess))

    @pytest.mark.parametrize(("convolution", "dtype"), [(Convolution.GCN, "float64"), (Convolution.SAGE, "float32")])
    def test_finds_every_node_below_the_width(self, convolution: Convolution, dtype: str) -> None:
        """With fewer rows than hidden units all nodes are found and no other, in single precision as well."""
        found = measured(self.attack, record_round(clusters(), Setting(convolution, batch=3, dtype=dtype)))
        assert found["exact hits"].value == 1
        assert found[PAIRS].value == 1

    def test_finds_nothing_exactly_above_the_width(self) -> None:
        """With more rows than hidden units no node is inside the span; nodes are ranked still, next ones less well."""
        found = measured(self.attack, record_round(clusters(nodes=480), Setting(hidden=16, batch=12)))
        assert found["exact hits"].value == 0
        assert area_of(found[PAIRS]) > 0.8
        assert 0.7 < area_of(found[NEAR]) < area_of(found[PAIRS])

    def test_a_sum_hides_whose_a_node_is_and_not_that_it_is_there(self) -> None:
        """Under a sum nodes are found all the same; which client they belong to is a guess among all."""
        setting = Setting(hidden=256, batch=1, owners=False)
        plain, summed = (record_round(clusters(), replace(setting, summed=each)) for each in (False, True))
        clear, hidden = measured(self.attack, plain), measured(self.attack, summed)
        assert clear["clients of nodes"].value == 1
        assert hidden["clients of nodes"].interval.contains(0.25)
        for found in (clear, hidden):
            assert found["nodes in anybody's gradient"].value > 0.99
        assert clear["exact hits"].value == 1
        assert hidden["exact hits"].value < 0.99

    def test_sums_in_fixed_point_are_read_up_to_their_rounding(self) -> None:
        """A sum that is rounded to 20 bits behind the point still gives every node, also if nobody states the bits."""
        run = record_round(clusters(), Setting(hidden=256, batch=1, summed=True))
        (noted,) = [rows for rows in run.transcript.private if rows.name == "server sum"]
        rounded = replace(noted, values=np.round(noted.values * 2**20) / 2**20)
        run.transcript.private[run.transcript.private.index(noted)] = rounded
        for bits in (20, None):
            public = PublicParameters(fraction_bits=bits)
            assert measured(self.attack, replace(run, public=public))["exact hits"].value > 0.95

    def test_another_clients_gradient_is_no_evidence(self) -> None:
        """Scored against batches that were drawn again, ranks are no better than by degree: it is membership."""
        graph = clusters(nodes=480)
        run, other = (record_round(graph, Setting(seed=seed)) for seed in (0, 1))
        crossed, right = (measured(self.attack, replace(run, truth=each.truth)) for each in (other, run))
        assert crossed[PAIRS].value < crossed[PAIRS].prior + 0.05
        assert right[PAIRS].value > right[PAIRS].prior + 0.5


class TestGradientFilter(GradientConformance):
    attack = named("gradient-filter")

    def claims(self, guess: FieldGuess) -> Claims:
        assert guess.hits is None
        scored = np.round(np.where(guess.eligible, guess.scores, 0), 9)
        rows, nodes = scored.nonzero()
        return Counter(zip(guess.clients[rows].tolist(), nodes.tolist(), scored[rows, nodes].tolist(), strict=True))

    def test_degrades_with_noise(self) -> None:
        """It outlasts the span check at little noise, and is at chance where every entry has as much as all of them."""
        graph = clusters(nodes=480)
        little, much = (record_round(graph, Setting(noise=noise)) for noise in (0.03, 3.0))
        assert measured(self.attack, little)[PAIRS].value > measured(named("gradient-span"), little)[PAIRS].value
        assert measured(self.attack, much)[PAIRS].interval.low < 0.05


def test_nodes_that_look_the_same_are_no_false_alarms() -> None:
    """A node whose row points the same way as one that entered is left out of those that did not."""
    graph = clusters(nodes=40, silos=1)
    run = record_round(graph, Setting(batch=1))
    assert run.knows(GradientKnowledge).candidates is not None
    guess = guess_of(named("gradient-span"), run.transcript.views(Role.SERVER), run.public, run.knowledge)
    assert guess is not None
    inside = int(run.truth.batches[0].receptive[0])
    outside = int(np.setdiff1d(np.arange(40), run.truth.batches[0].receptive)[0])
    alike, hits = guess.alike.copy(), np.array(guess.hits)
    alike[outside], hits[0, outside] = alike[inside], True
    (twin, *_), (stranger, *_) = (
        named("gradient-span").score(replace(guess, alike=each, hits=hits), run.truth) for each in (alike, guess.alike)
    )
    assert twin.value == 1
    assert stranger.value < 1
