"""A scheme from outside sums over neighbours with a process for each silo, as those of this package do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from fgl_secure.algebra import FixedPoint
from fgl_secure.errors import InputError
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import HostedScheme, Scheme, SumMachine
from fgl_secure.protocols.topology import Grouping, Topology
from fgl_secure.runtime import Claim, Draws, PublicParameters, Role
from fgl_secure.training.job import Job
from fgl_secure.training.presets import HONEST
from fgl_secure.typing import Ids
from tests.graphs import two_communities
from tests.training.processes.runs import agree, apart

GRAPH = two_communities(devices=24, silos=3)


@dataclass(frozen=True)
class Outsider(Scheme):
    """Sums as another scheme does, of which it is no subclass."""

    inner: Scheme

    label: ClassVar[str] = "outsider"
    summary: ClassVar[str] = "what another scheme does"

    @property
    def name(self) -> str:
        return self.label

    @property
    def public(self) -> PublicParameters:
        return self.inner.public

    @property
    def helpers(self) -> Mapping[Role, int]:
        return self.inner.helpers

    def refuses(self, topology: Topology) -> str | None:
        return self.inner.refuses(topology)

    def claim_for(self, topology: Topology) -> Claim:
        return self.inner.claim_for(topology)

    def limit(self, terms: int) -> int | None:
        return self.inner.limit(terms)

    def fixed_point(self, terms: int) -> FixedPoint | None:
        return self.inner.fixed_point(terms)

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        return self.inner.answered_grouping(grouping)

    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        return self.inner.machines(topology, session, draws, hosted, names=names)


class Apart(Outsider):
    """Says that its machines run apart."""

    def refuses_hosting(self, *, devices: bool) -> str | None:
        """As its inner scheme."""
        assert isinstance(self.inner, HostedScheme)
        return self.inner.refuses_hosting(devices=devices)


def job_under(rows: Scheme) -> Job:
    """One round of HiFGL."""
    schemes = {"neighbours": rows, "members": Plaintext(), "server": Plaintext()}
    return silos_of(GRAPH, schemes, HONEST.with_epochs(1))


@pytest.mark.parametrize(
    "inner", [Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)], ids=lambda each: each.label
)
def test_a_scheme_from_outside_serves_neighbours(inner: Scheme) -> None:
    """With relays and without; every silo reports what it reports under the scheme that does the same."""
    agree(apart(job_under(Apart(inner))), apart(job_under(inner)))


def test_a_scheme_that_does_not_run_apart_is_refused() -> None:
    """Because it says nothing of it, or because its parameters do not fit."""
    for rows in (Outsider(Plaintext()), Apart(RelayCoded(profile=Profile.HIDDEN))):
        with pytest.raises(InputError):
            apart(job_under(rows))
