"""The machines of coded products: sums of all silos, in one process or several, with some off and some lying."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure.algebra.residues import from_combined
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import FieldRangeError, InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.coded_products import (
    CodedProducts,
    FactorParts,
    OuterProduct,
    ProductCollective,
    ProductLayout,
    relays,
)
from fgl_secure.protocols.coded_products.encoding import EncodedFactors
from fgl_secure.protocols.coded_products.parties import ProductDevices
from fgl_secure.protocols.coded_products.plan import LARGEST_BATCH
from fgl_secure.protocols.coded_products.relays import ProductRelays, RelayState
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, Topology
from fgl_secure.runtime import Messages, OwnDraws, Phase, Role, Secret, Step, encode, simulate
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes
from tests.error_codes import about
from tests.protocols.coded_products.cases import LAYOUT, Members, factors
from tests.protocols.coded_products.twins import MasksKept, Streams, lying, under, with_relays
from tests.protocols.relay_coded.test_machines import PutDown, nth

Ids = NDArray[np.int64]

WHERE = [0, 1, 1, 0, 1, 1, 0, 1]
SCHEMES = (CodedProducts(k_min=2), CodedProducts(k_min=2, R=4), CodedProducts(k_min=2, T=2, R=5))
SESSION = bytes(range(16))


def close(found: list[NDArray[Any]], case: Members, given: tuple[list[Any], list[Any]], atol: float = 0.05) -> bool:
    """Whether sums are those of real factors, up to rounding."""
    expected = [case.sums(left, right) for left, right in zip(*given, strict=True)]
    return all(
        np.allclose(each[silo], theirs, atol=atol)
        for each, silos in zip(found, expected, strict=True)
        for silo, theirs in enumerate(silos)
    )


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SCHEMES), st.integers(0, 2**32 - 1), st.data())
def test_sums_are_those_of_integers(scheme: CodedProducts, seed: int, data: st.DataObject) -> None:
    """Exactly the products of the encoded factors, for any devices, silos and shapes; 0 below k_min."""
    silos = data.draw(st.integers(1, 3))
    where = data.draw(st.lists(st.integers(0, silos - 1), min_size=1, max_size=9))
    case, rng = Members.of(where, scheme.R, silos), np.random.default_rng(seed)
    sizes, flags = st.integers(1, 4), st.booleans()
    shapes = data.draw(st.lists(st.tuples(sizes, sizes, sizes, flags), min_size=1, max_size=3))
    layout = ProductLayout(tuple(OuterProduct(*shape) for shape in shapes))
    sums = case.collective(scheme, layout)
    code = sums.code
    most = rng.integers(1, code.left.largest, (len(where), 1), endpoint=True)
    far = np.minimum(code.largest // most, code.right.largest)
    lefts = [rng.integers(-most, most, (p.terms, len(where), p.height), endpoint=True) for p in layout.products]
    for number in range(2):
        rights = [rng.integers(-far, far, (p.terms, len(where), p.width), endpoint=True) for p in layout.products]
        given_now = [None if p.static and number else left for p, left in zip(layout.products, lefts, strict=True)]
        found = layout.split(sums.sum_units(given_now, rights, Step(number)))
        for each, left, right in zip(found, lefts, rights, strict=True):
            for silo, expected in enumerate(case.sums(left, right)):
                answered = where.count(silo) >= scheme.k_min
                assert np.array_equal(each[silo], expected if answered else np.zeros_like(each[silo]))


@pytest.mark.parametrize(("bits", "primes"), [(None, 5), (0, 3)])
def test_a_device_sends_both_rows_and_not_their_product(bits: int | None, primes: int) -> None:
    """In the first step d + h numbers to each relay that cannot expand its share, then h; the silo gets d h."""
    case = Members.of(WHERE, 3)
    channel = case.channel()
    sums = case.collective(
        CodedProducts(k_min=1), ProductLayout((OuterProduct(1, 1433, 64, static=True, left_bits=bits),)), channel
    )
    rng = np.random.default_rng(0)
    left = rng.normal(size=(1, 8, 1433)) if bits is None else rng.integers(0, 2, (1, 8, 1433)).astype(float)
    for number in range(2):
        sums.sum([left], [rng.normal(size=(1, 8, 64))], Step(number))
    sent = [b for b in channel.transcript.messages if b.phase is Phase.FACTOR_SHARES and b.item_bytes > 100]
    assert [(b.step.round, (b.item_bytes - 16) / primes) for b in sent] == [(0, 1497), (0, 1497), (1, 64), (1, 64)]
    answers = [b for b in channel.transcript.messages if b.phase is Phase.PRODUCT_SHARES]
    assert {(b.messages, b.item_bytes - 16) for b in answers} == {(2, primes * 91_712 + 4 + 2 * 8)}


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_what_is_expanded_anew_is_what_is_kept(scheme: CodedProducts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relays that keep no shares which they can expand, and multiply them device by device, answer the same bits."""
    case, kept = Members.of(WHERE, scheme.R), list[list[NDArray[Any]]]()
    for most_kept, batch in ((relays.MOST_KEPT, LARGEST_BATCH), (0, 1)):
        monkeypatch.setattr(relays, "MOST_KEPT", most_kept)
        monkeypatch.setattr(relays, "LARGEST_BATCH", batch)
        one, apart = case.collective(scheme, LAYOUT), Processes(scheme)
        for number in range(2):
            given_now = factors(number, len(WHERE))
            found = one.sum(*given_now, Step(number))
            assert close(found, case, given_now)
            kept.append(found)
            assert all(np.array_equal(*each) for each in zip(apart.sum(given_now, Step(number)), found, strict=True))
        (machine,) = (each for each in one._machines if isinstance(each, ProductRelays))
        anew = [relay.once is not None and not relay.once.values for relay in machine._relays]
        assert anew == [most_kept == 0 and place < scheme.T for place in range(scheme.R)]
        assert all(relay.fresh is None for relay in machine._relays)
    for whole, again in zip(kept[:2], kept[2:], strict=True):
        assert all(np.array_equal(*each) for each in zip(whole, again, strict=True))


def test_factors_in_parts_are_those_of_the_whole() -> None:
    """In any parts and order devices share the same integers; what does not fit is refused before anything is sent."""
    case, given_now = Members.of(WHERE, 3), factors(0, len(WHERE))
    order = np.random.default_rng(0).permutation(len(WHERE))
    place = np.argsort(order)

    def in_parts(factor: NDArray[Any]) -> FactorParts:
        stood = factor[:, place]
        return FactorParts((stood[:, :3], stood[:, 3:3], stood[:, 3:]), order)

    channel = case.channel()
    sums, parts = (
        case.collective(SCHEMES[0], LAYOUT, channel),
        [[in_parts(each) for each in side] for side in given_now],
    )
    whole = case.collective(SCHEMES[0], LAYOUT).sum(*given_now, Step(0))
    assert all(np.array_equal(*each) for each in zip(sums.sum(parts[0], parts[1], Step(0)), whole, strict=True))
    code, sent = sums.code, len(channel.transcript.messages)
    encoded = EncodedFactors(code, LAYOUT, parts[0], parts[1], static=True)
    units = [[q.encode(each) for each in side] for q, side in zip((code.left, code.right), given_now, strict=True)]
    assert np.array_equal(np.asarray(encoded), LAYOUT.rows(units[0], units[1], static=True))
    assert np.array_equal(encoded[np.array([5, 2])], LAYOUT.rows(units[0], units[1], static=True)[[5, 2]])
    for wrong, error in ((1e9, FieldRangeError), (np.nan, InputError)):
        rights = [each.copy() for each in given_now[1]]
        rights[1][1, 4, 0] = wrong
        with pytest.raises(error):
            EncodedFactors(
                code, LAYOUT, parts[0], [in_parts(each) for each in rights], static=True
            )  # which encodes nothing
        with pytest.raises(error):
            sums.sum([None, parts[0][1]], [in_parts(each) for each in rights], Step(1))
    assert len(channel.transcript.messages) == sent
    again = sums.sum(given_now[0], given_now[1], Step(1))  # the same static factor, in one piece and in another order
    assert all(np.array_equal(*each) for each in zip(again, whole, strict=True))
    changed = [given_now[0][0] + 1, given_now[0][1]]
    with pytest.raises(InputError, check=about("left factors of product 0")):
        sums.sum([in_parts(each) for each in changed], parts[1], Step(2))


@pytest.mark.parametrize(
    ("shapes", "order", "what"),
    [
        ([], None, "parts"),
        ([(8, 3)], None, "parts"),
        ([(1, 4, 3), (1, 4, 1)], None, "parts"),
        ([(1, 4, 3), (2, 4, 3)], None, "parts"),
        ([(1, 7, 3)], np.arange(8), "order"),
        ([(1, 8, 3)], np.arange(8) - 1, "order"),
        ([(1, 8, 3)], np.arange(8.0), "order"),
    ],
)
def test_parts_that_are_no_factor_are_refused(shapes: list[tuple[int, ...]], order: Any, what: str) -> None:
    """Before anything is encoded: rows that are missing would be whatever was in memory."""
    with pytest.raises(InputError, check=about(what)):
        FactorParts([np.zeros(shape) for shape in shapes], order)


class Processes:
    """One process a silo, with its devices, and one a relay."""

    def __init__(self, scheme: CodedProducts, *, put_down: bool = True) -> None:
        self.case = Members.of(WHERE, scheme.R)
        parties = self.case.directory
        self.channel, self.code = self.case.channel(), scheme.product_code(self.case.topology, LAYOUT)
        topology = replace(self.case.topology, helpers=parties.ids(Role.RELAY))
        self.machines: list[Any] = []
        devices, silos = parties.ids(Role.DEVICE), parties.ids(Role.SILO)
        hosts = [np.append(silo, devices[self.case.silo_of == s]) for s, silo in enumerate(silos)]
        for hosted in (*hosts, *parties.ids(Role.RELAY)[:, None]):
            draws = OwnDraws(SystemCoins())

            def made(hosted: Ids = hosted, draws: OwnDraws = draws) -> tuple[Any, ...]:
                return scheme.product_machines(topology, LAYOUT, SESSION, draws, hosted)

            for n in range(len(made())):
                make = partial(nth, made, n)
                self.machines.append(PutDown(make) if put_down else make())
        self._shared = False

    def sum(self, given: tuple[list[Any], list[Any]], step: Step) -> list[NDArray[Any]]:
        lefts = [self.code.left.encode(left) for left in given[0]]
        rights = [self.code.right.encode(right) for right in given[1]]
        rows = LAYOUT.rows(lefts, rights, static=not self._shared)
        owners, self._shared = self.case.topology.grouping.row_owner, True
        for machine in self.machines:
            own = np.isin(owners, machine.parties)
            machine.begin(step, rows[own] if own.any() else None)
        simulate(self.machines, self.channel)
        found = [machine.sums for machine in self.machines if machine.sums is not None]
        return [self.code.decode(each) for each in LAYOUT.split(np.concatenate(found))]


def test_states_are_of_one_machine_alone() -> None:
    """A state goes back into the machine that it is of, and into no other."""
    apart = Processes(CodedProducts(k_min=2), put_down=False)
    apart.sum(factors(0, len(WHERE)), Step(0))
    for machine in apart.machines:
        state = named_to_bytes(machine.state())
        machine.restore(named_from_bytes(state))
        assert named_to_bytes(machine.state()) == state
        for other in apart.machines:
            if other is not machine:
                with pytest.raises(MalformedMessageError, check=about("state")):
                    other.restore(named_from_bytes(state))


@pytest.mark.parametrize("liars", [(0,), (2,), (4,)])
def test_a_relay_that_lies_is_named_and_corrected(liars: tuple[int, ...]) -> None:
    """With 2 T + 3 relays a wrong product is located by every silo; the sums are right."""
    scheme = with_relays(lying(*liars))(CodedProducts(k_min=2, R=5))
    case = Members.of(WHERE, 5)
    channel, given_now = case.channel(), factors(0, len(WHERE))
    assert close(case.collective(scheme, LAYOUT, channel).sum(*given_now, Step(0)), case, given_now)
    said = [(incident.party.index, incident.what) for incident in channel.transcript.incidents]
    assert said == [(liar, "the relay answered with wrong products, which are corrected") for liar in liars] * 2


@pytest.mark.parametrize(("R", "liars"), [(4, (1,)), (5, (1, 3))])
def test_more_liars_than_can_be_told_are_noticed(R: int, liars: tuple[int, ...]) -> None:
    """No silo takes wrong sums for right ones as long as 2 T + 1 relays and one are honest enough to disagree."""
    scheme = with_relays(lying(*liars))(CodedProducts(k_min=2, R=R))
    case = Members.of(WHERE, R)
    with pytest.raises(ProtocolError, check=about("in round 0")):
        case.collective(scheme, LAYOUT).sum(*factors(0, len(WHERE)), Step(0))


def off(*parties: int, since: int = 1) -> Callable[..., NDArray[np.bool_]]:
    """A network on which nothing of some parties arrives from some round on."""
    return lambda _, step, senders, __: ~np.isin(senders, parties) | (step.round < since)


def test_a_relay_that_is_off_is_done_without() -> None:
    """Four relays, one of which expands shares or is sent them: three answers are enough, and it is named."""
    for place in (1, 3):
        case = Members.of(WHERE, 4)
        relay = int(case.directory.ids(Role.RELAY)[place])
        channel = case.channel(off(relay))
        sums = case.collective(CodedProducts(k_min=2, R=4), LAYOUT, channel)
        for number in range(2):
            given_now = factors(number, len(WHERE))
            assert close(sums.sum(*given_now, Step(number)), case, given_now)
        found = {(i.party.index, i.what) for i in channel.transcript.incidents}
        assert found == {(place, "the relay did not answer"), (place, "the relay is not heard of and is left out of "
                         "this step")}  # fmt: skip


def test_too_few_relays_give_no_sum() -> None:
    """Two of three are no 2 T + 1: silos hear of it, and are told who is missing."""
    case = Members.of(WHERE, 3)
    relay = int(case.directory.ids(Role.RELAY)[2])
    sums = case.collective(CodedProducts(k_min=2), LAYOUT, case.channel(off(relay)))
    sums.sum(*factors(0, len(WHERE)), Step(0))
    with pytest.raises(ProtocolError, check=about("2 T + 1 = 3 relays")) as error:
        sums.sum(*factors(1, len(WHERE)), Step(1))
    assert any("hears of too few others" in note for note in error.value.__notes__)


def test_a_relay_that_is_off_before_keys_are_told_stops_the_run() -> None:
    """Sets without their keys draw no shares of zero, and without those nobody answers."""
    case = Members.of(WHERE, 5)
    relay = int(case.directory.ids(Role.RELAY)[1])
    sums = case.collective(CodedProducts(k_min=2, R=5), LAYOUT, case.channel(off(relay, since=0)))
    with pytest.raises(ProtocolError, check=about("relays")) as error:
        sums.sum(*factors(0, len(WHERE)), Step(0))
    assert any("the key of every set" in note for note in error.value.__notes__)


def test_a_relay_without_its_keys_answers_nobody() -> None:
    """It would add no share of zero that fits the others', or one that anybody could work out."""
    case = Members.of(WHERE, 4)
    relay = int(case.directory.ids(Role.RELAY)[2])
    channel = case.channel(lambda phase, _, __, receivers: (phase is not Phase.ZERO_KEYS) | (receivers != relay))
    given_now = factors(0, len(WHERE))
    sums = case.collective(CodedProducts(k_min=2, R=4), LAYOUT, channel)
    assert close(sums.sum(*given_now, Step(0)), case, given_now)
    assert not [b for b in channel.transcript.messages if b.phase is Phase.PRODUCT_SHARES and relay in b.senders]
    assert [i.what for i in channel.transcript.incidents if i.party.index == 2 and i.party.role is Role.RELAY] == [
        "the relay was not told the key of every set that it is in, and gives no answers",
        "the relay did not answer",
    ]


def test_a_device_that_is_off_is_left_out_of_its_silos_sum() -> None:
    """The others' sum is right, the silo hears how many are missing; what is shared once is not shared again."""
    case = Members.of(WHERE, 3)
    device = int(case.directory.ids(Role.DEVICE)[1])
    channel = case.channel(
        lambda phase, step, senders, _: (phase is Phase.KEYS) | (senders != device) | (step.round == 1)
    )
    sums, without = case.collective(CodedProducts(k_min=2), LAYOUT, channel), np.arange(len(WHERE)) != 1
    others = Members(case.directory, case.silo_of[without], case.topology)
    for number in range(2):  # it is back in the second round, without the row that it shared in the first
        lefts, rights = factors(number, len(WHERE))
        found = sums.sum(lefts, rights, Step(number))
        assert close(found, others, ([left[:, without] for left in lefts], [right[:, without] for right in rights]))
    lacking = [i for i in channel.transcript.incidents if "its sum lacks 1 devices" in i.what]
    assert [(i.party.role, i.party.index, i.step.round) for i in lacking] == [(Role.SILO, 1, 0), (Role.SILO, 1, 1)]


def test_shares_that_reach_some_relays_count_nowhere() -> None:
    """Relays compare what they hold: a device whose share one of them lacks is in no answer."""
    case = Members.of(WHERE, 5)
    device, relay = (int(case.directory.ids(role)[0]) for role in (Role.DEVICE, Role.RELAY))
    channel = case.channel(
        lambda phase, _, senders, receivers: (
            (phase is not Phase.FACTOR_SHARES) | (senders != device) | (receivers != relay)
        )
    )
    given_now, without = factors(0, len(WHERE)), np.arange(len(WHERE)) != 0
    others = Members(case.directory, case.silo_of[without], case.topology)
    kept = tuple([each[:, without] for each in side] for side in given_now)
    found = case.collective(CodedProducts(k_min=2, R=5), LAYOUT, channel).sum(*given_now, Step(0))
    assert close(found, others, (kept[0], kept[1]))


def test_devices_that_are_too_few_get_their_silo_nothing() -> None:
    """k_min counts those whose shares are there, not those that are meant to be."""
    case = Members.of(WHERE, 3)
    device = int(case.directory.ids(Role.DEVICE)[0])
    channel = case.channel(lambda phase, _, senders, __: (phase is Phase.KEYS) | (senders != device))
    found = case.collective(CodedProducts(k_min=3), LAYOUT, channel).sum(*factors(0, len(WHERE)), Step(0))
    assert not any(each[0].any() for each in found)
    assert all(each[1].any() for each in found)
    assert [i.what for i in channel.transcript.incidents] == [
        "too few devices are left for its sum, which is not computed"
    ]


@pytest.mark.parametrize("bits", [None, 0])
def test_no_answer_is_a_sum_of_products_alone(bits: int | None) -> None:
    """Equal factors under equal masks have equal products: answers of two rounds differ by the shares of zero alone.

    So they do in every field, also in those that hold no products of static rows.
    """
    first, *others = LAYOUT.products
    layout = ProductLayout((replace(first, left_bits=bits), *others))
    lefts, rights = factors(0, len(WHERE))
    given_now, case = ([np.rint(lefts[0]), *lefts[1:]], rights), Members.of(WHERE, 3)
    channel = case.channel()
    sums = case.collective(under(MasksKept)(CodedProducts(k_min=2)), layout, channel)
    for number in range(2):
        assert close(sums.sum(*given_now, Step(number)), case, given_now)
    answers = [b for b in channel.transcript.messages if b.phase is Phase.PRODUCT_SHARES]
    assert [b.step.round for b in answers] == [0] * 3 + [1] * 3
    count, static = sums.code.fields_for(layout)
    assert (len(count) > static) is (bits == 0)
    for earlier, later in zip(answers[:3], answers[3:], strict=True):
        for place in range(len(count)):
            same = earlier[f"sum {place}"] == later[f"sum {place}"]
            assert same.shape[1] == layout.entries - (layout.static_entries if place >= static else 0)
            assert same.mean() < 0.3


class Noted(ProductRelays):
    """Relays whose shares of zero are noted, by step."""

    found: dict[tuple[int, int, int], list[Ids]]

    def zeros(self, relay: RelayState, group: int, digest: Ids) -> Streams:
        streams = super().zeros(relay, group, digest)
        at = self.now.round, relay.place, group
        kept = self.__dict__.setdefault("found", {})
        for place, field in enumerate(self._plan.fields):
            total = sum(int(weights[place]) * (words % field.modulus) for weights, words in streams) % field.modulus
            kept.setdefault(at, []).append(np.asarray(total))
        return streams


def noted(scheme: CodedProducts, rounds: int) -> dict[tuple[int, int, int], list[Ids]]:
    """Shares of zero by round, relay and silo, one array for each field."""
    case = Members.of(WHERE, scheme.R)
    sums = case.collective(with_relays(Noted)(scheme), LAYOUT)
    for number in range(rounds):
        sums.sum(*factors(0, len(WHERE)), Step(number))
    (relays,) = (machine for machine in sums._machines if isinstance(machine, Noted))
    return relays.found


@pytest.mark.parametrize("scheme", [CodedProducts(k_min=2), CodedProducts(k_min=2, T=2, R=6)], ids=lambda s: s.name)
def test_shares_of_zero_are_fresh_and_of_degree_2_T(scheme: CodedProducts) -> None:  # noqa: N802
    """Of other rounds, silos and fields they are others; 2 T + 1 of them interpolate to 0, and 2 T do not."""
    found = noted(scheme, rounds=2)
    fields = scheme.product_code(Members.of(WHERE, scheme.R).topology, LAYOUT).fields
    for number in range(2):
        for silo in range(2):
            for place, field in enumerate(fields):
                shares = [found[number, relay, silo][place] for relay in range(scheme.R)]
                assert not interpolated(field.modulus, shares[: 2 * scheme.T + 1]).any()
                assert not interpolated(field.modulus, shares[-2 * scheme.T - 1 :], scheme.R).any()
                assert interpolated(field.modulus, shares[: 2 * scheme.T]).any()
    for relay in range(scheme.R):
        several = [each for (_, j, _), by_field in found.items() if j == relay for each in by_field]
        assert len({each.tobytes() for each in several}) == len(several) == 2 * 2 * len(fields)


def interpolated(modulus: int, shares: list[Ids], last: int = 0) -> Ids:
    """The value at 0 of the polynomial through shares at 1, 2 and so on, or up to a last point."""
    from fgl_secure.algebra import PrimeField, lagrange_matrix

    first = last - len(shares) + 1 if last else 1
    (weights,) = lagrange_matrix(PrimeField(modulus), range(first, first + len(shares)), (0,))
    return np.asarray(sum(int(w) * share for w, share in zip(weights, shares, strict=True)) % modulus)


def test_relays_that_count_others_draw_other_shares_of_zero() -> None:
    """The name of a stream has the step, the silo, who is counted and its number, each in its place."""
    crypto = CodedProducts().product_cryptography(
        CodedProducts().product_code(Members.of(WHERE, 3).topology, LAYOUT).fields, 1, None, CodedProducts().keys
    )
    digest = np.array([1, 2])
    names = [
        crypto.name(Step(0), 0, digest, 0),
        crypto.name(Step(1), 0, digest, 0),
        crypto.name(Step(0), 1, digest, 0),
        crypto.name(Step(0), 0, digest + 1, 0),
        crypto.name(Step(0), 0, digest, 1),
    ]
    assert len(set(names)) == len(names)


class Masked(ProductDevices):
    """Devices that share zeros, so that what they send are the masks, weighted."""

    def begin(self, step: Step, rows: NDArray[Any] | EncodedFactors | None = None) -> None:
        super().begin(step, None if rows is None else np.zeros_like(np.asarray(rows)))


def test_masks_are_fresh_for_every_number_device_and_round() -> None:
    """Devices that share zeros send masks alone: what is shared once and what is fresh differ, in all fields."""
    scheme = CodedProducts(k_min=2)
    scheme = replace(scheme, product_roles=replace(scheme.product_roles, devices=Masked))
    case = Members.of(WHERE, 3)
    channel = case.channel()
    sums = case.collective(scheme, LAYOUT, channel)
    for number in range(2):
        sums.sum(*factors(number, len(WHERE)), Step(number))
    sent = [b for b in channel.transcript.messages if b.phase is Phase.FACTOR_SHARES and "share 0" in (b.fields or {})]
    to_second = [b for b in sent if (b.receivers == case.directory.ids(Role.RELAY)[1]).all()]
    fields, one = sums.code.fields, np.ones((len(sums.code.fields), 1), dtype=np.int64)
    found = [
        from_combined(fields, one, np.array([[b[f"share {n}"].ravel()] for n in range(len(fields))])) for b in to_second
    ]
    numbers = np.concatenate(found)
    assert len(np.unique(numbers)) == len(numbers) > 200
    assert all(len(np.unique(numbers % field.modulus)) > field.modulus // 2 for field in sums.code.fields)


def test_refusals_say_what_is_wrong() -> None:
    """Parameters, parties, factors and ranges that do not fit."""
    with pytest.raises(InputError, check=about("R")):
        CodedProducts(T=2)
    with pytest.raises(InputError, check=about("R")):
        CodedProducts(R=223)
    assert CodedProducts.over(RelayCoded(R=256)).R == CodedProducts(R=222).R
    for primes in ((), (127, 127), (8388593,), (256,), tuple(range(90, 100))):
        with pytest.raises(InputError, check=about("primes")):
            CodedProducts(primes=primes)
    case = Members.of(WHERE, 2)
    with pytest.raises(InputError, check=about("parties")):
        case.collective(CodedProducts(), LAYOUT)
    case = Members.of(WHERE, 3)
    with pytest.raises(FieldRangeError):
        case.collective(CodedProducts(product=2.0**40, left=2.0**30, right=2.0**30), LAYOUT)
    sums, (lefts, rights) = case.collective(CodedProducts(), LAYOUT), factors(0, len(WHERE))
    with pytest.raises(InputError, check=about("left factors")):
        sums.sum([lefts[0][:, 1:], lefts[1]], rights, Step(0))
    large = [lefts[0] * 2.0**10, lefts[1]]
    with pytest.raises(FieldRangeError, check=about("left rows")):
        sums.sum(large, rights, Step(0))
    units = [each.round().astype(np.int64) for each in lefts], [each.round().astype(np.int64) for each in rights]
    units[1][1][0, 3, 1] = -sums.code.right.largest - 1
    with pytest.raises(FieldRangeError, check=about("right factors")):
        sums.sum_units(*units, Step(0))
    with pytest.raises(InputError, check=about("left factors")):
        sums.sum_units([None, units[0][1]], units[1], Step(0))
    sums.sum(lefts, rights, Step(0))
    with pytest.raises(InputError, check=about("left factors of product 0")):
        sums.sum([lefts[0] + 1, lefts[1]], rights, Step(1))
    with pytest.raises(ProtocolError, check=about("a step")):
        sums.sum(lefts, rights, Step(0))


@pytest.mark.parametrize("where_static", [True, False])
def test_products_of_two_entries_of_a_device_are_bounded(where_static: bool) -> None:
    """In whichever step the second one comes, for each device by itself, in numbers and in units; nothing is sent."""
    layout = ProductLayout((OuterProduct(2, 3, 2, static=where_static),))
    case, left, right = Members.of(WHERE, 3), np.ones((2, 8, 3)), np.ones((2, 8, 2))
    channel = case.channel()
    sums = case.collective(CodedProducts(k_min=1, product=64.0), layout, channel)
    left[1, 3, 0], right[0, 3, 1], right[1, 5, 0] = -16, 4, -32  # the largest left and right rows are of two devices
    found = sums.sum([left], [right], Step(0))
    assert close(found, case, ([left], [right]))
    later, sent = None if where_static else left, len(channel.transcript.messages)
    right[1, 3, 1] = 4.25
    units = [None if later is None else sums.code.left.encode(later)], [sums.code.right.encode(right)]
    for number in (1, 2):
        with pytest.raises(FieldRangeError, check=about("an entry of a device's left row times one of its right row")):
            sums.sum([later], [right], Step(number))
        with pytest.raises(FieldRangeError, check=about("an entry of a device's left row times one of its right row")):
            sums.sum_units(*units, Step(number))
        assert len(channel.transcript.messages) == sent
        right[1, 3, 1] = 4
        assert close(sums.sum([later], [right], Step(number)), case, ([left], [right]))
        right[1, 3, 1], sent = 4.25, len(channel.transcript.messages)
    smaller = np.ones_like(left, dtype=np.int64)
    if where_static:  # those that were shared are multiplied
        with pytest.raises(FieldRangeError, check=about("an entry of a device's left row times one of its right row")):
            sums.sum_units([smaller], units[1], Step(3))
    else:
        sums.sum_units([smaller], units[1], Step(3))


def test_each_product_is_bounded_where_parts_are_in_another_order() -> None:
    """The large left row and the large right row are of one device, wherever they stand in their parts."""
    layout, order = ProductLayout((OuterProduct(1, 1, 1),)), np.array([3, 0, 1, 2])
    sums = Members.of([0] * 4, 3).collective(CodedProducts(k_min=1, product=64.0), layout)
    left, right = np.array([64.0, 1, 1, 1]).reshape(1, 4, 1), np.array([32.0, 1, 1, 1]).reshape(1, 4, 1)
    parts = FactorParts((left[:, 1:3], left[:, 3:], left[:, :1]), order)
    with pytest.raises(FieldRangeError, check=about("an entry of a device's left row times one of its right row")):
        sums.sum([parts], [right], Step(0))
    (found,) = sums.sum([parts], [right[:, [1, 0, 2, 3]]], Step(0))
    assert found[0].tolist() == [[32 + 64 + 2]]


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("name", ["left", "right", "product"])
def test_bounds_are_positive_numbers(name: str, bound: float) -> None:
    """Of entries and of products; for products there may be none."""
    with pytest.raises(InputError, check=about(name)):
        cast("Callable[..., CodedProducts]", CodedProducts)(**{name: bound})
    assert CodedProducts(product=None).product is None


def test_devices_in_several_sums_are_refused() -> None:
    """Whose products are in two sums, or in no order that all can tell."""
    case, scheme = Members.of(WHERE, 3), CodedProducts()
    g = case.topology.grouping
    twice = replace(g, source=np.append(g.source, 0), target=np.append(g.target, 1))
    for grouping in (twice, replace(g, row_owner=g.row_owner[::-1])):
        with pytest.raises(InputError, check=about("devices")):
            ProductCollective(scheme, Topology(MEMBERS, grouping, 1), LAYOUT, case.channel())


def test_schemes_of_rows_become_schemes_of_products() -> None:
    """Everything of a relay-coded scheme stays, with relays enough; it serves members alone, and says what it hides."""
    rows = RelayCoded(T=2, R=3, k_min=4, bound=3.0, profile=Profile.SHOWN)
    found = CodedProducts.over(rows)
    assert (found.T, found.R, found.k_min, found.bound) == (2, 5, 4, 3.0)
    assert CodedProducts.over(replace(rows, R=9)).R == 9
    assert found.name == "coded-products[T=2,k_min=4]"
    assert found.refuses(Topology.example(MEMBERS)) is None
    assert "silos alone" in str(found.refuses(Topology.example(NEIGHBOURS)))
    claim = found.products_claim()
    assert [guarantee.secret for guarantee in claim.guarantees] == [Secret.PARAMETER_GRADIENT]
    assert claim.guarantees[0].coalition[Role.RELAY] == 2
    assert "to name one that does not takes 7 relays" in " ".join(claim.assumptions)
    assert "up to 2 of R = 9 relays" in " ".join(CodedProducts.over(replace(rows, R=9)).products_claim().assumptions)


def changed(messages: Messages, **fields: Any) -> Messages:
    """Messages with other fields."""
    return replace(messages, fields={**messages.fields, **fields})


class Overheard(ProductRelays):
    """Relays that are given changed messages before the genuine ones, and must refuse all of them as they were."""

    refused: list[str]

    def receive(self, messages: Messages) -> None:
        for other in wrong(messages):
            before = named_to_bytes(self.state())
            with pytest.raises((MalformedMessageError, StaleMessageError)) as error:
                super().receive(other)
            self.__dict__.setdefault("refused", []).append(str(error.value))
            assert named_to_bytes(self.state()) == before
        super().receive(messages)


def wrong(messages: Messages) -> Iterable[Messages]:
    """What relays must refuse, made of what they must take."""
    encode(messages)
    if messages.phase is Phase.KEYS:
        return
    yield replace(messages, step=Step(9))
    yield replace(messages, senders=np.zeros_like(messages.senders))
    yield replace(messages, phase=Phase.TAGS)
    if "share 0" in messages.fields:
        yield changed(messages, **{"share 0": messages["share 0"][:, 1:]})
        yield changed(messages, **{"share 1": messages["share 1"] * 0 + 121})  # one more than half of 241
        yield changed(messages, **{"share 1": messages["share 1"] * 0 - 121})
    if "width" in messages.fields:
        yield changed(messages, width=messages["width"] + np.uint32(1))
    if "held" in messages.fields:
        yield changed(messages, held=messages["held"][:, :0])
    if "set" in messages.fields:
        yield changed(messages, set=messages["set"] + np.uint32(9))


def test_relays_refuse_what_no_honest_party_sends() -> None:
    """Of another step or sender, of wrong widths, beyond the field: refused, and nothing has changed."""
    case = Members.of(WHERE, 3)
    given_now = factors(0, len(WHERE))
    sums = case.collective(with_relays(Overheard)(CodedProducts(k_min=2)), LAYOUT)
    assert close(sums.sum(*given_now, Step(0)), case, given_now)
    (relays,) = (machine for machine in sums._machines if isinstance(machine, Overheard))
    assert len(set(relays.refused)) >= 9
