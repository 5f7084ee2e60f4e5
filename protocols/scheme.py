"""What a scheme is: it says which topologies it serves, what it promises there, and gives the machines that do it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import FixedPoint, PrimeField
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.crypto.streams import ModularRing
from fgl_secure.errors import FieldRangeError, InputError
from fgl_secure.protocols.identity import Names
from fgl_secure.protocols.topology import Contributors, Grouping, Partnering, Topology
from fgl_secure.runtime import Claim, Draws, Machine, MessageKind, PublicParameters, Role, Step
from fgl_secure.typing import Array, Flags, Ids

NO_HELPERS: Mapping[Role, int] = MappingProxyType({})


ROW_BOUND, LARGEST_ROW_BOUND = 16.0, 1024.0
"""Largest magnitude of an entry of a neighbour's row over a field, unless another bound is given; and the largest such
bound that a method takes by itself. Ranges are found in runs with a larger one."""


class Rounding(StrEnum):
    """What becomes of the error that a number is rounded by."""

    FRESH = "fresh"
    """Nothing: every round rounds anew."""
    ERROR_FEEDBACK = "error-feedback"
    """Its client keeps it and adds it to the number of the next round (Seide et al. 2014, Karimireddy et al. 2019)."""


class RowEncoding(Protocol):
    """A map of real rows into what a scheme sums, and of sums back; `FixedPoint` is one."""

    @property
    def bound(self) -> float:
        """Largest magnitude of one entry."""

    @property
    def fraction_bits(self) -> int:
        """Bits behind the binary point."""

    def encode(self, values: NDArray[np.floating[Any]], /) -> Array:
        """Rows as they are summed.

        Raises:
            InputError: an entry is not finite, or beyond the bound.
        """

    def decode(self, elements: Array, /) -> NDArray[np.float64]:
        """Sums as reals."""


SHORT: Mapping[str, str] = MappingProxyType({"field": "p", "modulus": "p", "delivery": "mu", "minimum_group": "k_min"})
"""Fields of schemes that a name calls otherwise."""
_ALONE = frozenset({"keys", "rounding"})
"""Fields whose values stand in a name without the field's name."""


def _format_field(scheme: Any, field: Field[Any]) -> str:
    """How a name has a field of a scheme; empty where it has its default."""
    value, default = getattr(scheme, field.name), field.default
    if value == (KeyAgreement.HYBRID if isinstance(value, KeyAgreement) else default):
        return ""
    text = str(value.modulus if isinstance(value, PrimeField) else value)
    return text if field.name in _ALONE else f"{SHORT.get(field.name, field.name)}={text}"


@dataclass(frozen=True, slots=True)
class UniformField:
    """A field of messages whose words must be uniform and independent, whatever is summed.

    Attributes:
        phase: of the messages; or the name by which receivers note what they open of sealed ones (`note_secrets`).
        name: of the field; empty for what is noted.
        modulus: how many values a word has; 0 where that follows from what is summed.
    """

    phase: MessageKind | str
    name: str
    modulus: int

    @property
    def key(self) -> tuple[str, str]:
        """The label of the messages, and the field."""
        return (self.phase if isinstance(self.phase, str) else self.phase.label), self.name


class SumMachine(Machine):
    """A role in the sums of one topology, over as many steps as there are, one after another.

    Args:
        parties: int64 [k], ascending identifiers of those hosted.
    """

    @abstractmethod
    def begin(self, step: Step, rows: Array | None = None) -> None:
        """Starts a step; it is given up if another one was current.

        Args:
            step: round, layer and direction; a backward step runs along the reversed messages.
            rows: [n, d], what the hosted owners of rows add, in the order of the topology's rows; None where no owner
                is hosted. They may be `Later` where the scheme reads them one by one.

        Raises:
            InputError: rows have another shape or type, or an entry is beyond the bound (not shown).
            ProtocolError: the step was summed before, so that masks would be used twice.
        """

    def veto(self, senders: Flags) -> None:
        """Has some hosted owners of rows veto the current sum: no party learns it then, nor who did.

        What they add does not matter: it is replaced by something uniform.

        Args:
            senders: bool [n], in the order of the topology's rows.

        Raises:
            InputError: owners may not veto such sums, or it is too late for the current one.
        """
        if senders.any():
            raise InputError("veto must be of a sum that senders may veto; this is none")

    @property
    def is_vetoed(self) -> bool:
        """Whether an owner has vetoed the current sum, as far as the hosted parties know: there are no `sums` then."""
        return False

    @property
    @abstractmethod
    def sums(self) -> Array | None:
        """[*tapes, g, d], the sums of the hosted entitled parties, in the order of the topology's groups.

        None where no party hosted is entitled to one, or before they are there.
        """

    @property
    def over(self) -> bool:
        """Whether the hosted parties have nothing more to say or hear in the current step, as far as they can tell."""
        return False

    @property
    def contributors(self) -> Ids | None:
        """Party identifiers of those whose rows are in the one sum; None where there are several sums, or none yet."""
        return None

    def reset(self) -> None:
        """Hears that the current step is over for every party, and its sums read: forgets what only it needed.

        Where one process hosts all parties, what they hold of a step is large, and others need the memory meanwhile.
        """


class Scheme(ABC):
    """A way to compute sums, and what it promises about them. A frozen dataclass of its parameters.

    A scheme has `label`, `summary`, `public`, `refuses`, `claim_for`, `limit` and `machines`. All else has a default
    that says that it can't: bound degrees, leave out small groups, write numbers at fewer bits, go on without some
    clients, let senders veto.
    """

    label: ClassVar[str]
    """What it is called without its parameters."""
    summary: ClassVar[str]
    """What it does, in one line."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Fields that a caller may set in brackets behind the label: numbers, primes, or words of an enumeration."""
    named: ClassVar[tuple[str, ...]] = ()
    """Fields that a name shows where they differ from the default; the parameters unless given."""
    takes_reals: ClassVar[bool] = False
    """Whether rows of one sum of all clients may be reals, which are summed as they are."""
    reads_one_by_one: ClassVar[bool] = False
    """Whether rows of one sum of all clients may be `Later`: each is read once, when its client hands it in."""
    wide: ClassVar[str] = "its sums have no ring that could be smaller"
    """Why numbers can't be written at fewer bits, in words that follow "because"."""
    adds_noise: ClassVar[bool] = False
    """Whether neighbours' rows are clipped, and carry noise that may be larger than what schemes are made for."""
    custodian_decodes: ClassVar[bool] = False
    """Whether the silo of a receiver sees every part of the receiver's sum, so that silos must not be receivers."""
    uses_keys: ClassVar[bool] = True
    """Whether keys, tags or masks are bound to the name of a session, which is drawn for those alone."""

    @classmethod
    def of_parameters(cls, values: Mapping[str, Any]) -> Self:
        """The scheme with some fields set, where others may follow from them."""
        return cls(**values)

    @property
    def name(self) -> str:
        """The label, with the parameters that differ from the default in brackets."""
        known: Any = self  # schemes are dataclasses
        chosen = [_format_field(known, item) for item in fields(known) if item.name in (self.named or self.parameters)]
        named = ",".join(sorted(filter(None, chosen), key=lambda item: not item.startswith("p=")))
        return f"{self.label}[{named}]" if named else self.label

    @property
    @abstractmethod
    def public(self) -> PublicParameters:
        """Parameters that every party knows."""

    @abstractmethod
    def refuses(self, topology: Topology) -> str | None:
        """Why it can't serve a topology, in words that follow "because"; None where it serves it."""

    @property
    def variants(self) -> tuple[Scheme, ...]:
        """The scheme under other parameters or readings of its source, which an audit runs as well; none by default."""
        return ()

    def vetoes(self, topology: Topology) -> bool:  # noqa: ARG002  # for those that can
        """Whether owners of rows can veto sums like those of a topology, whatever it says of vetoes."""
        return False

    @abstractmethod
    def claim_for(self, topology: Topology) -> Claim:
        """What it promises, admits and assumes for a topology that it serves."""

    @abstractmethod
    def limit(self, terms: int) -> int | None:
        """The largest magnitude that a sum of up to `terms` integers may reach and still be exact; None for reals."""

    def fixed_point(self, terms: int) -> FixedPoint | None:  # noqa: ARG002  # for those over a field
        """The map of neighbours' rows into a field, for sums of up to `terms` rows; None where there is no field.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """
        return None

    def adapt(self, topology: Topology) -> Scheme:  # noqa: ARG002  # for those that adapt
        """The scheme with parameters that it chooses for a topology that it serves."""
        return self

    def encoding(self, topology: Topology) -> RowEncoding | None:
        """The map of real rows of a topology into what is summed; None where rows go in as they are.

        Raises:
            FieldRangeError: the field cannot hold such sums.
        """
        return self.fixed_point(topology.terms)

    def partnering(self, grouping: Grouping) -> Partnering | None:  # noqa: ARG002  # for those that bound degrees
        """The rules by which devices choose partners among their neighbours; None where all neighbours are partners.

        Args:
            grouping: who has whom as neighbour.
        """
        return None

    def among(self, partners: Partnering) -> Scheme:  # noqa: ARG002  # the same
        """The scheme as it runs between such partners."""
        return self

    def answered_grouping(self, grouping: Grouping) -> Grouping:
        """The messages of a grouping that go into sums which are computed."""
        return grouping

    @property
    def contributors(self) -> Contributors:
        """Which contributors count when it is decided which sums are computed."""
        return Contributors.ALL

    @property
    def precision(self) -> int | None:
        """Bits at which real numbers of means are written, 8, 16 or 32; None for as many as there is room for."""
        return None

    @property
    def rounding(self) -> Rounding:
        """What becomes of the errors that they are rounded by."""
        return Rounding.FRESH

    def at_precision(self, bits: int, rounding: Rounding = Rounding.FRESH) -> Scheme:  # noqa: ARG002  # for those that can
        """The scheme with real numbers of means at so many bits.

        Raises:
            InputError: it can't, or has a precision of its own.
        """
        raise InputError(f"precision must not be given under {self.name}, because {self.wide}; found {bits}")

    def check_full_precision(self) -> None:
        """Raises InputError where it has a precision of its own."""
        if self.precision is not None:
            raise InputError(f"precision must be given once; found another one for {self.name}")

    def ring_of(self, topology: Topology) -> ModularRing | None:  # noqa: ARG002  # for those with masks
        """The ring that vectors of one sum of all clients are masked in, and how its elements travel; None for none."""
        return None

    @property
    def modulus(self) -> int | None:
        """The modulus of sums whose topology has no bound, and whose entries are elements; None for no such sums."""
        return None

    def threshold_for(self, clients: int) -> int:
        """Least clients that one sum of so many goes on with, where some drop out; all of them unless it says less.

        Raises:
            InputError: too few clients, or a threshold that privacy forbids.
        """
        return clients

    def require_all(self, senders: int) -> Scheme:
        """The scheme for sums that all of so many senders are in: without one of them there is no sum.

        A threshold that follows from the number of senders becomes all of them.

        Raises:
            InputError: a lower threshold was chosen.
        """
        threshold = self.threshold_for(senders)
        if threshold == senders:
            return self
        if getattr(self, "threshold", threshold) is not None:
            raise InputError(
                f"threshold must be all {senders} senders, for none may be missing here; found {threshold} under "
                f"{self.name}, so omit the parameter"
            )
        return replace(self, threshold=senders)  # type: ignore[type-var]  # schemes are dataclasses

    def uniform_fields(self, topology: Topology) -> tuple[UniformField, ...]:  # noqa: ARG002  # for those with masks
        """Fields that may depend on rows, because masks or shares hide them: audits test that their words are uniform.

        In an audit no other field of a message may depend on a row. None of these is for several receivers.
        """
        return ()

    @property
    def helpers(self) -> Mapping[Role, int]:
        """How many parties of which role take part beside those of the topology."""
        return NO_HELPERS

    @abstractmethod
    def machines(
        self, topology: Topology, session: bytes, draws: Draws, hosted: Ids | None = None, *, names: Names | None = None
    ) -> tuple[SumMachine, ...]:
        """The machines of some parties, one a role.

        Args:
            topology: that the scheme serves.
            session: 16 public bytes, different in every session; what else all parties must have been told alike may
                follow them: where keys are bound to it, parties that were told otherwise have no sum.
            draws: coins of those parties.
            hosted: int64 [k], party identifiers; all that take part unless given.
            names: identities that sign keys, where a scheme has keys to sign, so that no server passes on its own.

        Raises:
            InputError: the scheme refuses the topology, or its parameters do not fit it.
            FieldRangeError: the field cannot hold the sums.
        """

    def check_serves(self, topology: Topology) -> None:
        """Raises InputError, with the reason, where it refuses a topology."""
        why = self.refuses(topology)
        if why is not None:
            raise InputError(f"scheme must serve the topology {topology.name}; {self.name} does not, because {why}")
        if topology.veto and not self.vetoes(topology):
            raise InputError(f"scheme must let senders veto such sums; {self.name} does not")


@runtime_checkable
class HostedScheme(Protocol):
    """What a scheme also has whose neighbours' sums run with a process for each silo, which hosts the silo's devices.

    Its machines then are made of what one silo knows of the graph, and its relays are processes of their own.
    """

    def refuses_hosting(self, *, devices: bool) -> str | None:
        """Why its parameters do not fit such processes, in words that follow "because"; None if they do.

        Args:
            devices: whether rows of devices travel to all their neighbours; else silos add up beforehand.
        """


def check_range(scheme: Scheme, topology: Topology) -> None:
    """Raises FieldRangeError unless sums of so many rows of integers of that magnitude are exact under a scheme."""
    terms, limit = topology.terms, scheme.limit(topology.terms)
    if topology.bound is not None and limit is not None and terms * topology.bound > limit:
        raise FieldRangeError(
            f"bound must satisfy terms * bound <= {limit:,} under {scheme.name}; found {terms:,} * {topology.bound:,}"
        )


def needed_marks(scheme: Scheme, clients: int, k_min: int) -> int:
    """How many of so many clients must mark an entry, so that k_min are in its sum after drop-outs; 1 if k_min is.

    Marks are added up in a sum of their own, before that of the values. Between the two may vanish whom the threshold
    lets vanish.

    Raises:
        InputError: more than there are.
    """
    threshold = scheme.threshold_for(clients)
    if not 1 <= k_min <= threshold:
        raise InputError(
            f"k_min must lie in 1..{threshold}, the clients that a sum of {clients} has at least under {scheme.name}; "
            f"found {k_min}"
        )
    return 1 if k_min == 1 else k_min + clients - threshold


def least_group(scheme: Scheme) -> int:
    """Fewest messages of a neighbours' sum that a scheme computes; 1 where it computes all."""
    most = 1
    while True:
        sizes = np.arange(1, most + 1)
        target, rows = np.repeat(np.arange(most), sizes), np.arange(sizes.sum())
        apart = np.zeros_like(rows), np.ones_like(sizes)
        answered = scheme.answered_grouping(Grouping(rows, sizes, rows, target, *apart)).target
        if len(answered):
            return int(sizes[answered].min())
        most *= 4


def select_hosted(hosted: Ids | None, *parties: Ids) -> Ids:
    """Return those of some parties that one process hosts, ascending; all of them where `hosted` is None."""
    all_parties = np.unique(np.concatenate(parties))
    return all_parties if hosted is None else np.intersect1d(all_parties, hosted)
