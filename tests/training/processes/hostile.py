"""Parcels of an authenticated silo or relay that departs from the protocol: what stands below the seal.

A server in the middle changes sealed bytes, and the seal refuses them. A party itself can seal anything. So here each
party of a run, put down before a turn, is sent parcels of one other party that were changed before they were sealed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.program import FedStructTask, clients_of
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.ckks import Ckks
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging
from fgl_secure.runtime.packing import named_from_bytes
from fgl_secure.training.job import Job
from fgl_secure.training.presets import HONEST
from fgl_secure.training.processes.process import Inbox, Outbox, parcels_from_bytes, parcels_to_bytes
from fgl_secure.training.processes.program_run import ProgramRun
from tests.graphs import two_communities
from tests.methods.fedstruct.test_processes import SMALL
from tests.protocols.hostile import Prepare, changed_bytes
from tests.training.processes.runs import SESSION, Make, PutDown, run_together

SILOS = 3
LATER = 2
"""Turns that follow the one with changed parcels: what was taken must not end in another error then."""


@dataclass(frozen=True, slots=True, eq=False)
class AtParty:
    """A turn of one party.

    Attributes:
        make: gives its process.
        kept: its state before the turn, as bytes.
        inboxes: what it was sent in all turns of the run.
        number: of the turn.
    """

    make: Make
    kept: bytes
    inboxes: Sequence[Inbox]
    number: int

    @property
    def inbox(self) -> Inbox:
        """What it was sent in this turn."""
        return self.inboxes[self.number]

    def hear(self, sender: int, data: bytes) -> None:
        """Has the party take other parcels of one sender, answer, and go on with what it was sent in the next turns.

        Raises:
            FglSecureError: it refuses them, at once or later.
        """
        process = self.make()
        changed = {**self.inbox, sender: parcels_from_bytes(data)}
        try:
            process.restore(named_from_bytes(self.kept))
            for inbox in (changed, *self.inboxes[self.number + 1 : self.number + 1 + LATER]):
                for parcels in process.step(inbox).values():
                    parcels_to_bytes(parcels)
        finally:
            process.close()


class _Noting(PutDown):
    """Notes each turn before it is had."""

    def __init__(self, make: Make, heard: list[AtParty]) -> None:
        super().__init__(make)
        self._heard, self._inboxes = heard, list[Inbox]()

    def step(self, inbox: Inbox) -> Outbox:
        self._inboxes.append(inbox)
        if inbox:
            self._heard.append(AtParty(self._make, self._kept, self._inboxes, len(self._inboxes) - 1))
        return super().step(inbox)


def to_parties(job: Callable[[], Job]) -> Prepare:
    """All that silos, relays and the server send silos and relays in a small run."""
    heard: list[AtParty] = []
    made = job()
    run = ProgramRun(made.complete_task, made.graph.num_silos)
    shares = [made.share(silo) for silo in range(run.silos)]
    makes = {n: partial(run.process, n, SESSION, partial(shares.__getitem__, n)) for n in range(run.parties)}
    run_together({party: _Noting(make, heard) for party, make in makes.items()}, run.server(SESSION))

    def prepare(random: Random) -> Callable[[], None]:
        arrival = random.choice(heard)
        sender = random.choice(list(arrival.inbox))
        data = changed_bytes(parcels_to_bytes(arrival.inbox[sender]), random, SESSION)
        return lambda: arrival.hear(sender, data)

    return prepare


def _hifgl(scheme: RelayCoded) -> Job:
    schemes = {"neighbours": scheme, "members": CodedProducts.over(scheme), "server": PairwiseMasking()}
    graph = two_communities(devices=24, silos=SILOS)
    return silos_of(graph, schemes, replace(HONEST, epochs=1, hidden=4), backbone="gcn")


def _fedstruct() -> Job:
    task = FedStructTask(replace(SMALL, epochs=1), RowExchange(Ckks(), PairwiseMasking()))
    return clients_of(two_communities(devices=24, silos=SILOS), task)


PLACES: Mapping[str, Callable[[], Prepare]] = {
    "silos: coded products": partial(to_parties, partial(_hifgl, RelayCoded(k_min=1, profile=Profile.SHOWN))),
    "silos: relays, hidden graph": partial(
        to_parties, partial(_hifgl, RelayCoded(k_min=2, profile=Profile.HIDDEN, max_degree=4, tags=Tagging.SEALED))
    ),
    "silos: ckks for clients": partial(to_parties, _fedstruct),
}
"""Where parcels arrive, by what the run computes."""
