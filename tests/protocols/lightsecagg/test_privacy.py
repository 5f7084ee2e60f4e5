"""What the aggregator, the receiver and senders of LightSecAgg learn together: exact proofs, and the same on flaws.

The machines are those that users run; cryptography is ideal, so that coins are elements of small fields.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.cryptography import Context, Cryptography, KeyPurpose
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import KEY_BYTES, ModularRing
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.lightsecagg.machines import LightSecAggClients
from fgl_secure.protocols.lightsecagg.plan import LABEL
from fgl_secure.protocols.secagg.terms import USUAL, Stage
from fgl_secure.protocols.stepwise import step_bytes
from fgl_secure.runtime import Channel, Draws, MessageBatch, Messages, OwnDraws, Party, Phase, Role, Step, TamperedBatch
from fgl_secure.testing import (
    NotPrivateError,
    Protocol,
    assert_exactly_private,
    assert_simulatable,
    assert_statistically_private,
)
from fgl_secure.testing.affine import Judge, distance
from fgl_secure.testing.protocol import Inputs
from tests.error_codes import about
from tests.power import sampled_by_entries, seeing
from tests.protocols.lightsecagg import twins
from tests.protocols.secagg.rounds import STAGES as STAGE_OF
from tests.protocols.secagg.rounds import directory_of, topology_of

Ints = NDArray[np.int64]

SERVER = Party(Role.SERVER, 0)
NOW = Step(1)


def silo(number: int) -> Party:
    """One sender, or the receiver behind the last of them."""
    return Party(Role.SILO, number)


@dataclass(frozen=True, slots=True)
class Setting:
    """A small run over F_101 with ideal links.

    Attributes:
        senders: N.
        threshold: U.
        colluding: T.
        split: whether a silo, number N, receives, and the server forwards.
        steps: the sums.
        stages: from which stage on senders are silent, in every step.
        late: a sender whose vector reaches the server when the sum is done.
        told: what the server tells senders of the roster, where it lies: by sender, who is on it.
        length: d.
    """

    senders: int = 5
    threshold: int = 4
    colluding: int = 2
    split: bool = False
    steps: tuple[Step, ...] = (NOW,)
    stages: Mapping[int, int] = field(default_factory=dict)
    late: int | None = None
    told: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    length: int = 2
    modulus: int = 101
    bound: int = 2
    clients: type[LightSecAggClients] = LightSecAggClients
    cryptography: Callable[[Draws, int, KeyAgreement, ModularRing], Cryptography] = IdealCryptography

    def protocol(self) -> Protocol:
        """The scheme as a protocol under test; inputs [N, steps, d]. Where the server lies it may stop."""
        directory = directory_of(self.senders)
        topology = topology_of(self.senders, split=self.split, length=self.length, bound=self.bound)
        scheme = LightSecAgg(
            self.threshold, self.modulus, colluding=self.colluding, cryptography=self.cryptography, clients=self.clients
        )

        def run(inputs: Inputs, channel: Channel) -> None:
            held: list[Messages] = []
            channel._loss, channel._tamper = self._gone(topology.senders), self._lie(topology.senders, held)
            session = Collective(scheme, topology, channel)
            for number, step in enumerate(self.steps):
                with contextlib.suppress(ProtocolError) if self.told else contextlib.nullcontext():
                    session.sum(np.ascontiguousarray(inputs[:, number]), step)
                for late in held:
                    channel.send(Phase.MASKED_VECTORS, late.step, late.senders, late.receivers, late["vector"])
                held.clear()

        return Protocol(run, directory, self.modulus, topology.senders, name=scheme.name)

    def _gone(self, ids: Ints) -> Any:
        """A network on which senders are silent from their stages on."""
        since = {int(ids[u]): stage for u, stage in self.stages.items()}

        def arrives(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
            return (
                np.array([STAGE_OF[phase] < since.get(v, len(Stage)) for v in senders.tolist()], dtype=np.bool_)
                if (phase in STAGE_OF)
                else np.ones(len(senders), dtype=np.bool_)
            )

        return arrives

    def _lie(self, ids: Ints, held: list[Messages]) -> Any:
        """What the server says of the roster to each sender; and a network that holds a late vector back."""

        def tamper(messages: Messages) -> TamperedBatch | None:
            if messages.phase is Phase.ROSTERS and self.told and "roster" in messages.fields:
                said = np.zeros_like(messages["roster"])
                for at, v in enumerate(np.searchsorted(ids, messages.receivers).tolist()):
                    said[..., at, list(self.told[v])] = True
                return TamperedBatch(np.arange(len(messages)), {"roster": said})
            if messages.phase is Phase.UNMASKING and self.told and "cast" in messages.fields:
                return TamperedBatch(np.arange(len(messages)), self._fitting(messages, ids))
            late = self.late is not None and "vector" in messages.fields
            if not late or messages.senders.tolist() != [ids[self.late]]:
                return None
            held.append(messages)
            nobody = messages.rows(np.zeros(0, dtype=np.int64))
            return TamperedBatch(np.zeros(0, dtype=np.int64), nobody.fields)

        return tamper

    def _fitting(self, messages: Messages, ids: Ints) -> dict[str, NDArray[Any]]:
        """The votes of those whom a receiver was told of, as it would refuse to hear of others."""
        cast = np.zeros_like(messages["cast"])
        for at, v in enumerate(np.searchsorted(ids, messages.receivers).tolist()):
            cast[..., at, list(self.told[v])] = True
        cast &= messages["cast"]
        return {**messages.fields, "cast": cast, "votes": messages["votes"] * cast[..., None]}

    @property
    def zero(self) -> Ints:
        """Nothing from anybody."""
        return np.zeros((self.senders, len(self.steps), self.length), dtype=np.int64)

    @property
    def coalitions(self) -> Iterator[tuple[Party, ...]]:
        """The server with up to T senders."""
        for size in range(self.colluding + 1):
            for some in itertools.combinations(range(self.senders), size):
                yield (SERVER, *map(silo, some))

    def honest(self, coalition: tuple[Party, ...]) -> list[int]:
        """Senders outside a coalition whose vectors are in the sum."""
        gone = {u for u, stage in self.stages.items() if stage <= Stage.VECTORS}
        return [u for u in range(self.senders) if silo(u) not in coalition and u not in gone and u != self.late]


def moved(values: Ints, who: list[int], by: tuple[int, ...], entry: int = 0) -> Ints:
    """The same inputs but for one entry of what some senders bring to the last step."""
    out = values.copy()
    out[who[: len(by)], -1, entry] += by
    return out


SETTINGS = {
    "nobody drops out": Setting(),
    "T is U - 1": Setting(4, 3, 2),
    "one vector in three parts": Setting(5, 4, 1, length=4),
    "after keys": Setting(5, 4, 2, stages={1: 1}),
    "after coded masks": Setting(5, 3, 2, stages={0: 2, 4: 2}),
    "after the vector": Setting(5, 4, 2, stages={2: 3}),
    "in the opening": Setting(5, 3, 1, stages={0: 4, 3: 2}),
    "late, and one is gone": Setting(5, 3, 1, late=0, stages={4: 4}),
    "two steps": Setting(4, 3, 1, steps=(NOW, Step(2)), stages={1: 2}),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_server_and_t_senders_learn_the_sum_alone(setting: Setting) -> None:
    """Inputs with one sum of the honest look the same to every such coalition, exactly; with another they do not."""
    judge, zero, compared = Judge(setting.protocol()), setting.zero, 0
    for coalition in setting.coalitions:
        honest = setting.honest(coalition)
        if len(honest) > 1:
            compared += 1
            for entry in range(setting.length):
                assert judge.distance(zero, moved(zero, honest, (1, -1), entry), coalition) == 0
                assert judge.distance(zero, moved(zero, honest, (1,), entry), coalition) == 1
    assert compared


@pytest.mark.parametrize("setting", [SETTINGS[name] for name in ("after coded masks", "late, and one is gone")])
def test_a_vector_that_is_not_in_the_sum_stays_hidden(setting: Setting) -> None:
    """Who dropped out, or came late, may have sent anything: no such coalition sees a difference."""
    judge, zero = Judge(setting.protocol()), setting.zero
    out = [u for u, stage in setting.stages.items() if stage <= Stage.VECTORS] + (
        [] if setting.late is None else [setting.late]
    )
    for coalition, u in itertools.product(setting.coalitions, out):
        if silo(u) not in coalition:
            assert judge.distance(zero, moved(zero, [u], (2,)), coalition) == 0


FORWARDING = {
    "two drop out": Setting(5, 3, 2, split=True, stages={1: 2, 2: 3}),
    "late": Setting(5, 3, 2, split=True, late=2),
    "two steps": Setting(4, 3, 1, split=True, steps=(NOW, Step(2))),
}


@pytest.mark.parametrize("setting", FORWARDING.values(), ids=FORWARDING)
def test_a_server_that_forwards_learns_nothing_and_a_receiver_the_sum(setting: Setting) -> None:
    """With T senders the server sees no difference whatever the sum is; the receiver, with or without it, the sum."""
    judge, zero, receiver = Judge(setting.protocol()), setting.zero, silo(setting.senders)
    for coalition in setting.coalitions:
        honest = setting.honest(coalition)
        assert judge.distance(zero, moved(zero, honest, (1,)), coalition) == 0
        for together in ((*coalition, receiver), (*coalition[1:], receiver)):
            assert judge.distance(zero, moved(zero, honest, (1,)), together) == 1
            if len(honest) > 1:
                assert judge.distance(zero, moved(zero, honest, (1, -1)), together) == 0


@pytest.mark.parametrize(("threshold", "colluding"), [(4, 1), (4, 2), (3, 1), (4, 3)])
def test_one_more_than_t_takes_a_mask_apart(threshold: int, colluding: int) -> None:
    """T senders and the server know nothing of a late vector, T + 1 a combination of its parts: the judge rejects."""
    setting = Setting(5, threshold, colluding, late=4)
    judge, zero = Judge(setting.protocol()), setting.zero
    for size in range(1, 5):
        expected = int(size > colluding)
        assert judge.distance(zero, moved(zero, [4], (1,)), (SERVER, *map(silo, range(size)))) == expected


@pytest.mark.parametrize("stage", USUAL[1:])
def test_below_the_threshold_nothing_is_learnt(stage: Stage) -> None:
    """A step that stops for want of senders tells the server and T senders nothing of a single vector."""
    setting = Setting(5, 4, 1, stages=dict.fromkeys((1, 2), stage))
    good = setting.protocol()

    def run(values: Inputs, channel: Channel) -> None:
        with pytest.raises(ProtocolError, check=about("at least threshold = 4 of 5 clients")):
            good.run(values, channel)

    judge, zero = Judge(replace(good, run=run)), setting.zero
    for coalition, u in itertools.product(setting.coalitions, range(5)):
        if silo(u) not in coalition:
            honest = [u, *(v for v in range(5) if v != u and silo(v) not in coalition)]
            assert judge.distance(zero, moved(zero, honest, (1, -1)), coalition) == 0


ALL, WITHOUT = (0, 1, 2, 3, 4), (0, 1, 2, 3)
LIE = {0: ALL, 1: WITHOUT, 2: WITHOUT, 3: ALL, 4: ALL}
"""What a lying server says: two senders hear that the fifth is not in the sum."""


@pytest.mark.parametrize("threshold", [3, 4])
def test_a_server_that_tells_two_rosters_opens_one_at_most(threshold: int) -> None:
    """Nobody opens the roster of a minority, so the vector that one roster leaves out stays hidden.

    Without votes T + 1 = 2 answers for each roster tell a combination of the parts of that vector.
    """
    setting = Setting(5, threshold, 1, told=LIE)
    zero = setting.zero
    apart = moved(zero, [4, 0], (1, -1))
    assert distance(setting.protocol(), zero, apart, (SERVER,)) == 0
    assert distance(replace(setting, clients=twins.VotesNotCounted).protocol(), zero, apart, (SERVER,)) == 1


@pytest.mark.parametrize(("threshold", "broken"), [(3, 1), (4, 0)])
def test_the_bound_on_liars_is_exact(threshold: int, broken: int) -> None:
    """Of five senders 2U - 5 that vote for two rosters open both; one is enough at U = 3 and too few at U = 4."""
    setting = Setting(5, threshold, 2, told={**LIE, 0: ()})  # the first colludes, and needs no telling
    lied = replace(setting, clients=twins.OneVotesForEverything).protocol()
    zero = setting.zero
    assert (LightSecAgg(threshold, colluding=2).claim_among(5).guarantees[1].coalition[Role.SILO] < 1) == bool(broken)
    assert distance(lied, zero, moved(zero, [4, 3], (1, -1)), (SERVER, silo(0))) == broken


def test_senders_that_check_nothing_are_found() -> None:
    """A roster of one sender is opened by nobody; senders without the check give that sender's vector away."""
    setting = Setting(5, 4, 2, told=dict.fromkeys(range(5), (4,)))
    zero = setting.zero
    apart = moved(zero, [4, 0], (1, -1))
    assert distance(setting.protocol(), zero, apart, (SERVER,)) == 0
    assert distance(replace(setting, clients=twins.AnyRosterIsOpened).protocol(), zero, apart, (SERVER,)) == 1


TWO_STEPS = Setting(4, 3, 1, steps=(NOW, Step(2)))
FLAWS: dict[str, tuple[Setting, dict[str, Any], list[int], tuple[Party, ...]]] = {
    "one mask in two rounds": (TWO_STEPS, {"clients": twins.OneMaskForAllSteps}, [1, 2], (SERVER,)),
    "one mask for two senders": (Setting(), {"clients": twins.OneMaskForTwo}, [1, 2], (SERVER,)),
    "one noise for all senders": (Setting(4, 3, 1), {"clients": twins.OneNoiseForAll}, [1, 2], (SERVER, silo(0))),
    "no noise": (Setting(5, 4, 2), {"clients": twins.NoNoise}, [1, 2], (SERVER, silo(0))),
    "no mask": (Setting(), {"cryptography": twins.NoMask}, [1, 2], (SERVER,)),
    "a coded mask sent to the wrong party": (
        Setting(5, 4, 2), {"clients": twins.CodesToTheFirstToo}, [1, 2], (SERVER, silo(0), silo(3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAWS)
def test_the_proof_rejects_the_flaw(name: str) -> None:
    """The proof for the scheme holds because the same proof fails for the flaw."""
    setting, flaw, who, coalition = FLAWS[name]
    swapped = moved(setting.zero, who, (1, -1))
    assert distance(setting.protocol(), setting.zero, swapped, coalition) == 0
    assert distance(replace(setting, **flaw).protocol(), setting.zero, swapped, coalition) == 1


@pytest.mark.parametrize("flaw", [twins.MaskAddedTwice, twins.CodesForStrangers])
@pytest.mark.parametrize("cryptography", [Cryptography, IdealCryptography])
def test_masks_that_are_not_those_coded_show_in_the_sum(flaw: type[LightSecAggClients], cryptography: Any) -> None:
    """With a mask added twice, or codes of others in the sums, the sum is wrong and refused; as it is it is right."""
    directory, topology = directory_of(4), topology_of(4, length=1, bound=9)
    rows = np.array([[1], [2], [-3], [4]])

    def lost(phase: Phase, _: Step, senders: Ints, __: Ints) -> NDArray[np.bool_]:
        return np.asarray((phase is not Phase.MASKED_VECTORS) | (senders != topology.senders[3]))

    def total(clients: type[LightSecAggClients]) -> list[int]:
        channel = Channel(directory, SimulationCoins(3), loss=lost)
        scheme = LightSecAgg(cryptography=cryptography, clients=clients)
        return [int(x) for x in Collective(scheme, topology, channel).sum(rows, NOW)[0]]

    assert total(LightSecAggClients) == [0]
    with pytest.raises(ProtocolError, check=about("sum of 3 vectors")):
        total(flaw)


SMALL = Setting(2, 2, 1, modulus=5, bound=1, length=1)
"""What can be enumerated."""


def test_enumeration_passes_the_scheme_and_rejects_flaws() -> None:
    """Over all coin tapes the server sees equal sums alike, and not without a mask, or with other sums."""
    good, zero = SMALL.protocol(), SMALL.zero
    broken = replace(SMALL, cryptography=twins.NoMask).protocol()
    found = assert_exactly_private(good, zero, moved(zero, [0, 1], (1, -1)), (SERVER,), broken_twin=broken)
    assert "total variation 0 " in found.statistic
    with pytest.raises(NotPrivateError):
        assert_exactly_private(good, zero, moved(zero, [0], (1,)), (SERVER,), broken_twin=broken)


def test_enumeration_finds_less_than_uniform_masks() -> None:
    """Masks of three bits modulo five betray themselves over all tapes."""
    broken, zero = replace(SMALL, cryptography=twins.ThreeBits).protocol(), SMALL.zero
    assert_exactly_private(SMALL.protocol(), zero, moved(zero, [0, 1], (1, -1)), (SERVER,), broken_twin=broken)


def test_the_view_is_simulated_from_the_sum() -> None:
    """A simulator that gives one sender the whole sum makes up the view of the server, over all coin tapes."""
    good, inputs = SMALL.protocol(), moved(SMALL.zero, [0, 1], (-1, 1))

    def simulator(total: int, channel: Channel) -> None:
        good.run(moved(SMALL.zero, [0], (total,)), channel)

    broken = replace(SMALL, cryptography=twins.NoMask).protocol()
    found = assert_simulatable(
        good, inputs, (SERVER,), simulator, leakage=lambda values: int(values.sum()), broken_twin=broken
    )
    assert found.check == "simulation, exact"


def real(
    steps: tuple[Step, ...],
    cryptography: Callable[[Draws, int, KeyAgreement, ModularRing], Cryptography] = Cryptography,
) -> Protocol:
    """The scheme as it is run, between two senders: vectors under masks, and sums of coded masks."""

    def run(values: Inputs, channel: Channel) -> None:
        topology = topology_of(2, length=values.shape[-1], bound=2)
        session = Collective(LightSecAgg(cryptography=cryptography), topology, channel)
        for number, step in enumerate(steps):
            session.sum(np.ascontiguousarray(values[:, number]), step)

    def shown(batch: MessageBatch) -> list[Any]:
        return [value for name, value in (batch.fields or {}).items() if name in ("vector", "sum")]

    senders = topology_of(2).senders
    return Protocol(sampled_by_entries(run, shown), directory_of(2), 2**61 - 1, senders, name="lightsecagg")


@seeing
def test_statistics_find_nothing_in_expanded_masks(advantage: float) -> None:
    """With masks expanded from seeds masked vectors of two rounds tell nothing; with seeds kept over rounds they do."""
    good, broken = real((NOW, Step(2))), real((NOW, Step(2)), twins.SeedsKeptOverSteps)
    a = np.zeros((2, 2, 1), dtype=np.int64)
    b = moved(a, [0, 1], (1, -1))
    assert_statistically_private(good, a, b, (SERVER,), broken_twin=broken, advantage=advantage, pairs=12)


def mask_of(seed: bytes, session: bytes = b"session", step: Step = NOW, client: int = 1) -> bytes:
    """What the mask of a seed begins with."""
    crypto = Cryptography(OwnDraws(SimulationCoins(0)), 2**61 - 1)
    context = Context(LABEL, session, step_bytes(step))
    return crypto.elements(crypto.derive_key(seed, context, KeyPurpose.SELF_MASK, client), 4).tobytes()


def test_no_mask_serves_twice() -> None:
    """Masks of all rounds, layers, parts and senders differ, though a seed be drawn twice; sessions differ too."""
    steps = [Step(r, layer, part=part) for r in (1, 2) for layer in (0, 1) for part in (0, 1)]
    made = {
        mask_of(bytes(KEY_BYTES), session, step, client)
        for session, step, client in itertools.product((b"one", b"two"), steps, range(3))
    }
    assert len(made) == 2 * len(steps) * 3
