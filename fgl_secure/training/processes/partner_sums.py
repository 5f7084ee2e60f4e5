"""Sums between partners, with a process for each silo: devices agree on partners before the first sum.

A silo's process hosts its devices while they agree, and knows what they know: their partners, and of ways through them
where they come from and go to. Who is at the other end of a way it is not told.
"""

from __future__ import annotations

import numpy as np

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.protocols.partnering import Partnering
from fgl_secure.protocols.partners.agreement import Partners, outcome
from fgl_secure.protocols.partners.machine import PartnerDevices
from fgl_secure.protocols.scheme import HostedScheme, Scheme, SumMachine
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime.packing import Arrays, under, within
from fgl_secure.training.processes.hosting import Hosting
from fgl_secure.training.processes.process import Inbox, Outbox
from fgl_secure.training.processes.relay import HostedSums
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array, Ids


class PartnerSums(HostedSums):
    """One silo's part in such sums.

    Args:
        share: what it holds.
        scheme: its parameters, with a max_degree.
        rules: of the agreement.
        session: 16 public bytes, different in every run.
        coins: its own, secret.

    Raises:
        InputError: edges are directed.
        FieldRangeError: the field cannot hold the sums.
    """

    def __init__(self, share: Silo, scheme: Scheme, rules: Partnering, session: bytes, coins: Coins) -> None:
        super().__init__(share, scheme, session, coins)
        self._fixed = scheme.fixed_point(rules.most)
        ends, owners, silos = self._known()
        source, target = np.searchsorted(ends, share.edges)
        self._sides = Grouping(owners, owners, source, target, silos, silos)
        self._devices = PartnerDevices(self._numbering.device(share.nodes), self._sides, rules, self._draws)
        self._agreement = Hosting([self._devices], share.silo, self._process_of, session)
        self._chosen: Partners | None = None

    def prepare(self) -> Outbox:
        """Devices tell neighbours their numbers."""
        return self._agreement.turn({})

    def take(self, inbox: Inbox) -> Outbox | None:
        """One turn; see `HostedSums.take`."""
        if self.agreed:
            return super().take(inbox)
        out = self._agreement.turn(inbox)
        if self._devices.settle():
            return out
        self._agree()
        return None

    @property
    def _partners(self) -> Partners:
        if self._chosen is None:
            self._chosen = outcome(self._sides, self._devices)
        return self._chosen

    def _hosted(self) -> Hosting[SumMachine]:
        numbering, partners = self._numbering, self._partners
        silos = numbering.silo(np.arange(self._share.facts.silos))
        return self._hosting_of(
            Topology(
                NEIGHBOURS,
                partners.grouping,
                self._width,
                helpers=numbering.all_relays,
                circuits=partners.circuits,
                others=silos,
                keys=partners.keys,
            )
        )

    def summed(self) -> Ids:
        """int64 [m]: messages in the forward sum of each device."""
        return self._counted(self._scheme.answered(self._partners.grouping))

    def partners(self) -> Ids:
        """int64 [m]: partners of each device."""
        return self._counted(self._partners.grouping)

    def _counted(self, grouping: Grouping) -> Ids:
        counts = np.bincount(grouping.target, minlength=len(grouping.group_owner))
        found: Ids = counts[np.searchsorted(self._known()[0], self._share.nodes)]
        return found

    def state(self) -> dict[str, Array]:
        """What devices know of partners, keys, and the sum at hand."""
        return super().state() | under("agreement", self._agreement.state())

    def restore(self, state: Arrays) -> None:
        """Goes on where a state was taken."""
        self._agreement.restore(within("agreement", state))
        self._chosen = None
        super().restore(state)


def check_hosted(scheme: Scheme, *, devices: bool = True) -> None:
    """Raises InputError unless a scheme of neighbours' sums can be had with a process for each silo.

    Args:
        scheme: of these sums.
        devices: whether rows of devices travel to all their neighbours.
    """
    why = scheme.refuses_hosting(devices=devices) if isinstance(scheme, HostedScheme) else "it has no such form"
    if why is not None:
        raise InputError(
            f"scheme must serve neighbours with a process for each silo; {scheme.name} does not, because {why}"
        )


def hosted_sums(
    silo: Silo, scheme: Scheme, session: bytes, coins: Coins, width: int, *, crossing: bool = False
) -> HostedSums:
    """One silo's part in sums over neighbours under a scheme; see `check_hosted`, `PartnerSums` and `HostedSums`."""
    check_hosted(scheme, devices=not crossing)
    rules = scheme.partnering(_NO_MESSAGES)
    if rules is not None:
        return PartnerSums(silo, scheme, rules, session, coins)
    # Relays are not told how wide rows are, and all parties must be told alike.
    return HostedSums(silo, scheme, session, coins, 1 if scheme.helpers else width, crossing=crossing)


_NO_MESSAGES = Grouping(*[np.empty(0, dtype=np.int64)] * 6)
"""What rules are worked out from that need no more than the scheme's own parameters."""
