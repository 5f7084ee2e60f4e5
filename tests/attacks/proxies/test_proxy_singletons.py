from __future__ import annotations

from collections import Counter

from fgl_secure.attacks.base import guess_of
from fgl_secure.attacks.proxies.counts import ProxySingletons, SingleProxies
from fgl_secure.runtime import Role
from tests.attacks.conformance import Claims, measured
from tests.attacks.proxies.proxy_conformance import ProxyConformance, masked, nodes_of, one_round, proxy_references

__all__ = ["proxy_references"]


class TestProxySingletons(ProxyConformance):
    attack = ProxySingletons()

    def claims(self, guess: SingleProxies) -> Claims:
        rows, kinds = guess.single.nonzero()
        return Counter(
            (int(guess.clients[row]), int(kind), guess.proxies[row, kind].tobytes())
            for row, kind in zip(rows, kinds, strict=True)
        )

    def test_reads_single_nodes_exactly(self) -> None:
        """A class proxy of one node is that node's own; of two it is neither's."""
        held = nodes_of([[1, 3, 0], [2, 1, 4]])
        found = measured(self.attack, one_round(held))
        assert found["proxies of single nodes"].n == 2
        assert found["proxies of single nodes"].value == 1
        assert found["single nodes told"].value == 1

    def test_proxies_are_those_of_the_nodes(self) -> None:
        """What is read is the node's proxy but for rounding."""
        held = nodes_of([[1, 3], [2, 5]])
        run = one_round(held)
        guess = guess_of(self.attack, run.transcript.views(Role.SERVER), run.public, run.knowledge)
        assert guess is not None
        assert guess.single.tolist() == [[True, False], [False, False]]
        assert abs(guess.proxies[0, 0] - held.proxies[0]).max() < 1e-8

    def test_a_common_divisor_is_taken_for_single_nodes(self) -> None:
        """2 : 4 looks like 1 : 2, so the larger class is a false alarm; no proxy is claimed to be right."""
        found = measured(self.attack, one_round(nodes_of([[2, 4], [1, 3]])))
        assert found["proxies of single nodes"].value == 1
        assert "1 of 3 larger classes are taken for one" in found["single nodes told"].finding

    def test_no_single_nodes_no_figure(self) -> None:
        """Where nobody has a single node nothing is measured."""
        assert not measured(self.attack, one_round(nodes_of([[2, 3], [4, 5]])))

    def test_masks_hide_single_nodes_among_others_of_the_class(self) -> None:
        """The mean over several clients that have the class is nobody's proxy."""
        found = measured(self.attack, one_round(nodes_of([[1, 3], [2, 1], [1, 2]]), masked))
        assert list(found) == ["proxies of single nodes"]
        assert found["proxies of single nodes"].value == 0

    def test_masks_do_not_hide_the_only_node_of_a_class(self) -> None:
        """A class that one client alone has one node of comes through the sum as it is, as the claim says."""
        found = measured(self.attack, one_round(nodes_of([[1, 3], [0, 2], [0, 2]]), masked))
        assert found["proxies of single nodes"].value == 1
