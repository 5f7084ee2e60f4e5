"""One session of the relay-coded scheme: what is sent, in which order, and what happens when something is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import Elements, FixedPoint
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.protocols.grouped_sum import Session
from fgl_secure.protocols.relay_delivery import (
    AUTHENTICATION_BYTES,
    NAMING_WORDS,
    SEAL_BYTES,
    TAG_BYTES,
    Held,
    arrived,
    carried,
)
from fgl_secure.protocols.relay_fetch import Fetch
from fgl_secure.protocols.relay_masks import AgreedMasks, DrawnMasks, KeyAgreement, MaskSupply, SeededMasks
from fgl_secure.protocols.relay_plan import Plan
from fgl_secure.protocols.relay_roles import source_shares, tags_of
from fgl_secure.protocols.topology import Grouping, Ids, Reals, Route
from fgl_secure.runtime import Channel, Direction, Phase, Role, Step

if TYPE_CHECKING:
    from fgl_secure.protocols.relay_coded import RelayCoded

HEADER_BYTES = TAG_BYTES + 2 + 1 + AUTHENTICATION_BYTES
"""Tag, slot and attempt of a message from a sender that the relay knows."""
SEALED_HEADER_BYTES = TAG_BYTES + 8 + 1 + SEAL_BYTES
"""Tag, number and attempt of a message from an unnamed sender; a seed adds SEED_BYTES."""
SEED_BYTES = 32
MOST_SLOTS = 2**16


@dataclass(slots=True, eq=False)
class _Packets:
    """The messages of one step as their senders made them.

    Attributes:
        headers: int64 [m, h], two words of tag, slot and attempt, then a seed where there is one, by relay.
        shares: for each relay its elements [*batch, m, d].
        order: int64 [k], those that leave, in the order in which they leave: all whose senders know their tags.
    """

    headers: list[Ids]
    shares: list[Elements]
    order: Ids


class RelaySession(Session):
    """A scheme at work; see `RelayCoded`.

    Args:
        scheme: its parameters.
        channel: between the parties of the grouping and the relays.
        grouping: who sends what to whom in the forward pass.
        fixed: rows as elements.
    """

    def __init__(self, scheme: RelayCoded, channel: Channel, grouping: Grouping, fixed: FixedPoint) -> None:
        self._scheme, self._channel, self._fixed = scheme, channel, fixed
        self._anonymous, self._drawn = scheme.profile == "anon", scheme.masks == "drawn"
        self._routes = Route.both_ways(grouping, scheme.k_min)
        ways = {Direction.FORWARD: grouping, Direction.BACKWARD: grouping.reversed()}
        self._plans = {direction: self._plan(way, self._routes[direction].way) for direction, way in ways.items()}
        self._relays = channel.parties.ids(Role.RELAY)[: scheme.R]
        self._axis = len(channel.batch_shape)
        self._supply: MaskSupply | None = None
        self._done: set[Step] = set()

    def sum(self, values: Reals, step: Step) -> NDArray[np.float64]:
        """See `Session.sum`.

        Raises:
            ProtocolError: the step was summed before, so masks and tags would be used again; or a party failed in a
                way that cannot be mended, and the message says which.
        """
        route, plan = self._routes[step.direction], self._plans[step.direction]
        route.check_values(values)
        if step in self._done:
            raise ProtocolError(f"a step must be summed once, or its masks would be used twice; found {step} again")
        q = self._fixed.encode(values)
        self._channel.note_inputs("values", step, route.way.row_owner, q)
        batch = self._channel.batch_shape
        if int(plan.slots.max(initial=0)) >= MOST_SLOTS and not self._anonymous:
            most = int(plan.slots.max()) + 1
            raise InputError(f"a sender must have at most {MOST_SLOTS} messages in one step; found {most}")
        if not len(route.way.source):
            return np.zeros((*batch, len(route.way.group_owner), values.shape[1]))
        supply = self._supply = self._supply or self._set_up()
        self._done.add(step)
        openings = supply.openings(step, route.way.group_owner)
        tags, told = self._hand_out(tags_of(openings), plan, route.way, step)
        packets = self._packets(q, tags, told, plan, supply, step)
        held = self._deliver(packets, plan, step)
        live, agreed = self._agree(held, packets, plan, step)
        fetch = self._fetch(openings, live, route.way, step)
        return self._fixed.decode(fetch.sums([held[j] for j in live], agreed))

    def _fetch(self, openings: Ids, live: list[int], way: Grouping, step: Step) -> Fetch:
        scheme, points = self._scheme, tuple(j + 1 for j in live)
        least = 1 if self._anonymous else scheme.k_min  # padding hides the counts from relays
        return Fetch(self._channel, scheme.field, scheme.T, scheme.k_min, least, step, way, openings, points)

    def _plan(self, way: Grouping, answered: Grouping) -> Plan:
        coins = None if self._drawn else self._channel.coins
        if not self._anonymous:
            return Plan.of(answered, answered, coins)
        heard = np.bincount(way.target, minlength=1)
        padding = int(heard.max()) if self._scheme.padding is None else self._scheme.padding
        one_way = not np.isin(way.group_owner, way.row_owner).any()  # devices to silos: no count to hide
        return Plan.of(way, answered, coins, None if one_way else padding)

    def _set_up(self) -> MaskSupply:
        scheme, channel = self._scheme, self._channel
        if self._drawn:
            return DrawnMasks(channel, scheme.field, scheme.T)
        if self._anonymous:
            return SeededMasks(channel, scheme.field, scheme.T)
        senders = np.unique(np.concatenate([plan.senders for plan in self._plans.values()]))
        return AgreedMasks(channel, scheme.field, KeyAgreement.between(channel, senders, self._relays[: scheme.T]))

    def _hand_out(self, tags: Ids, plan: Plan, way: Grouping, step: Step) -> tuple[Ids, NDArray[np.bool_]]:
        """Every target tells those who send to it the fresh tag of its sum.

        Returns:
            int64 [m, 2], the tag of each message as its sender knows it, and bool [m], whose senders know it.
        """
        owners, axis = way.group_owner[plan.groups], self._axis
        abroad = np.flatnonzero(owners != plan.senders)
        known, told = tags[plan.groups], owners == plan.senders
        sent = self._on_every_tape(known[abroad])
        delivery = carried(self._channel, Phase.TAGS, step, owners[abroad], plan.senders[abroad], sent)
        rows = abroad if delivery.rows is None else abroad[delivery.rows]
        known[rows], told[rows] = delivery.payload[(0,) * axis], True
        return known, told

    def _packets(
        self, q: Elements, tags: Ids, told: NDArray[np.bool_], plan: Plan, supply: MaskSupply, step: Step
    ) -> _Packets:
        scheme, m = self._scheme, len(plan.rows)
        masks = supply.masks(step, plan.senders, q.shape[1])
        others = range(scheme.T + 1, scheme.R + 1)
        shares = [*masks, *source_shares(scheme.field, scheme.T, others, q, plan.rows, masks)]
        numbers, order = plan.slots, np.arange(m)
        if self._anonymous and not self._drawn:
            numbers = self._channel.draw("numbers", plan.senders, 2**63, (), step)
            order = np.argsort(numbers)
        header = np.column_stack([tags, numbers, np.zeros(m, dtype=np.int64)])
        seeds = supply.seeds if isinstance(supply, SeededMasks) else []
        seeded = [np.concatenate([header, seed], axis=1) for seed in seeds]
        return _Packets([*seeded, *[header] * (scheme.R - len(seeded))], shares, order[told[order]])

    def _deliver(self, packets: _Packets, plan: Plan, step: Step) -> list[Held]:
        held = []
        for j, relay in enumerate(self._relays.tolist()):
            nothing = np.zeros(len(plan.rows), dtype=np.bool_)
            headers = self._on_every_tape(np.zeros_like(packets.headers[j]))
            there = Held(relay, nothing, headers, np.zeros_like(packets.shares[j][:0]))
            self._seal(j, packets, plan, step)
            self._post(there, j, packets, plan, packets.order, step)
            held.append(there)
        return held

    def _seal(self, j: int, packets: _Packets, plan: Plan, step: Step) -> None:
        """Unnamed senders give their messages to their silos, sealed for the relay."""
        if self._anonymous:
            share, places = packets.shares[j], packets.order
            size = self._header_bytes(j, packets) + (j >= self._expanded) * share.shape[-1] * share.itemsize
            self._channel.send_sizes(Phase.SEALED, step, plan.senders[places], plan.proxies[places], size)

    def _post(self, held: Held, j: int, packets: _Packets, plan: Plan, places: Ids, step: Step) -> None:
        """Sends the messages at some places to one relay, by way of the silos where senders are unnamed."""
        channel, m = self._channel, len(plan.rows)
        senders, to = self._named(plan)[places], np.full(len(places), held.relay)
        whole = len(places) == m and not self._anonymous
        headers = packets.headers[j] if whole else packets.headers[j][places]
        phase = Phase.SHARE_SEEDS if headers.shape[1] > NAMING_WORDS else Phase.SHARE_HEADERS
        size = self._header_bytes(j, packets)
        delivery = carried(channel, phase, step, senders, to, self._on_every_tape(headers), wire_bytes=size)
        present = arrived(delivery, places, m)
        held.take("headers", delivery, step, channel, places)
        if j < self._expanded:
            held.shares = packets.shares[j]  # what the relay expands: it holds the same key or seed
        else:
            share = packets.shares[j] if whole else np.take(packets.shares[j], places, axis=self._axis)
            delivery = carried(channel, Phase.SHARES, step, senders, to, share)
            present &= arrived(delivery, places, m)
            if not len(held.shares):
                held.shares = np.zeros_like(packets.shares[j]) if delivery.rows is not None or not whole else share
            held.take("shares", delivery, step, channel, places)
        held.present = held.present | present

    def _named(self, plan: Plan) -> Ids:
        """int64 [m]: who hands each message to the relays, and is asked for it again: its sender, or the silo."""
        return plan.proxies if self._anonymous else plan.senders

    @property
    def _expanded(self) -> int:
        return 0 if self._supply is None else self._supply.expanded

    def _header_bytes(self, j: int, packets: _Packets) -> int:
        if not self._anonymous:
            return HEADER_BYTES
        seeded = packets.headers[j].shape[1] > NAMING_WORDS
        return SEALED_HEADER_BYTES + (SEED_BYTES if seeded else 0)

    def _agree(
        self, held: list[Held], packets: _Packets, plan: Plan, step: Step
    ) -> tuple[list[int], NDArray[np.bool_]]:
        """Relays agree once on the messages of the step: those that all of them hold that still answer.

        Returns:
            Which relays are alive, and bool [m]: which messages count.
        """
        live, alike = self._rosters(held, step)
        if alike:
            return live, held[live[0]].present
        for _ in range(self._scheme.resends):
            self._resend([held[j] for j in live], live, packets, plan, step)
        agreed = np.logical_and.reduce([held[j].present for j in live])
        self._note_left_out(~agreed, plan, step)
        self._check_headers([held[j] for j in live], agreed, plan, step)
        return live, agreed

    def _rosters(self, held: list[Held], step: Step) -> tuple[list[int], bool]:
        """Every relay tells every other the digest of what it holds; who is not heard of is out."""
        R = len(held)
        digests = np.array([np.frombuffer(each.digest(), dtype=np.int64) for each in held])
        one, other = np.nonzero(~np.eye(R, dtype=np.bool_))
        ends, said = (self._relays[one], self._relays[other]), self._on_every_tape(digests[one])
        delivery = carried(self._channel, Phase.ROSTERS, step, *ends, said)
        heard = set(delivery.senders.tolist())
        live = [j for j in range(R) if held[j].relay in heard and held[j].present.any()]
        for j in sorted(set(range(R)) - set(live)):
            self._channel.note_incident(step, held[j].relay, "the relay is not heard of and is left out of this step")
        if len(live) <= self._scheme.T:
            out = [str(self._channel.parties.party_of(held[j].relay)) for j in sorted(set(range(R)) - set(live))]
            raise ProtocolError(
                f"T + 1 = {self._scheme.T + 1} relays must hold messages and be heard of; found {len(live)} in round "
                f"{step.round}, without {', '.join(out)}"
            )
        complete = all(held[j].present.all() for j in live)
        from_live = np.isin(delivery.senders, [held[j].relay for j in live])
        first, told = digests[live[0]], delivery.payload[..., from_live, :]
        return live, complete and bool((digests[live] == first).all() and (told == first).all())

    def _resend(self, held: list[Held], live: list[int], packets: _Packets, plan: Plan, step: Step) -> None:
        """Relays exchange full rosters and ask for what another relay holds; the same bytes are sent again.

        Silos keep what they forwarded, and are asked for it by its place in their batch: tags are not their business.
        """
        anywhere = np.logical_or.reduce([each.present for each in held])
        m, channel = len(plan.rows), self._channel
        for each, j in zip(held, live, strict=True):
            others = np.array([other.relay for other in held if other is not each])
            channel.send_sizes(Phase.ROSTERS, step, np.full(len(others), each.relay), others, (m + 7) // 8)
            missing = packets.order[(anywhere & ~each.present)[packets.order]]  # no new order, which might tell
            if not len(missing):
                continue
            place = np.flatnonzero(np.isin(packets.order, missing))[:, None]
            demand = self._on_every_tape(place if self._anonymous else packets.headers[j][missing, :2])
            asked = self._named(plan)[missing]
            delivery = carried(channel, Phase.RESENDS, step, np.full(len(missing), each.relay), asked, demand)
            self._post(each, j, packets, plan, missing if delivery.rows is None else missing[delivery.rows], step)

    def _check_headers(self, held: list[Held], agreed: NDArray[np.bool_], plan: Plan, step: Step) -> None:
        first = held[0]
        for each in held[1:]:
            differs = (first.headers[..., :NAMING_WORDS] != each.headers[..., :NAMING_WORDS]).any(axis=-1)
            wrong = np.flatnonzero(differs.reshape(-1, len(agreed)).any(axis=0) & agreed)
            if len(wrong):
                sender = self._channel.parties.party_of(int(plan.senders[wrong[0]]))
                raise ProtocolError(
                    f"{sender} must send the same header to every relay; "
                    f"those that reached relays {first.relay} and {each.relay} in round {step.round} differ"
                )

    def _note_left_out(self, missing: NDArray[np.bool_], plan: Plan, step: Step) -> None:
        senders, counts = np.unique(plan.senders[missing], return_counts=True)
        for sender, count in zip(senders.tolist(), counts.tolist(), strict=True):
            self._channel.note_incident(step, sender, f"{count} messages did not reach every relay and are left out")

    def _on_every_tape(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(values, (*self._channel.batch_shape, *values.shape))
