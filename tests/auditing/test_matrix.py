from dataclasses import replace

import pytest

from fgl_secure.attacks.base import Card, DataSecret
from fgl_secure.attacks.registry import attack, attacks
from fgl_secure.auditing.matrix import Cell, State, matrix
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Leak, Role, Secret, Strength
from fgl_secure.statistics.metrics import Interval
from tests.auditing.samples import QUIET, RECORD

PROMISE = Guarantee(Secret.EMBEDDING, {Role.DEVICE: 1}, Strength.PERFECT, "rows stay", "here")
SHARED = replace(RECORD, attack="shared-mask", protocol="one", violates_guarantee=False, claim="")
CARDS = {name: attack(name).card for name in ("shared-mask", "differencing-device", "malicious-single-neighbour")}


def claim(*, promises: bool = True, leak: Circumstance | None = None) -> Claim:
    """What the scheme of these tests says of the rows that devices send."""
    admitted = () if leak is None else (Leak(Secret.EMBEDDING, Role.DEVICE, leak, "rows of one sender"),)
    return Claim((PROMISE,) if promises else (), admitted, ())


def only(says: Claim, *records: Record, cards: dict[str, Card] = CARDS) -> Cell:
    """The one cell on devices' rows before devices."""
    cells = matrix({"one": {"one": says}}, records, cards)
    (cell,) = (each for each in cells if (each.secret, each.role) == (Secret.EMBEDDING, Role.DEVICE))
    return cell


QUIETLY = replace(QUIET, attack="shared-mask", protocol="one")
NOTHING_THERE = replace(QUIETLY, in_the_clear=0.0, in_the_clear_verdict=Verdict.NOT_DETECTED)
FELL = replace(SHARED, violates_guarantee=True, claim="rows stay (here)")
DIFFERENCES = replace(SHARED, attack="differencing-device")
MALICIOUS = replace(SHARED, attack="malicious-single-neighbour")


@pytest.mark.parametrize(
    ("says", "records", "state", "attacks"),
    [
        (claim(), (FELL,), State.VIOLATED, ("shared-mask",)),
        (claim(), (QUIETLY,), State.NOT_VIOLATED, ("shared-mask",)),
        (claim(), (), State.NOT_TESTED, ()),
        (claim(), (replace(QUIETLY, positive_control=0.0),), State.NOT_TESTED, ()),
        (claim(), (NOTHING_THERE,), State.NOT_TESTED, ()),
        (claim(), (MALICIOUS,), State.NOT_TESTED, ()),
        (claim(promises=False), (SHARED,), State.NO_GUARANTEE, ("shared-mask",)),
        (claim(leak=Circumstance.ANY), (SHARED,), State.DECLARED, ("shared-mask",)),
        (claim(leak=Circumstance.ANY), (QUIETLY,), State.DECLARED, ()),
        (claim(leak=Circumstance.REPEATED_SUM), (DIFFERENCES,), State.DECLARED, ("differencing-device",)),
        (claim(leak=Circumstance.REPEATED_SUM), (QUIETLY,), State.NOT_VIOLATED, ("shared-mask",)),
        (claim(leak=Circumstance.REPEATED_SUM), (DIFFERENCES, FELL), State.VIOLATED, ("shared-mask",)),
    ],
)  # fmt: skip
def test_what_became_of_a_promise(
    says: Claim, records: tuple[Record, ...], state: State, attacks: tuple[str, ...]
) -> None:
    """A contradiction outweighs all; what is admitted and was met comes before what is kept; tests need controls."""
    cell = only(says, *records)
    assert (cell.state, cell.attacks) == (state, attacks)


def test_a_contradiction_under_a_variant_counts_for_the_scheme() -> None:
    """A variant is the same claim under other parameters, so what falls there has fallen; it has no column."""
    cells = matrix({"one": {"one": claim(), "one[p=11]": claim()}}, (replace(FELL, protocol="one[p=11]"),), CARDS)
    assert [(cell.scheme, cell.state) for cell in cells] == [("one", State.VIOLATED)]


def test_what_a_variant_keeps_tests_nothing() -> None:
    """That an attack finds nothing under other parameters says nothing of the run's own."""
    cells = matrix({"one": {"one": claim(), "one[p=11]": claim()}}, (replace(QUIETLY, protocol="one[p=11]"),), CARDS)
    assert [(cell.scheme, cell.state) for cell in cells] == [("one", State.NOT_TESTED)]


@pytest.mark.parametrize(
    ("says", "records", "blind", "state"),
    [
        (claim(), (), ["shared-mask"], State.NOT_APPLICABLE),
        (claim(), (), ["malicious-single-neighbour"], State.NOT_TESTED),
        (claim(), (), ["message-counts-relay"], State.NOT_TESTED),
        (claim(), (QUIETLY,), ["all-codes"], State.NOT_VIOLATED),
        (claim(), (FELL,), ["all-codes"], State.VIOLATED),
        (claim(leak=Circumstance.ANY), (), ["shared-mask"], State.DECLARED),
    ],
)
def test_attacks_that_meet_nothing(says: Claim, records: tuple[Record, ...], blind: list[str], state: State) -> None:
    """What could have violated a promise and met no message says so, and less than an attack that read some."""
    cards = {name: each.card for name, each in attacks().items()}
    cells = matrix({"one": {"one": says}}, records, cards, {"one": blind})
    (cell,) = (each for each in cells if (each.secret, each.role) == (Secret.EMBEDDING, Role.DEVICE))
    assert cell.state is state


def test_the_figure_is_the_one_that_exceeds_its_prior_most() -> None:
    """A high figure that guessing has as well says less than a lower one that guessing doesn't have."""
    high = replace(SHARED, metric="recall", value=0.99, ci95=Interval(0.98, 1.0), prior=0.93)
    low = replace(SHARED, metric="advantage", value=0.5, ci95=Interval(0.4, 0.6), prior=0.0)
    cell = only(claim(promises=False), high, low)
    assert (cell.metric, cell.value, cell.prior) == ("advantage", 0.5, 0.0)


def test_pooled_promises_have_rows_where_somebody_looks() -> None:
    """Of a promise against coalitions of several roles only those have rows that an attack or a leak is about."""
    pooled = replace(PROMISE, coalition={Role.RELAY: 1, Role.DEVICE: 4, Role.SERVER: 1})
    says = Claim((pooled,), (), ())
    assert [cell.role for cell in matrix({"one": {"one": says}}, (QUIETLY,), CARDS)] == ["device"]
    assert [cell.role for cell in matrix({"one": {"one": says}}, (), CARDS)] == ["relay"]


def test_every_secret_has_a_short_name() -> None:
    """A column has room for few words, and no two secrets have the same."""
    short = [secret.short for kind in (Secret, DataSecret) for secret in kind]
    assert len(set(short)) == len(short)
    assert max(map(len, short)) <= 20
