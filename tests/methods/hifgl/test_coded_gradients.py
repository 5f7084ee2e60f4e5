"""What HiFGL's choice of gradients changes: schemes, claims, numbers sent, and what attacks find at a silo."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.programs import fill_schemes
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, SplitMasks
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Circumstance, Phase, PublicParameters, Recording, Role, Secret, Step, Transcript
from fgl_secure.schemes import assignment
from fgl_secure.training.parties import helpers_of
from fgl_secure.training.presets import HONEST
from tests.error_codes import about
from tests.graphs import two_communities

Reals = NDArray[np.float64]
QUICK = replace(HONEST, hidden=4, epochs=3)


def schemes_of(method: HiFGL, text: str = "relay-coded") -> dict[str, Scheme]:
    """What a run of the method takes."""
    return dict(method.assign_schemes(fill_schemes(assignment(text, method.topologies), 4)))


@pytest.mark.parametrize(("members", "promised"), [("", True), (",members=plaintext", False)])
def test_gradients_are_promised_to_be_hidden_by_the_scheme_that_adds_them_up(members: str, promised: bool) -> None:
    """What devices hand to their silo is promised nothing where it goes in the clear beside rows that don't."""
    (subject,) = HiFGL().plan(None, f"relay-coded{members}", device="cpu").subjects
    told = {each.secret for each in subject.claims[subject.name].guarantees}
    assert Secret.EMBEDDING in told
    assert (Secret.PARAMETER_GRADIENT in told) is promised


def test_products_are_the_default_beside_relay_coded_rows() -> None:
    """With relays enough; whoever names another scheme for members, or dense gradients, gets those."""
    found = schemes_of(HiFGL(), "relay-coded[k_min=2]")
    assert found["members"] == CodedProducts(k_min=2)
    assert found["neighbours"] == RelayCoded(k_min=2)
    assert helpers_of(found.values()) == {Role.RELAY: 3}
    assert schemes_of(HiFGL(), "relay-coded,members=relay-coded[R=5]")["members"] == CodedProducts(R=5)
    dense = schemes_of(HiFGL(gradients="dense"))
    assert dense["members"] is dense["neighbours"]
    assert isinstance(schemes_of(HiFGL(), "plaintext")["members"], Plaintext)
    assert isinstance(schemes_of(HiFGL(), "relay-coded,members=plaintext")["members"], Plaintext)
    with pytest.raises(InputError, check=about("T times the number of sets of R - T relays")):
        schemes_of(HiFGL(), "relay-coded[T=8]")


def subject(method: HiFGL, graph: FederatedGraph, scheme: str) -> HiFGLSubject:
    """One run of an audit."""
    (found,) = method.plan(graph, [scheme], device="cpu").subjects
    assert isinstance(found, HiFGLSubject)
    return found


def test_claims_say_what_is_hidden_of_factors() -> None:
    """In the place of the scheme's own promise of gradients, which dense ones keep."""
    graph = two_communities(devices=48, silos=3)
    coded, dense = (subject(HiFGL(epochs=1, gradients=each), graph, "relay-coded") for each in ("coded", "dense"))
    (claim,), (other,) = coded.claims.values(), dense.claims.values()
    assert coded.name == dense.name == "relay-coded"
    for each, expected in ((claim, True), (other, False)):
        (promise,) = [g for g in each.guarantees if g.secret is Secret.PARAMETER_GRADIENT]
        assert ("the rows whose products they are" in promise.statement) == expected
        assert promise.coalition[Role.RELAY] == 1
    assert len(claim.guarantees) == len(other.guarantees)
    assert any("share keys by sets" in each for each in claim.assumptions)
    assert not any("share keys by sets" in each for each in other.assumptions)
    declared = [leak for leak in claim.leaks_by_design if leak.secret is Secret.PARAMETER_GRADIENT]
    assert [leak.circumstance for leak in declared] == [Circumstance.SPARSE_SUM]


def trained(graph: FederatedGraph, schemes: dict[str, Scheme], rounds: int = 1) -> tuple[Transcript, list[Any]]:
    """Some rounds of training with everything recorded that runs record, and the last round's decoded gradients."""
    job = silos_of(graph, schemes, QUICK)
    channel = job.channel(SimulationCoins(0), Recording.everything())
    process = job.open(channel)
    found: list[Any] = []
    if process._gradients is not None:
        kept = process._gradients.sums
        process._gradients.sums = lambda *given: found.append(kept(*given)) or found[-1]  # type: ignore[func-returns-value, method-assign]
    for number in range(rounds):
        process.round(number)
    return channel.transcript, found[-1] if found else []


def test_a_silo_reads_devices_gradients_in_the_clear_and_none_that_are_coded() -> None:
    """The same attack on the same training: all labels and rows, and nothing to read."""
    graph = two_communities(devices=48, silos=3)
    clear, _ = trained(graph, {"neighbours": Plaintext()})
    coded, _ = trained(graph, schemes_of(HiFGL(), "relay-coded[k_min=1]"))
    attack, public = named("device-gradients"), PublicParameters()
    guess = attack.infer(clear.views(Role.SILO), public)
    assert guess is not None
    scores = {m.metric: m.value for m in attack.score(guess, MessageTruth.of(clear, graph))}
    assert scores["labels"] == 1.0
    assert scores["input rows"] > 0.8  # the others' gradients are of the size of float32's rounding
    assert attack.infer(coded.views(Role.SILO), public) is None
    seen = {rows.phase for rows in coded.views(Role.SILO).received if rows.fields is not None}
    assert Phase.PRODUCT_SHARES in seen
    assert Phase.GRADIENT not in {batch.phase for batch in coded.messages}


def directions_found(gradient: Reals, rows: Reals) -> int:
    """Of how many rows the direction is a singular vector of a gradient: what a silo may guess of a sum."""
    directions = np.linalg.svd(gradient, full_matrices=False)[0].T
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return int((np.abs(unit @ directions.T).max(axis=1) > 0.999).sum())


def test_a_sum_over_one_device_tells_its_row_and_over_many_none() -> None:
    """The best that a silo has is the sum itself: its singular vectors are a device's row where it is alone."""
    graph = two_communities(devices=48, silos=3)
    masks = SplitMasks(graph.train_mask, graph.validation_mask, graph.test_mask)
    alone = FederatedGraph.from_assignment(graph.graph, np.where(np.arange(48) < 1, 0, 1 + np.arange(48) % 2), masks)
    for each, expected in ((graph, 0), (alone, 1)):
        _, sums = trained(each, schemes_of(HiFGL(), "relay-coded[k_min=1]"))
        first, hidden = sums[0], QUICK.hidden
        found = [
            directions_found(first[silo].reshape(-1, hidden), each.features[each.silo_of == silo].astype(np.float64))
            for silo in range(3)
        ]
        assert sum(found) == expected
    _, sums = trained(alone, schemes_of(HiFGL()))
    assert not sums[0][0].any()  # k_min keeps the sum over one device from its silo


def test_a_device_sends_its_rows_in_every_round_and_nothing_is_counted_alone() -> None:
    """Once 8 features and the 1 of biases; in every round gradients of 4 and 2 outputs, for weights and for biases, and
    4 hidden entries; all of it executed and recorded."""
    graph = two_communities(devices=48, silos=3)
    transcript, _ = trained(graph, schemes_of(HiFGL()), rounds=3)
    sent = [b for b in transcript.messages if b.phase is Phase.FACTOR_SHARES and b.item_bytes > 20]
    sizes = [(b.step.round, (b.item_bytes - 16) / 6, b.messages) for b in sent]
    assert sizes == [(0, 25, 48), (0, 25, 48), (1, 16, 48), (1, 16, 48), (2, 16, 48), (2, 16, 48)]
    assert {b.step for b in sent} == {Step(0), Step(1), Step(2)}
    assert all(b.repeats == 1 for b in sent)
