"""What the aggregator, the receiver and senders learn together: exact proofs, and the same judges on flaws."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from fgl_secure.protocols.masking.drawn import DrawnMasks
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.crypto.prg import KEY_BYTES
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.masking import derived as masking_derived
from fgl_secure.protocols.masking.keys import Purpose, derived
from fgl_secure.protocols.pairwise_masking import MaskOrigin, PairwiseMasking
from fgl_secure.runtime import Channel, Party, Phase, Recording, Role, Step, Tampered
from fgl_secure.testing import (
    NotPrivateError,
    Protocol,
    assert_exactly_private,
    assert_simulatable,
    assert_statistically_private,
)
from fgl_secure.testing.protocol import Inputs
from tests.hostile import by_parts
from tests.protocols import masking_mutations as mutation
from tests.protocols.affine_views import Judge, distance, in_row_space
from tests.protocols.masking_cases import silent
from tests.protocols.masking_mutations import Patch, flawed
from tests.protocols.vector_conformance import circle, total_of

Ints = NDArray[np.int64]

SERVER = Party(Role.SERVER, 0)
NOW = Step(1)


def silo(number: int) -> Party:
    """One sender, or the receiver behind the last of them."""
    return Party(Role.SILO, number)


@dataclass(frozen=True, slots=True)
class Setting:
    """A small run over F_101 with drawn masks.

    Attributes:
        senders: m.
        threshold: t.
        split: whether a silo, number m, receives, and the server forwards.
        steps: the sums.
        stages: from which stage on senders are silent, in every step.
        gone_in: the one step in which they are; None for all.
        late: a sender whose vector reaches the server when the sum is done.
        degree: of the graph; None for everybody.
    """

    senders: int = 4
    threshold: int = 3
    split: bool = False
    steps: tuple[Step, ...] = (NOW,)
    stages: Mapping[int, int] = field(default_factory=dict)
    gone_in: Step | None = None
    late: int | None = None
    degree: int | None = None
    modulus: int = 101
    bound: int = 2

    def protocol(self) -> Protocol:
        """The scheme as a protocol under test; inputs [m, steps, 1]."""
        directory, group = circle(self.senders, split=self.split)
        scheme = PairwiseMasking(self.threshold, self.modulus, self.degree, MaskOrigin.DRAWN)
        always = silent(group.senders, self.stages if self.late is None else {**self.stages, self.late: 3})

        def lost(phase: Phase, step: Step, senders: Ints, receivers: Ints) -> NDArray[np.bool_]:
            here = self.gone_in in (None, step)
            return always(phase, step, senders, receivers) if here else np.ones(len(senders), dtype=np.bool_)

        def run(inputs: Inputs, channel: Channel) -> None:
            channel._loss = lost
            session = scheme.open(channel, group, 1, self.bound)
            for number, step in enumerate(self.steps):
                with _late_vector(self, channel, int(group.senders[self.late or 0]), step):
                    session.sum(np.ascontiguousarray(inputs[:, number]), step)

        return Protocol(run, directory, self.modulus, group.senders, name=scheme.name)

    @property
    def coalitions(self) -> Iterator[tuple[Party, ...]]:
        """The server with up to t - 1 senders."""
        for size in range(self.threshold):
            for some in itertools.combinations(range(self.senders), size):
                yield (SERVER, *map(silo, some))


class _late_vector:  # noqa: N801  # used like a function
    """Hands the server, when the sum is done, the vector that one sender had sent."""

    def __init__(self, setting: Setting, channel: Channel, sender: int, step: Step) -> None:
        self._late, self._channel, self._sender, self._step = setting.late, channel, sender, step

    def __enter__(self) -> None:
        self._context = pytest.MonkeyPatch.context()
        patch, kept = self._context.__enter__(), self.__dict__
        honest = DrawnMasks.masked

        def masked(supply: Any, u: int, *rest: Any) -> Any:
            vector = honest(supply, u, *rest)
            if u == self._late:
                kept["vector"] = vector
            return vector

        if self._late is not None:
            patch.setattr(DrawnMasks, "masked", masked)

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)
        if self._late is not None and error[0] is None:
            loss, self._channel._loss = self._channel._loss, None
            vector = self.__dict__["vector"][..., None, :]
            ends = np.array([self._sender]), np.array([0])
            self._channel.send(Phase.MASKED_VECTORS, self._step, *ends, vector)
            self._channel._loss = loss


def inputs(*rows: int | tuple[int, ...]) -> Ints:
    """What each sender brings to each step: int64 [m, steps, 1]."""
    return np.array([row if isinstance(row, tuple) else (row,) for row in rows], dtype=np.int64)[..., None]


def moved(values: Ints, honest: list[int], by: tuple[int, ...]) -> Ints:
    """The same inputs but for what honest senders bring to the last step."""
    out = values.copy()
    out[honest[: len(by)], -1, 0] += by
    return out


def honest_of(setting: Setting, coalition: tuple[Party, ...]) -> list[int]:
    """Senders outside a coalition whose vectors are in the sum."""
    gone = {u for u, stage in setting.stages.items() if stage < 4}
    return [u for u in range(setting.senders) if silo(u) not in coalition and u not in gone and u != setting.late]


SETTINGS = {
    "nobody drops out": Setting(),
    "five senders": Setting(5, 3),
    "three of three": Setting(3, 3),
    "after keys": Setting(5, 3, stages={1: 2}),
    "after shares": Setting(5, 3, stages={0: 3, 4: 3}),
    "after the vector": Setting(5, 4, stages={2: 4}),
    "in unmasking": Setting(5, 3, stages={0: 5, 3: 3}),
    "late": Setting(5, 3, late=2),
    "late, and one is gone": Setting(5, 3, late=0, stages={4: 5}),
    "two steps": Setting(4, 3, steps=(NOW, Step(2)), stages={1: 3}),
    "ring": Setting(6, 4, degree=4, stages={3: 3}),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_server_and_senders_below_the_threshold_learn_the_sum_alone(setting: Setting) -> None:
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


@pytest.mark.parametrize("setting", [SETTINGS[name] for name in ("after shares", "late", "late, and one is gone")])
def test_a_vector_that_is_not_in_the_sum_stays_hidden(setting: Setting) -> None:
    """Who dropped out, or came late, may have sent anything: no coalition below the threshold sees a difference."""
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, 1, 1), dtype=np.int64)
    out = [u for u, stage in setting.stages.items() if stage < 4] + ([] if setting.late is None else [setting.late])
    for coalition in setting.coalitions:
        for u in out:
            if silo(u) not in coalition:
                assert judge.distance(zero, moved(zero, [u], (2,)), coalition) == 0


@pytest.mark.parametrize("gone_in", [NOW, Step(2)], ids=["first", "second"])
def test_what_one_step_opens_tells_nothing_of_another(gone_in: Step) -> None:
    """A sender that drops out of one of two steps has its key of that step opened, and stays hidden in the other."""
    setting = Setting(5, 3, steps=(NOW, Step(2)), stages={1: 3}, gone_in=gone_in)
    judge, zero = Judge(setting.protocol()), np.zeros((5, 2, 1), dtype=np.int64)
    whole = 1 if gone_in == NOW else 0
    swapped, changed = zero.copy(), zero.copy()
    swapped[[1, 3], whole, 0] = 1, -1
    changed[1, 1 - whole, 0] = 2
    for coalition in ((SERVER,), (SERVER, silo(0)), (SERVER, silo(2), silo(4))):
        assert judge.distance(zero, swapped, coalition) == 0
        assert judge.distance(zero, changed, coalition) == 0


FORWARDING = {
    "nobody drops out": Setting(split=True),
    "two drop out": Setting(5, 3, split=True, stages={1: 3, 2: 4}),
    "late": Setting(5, 3, split=True, late=2),
    "two steps": Setting(4, 3, split=True, steps=(NOW, Step(2))),
}


@pytest.mark.parametrize("setting", FORWARDING.values(), ids=FORWARDING)
def test_a_server_that_forwards_learns_nothing_with_them(setting: Setting) -> None:
    """Where a silo receives, the server with senders below the threshold sees no difference whatever the sum is."""
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, len(setting.steps), 1), dtype=np.int64)
    for coalition in setting.coalitions:
        honest = honest_of(setting, coalition)
        assert judge.distance(zero, moved(zero, honest, (1,)), coalition) == 0


@pytest.mark.parametrize("setting", FORWARDING.values(), ids=FORWARDING)
def test_a_receiver_learns_the_sum_alone(setting: Setting) -> None:
    """The receiver, with senders or with the server and senders below the threshold, learns the sum and no more."""
    judge, zero = Judge(setting.protocol()), np.zeros((setting.senders, len(setting.steps), 1), dtype=np.int64)
    for coalition in setting.coalitions:
        honest = honest_of(setting, coalition)
        for together in ((*coalition, silo(setting.senders)), (*coalition[1:], silo(setting.senders))):
            if len(honest) > 1:
                assert judge.distance(zero, moved(zero, honest, (1, -1)), together) == 0
            assert judge.distance(zero, moved(zero, honest, (1,)), together) == 1


def test_at_the_threshold_vectors_fall() -> None:
    """With t senders the server opens every secret: the judge of the proofs above can reject, and t is exact."""
    setting = Setting(5, 3, late=4)
    judge, zero = Judge(setting.protocol()), np.zeros((5, 1, 1), dtype=np.int64)
    below, enough = tuple(map(silo, (0, 1))), tuple(map(silo, (0, 1, 2)))
    assert judge.distance(zero, moved(zero, [4], (1,)), (SERVER, *below)) == 0
    assert judge.distance(zero, moved(zero, [4], (1,)), (SERVER, *enough)) == 1


@pytest.mark.parametrize("stage", range(2, 6))
def test_below_the_threshold_of_survivors_nothing_is_leaked(stage: int) -> None:
    """A step that stops for want of senders tells the server nothing, not even a sum; with a sender at most that."""
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
        with pytest.raises(ProtocolError, match="at least threshold"):
            protocol.run(values, channel)

    return replace(protocol, run=run)


TWO_STEPS = Setting(4, 3, steps=(NOW, Step(2)))
STILL, SWAPPED = inputs((0, 0), (0, 0), (0, 0), (0, 0)), inputs((0, 1), (0, -1), (0, 0), (0, 0))

FLAWS: dict[str, tuple[Setting, Patch, Ints, Ints, tuple[Party, ...]]] = {
    "same masks in two rounds": (TWO_STEPS, mutation.same_masks_in_every_step, STILL, SWAPPED, (SERVER,)),
    "one mask for all pairs": (
        Setting(3, 2), mutation.one_mask_for_all_pairs, inputs(0, 0, 0), inputs(0, 1, -1), (SERVER,),
    ),
    "self mask omitted": (
        Setting(5, 3, late=2), mutation.without("self masks"), inputs(0, 0, 0, 0, 0), inputs(0, 0, 1, 0, 0), (SERVER,),
    ),
    "pair masks omitted": (
        Setting(), mutation.without("pair masks"), inputs(0, 0, 0, 0), inputs(1, -1, 0, 0), (SERVER,),
    ),
    "receiver mask omitted": (
        Setting(split=True), mutation.without("receiver masks"), inputs(0, 0, 0, 0), inputs(1, 0, 0, 0), (SERVER,),
    ),
    "a share sent to the wrong party": (
        Setting(5, 3, late=4), mutation.shares_to_the_first_too, inputs(0, 0, 0, 0, 0), inputs(0, 0, 0, 0, 1),
        (SERVER, silo(0), silo(2)),
    ),
    "shares that are the secret": (
        Setting(5, 3, late=4), mutation.constant_shares, inputs(0, 0, 0, 0, 0), inputs(0, 0, 0, 0, 1),
        (SERVER, silo(0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAWS)
def test_the_proof_rejects_the_flaw(name: str) -> None:
    """The proof for the scheme holds because the same proof fails for the flaw."""
    setting, patch, a, b, coalition = FLAWS[name]
    good = setting.protocol()
    assert distance(good, a, b, coalition) == 0
    assert distance(flawed(good, patch, name), a, b, coalition) == 1


@pytest.mark.parametrize("patch", [mutation.wrong_sign, mutation.mask_added_twice], ids=["wrong sign", "added twice"])
@pytest.mark.parametrize("origin", MaskOrigin)
def test_masks_that_do_not_cancel_show_in_the_sum(patch: Patch, origin: MaskOrigin) -> None:
    """With the wrong sign, or a mask added twice, the sum is wrong; as it is it is right."""
    directory, group = circle(4, split=False)
    rows = np.array([[1], [2], [-3], [4]])

    def total() -> list[int]:
        channel = Channel(directory, SimulationCoins(3))
        return [int(x) for x in PairwiseMasking(masks=origin).open(channel, group, 1, 9).sum(rows, NOW)]

    assert total() == total_of(rows)
    with pytest.MonkeyPatch.context() as monkeypatch:
        patch(monkeypatch)
        assert total() != total_of(rows)


SMALL = Setting(2, 2, modulus=5, bound=1)
"""Two senders over five elements: 5^7 tapes."""


@pytest.mark.parametrize(
    ("patch", "name"),
    [(mutation.without("pair masks"), "no pair masks"), (mutation.remainders_of(3), "3 bits % p")],
    ids=["no pair masks", "3 bits % p"],
)
def test_enumeration_passes_the_scheme_and_rejects_the_flaw(patch: Patch, name: str) -> None:
    """Over all coin tapes the server sees equal sums alike; masks of three bits modulo five betray themselves."""
    good = SMALL.protocol()
    broken = flawed(good, patch, name)
    found = assert_exactly_private(good, inputs(1, -1), inputs(0, 0), (SERVER,), broken_twin=broken)
    assert "total variation 0 " in found.statistic
    with pytest.raises(NotPrivateError):
        assert_exactly_private(good, inputs(1, 0), inputs(0, 0), (SERVER,), broken_twin=broken)


def test_the_server_is_simulated_from_the_sum() -> None:
    """A simulator that gives one sender the whole sum makes up the server's view, over all coin tapes."""
    good = SMALL.protocol()

    def simulator(total: int, channel: Channel) -> None:
        good.run(inputs(total, 0), channel)

    broken = flawed(good, mutation.without("pair masks"), "no pair masks")
    found = assert_simulatable(
        good, inputs(0, 1), (SERVER,), simulator, leakage=lambda values: int(values.sum()), broken_twin=broken
    )
    assert found.check == "simulation, exact"


def test_the_judge_of_row_spaces_agrees_with_enumeration() -> None:
    """On the protocol that can be enumerated, and on its twin, both judges say the same."""
    good = SMALL.protocol()
    assert distance(good, inputs(1, -1), inputs(0, 0), (SERVER,)) == 0
    assert distance(good, inputs(1, 0), inputs(0, 0), (SERVER,)) == 1
    broken = flawed(good, mutation.without("pair masks"), "no pair masks")
    assert distance(broken, inputs(1, -1), inputs(0, 0), (SERVER,)) == 1
    rows = np.array([[1, 2, 3], [0, 1, 4]])
    inside = {tuple((i * rows[0] + j * rows[1]) % 5) for i in range(5) for j in range(5)}
    for vector in itertools.product(range(5), repeat=3):
        assert in_row_space(rows, np.array(vector), 5) == (vector in inside)


def derived_masks(steps: tuple[Step, ...]) -> Protocol:
    """The scheme as it is run, between two senders, with the masked vectors alone recorded."""
    directory, group = circle(2, split=False)

    def run(values: Inputs, channel: Channel) -> None:
        quiet = Channel(channel.parties, channel.coins, Recording(channel.recording.level))
        session = PairwiseMasking().open(quiet, group, 1, 2)
        for number, step in enumerate(steps):
            session.sum(np.ascontiguousarray(values[:, number]), step)
        kept = [b for b in quiet.transcript.messages if b.phase is Phase.MASKED_VECTORS]
        channel.transcript.messages += kept

    return Protocol(run, directory, 2**61 - 1, group.senders, batched=False, name="pairwise-masking")


def test_statistics_find_nothing_at_production_size() -> None:
    """Over 2^61 - 1 elements masked vectors of two rounds tell nothing; with seeds kept over rounds they do."""
    good = derived_masks((NOW, Step(2)))
    broken = flawed(good, mutation.seeds_kept_over_steps, "seeds kept over steps")
    a, b = inputs((0, 0), (0, 0)), inputs((0, 1), (0, -1))
    assert_statistically_private(good, a, b, (SERVER,), broken_twin=broken, advantage=0.8, seed=1, pairs=4)


def first_mask(seed: bytes) -> bytes:
    """What the self mask of a seed begins with."""
    mask = np.zeros(4, dtype=np.int64)
    add_masks(mask, [derived(seed, b"session", Purpose.SELF_MASK, NOW, 1, 1)], [1], 2**61 - 1)
    return mask.tobytes()


def bits_that_matter(mask_of: Any) -> int:
    """How many of a seed's 256 bits change the mask when they are flipped."""
    seed = bytes(range(KEY_BYTES))
    flips = (
        bytes(b ^ (1 << bit) if at == i else b for at, b in enumerate(seed)) for i in range(32) for bit in range(8)
    )
    return sum(mask_of(flipped) != mask_of(seed) for flipped in flips)


def test_seeds_enter_whole() -> None:
    """Each of a seed's 256 bits matters; the judge finds 32 where a seed is folded to that."""
    assert bits_that_matter(first_mask) == 256
    assert bits_that_matter(lambda seed: first_mask(seed[:4] * 8)) == 32


def test_no_key_serves_twice() -> None:
    """Every mask of a run of several rounds, layers and parts has a key of its own; twins that keep seeds do not."""
    steps = [Step(r, layer, part=part) for r in (1, 2) for layer in (0, 1) for part in (0, 1)]

    def most_uses(patch: Patch | None) -> int:
        uses: dict[bytes, int] = {}
        directory, group = circle(3, split=True)
        with pytest.MonkeyPatch.context() as monkeypatch:
            if patch is not None:
                patch(monkeypatch)
            honest = add_masks

            def counted(total: Ints, keys: list[bytes], signs: list[int], modulus: int) -> None:
                for key in keys:
                    uses[key] = uses.get(key, 0) + 1
                honest(total, keys, signs, modulus)

            monkeypatch.setattr(masking_derived, "add_masks", counted)
            session = PairwiseMasking().open(Channel(directory, SimulationCoins(0)), group, 1, 2)
            for step in steps:
                session.sum(np.zeros((3, 1), dtype=np.int64), step)
        return max(uses.values())

    assert most_uses(None) == 2  # by those who share the mask, or by its owner and who takes it away
    assert most_uses(mutation.seeds_kept_over_steps) > 2


def shares_for_both_secrets(patch: Patch | None) -> int:
    """How many of four senders hand in shares to a server that asks for both secrets of the first."""
    directory, group = circle(4, split=False)

    def lie(phase: Phase, _: Step, senders: Ints, __: Ints, payload: NDArray[Any]) -> Tampered | None:
        if phase is not Phase.ROSTERS or payload.ndim != 2:
            return None
        asked = payload.copy()
        asked[:, 0] = 3
        return Tampered.of_payload(np.arange(len(senders)), asked)

    channel = Channel(directory, SimulationCoins(0), Recording.everything(), tamper=by_parts(lie))
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.suppress(ProtocolError):
        if patch is not None:
            patch(monkeypatch)
        PairwiseMasking().open(channel, group, 1, 2).sum(np.zeros((4, 1), dtype=np.int64), NOW)
    return sum(len(batch.senders) for batch in channel.transcript.messages if batch.phase is Phase.UNMASKING)


def test_senders_that_check_nothing_are_found() -> None:
    """Asked for both secrets of one sender, nobody answers; senders without the check all do."""
    assert shares_for_both_secrets(None) == 0
    assert shares_for_both_secrets(mutation.anything_is_answered) == 4
