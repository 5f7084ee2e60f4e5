"""What relays count of a device that drops out, and that the claim declares it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.relay_patterns import CountedPartners, JudgedPairs, SilentPairs, SilentPartners
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.matrix import State
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.scenarios import silent_run
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import SecretMessagePassing
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Circumstance, Phase, Recording, Role, Secret
from fgl_secure.runtime.channel import Loss
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import record_silent
from tests.attacks.message_passing.test_tag_matching import meshed
from tests.attacks.recorded import Run
from tests.graphs import two_communities


class OfSilentDevices(AttackConformance):
    """What both attacks keep."""

    rests_on = (frozenset({Phase.SHARE_HEADERS}), frozenset({Phase.FETCH}))

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # counts do not depend on it
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record_silent(graph, loss=loss, recording=recording)


class TestSilentPartners(OfSilentDevices):
    attack: Attack[CountedPartners, Any] = SilentPartners()
    needs_edges = False

    def claims(self, guess: CountedPartners) -> Claims:
        return Counter(zip(guess.devices.tolist(), guess.counts.tolist(), strict=True))


class TestSilentPairs(OfSilentDevices):
    attack: Attack[JudgedPairs, Any] = SilentPairs()

    def claims(self, guess: JudgedPairs) -> Claims:
        return Counter(map(tuple, guess.ends[:, guess.joined].T.tolist()))


ATTACKS: tuple[Attack[Any, Any], ...] = (SilentPartners(), SilentPairs())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.card.name)
@pytest.mark.parametrize("tags", Tagging)
def test_a_relay_counts_the_partners_of_a_device_that_drops_out(attack: Attack[Any, Any], tags: Tagging) -> None:
    """Under the scheme itself, with tags that are told and without: numbers of partners and pairs are all right."""
    run = silent_run(RelayCoded(k_min=1, max_degree=64, tags=tags), meshed(), 0)
    assert run is not None
    guess = run.guess(attack)
    assert guess is not None
    (found,) = run.measure(attack, guess)
    assert found.value == 1
    assert found.prior <= 0.5


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.card.name)
def test_nothing_is_counted_where_nobody_drops_out(attack: Attack[Any, Any]) -> None:
    """A run in which no device falls silent gives no guess."""
    run = silent_run(RelayCoded(k_min=1, max_degree=64), meshed(), 0, pairs=0)
    assert run is not None
    assert run.guess(attack) is None


@pytest.mark.parametrize("scheme", [Plaintext(), SecretMessagePassing(), RelayCoded(profile=Profile.SHOWN)])
def test_schemes_without_equal_counts_are_not_asked(scheme: Scheme) -> None:
    """They have no relays, or relays see more than counts."""
    assert silent_run(scheme, meshed(), 0) is None


@pytest.mark.parametrize("tags", Tagging)
@pytest.mark.parametrize("secret", [Secret.DEGREE, Secret.CROSS_EDGE])
def test_the_claim_declares_what_drop_outs_reveal(secret: Secret, tags: Tagging) -> None:
    """A finding under drop-outs contradicts nothing, and would if the claim did not declare it; others still do."""
    claim = RelayCoded(tags=tags).claim_for(Topology.example(NEIGHBOURS))
    assert claim.broken_by(secret, {Role.RELAY: 1}, Circumstance.DROP_OUT) is None
    assert claim.broken_by(secret, {Role.RELAY: 1}, Circumstance.ANY) is not None
    silenced = replace(claim, leaks_by_design=())
    assert silenced.broken_by(secret, {Role.RELAY: 1}, Circumstance.DROP_OUT) is not None


@pytest.mark.parametrize("tags", Tagging)
def test_an_audit_compares_drop_outs_with_the_claim(tags: Tagging) -> None:
    """Its cells for relays say that the scheme declares the leakage, and not that nothing was found."""
    scheme = f"relay-coded[k_min=1,tags={tags}]"
    names = ("silent-partners", "silent-pairs")
    graph = two_communities(devices=96, silos=3)
    sparse = replace(graph, graph=replace(graph.graph, edges=meshed(96).edges))
    report = audit(HiFGL(epochs=1), sparse, scheme, names, device="cpu")
    found = [record for record in report.records if record.attack in names]
    assert {record.attack for record in found if record.verdict.is_exposure and record.controls_hold} == set(names)
    assert not report.contradictions
    states = {(cell.secret, cell.role): cell.state for cell in report.matrix}
    assert states[Secret.DEGREE, Role.RELAY] is states[Secret.CROSS_EDGE, Role.RELAY] is State.ADMITTED
