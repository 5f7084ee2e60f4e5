from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography
from fgl_secure.algebra import MERSENNE_31, Elements, LagrangeCode, Overflow, PrimeField
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.codes import decoders
from fgl_secure.attacks.recovery import UNNAMED, RecoveredRows
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import send_carelessly
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.relay_coded.cryptography import Cryptography
from fgl_secure.protocols.secmp import MuDelivery, SecretMessagePassing
from fgl_secure.runtime import (
    PAYLOAD,
    Channel,
    Draws,
    Party,
    Phase,
    PublicParameters,
    ReceivedRows,
    Recording,
    Role,
    Step,
    View,
)
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.parties import hierarchy_of, note_membership
from fgl_secure.typing import Ids
from tests.attacks.conformance import AttackConformance, Claims, guess_on, losing_of_even
from tests.attacks.message_passing.tagged import (
    claimed_rows,
    expected_rows,
    messages_of,
    readable_with_own_parameters,
    without_steps,
)
from tests.attacks.recorded import Run, random_graph, record, secmp, whole_numbers, words
from tests.protocols.relay_coded.twins import OneForAllSenders

NEEDED = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}))


class SingleMessages(AttackConformance):
    """What both breaks of single messages keep."""

    rests_on = NEEDED

    def claims(self, guess: Iterable[RecoveredRows]) -> Claims:
        return claimed_rows(guess)

    @pytest.mark.parametrize(
        ("modulus", "T", "delivery", "directed"),
        [
            (11, 1, MuDelivery.SILO, False),
            (11, 2, MuDelivery.TARGET, True),
            (101, 4, MuDelivery.TARGET, False),
            (MERSENNE_31, 2, MuDelivery.SILO, True),
            (MERSENNE_31, 4, MuDelivery.TARGET, True),
        ],
    )
    def test_is_exact(self, modulus: int, T: int, delivery: MuDelivery, directed: bool) -> None:
        """Every message that a device can attack is read exactly, in small and large fields, with one mask or four."""
        graph = random_graph(modulus % 7 + T, directed=directed)
        values = whole_numbers(graph.num_devices, 5, largest=5 if modulus == 11 else 50)
        run = record(graph, secmp(modulus, T, delivery), values)
        attacked = readable_with_own_parameters(graph) if delivery is MuDelivery.SILO else messages_of(graph)
        assert attacked
        assert without_steps(self.read(run)) == expected_rows(run, values, modulus, attacked)

    @given(st.integers(0, 10_000), st.booleans())
    def test_asking_silos_protects_targets_that_send_nothing_at_home(self, seed: int, directed: bool) -> None:
        """If sources ask the silo, a device reads all it receives or nothing: all if it sends within its own silo."""
        graph = random_graph(seed, directed=directed, devices=8, pairs=10)
        values = whole_numbers(8, 2, largest=50, seed=seed)
        run = record(graph, secmp(101), values)
        attacked = readable_with_own_parameters(graph)
        for device in range(8):
            view = run.transcript.view([Party(Role.DEVICE, device)])
            mine = [message for message in attacked if message[1] == device]
            assert without_steps(self.read(run, view)) == expected_rows(run, values, 101, mine)

    def test_observers_share_no_parameters_when_answers_get_lost(self) -> None:
        for seed in range(3):
            graph = random_graph(seed, directed=False, devices=8, pairs=12)
            scheme = secmp(101, delivery=MuDelivery.TARGET)
            run = record(graph, scheme, whole_numbers(8, 2, 50), loss=losing_of_even(frozenset({Phase.DECODED})))
            assert self.read(run) == self.read_one_by_one(run)


class TestOneCodeAndMu(SingleMessages):
    attack = named("one-code-and-mu")

    def test_needs_one_code_only(self) -> None:
        """With all codes but the first replaced by zeros it reads the same."""
        run = _run(T=2)
        view = run.transcript.views(Role.DEVICE)
        assert self.read(run, _edited(view, Phase.CODES, _first_code_alone)) == self.read(run)

    def test_needs_the_masks(self) -> None:
        run = _run()
        assert _exact(self.attack, run, _edited(run.transcript.views(Role.DEVICE), Phase.PARAMETERS, _no_masks)) == 0


class TestAllCodesOfOneSender(SingleMessages):
    attack = named("all-codes")

    def test_needs_no_mask(self) -> None:
        run = _run(T=2)
        view = _edited(run.transcript.views(Role.DEVICE), Phase.PARAMETERS, lambda mu: _no_masks(mu, 2))
        assert self.read(run, view) == self.read(run)
        assert _exact(self.attack, run, view) == 1

    def test_needs_every_code(self) -> None:
        """With all codes but the first replaced by zeros nothing is exact."""
        run = _run(T=2)
        assert _exact(self.attack, run, _edited(run.transcript.views(Role.DEVICE), Phase.CODES, _first_code_alone)) == 0


def _run(T: int = 1) -> Run:
    graph = random_graph(3, directed=False)
    return record(graph, secmp(MERSENNE_31, T), whole_numbers(graph.num_devices, 6, 1000))


def _exact(attack: Attack[Any, Any], run: Run, view: View) -> float:
    guess = attack.infer(view, run.public)
    assert guess is not None
    (found,) = attack.score(guess, run.truth)
    return found.value


def _edited(view: View, phase: Phase, edit: Any) -> View:
    """The view with other payloads in one phase."""

    def edited(rows: ReceivedRows) -> ReceivedRows:
        return replace(rows, fields={PAYLOAD: edit(rows.payload)}) if rows.phase is phase else rows

    assert any(rows.phase is phase for rows in view.received)
    return replace(view, received=tuple(edited(rows) for rows in view.received))


def _no_masks(mu: Any, T: int = 1) -> Any:
    """Parameters [m, 2 T + 2 + T * width] with zeros for the masks."""
    return np.where(np.arange(mu.shape[1]) < 2 * T + 2, mu, 0).astype(mu.dtype)


def _first_code_alone(codes: Any) -> Any:
    """Codes [m, T + 1, d] with zeros for all but the first."""
    return codes * (np.arange(codes.shape[1]) == 0)[None, :, None].astype(codes.dtype)


READING: tuple[Attack[Any, Any], ...] = (
    named("clear-values"),
    named("one-code-and-mu"),
    named("all-codes"),
    named("small-field"),
)
SUCCEEDING = (
    (named("all-codes"), 11), (named("all-codes"), MERSENNE_31), (named("small-field"), 11),
)  # fmt: skip
STEP = Step(0, 0)


def fresh_masks(modulus: int, T: int, delivered: int) -> Run:
    """Every message is encoded with masks of its own; `delivered` of its codes reach its receiver.

    The receivers also get the points, masks that were drawn for nothing, and decoded sums.
    """
    graph = random_graph(4, directed=False, devices=40, pairs=80)
    code, coins = LagrangeCode(PrimeField(modulus), 1, T, T + 1), SimulationCoins(1)
    channel = Channel(hierarchy_of(graph), coins, Recording.everything())
    note_membership(channel, graph.silo_of)
    devices = channel.parties.ids(Role.DEVICE)
    secret = words(graph.num_devices, 16, share=0.2).astype(code.field.dtype)
    channel.note_inputs("values", STEP, devices, secret)
    codes = np.moveaxis(code.encode(secret[graph.edges[0]][None], coins), 0, 1)
    channel.send(Phase.CODES, STEP, devices[graph.edges[0]], devices[graph.edges[1]], codes[:, :delivered])
    _hand_out(channel, graph, code, secret)
    return Run(graph, PublicParameters(modulus, T), channel.transcript, MessageTruth.of(channel.transcript, graph))


def _hand_out(channel: Channel, graph: FederatedGraph, code: LagrangeCode, secret: Elements) -> None:
    devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)[graph.silo_of]
    masks = channel.coins.uniform(code.field.modulus, (len(devices), code.T * secret.shape[1]))
    points = np.broadcast_to(np.array([*code.alphas, *code.betas]), (len(devices), 2 * code.T + 2))
    mu: NDArray[Any] = np.concatenate([points, masks], axis=1).astype(code.field.dtype)
    channel.send(Phase.PARAMETERS, STEP, silos, devices, mu)
    channel.send(Phase.DECODED, STEP, silos, devices, np.zeros_like(secret))


@pytest.mark.parametrize("attack", READING, ids=lambda attack: attack.card.name)
@pytest.mark.parametrize(("modulus", "T"), [(11, 1), (MERSENNE_31, 2)])
def test_one_code_with_its_own_mask_tells_nothing(attack: Attack[Any, Any], modulus: int, T: int) -> None:
    """Reading attacks find nothing in one code with a fresh mask, even from observers that hold all the points."""
    run = fresh_masks(modulus, T, 1)
    guess = attack.infer(run.transcript.views(Role.DEVICE), run.public)
    if guess is None:
        return
    (found,) = attack.score(guess, run.truth)
    assert found.interval.low <= found.prior + MARGIN
    assert found.value <= found.prior


@pytest.mark.parametrize(("attack", "modulus"), SUCCEEDING)
def test_all_codes_tell_everything_whatever_the_masks(attack: Attack[Any, Any], modulus: int) -> None:
    """The same messages with all T + 1 codes delivered are read exactly, so the test above can fail."""
    run = fresh_masks(modulus, 1, 2)
    guess = attack.infer(run.transcript.views(Role.DEVICE), run.public)
    (found,) = attack.score(guess, run.truth)
    assert found.value == 1


def careless(
    graph: FederatedGraph,
    values: NDArray[np.float64],
    *,
    masked: bool,
    loss: Loss | None = None,
    recording: Recording | None = None,
) -> Run:
    """Shares at a relay of senders that use one mask, or none."""
    scheme = RelayCoded(R=3, k_min=1, profile=Profile.SHOWN)
    channel = Channel(
        hierarchy_of(graph, scheme.helpers), SimulationCoins(0), recording or Recording.everything(), loss
    )
    send_carelessly(channel, scheme, graph, values, masked=masked)
    return Run(graph, scheme.public, channel.transcript, MessageTruth.of(channel.transcript, graph))


class TestSingleShares(AttackConformance):
    attack: Attack[tuple[RecoveredRows, ...], Any] = named("single-shares")
    rests_on = (frozenset({Phase.SHARES}),)

    def claims(self, guess: tuple[RecoveredRows, ...]) -> Claims:
        return Counter(
            (each.step, sender, tuple(row.tolist()))
            for each in guess
            for sender, row in zip(each.senders.tolist(), each.values, strict=True)
        )

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return careless(graph, values, masked=False, **network)


class TestShareDifferences(AttackConformance):
    attack: Attack[tuple[Any, ...], Any] = named("share-differences")
    rests_on = (frozenset({Phase.SHARES}),)

    def claims(self, guess: tuple[Any, ...]) -> Claims:
        return Counter(
            (each.step, int(first), int(second), tuple(values.tolist()))
            for each in guess
            for first, second, values in zip(each.first, each.second, each.values, strict=True)
        )

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        return careless(graph, values, masked=True, **network)


class Unmasked(IdealCryptography):
    """Masks of zero."""

    def drawn_masks(self, draws: Draws, step: Step, senders: Ids, width: int) -> list[Elements]:
        return [np.zeros_like(mask) for mask in super().drawn_masks(draws, step, senders, width)]


class UnmaskedCircuits(Cryptography):
    """Keys of circuits hide rows from silos, and masks of shares are zero."""

    def circuit_masks(self, step: Step, attempt: int, keys: NDArray[np.uint8], width: int) -> Elements:
        return np.zeros_like(super().circuit_masks(step, attempt, keys, width))


@pytest.mark.parametrize(
    ("each", "cryptography", "share"),
    [
        (named("single-shares"), Cryptography, 0.0),
        (named("share-differences"), Cryptography, 0.0),
        (named("single-shares"), UnmaskedCircuits, 1.0),
        (named("single-shares"), IdealCryptography, 0.0),
        (named("share-differences"), IdealCryptography, 0.0),
        (named("single-shares"), Unmasked, 1.0),
        (named("share-differences"), OneForAllSenders, 1.0),
    ],
)
def test_rows_of_unnamed_senders(each: Attack[Any, Any], cryptography: type[Cryptography], share: float) -> None:
    """Where silos forward, a relay says what rows there are: none under the scheme, all under its broken twins."""
    graph = random_graph(3, directed=False, pairs=30)
    scheme = RelayCoded(k_min=1, max_degree=24, profile=Profile.HIDDEN, cryptography=cryptography)
    run = record(graph, scheme, whole_numbers(graph.num_devices, 4, largest=9))
    guess = guess_on(each, run)
    names = [one.senders if isinstance(one, RecoveredRows) else one.first for one in guess]
    assert all(bool((each == UNNAMED).all()) for each in names)
    (found,) = each.score(guess, run.truth)
    sending = len(np.unique(graph.edges[0])) / graph.num_devices  # one device has no neighbour, and sends covers alone
    assert found.value == share * (sending if each.card.name == "single-shares" else 1)
    assert found.n >= graph.num_devices


PAPER = PrimeField(11)


class TestSmallFieldBruteForce(AttackConformance):
    attack = named("small-field")
    rests_on = (frozenset({Phase.CODES}),)

    def claims(self, guess: Iterable[RecoveredRows]) -> Claims:
        return claimed_rows(guess)

    @pytest.mark.parametrize(("T", "columns"), [(1, 16), (2, 16), (3, 32)])
    def test_is_exact_from_sixteen_columns(self, T: int, columns: int) -> None:
        """Sparse 0/1 rows of 16 columns and more are read exactly, every one."""
        run, rows = small_field_run(T, columns)
        assert without_steps(self.read(run)) == expected_rows(run, rows, 11, messages_of(run.graph))

    def test_gives_up_on_larger_fields(self) -> None:
        """In a field with too many decoders there is no guess."""
        graph = random_graph(1, directed=False)
        scheme = SecretMessagePassing(PrimeField(331), 1, 1.0, 0, Overflow.WRAP)
        run = record(graph, scheme, words(graph.num_devices, 16))
        assert self.attack.infer(run.transcript.views(Role.DEVICE), run.public) is None


@pytest.mark.parametrize(("T", "count"), [(1, 9), (2, 48), (3, 324)])
def test_few_decoders_are_left_in_the_papers_field(T: int, count: int) -> None:
    """The choices of points in F_11 collapse to 9, 48 and 324 decoders for one, two and three masks."""
    found = decoders(PAPER, T)
    assert found.shape == (count, T + 1)
    assert len({tuple(row) for row in found.tolist()}) == count
    assert (found.sum(axis=1) % 11 == 1).all()


def small_field_run(T: int, columns: int, share: float = 0.15) -> tuple[Run, np.ndarray]:
    graph = random_graph(T + columns, directed=True, devices=40, pairs=80)
    rows = words(graph.num_devices, columns, seed=columns, share=share)
    scheme = SecretMessagePassing(PAPER, T, 1.0, 0, Overflow.WRAP)
    return record(graph, scheme, rows), rows


class TestSharedMask(AttackConformance):
    attack: Attack[tuple[Any, ...], Any] = named("shared-mask")
    rests_on = (frozenset({Phase.CODES}), frozenset({Phase.DECODED}), frozenset({Phase.PARAMETERS}))

    def claims(self, guess: tuple[Any, ...]) -> Claims:
        return Counter(
            (each.step, int(first), int(second), tuple(values.tolist()))
            for each in guess
            for first, second, values in zip(each.first, each.second, each.values, strict=True)
        )

    def test_rests_on_messages(self) -> None:
        """Without codes, decoded sums or points nothing is claimed; lost parameters end the published scheme."""
        everything = self.read(self.run())
        assert everything
        view = self.run().transcript.views(Role.DEVICE)
        for (phase,) in self.rests_on:
            without = replace(view, received=tuple(rows for rows in view.received if rows.phase is not phase))
            assert not self.read(self.run(), without)

    def test_observers_attack_alone(self) -> None:
        assert self.read(self.run()) == self.read_one_by_one(self.run())

    @pytest.mark.parametrize(("modulus", "T"), [(11, 1), (101, 2), (MERSENNE_31, 4)])
    def test_is_exact(self, modulus: int, T: int) -> None:
        """Every device that is handed points reads the difference of each two neighbours in a row of identifiers."""
        graph = random_graph(modulus % 7 + T, directed=False)
        values = whole_numbers(graph.num_devices, 5, largest=5 if modulus == 11 else 50)
        run = record(graph, secmp(modulus, T, MuDelivery.TARGET), values)
        heard: dict[int, list[int]] = {}
        for source, target in messages_of(graph):
            heard.setdefault(target, []).append(source)
        first = int(run.transcript.parties.ids(Role.DEVICE)[0])
        pairs = [pair for sources in heard.values() for pair in pairwise(sorted(sources))]
        expected = Counter(
            (first + v, first + w, tuple(int(x) % modulus for x in values[v] - values[w])) for v, w in pairs
        )
        assert expected
        claimed = Counter(claim[1:] for claim in self.read(run).elements() if isinstance(claim, tuple))
        assert claimed == expected

    def test_fresh_masks_stop_it(self) -> None:
        """Codes with masks of their own give no difference away."""
        run = fresh_masks(MERSENNE_31, 1, 2)
        guess = self.guess(run)
        (found,) = self.attack.score(guess, run.truth)
        assert found.n > 20
        assert found.value == 0


@pytest.mark.parametrize(
    "name", ["one-code-and-mu", "all-codes", "small-field", "shared-mask", "single-neighbour-device"]
)
def test_other_schemes_are_left_alone(name: str) -> None:
    """Where no codes are sent there is no guess."""
    run = record(random_graph(1, directed=False), Plaintext(), words(24, 16))
    assert named(name).infer(run.transcript.views(Role.DEVICE), run.public) is None
