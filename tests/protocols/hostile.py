"""Genuine messages of every scheme, where each of them arrives, and what somebody who means harm makes of them."""

import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, MalformedMessageError, ProtocolError
from fgl_secure.protocols.coded_products import CodedProducts, OuterProduct, ProductLayout
from fgl_secure.protocols.coded_products.parties import ProductDevices
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.topology import MEMBERS, NEIGHBOURS, TOPOLOGIES, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Messages, OwnDraws, Phase, Role, Step, decode, encode, simulate
from fgl_secure.runtime.packing import pack, unpack
from tests.protocols.partners.graphs import keys_of

Array = NDArray[Any]
Ids = NDArray[np.int64]
SESSION = bytes(16)
VARIABLE = "FGL_SECURE_FUZZ"
"""How many messages are tried with each scheme, on each side; 40 unless it is set."""
MOST_BYTES = 2**26
"""That may be taken for one of these messages, all of which are below a hundred kilobytes."""
WIDTH = 3
PRODUCTS = ProductLayout((OuterProduct(1, 3, 2, static=True), OuterProduct(1, 2, 2)))
Prepare = Callable[[Random], Callable[[], object]]
"""Makes a changed message; what it gives has the receiver hear it, and raises where it is refused."""
EXTREMES = (0, 1, 2, -1, 127, 255, 2**16, 2**31 - 1, 2**32, 2**61 - 1, 2**62, 2**63 - 1, -(2**63))

IN_JSON: tuple[Any, ...] = (
    *(*EXTREMES, 10**400, -(10**400), 1e300, float("nan"), float("inf"), 1e-320, 0.5, 2.0),
    *(True, None, "", "x", "ff" * 16, "\ud800", "9" * 5000, [], [[]], [1] * 50, {}, {"": 0}),
)
"""What JSON may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """One genuine message, and the machine of its receivers as it was when it came.

    Attributes:
        machine: that hosts them.
        state: its own.
        data: of the message, as bytes.
    """

    machine: SumMachine
    state: Mapping[str, Array]
    data: bytes

    def hear(self, data: bytes) -> None:
        """Give the machine, as it was, other bytes as its host would, then let it step until it settles.

        Raises:
            AssertionError: it refuses them, and is not as it was.
            FglSecureError: as it does.
        """
        self.machine.restore(self.state)
        messages = decode(data, SESSION)
        mine = np.isin(messages.receivers, self.machine.parties)
        if mine.any():
            try:
                self.machine.receive(messages.rows(mine))
            except ProtocolError:
                assert alike(self.machine.state(), self.state)
                raise
        for said in self.machine.step():
            encode(said, SESSION)
        while self.machine.on_idle():  # the rest is silent: what arrived is decoded, or refused
            for said in self.machine.step():
                encode(said, SESSION)
        _ = self.machine.sums


def alike(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether two states are the same."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


class Listening(SumMachine):
    """A machine whose messages are noted before it takes them.

    Args:
        machine: which does all the rest.
        heard: where they are noted.
    """

    def __init__(self, machine: SumMachine, heard: list[Arrival]) -> None:
        super().__init__(machine.parties)
        self._machine, self._heard = machine, heard
        self.remarks = machine.remarks

    @property
    def inner(self) -> SumMachine:
        return self._machine

    def begin(self, step: Step, rows: Array | None = None) -> None:
        self._machine.begin(step, rows)

    def receive(self, messages: Messages) -> None:
        state = {name: value.copy() for name, value in self._machine.state().items()}
        self._heard.append(Arrival(self._machine, state, encode(messages, SESSION)))
        self._machine.receive(messages)

    def step(self) -> Iterable[Messages]:
        return self._machine.step()

    def on_idle(self) -> bool:
        return self._machine.on_idle()

    def state(self) -> Mapping[str, Array]:
        return self._machine.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        self._machine.restore(state)

    @property
    def sums(self) -> Array | None:
        return self._machine.sums


def to_machines(scheme: Scheme) -> Prepare:
    """All messages of a scheme."""
    genuine = arrivals(scheme)

    def prepare(random: Random) -> Callable[[], None]:
        arrival = random.choice(genuine)
        data = changed(arrival.data, random)
        return lambda: arrival.hear(data)

    return prepare


def small(name: str, scheme: Scheme) -> tuple[Directory, Topology]:
    """Five clients, or a ring of five devices in two silos, and a topology over them."""
    relays = scheme.helpers.get(Role.RELAY, 0)
    silos, devices = (5, 1) if name in ("server", "clients") else (2, 5)
    parties = Directory.hierarchy(silos, devices, relays)
    helpers = parties.ids(Role.RELAY) if relays else np.empty(0, dtype=np.int64)
    clients = parties.ids(Role.SILO)
    if name == "server":
        topology = Topology.to_server(parties, WIDTH, 100)
    elif name == "clients":
        topology = Topology.to_client(parties, clients[:4], int(clients[4]), WIDTH, 100)
    else:
        ids, ring, custodian = parties.ids(Role.DEVICE), np.arange(5), clients[np.array([0, 0, 0, 1, 1])]
        source = np.tile(ring, 3)
        target = np.concatenate([(ring + shift) % 5 for shift in (1, 2, 3)])
        grouping = Grouping(ids, ids, source, target, custodian, custodian)
        if name == "members":
            grouping = Grouping(ids, clients, ring, np.array([0, 0, 0, 1, 1]), custodian, clients)
        topology = Topology(name, grouping, WIDTH, keys=keys_of(grouping) if name == NEIGHBOURS else None)
    return parties, replace(topology, helpers=helpers)


def arrivals(scheme: Scheme) -> list[Arrival]:
    """All messages of a small sum of each topology that a scheme serves, silos, relays and servers apart."""
    found: list[Arrival] = []
    for name in TOPOLOGIES:
        parties, topology = small(name, scheme)
        if scheme.refuses(topology) is None:
            _run(scheme.adapt(topology), parties, topology, found)
        if isinstance(scheme, CodedProducts) and name == MEMBERS:
            _run_products(scheme, parties, topology, found)
    return found


def _run_products(scheme: CodedProducts, parties: Directory, topology: Topology, heard: list[Arrival]) -> None:
    coins, machines = count(), list[SumMachine]()
    for hosted in _hosts(topology):
        draws = OwnDraws(SimulationCoins(next(coins)))
        made = scheme.product_machines(topology, PRODUCTS, SESSION, draws, hosted)
        machines += [Listening(each, heard) for each in made]
    for number, width in enumerate((PRODUCTS.static + PRODUCTS.fresh, PRODUCTS.fresh)):
        rows, owners = np.arange(5 * width, dtype=np.int64).reshape(5, width), topology.grouping.row_owner
        for machine in machines:
            own = np.isin(owners, machine.parties)
            machine.begin(Step(number), rows[own] if own.any() and _has_rows(machine) else None)
        simulate(machines, Channel(parties, SimulationCoins(99)))


def _has_rows(machine: SumMachine) -> bool:
    return isinstance(machine, Listening) and isinstance(machine.inner, ProductDevices)


def _run(scheme: Scheme, parties: Directory, topology: Topology, heard: list[Arrival]) -> None:
    g, coins = topology.grouping, count()
    machines: list[SumMachine] = []
    for hosted in _hosts(topology):
        draws = OwnDraws(SimulationCoins(next(coins)))
        machines += [Listening(each, heard) for each in scheme.machines(topology, SESSION, draws, hosted)]
    reals = np.linspace(-0.5, 0.5, len(g.row_owner) * WIDTH).reshape(-1, WIDTH)
    code = scheme.encoding(topology)
    rows: Array = reals if code is None or scheme.takes_reals else code.encode(reals)
    if topology.bound is not None:
        rows = np.rint(reals * topology.bound).astype(np.int64)
    for machine in machines:
        own = np.isin(g.row_owner, machine.parties)
        machine.begin(Step(0), rows[own] if own.any() else None)
    with suppress(ProtocolError):
        simulate(machines, Channel(parties, SimulationCoins(99)))


def _hosts(topology: Topology) -> Iterator[Ids]:
    """Each silo with its devices, and everybody else alone."""
    g = topology.grouping
    owners = np.concatenate([g.row_owner, g.group_owner])
    custodians = np.concatenate([g.row_custodian, g.group_custodian])
    for silo in np.unique(custodians):
        yield np.unique(np.append(owners[custodians == silo], silo))
    alone = topology.helpers.tolist() + ([] if topology.aggregator is None else [topology.aggregator])
    for one in sorted(set(alone) - {*owners.tolist(), *custodians.tolist()}):
        yield np.array([one])


def chance(name: str) -> Random:
    """The same choices for the same name."""
    return Random(name)  # noqa: S311  # of what is tried, and of nothing secret


def trials() -> int:
    """How many messages to try."""
    return int(os.environ.get(VARIABLE, "40"))


@dataclass(slots=True)
class Tally:
    """What came of changed messages.

    Attributes:
        taken: how many were.
        refused: how many were, by an error of this package.
        slowest: seconds of processor time that the slowest refusal took.
    """

    taken: int = 0
    refused: int = 0
    slowest: float = 0.0

    def add(self, hear: Callable[[], object]) -> None:
        """Has somebody hear a message; an error of any other kind passes."""
        start = time.process_time()
        try:
            hear()
        except FglSecureError:
            self.refused += 1
            self.slowest = max(self.slowest, time.process_time() - start)
        else:
            self.taken += 1


def tallied(prepare: Prepare, name: str, messages: range, around: Callable[[], Any] = nullcontext) -> Tally:
    """Tries changed messages, the same ones for the same name and numbers.

    Args:
        prepare: changes them.
        name: of the place where they arrive.
        messages: numbers of those to try.
        around: a context for each.
    """
    found = Tally()
    for number in messages:
        hear = prepare(chance(f"{name} {number}"))
        try:
            with around():
                found.add(hear)
        except Exception as error:
            error.add_note(f"message {number} of {name}")
            raise
    return found


@contextmanager
def in_little_memory() -> Iterator[None]:
    """Fails where a message takes too much; wants tracemalloc to be started."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    yield
    assert tracemalloc.get_traced_memory()[1] - before < MOST_BYTES


@contextmanager
def refused_or_taken() -> Iterator[None]:
    """Fails where a message is neither taken nor refused by an error of this package, or takes too much memory."""
    with in_little_memory(), suppress(FglSecureError):
        yield


def changed(data: bytes, random: Random, session: bytes = SESSION) -> bytes:
    """What arrives in place of a genuine message: other bytes, or a well-formed batch that says something else."""
    if random.random() < 0.4:
        return other_bytes(data, random)
    messages = decode(data, session)
    for _ in range(random.choice((1, 1, 2))):
        messages = random.choice(_CHANGES)(messages, random)
    try:
        return encode(messages, session)
    except (ValueError, OverflowError):  # InputError is one: more axes or another type than travels
        return other_bytes(data, random)


def other_bytes(data: bytes, random: Random) -> bytes:
    """What is cut, lengthened, made up, or changed in some places."""
    if not data:
        return random.randbytes(random.randrange(40))
    which, changed_ = random.randrange(5), bytearray(data)
    if which == 0:
        return data[: random.randrange(len(data) + 1)]
    if which == 1:
        return data + random.randbytes(random.randrange(1, 40))
    if which == 2:
        return random.randbytes(random.randrange(200))
    if which == 3:
        at = random.randrange(max(1, len(data) - 8))
        changed_[at : at + 8] = (random.choice(EXTREMES) % 2**64).to_bytes(8, random.choice(("little", "big")))
        return bytes(changed_)
    for _ in range(random.randrange(1, 6)):
        changed_[random.randrange(len(data))] ^= random.randrange(1, 256)
    return bytes(changed_)


def _ends(messages: Messages, random: Random) -> Messages:
    """Other senders or receivers."""
    which = random.choice(("senders", "receivers"))
    ids = getattr(messages, which).copy()
    if len(ids):
        value = random.choice((*EXTREMES, *range(12)))
        ids[random.randrange(len(ids)) if random.random() < 0.7 else slice(None)] = value
    return replace(messages, **{which: ids})


def _rows(messages: Messages, random: Random) -> Messages:
    """Messages that are missing, repeated, in another order, or none at all."""
    m = len(messages)
    which = [random.randrange(m) for _ in range(random.choice((0, 1, m, m + 1, 2 * m)))] if m else []
    return messages.rows(np.array(which, dtype=np.int64))


def _when(messages: Messages, random: Random) -> Messages:
    """Another phase, another step, or a seal."""
    if random.random() < 0.4:
        return replace(messages, phase=random.choice(list(Phase)))
    if random.random() < 0.2:
        return replace(messages, sealed=not messages.sealed, overhead=random.choice((0, -1, 2**31 - 1)))
    step = Step(
        random.choice((0, 1, 7, 2**32 - 1)), random.choice((-1, 0, 1, 2**31 - 1)), part=random.choice((0, 2**20))
    )
    return replace(messages, step=step)


def _fields(messages: Messages, random: Random) -> Messages:
    """A field that is missing, under another name, or one more."""
    fields = dict(messages.fields)
    name = random.choice([*fields, "payload"])
    value = fields.pop(name, np.zeros((len(messages), 1)))
    which = random.randrange(3)
    if which:
        fields[random.choice(("payload", "tag", "x")) if which == 1 else name + "2"] = value
    return replace(messages, fields=fields)


def _shape(messages: Messages, random: Random) -> Messages:
    """A field of another shape or type."""
    name = random.choice([*messages.fields, ""])
    if not name:
        return messages
    value, m = messages.fields[name], len(messages)
    kinds: tuple[Callable[[], Array], ...] = (
        lambda: value[..., None],
        lambda: value.reshape(m, -1) if m else value,
        lambda: value[..., :-1] if value.ndim > 1 else value,
        lambda: np.concatenate([value, value], axis=-1) if value.ndim > 1 else value,
        lambda: np.zeros((m, 0), dtype=value.dtype),
        lambda: np.zeros((m, 0, 2**20), dtype=value.dtype),
        lambda: value.astype(random.choice(("<f4", "<f8", "<i8", "|u1", "<u8", "<i4"))),
    )
    with np.errstate(invalid="ignore", over="ignore"):
        return replace(messages, fields={**messages.fields, name: random.choice(kinds)()})


def _values(messages: Messages, random: Random) -> Messages:
    """A field with other entries: some of them or all, extreme ones, or not finite."""
    name = random.choice([*messages.fields, ""])
    if not name or not messages.fields[name].size:
        return messages
    value = messages.fields[name].copy()
    if value.dtype.kind == "f":
        put: Any = random.choice((np.nan, np.inf, -np.inf, 1e300, -0.0, 1e-320))
    elif value.dtype.kind == "b":
        put = random.random() < 0.5
    else:
        put = np.array([random.choice(EXTREMES) % 2**64], dtype=np.uint64).view(np.int64).astype(value.dtype)[0]
    flat = value.reshape(-1)
    places = slice(None) if random.random() < 0.3 else [random.randrange(len(flat)) for _ in range(3)]
    with np.errstate(invalid="ignore", over="ignore"):
        flat[places] = np.array(put).astype(value.dtype)
    return replace(messages, fields={**messages.fields, name: value})


_CHANGES = (_ends, _rows, _when, _fields, _shape, _values)


def changed_bytes(data: bytes, random: Random, session: bytes) -> bytes:
    """Other bytes: at one place of what is packed in each other, of a machine's messages, of JSON, or anywhere."""
    if random.random() < 0.2:
        return other_bytes(data, random)
    fields: list[bytes] = []
    with suppress(MalformedMessageError):
        fields = unpack(data)
    if fields:
        at = random.randrange(len(fields))
        if random.random() < 0.1:
            fields[at : at + 1] = [fields[at]] * random.choice((0, 2))
        else:
            fields[at] = changed_bytes(fields[at], random, session)
        return pack(fields)
    if data.startswith(b"FGLM"):
        with suppress(FglSecureError):
            return _changed_batch(data, random, session)
    if data[:1] in (b"{", b"["):
        with suppress(ValueError):
            return json.dumps(_json(json.loads(data), random)).encode()
    return other_bytes(data, random)


def _changed_batch(data: bytes, random: Random, session: bytes) -> bytes:
    """Another batch, of its own session; or the same with another one inside."""
    own = data[5 : 5 + len(session)]
    messages = decode(data, own)
    inside = [name for name, value in messages.fields.items() if value[:1].tobytes().startswith(b"FGLM")]
    if not inside or random.random() < 0.3:
        return changed(data, random, own)
    said = changed_bytes(messages[inside[0]][0].tobytes(), random, session)
    fields = {**messages.fields, inside[0]: np.frombuffer(said, dtype=np.uint8)[None]}
    return encode(replace(messages, fields=fields), own)


def _json(value: Any, random: Random) -> Any:
    places = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not places or random.random() < 0.1:
        return random.choice(IN_JSON)
    at, which = random.choice(places), random.random()
    if which < 0.1:
        value.pop(at)
    elif which < 0.2 and isinstance(value, dict):
        value[random.choice(("", "x", f"{at}x"))] = value[at]
    else:
        value[at] = _json(value[at], random)
    return value
