"""What the server, a receiver and clients learn together, over every coin of the machines that users run."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.crypto.cryptography import KeyPurpose
from fgl_secure.errors import TooFewClientsError
from fgl_secure.protocols.secagg.terms import USUAL, Stage
from fgl_secure.runtime import Channel, Party, Step
from fgl_secure.testing import Protocol, assert_exactly_private, assert_simulatable
from fgl_secure.testing.affine import Judge, RowSpace, distance
from fgl_secure.testing.protocol import Inputs
from tests.protocols.pairwise_masking import flaws
from tests.protocols.pairwise_masking.cases import NOW, SERVER, Setting, honest_of, inputs, moved, silo

Ints = NDArray[np.int64]

SETTINGS = {
    "nobody drops out": Setting(),
    "after keys": Setting(5, 3, stages={1: Stage.SHARES}),
    "after shares": Setting(5, 3, stages={0: Stage.VECTORS, 4: Stage.VECTORS}),
    "after the vector": Setting(5, 4, stages={2: Stage.AGREEMENT}),
    "in unmasking": Setting(5, 3, stages={0: Stage.OPENING, 3: Stage.VECTORS}),
    "late, and one is gone": Setting(5, 3, late=0, stages={4: Stage.OPENING}),
    "two steps": Setting(4, 3, steps=(NOW, Step(2)), stages={1: Stage.VECTORS}),
    "ring": Setting(6, 4, degree=4, stages={3: Stage.VECTORS}),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_server_and_clients_below_the_threshold_learn_the_sum_alone(setting: Setting) -> None:
    """Inputs with one sum of the honest look the same to every such coalition, exactly; with another sum they do not.

    On the ring coalitions are those that hold fewer shares than open a secret.
    """
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, len(setting.steps), 1), dtype=np.int64)
    compared = 0
    for coalition in setting.coalitions:
        honest = honest_of(setting, coalition)
        if len(honest) < 2 or (setting.degree and len(coalition) > 2):
            continue
        compared += 1
        assert judge.distance(zero, moved(zero, honest, (1, -1)), coalition) == 0
        assert judge.distance(zero, moved(zero, honest, (1,)), coalition) == 1
    assert compared


@pytest.mark.parametrize("name", ["after shares", "late, and one is gone"])
def test_a_vector_that_is_not_in_the_sum_stays_hidden(name: str) -> None:
    """Who dropped out, or came late, may have sent anything: no coalition below the threshold sees a difference."""
    setting = SETTINGS[name]
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, 1, 1), dtype=np.int64)
    out = [u for u, stage in setting.stages.items() if stage <= Stage.VECTORS]
    for coalition in setting.coalitions:
        for u in out + ([] if setting.late is None else [setting.late]):
            if silo(u) not in coalition:
                assert judge.distance(zero, moved(zero, [u], (2,)), coalition) == 0


@pytest.mark.parametrize("gone_in", [NOW, Step(2)], ids=["first", "second"])
def test_what_one_step_opens_tells_nothing_of_another(gone_in: Step) -> None:
    """A client that drops out of one of two steps has its key of that step opened, and stays hidden in the other."""
    setting = Setting(5, 3, steps=(NOW, Step(2)), stages={1: Stage.VECTORS}, gone_in=gone_in)
    judge, zero = Judge(setting.protocol()), np.zeros((5, 2, 1), dtype=np.int64)
    whole = 1 if gone_in == NOW else 0
    swapped, changed = zero.copy(), zero.copy()
    swapped[[1, 3], whole, 0] = 1, -1
    changed[1, 1 - whole, 0] = 2
    for coalition in ((SERVER,), (SERVER, silo(0)), (SERVER, silo(2), silo(4))):
        assert judge.distance(zero, swapped, coalition) == 0
        assert judge.distance(zero, changed, coalition) == 0


FORWARDING = {
    "two drop out": Setting(5, 3, split=True, stages={1: Stage.VECTORS, 2: Stage.AGREEMENT}),
    "late": Setting(5, 3, split=True, late=2),
    "two steps": Setting(4, 3, split=True, steps=(NOW, Step(2))),
}


@pytest.mark.parametrize("setting", FORWARDING.values(), ids=FORWARDING)
def test_a_server_that_forwards_learns_nothing_and_a_receiver_the_sum(setting: Setting) -> None:
    """With clients below the threshold the server sees no difference whatever the sum is; the receiver, with or
    without it, the sum.
    """
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, len(setting.steps), 1), dtype=np.int64)
    for coalition in setting.coalitions:
        honest = honest_of(setting, coalition)
        assert judge.distance(zero, moved(zero, honest, (1,)), coalition) == 0
        for together in ((*coalition, silo(setting.senders)), (*coalition[1:], silo(setting.senders))):
            if len(honest) > 1:
                assert judge.distance(zero, moved(zero, honest, (1, -1)), together) == 0
            assert judge.distance(zero, moved(zero, honest, (1,)), together) == 1


def test_at_the_threshold_vectors_fall() -> None:
    """With t clients the server opens every secret: the judge of the proofs above can reject, and t is exact."""
    setting = Setting(5, 3, late=4)
    judge, zero = Judge(setting.protocol()), np.zeros((5, 1, 1), dtype=np.int64)
    below, enough = tuple(map(silo, (0, 1))), tuple(map(silo, (0, 1, 2)))
    assert judge.distance(zero, moved(zero, [4], (1,)), (SERVER, *below)) == 0
    assert judge.distance(zero, moved(zero, [4], (1,)), (SERVER, *enough)) == 1


@pytest.mark.parametrize("stage", USUAL[1:])
def test_below_the_threshold_of_survivors_nothing_is_leaked(stage: Stage) -> None:
    """A step that stops for want of clients tells the server nothing, not even a sum; with a client at most that."""
    setting = Setting(5, 3, stages=dict.fromkeys((1, 2, 3), stage))
    judge, zero = Judge(stopping(setting.protocol())), np.zeros((5, 1, 1), dtype=np.int64)
    for u in range(5):
        assert judge.distance(zero, moved(zero, [u], (1,)), (SERVER,)) == 0
    for colluding in range(5):
        for two in itertools.combinations(set(range(5)) - {colluding}, 2):
            assert judge.distance(zero, moved(zero, list(two), (1, -1)), (SERVER, silo(colluding))) == 0


def stopping(protocol: Protocol) -> Protocol:
    """A protocol that must raise, with what it had recorded until then."""

    def run(values: Inputs, channel: Channel) -> None:
        with pytest.raises(TooFewClientsError, match="at least threshold"):
            protocol.run(values, channel)

    return replace(protocol, run=run)


TWO_STEPS = Setting(4, 3, steps=(NOW, Step(2)))
STILL, SWAPPED = inputs((0, 0), (0, 0), (0, 0), (0, 0)), inputs((0, 1), (0, -1), (0, 0), (0, 0))


def without(purpose: KeyPurpose) -> dict[str, Any]:
    """A twin with nothing drawn for one purpose."""
    return {"cryptography": partial(flaws.Without, purpose=purpose)}


FLAWS: dict[str, tuple[Setting, dict[str, Any], Ints, Ints, tuple[Party, ...]]] = {
    "same masks in two steps": (
        TWO_STEPS, {"cryptography": flaws.SameMasksInEveryStep}, STILL, SWAPPED, (SERVER,),
    ),
    "one mask for all pairs": (
        Setting(3, 2), {"cryptography": flaws.OneMaskForAllPairs}, inputs(0, 0, 0), inputs(0, 1, -1), (SERVER,),
    ),
    "own mask omitted": (
        Setting(5, 3, late=2), without(KeyPurpose.SELF_MASK), inputs(0, 0, 0, 0, 0), inputs(0, 0, 1, 0, 0), (SERVER,),
    ),
    "pair masks omitted": (
        Setting(), without(KeyPurpose.PAIR_MASK), inputs(0, 0, 0, 0), inputs(1, -1, 0, 0), (SERVER,),
    ),
    "receiver mask omitted": (
        Setting(split=True), without(KeyPurpose.RECEIVER_MASK), inputs(0, 0, 0, 0), inputs(1, 0, 0, 0), (SERVER,),
    ),
    "a share sent to the wrong party": (
        Setting(5, 3, late=4), {"cryptography": flaws.SharesToTheFirstToo}, inputs(0, 0, 0, 0, 0),
        inputs(0, 0, 0, 0, 1), (SERVER, silo(0), silo(2)),
    ),
    "shares that are the secret": (
        Setting(5, 3, late=4), without(KeyPurpose.SHARING), inputs(0, 0, 0, 0, 0), inputs(0, 0, 0, 0, 1),
        (SERVER, silo(0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAWS)
def test_the_proof_rejects_the_flaw(name: str) -> None:
    """The proof for the scheme holds because the same proof fails for the flaw."""
    setting, flaw, a, b, coalition = FLAWS[name]
    assert distance(setting.protocol(), a, b, coalition) == 0
    assert distance(setting.with_flaw(**flaw).protocol(), a, b, coalition) == 1


SMALL = Setting(2, 2, modulus=5)
"""Two clients over five elements: 5^7 tapes."""


@pytest.mark.parametrize(
    "flaw",
    [without(KeyPurpose.PAIR_MASK), {"cryptography": flaws.RemaindersOfThreeBits}],
    ids=["no pair masks", "3 bits modulo p"],
)
def test_enumeration_passes_the_scheme_and_rejects_the_flaw(flaw: dict[str, Any]) -> None:
    """Over all coin tapes the server sees equal sums alike; masks of three bits modulo five betray themselves."""
    a, b = inputs(1, -1), inputs(0, 0)
    found = assert_exactly_private(SMALL.protocol(), a, b, (SERVER,), broken_twin=SMALL.with_flaw(**flaw).protocol())
    assert "78125" in found.statistic


def test_enumeration_sees_another_sum() -> None:
    """Of a sum that is another the server has another view on every tape."""
    with pytest.raises(AssertionError, match="tell inputs_a from inputs_b"):
        assert_exactly_private(
            SMALL.protocol(), inputs(1, 0), inputs(0, 0), (SERVER,),
            broken_twin=SMALL.with_flaw(**without(KeyPurpose.PAIR_MASK)).protocol(),
        )  # fmt: skip


def test_the_server_is_simulated_from_the_sum() -> None:
    """A simulator that gives one client the whole sum makes up the server's view, over all coin tapes."""
    good = SMALL.protocol()

    def simulator(total: int, channel: Channel) -> None:
        good.run(inputs(total, 0), channel)

    found = assert_simulatable(
        good, inputs(0, 1), (SERVER,), simulator, leakage=lambda values: int(values.sum()),
        broken_twin=SMALL.with_flaw(**without(KeyPurpose.PAIR_MASK)).protocol(),
    )  # fmt: skip
    assert found.check == "simulation, exact"


def test_the_judge_of_row_spaces_agrees_with_enumeration() -> None:
    """On the protocol that can be enumerated, and on its twin, both judges say the same."""
    good = SMALL.protocol()
    assert distance(good, inputs(1, -1), inputs(0, 0), (SERVER,)) == 0
    assert distance(good, inputs(1, 0), inputs(0, 0), (SERVER,)) == 1
    broken = SMALL.with_flaw(**without(KeyPurpose.PAIR_MASK)).protocol()
    assert distance(broken, inputs(1, -1), inputs(0, 0), (SERVER,)) == 1
    rows = np.array([[1, 2, 3], [0, 1, 4]])
    inside = {tuple((i * rows[0] + j * rows[1]) % 5) for i in range(5) for j in range(5)}
    for vector in itertools.product(range(5), repeat=3):
        assert RowSpace(rows, 5).holds(np.array(vector)) == (vector in inside)
