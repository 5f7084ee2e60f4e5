"""Sums in the clear, for every topology."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from fgl_secure.algebra import MERSENNE_61
from fgl_secure.config_fields import name_members
from fgl_secure.errors import InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.plaintext.machines import Adder, Owners, PlaintextClients, PlaintextSenders, PlaintextSilos
from fgl_secure.protocols.scheme import Scheme, SumMachine, check_range, select_hosted
from fgl_secure.protocols.stepwise import CompositeMachine, SumTerms
from fgl_secure.protocols.topology import CLIENTS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import Claim, Draws, Phase, PublicParameters
from fgl_secure.typing import Ids

LARGEST = 2**62
"""What int64 holds with a bit to spare."""


class Path(StrEnum):
    """Which way neighbours' rows travel in the clear."""

    DIRECT = "direct"
    SILO = "silo"


@dataclass(frozen=True, slots=True)
class Plaintext(Scheme):
    """Every row is sent as it is, and the receiver adds up.

    Attributes:
        path: DIRECT sends each row to the owner of its sum. SILO sends neighbours' rows to the silo of that owner,
            which adds up: how frameworks work that let silos read the neighbours of their nodes, the setting that
            HiFGL's leakage measure (A.1, Eq. 6) was made for.
        minimum_group: least messages of a neighbours' sum that is computed, to compare with schemes that refuse small
            groups.
        threshold: least clients whose vectors are in one sum of all; None takes floor(2 n / 3) + 1 of n, as the
            schemes do that this one is compared with.
    """

    path: Path = Path.DIRECT
    minimum_group: int = 1
    threshold: int | None = None

    label: ClassVar[str] = "plaintext"
    summary: ClassVar[str] = "every value in the clear; the oracle of correctness"
    parameters: ClassVar[tuple[str, ...]] = ("threshold", "path", "minimum_group")
    wide: ClassVar[str] = "it is what others are compared with, and sends numbers as they are"
    takes_reals: ClassVar[bool] = True
    uses_keys: ClassVar[bool] = False

    def __post_init__(self) -> None:
        name_members(self)
        for name, value in (("minimum_group", self.minimum_group), ("threshold", self.threshold)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1; found {value}")

    @property
    def modulus(self) -> int:
        """2^61 - 1."""
        return MERSENNE_61

    @property
    def public(self) -> PublicParameters:
        """Nothing to know."""
        return PublicParameters()

    def refuses(self, topology: Topology) -> str | None:
        """None, but for sums of all clients that nobody adds up."""
        if topology.name in (CLIENTS, SERVER) and not topology.is_one_sum:
            return "it adds up one vector of each client, and one party does so"
        return None

    def refuses_hosting(self, *, devices: bool) -> str | None:  # noqa: ARG002  # whoever adds up
        """None, but for rows by way of silos; see `HostedScheme`."""
        return None if self.path is Path.DIRECT else "its rows travel by way of silos; take path=direct"

    def claim_for(self, topology: Topology) -> Claim:  # noqa: ARG002  # whatever it is
        """No promise."""
        return Claim(guarantees=(), leaks_by_design=(), assumptions=())

    def limit(self, terms: int) -> int:  # noqa: ARG002  # whatever their number
        """What int64 holds with a bit to spare; reals are summed as they are."""
        return LARGEST

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """Without the messages to groups that are too small."""
        return grouping.answered_grouping(self.minimum_group)

    def threshold_for(self, clients: int) -> int:
        """Least clients in a sum of so many.

        Raises:
            InputError: there are fewer clients than the threshold.
        """
        if self.threshold is not None and self.threshold > clients:
            raise InputError(f"threshold must be at most the number of clients, {clients}; found {self.threshold}")
        return 2 * clients // 3 + 1 if self.threshold is None else self.threshold

    def require_all(self, senders: int) -> Plaintext:  # noqa: ARG002  # whatever their number
        """Itself: who adds up reads every vector, so that subtraction reveals nothing more."""
        return self

    def machines(
        self,
        topology: Topology,
        session: bytes,
        draws: Draws,
        hosted: Ids | None = None,
        *,
        names: Names | None = None,  # noqa: ARG002  # there is nothing to sign
    ) -> tuple[SumMachine, ...]:
        """See `Scheme.machines`. Clients and an adder, or all owners in one; silos beside them on the path of silos.

        Nothing but the states of machines is bound to the session.
        """
        self.check_serves(topology)
        check_range(self, topology)
        g, terms = topology.grouping, SumTerms(repr(self), topology, session, draws.batch_shape)
        owners = select_hosted(hosted, g.owners)
        least = self.minimum_group if topology.name == NEIGHBOURS else 1
        result: tuple[SumMachine, ...] = (Owners(owners, terms, least),)
        if topology.name in (CLIENTS, SERVER):
            clients, adder = select_hosted(hosted, g.row_owner), select_hosted(hosted, g.group_owner)
            threshold = self.threshold_for(len(g.row_owner))
            result = (PlaintextClients(clients, terms), Adder(adder, terms, threshold))
        elif topology.name == NEIGHBOURS and self.path is Path.SILO:
            silos = select_hosted(hosted, g.row_custodian, g.group_custodian)
            result = (PlaintextSenders(owners, terms, least), PlaintextSilos(silos, terms, least))
            if np.isin(owners, silos).any():
                read = (Phase.ADDRESSES, Phase.VALUES)
                result = (CompositeMachine((result[0], (Phase.SUMS,)), (result[1], read)),)
        return tuple(machine for machine in result if len(machine.parties))
