from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.proxies.counts import Addition
from fgl_secure.attacks.registry import attack as named
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.fedspray.audit_runs import LabelledNodes, drawn_nodes, drawn_pairs, growing, recorded_rounds
from fgl_secure.runtime import Channel, Role
from fgl_secure.training.server_sums import ServerSums
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of
from tests.sums import clear_sums

Make = Callable[[Channel], ServerSums]


def grown(make_sums: Make = clear_sums, drift: float = 0.0) -> RecordedRun:
    """Rounds of ten clients that add a node in turn, whose proxies move by some noise from round to round."""
    rng, rounds = np.random.default_rng(5), growing(drawn_nodes(1), 20, seed=1)
    moved = [replace(each, proxies=each.proxies + drift * rng.normal(size=each.proxies.shape)) for each in rounds]
    return recorded_rounds(moved, "rounds", make_sums=make_sums, suspects=drawn_pairs(moved, seed=2))


def two_rounds(counts: list[list[int]], added: int, make_sums: Make = clear_sums) -> RecordedRun:
    """A round without one of the nodes, and one with all of them."""
    held: LabelledNodes = nodes_of(counts)
    return recorded_rounds([held.among(held.nodes != added), held], "two rounds", make_sums=make_sums)


def one_addition(run: RecordedRun) -> Addition:
    """What differencing finds, which must be one node."""
    view = run.transcript.views(Role.SERVER)
    found = guess_of(named("proxy-differencing"), view, run.public, run.knowledge)
    assert found is not None
    only: Addition
    (only,) = found
    return only


def claimed(guess: tuple[Addition, ...]) -> Claims:
    """Round, client, class and counts of each addition."""
    return Counter((each.round, each.client, each.kind, tuple(each.counts.tolist())) for each in guess)


class TestProxyDifferencing(ProxyConformance):
    attack = named("proxy-differencing")
    additions = 6

    def claims(self, guess: tuple[Addition, ...]) -> Claims:
        return claimed(guess)

    def test_takes_the_new_node_from_the_mean(self) -> None:
        """Three times the mean of three less twice that of two is the third, but for rounding."""
        found = one_addition(two_rounds([[3, 1], [2, 2]], added=1))
        assert (found.client, found.kind, found.counts.tolist()) == (0, 0, [2, 1])
        assert abs(found.proxy - nodes_of([[3, 1], [2, 2]]).proxies[1]).max() < 1e-7

    def test_a_first_node_of_a_class_comes_through_masks(self) -> None:
        """The sum changes by that node alone, and by what the client's other shares give up."""
        found = one_addition(two_rounds([[1, 3], [0, 2], [0, 2]], added=0, make_sums=masked))
        assert abs(found.proxy - nodes_of([[1, 3], [0, 2], [0, 2]]).proxies[0]).max() < 1e-7


class TestProxyLabelChanges(ProxyConformance):
    attack = named("proxy-label-changes")
    additions = 6

    def claims(self, guess: tuple[Addition, ...]) -> Claims:
        return claimed(guess)

    def test_masks_do_not_hide_who_changes(self) -> None:
        """From masked sums of two rounds the labels of the client that adds a node are counted, training or not."""
        for drift in (0.0, 1.0):
            assert measured(self.attack, grown(masked, drift))["labels of a client that adds one"].value > 0.7

    def test_two_clients_that_add_at_once_are_not_told(self) -> None:
        held = nodes_of([[4, 3, 2], [3, 5, 1], [2, 2, 7]])
        both = held.among((held.nodes != 0) & (held.nodes != 9))
        run = recorded_rounds([both, held], "two at once", make_sums=masked)
        assert guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge) == ()


class TestProxyMembership(ProxyConformance):
    attack = named("proxy-membership")
    additions = 6

    def claims(self, guess: tuple[Any, ...]) -> Claims:
        return Counter((each.round, each.client, each.named.tobytes()) for each in guess)

    @pytest.mark.parametrize("make_sums", [clear_sums, masked], ids=["clear", "masked"])
    def test_tells_nodes_apart_where_others_move_little(self, make_sums: Make) -> None:
        """The nearer of two proxies is mostly the one that was added, also from masked sums."""
        assert measured(self.attack, grown(make_sums, 0.1))["added nodes told apart"].interval.low > 0.2

    def test_is_lost_where_others_move_much(self) -> None:
        """Where all proxies are drawn anew in each round, hardly anything is told apart."""
        calm, wild = (measured(self.attack, grown(drift=size))["added nodes told apart"].value for size in (0.0, 5.0))
        assert wild < calm - 0.3
