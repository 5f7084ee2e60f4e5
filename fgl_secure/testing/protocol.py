"""A protocol under test: a callable, the parties it runs between, and the field its messages live in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgl_secure.algebra import MERSENNE_31
from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, Directory, Party, Recording, Step, Transcript
from fgl_secure.testing.coins import TapeError

Inputs = NDArray[Any]
Run = Callable[[Inputs, Channel], object]


@dataclass(frozen=True, slots=True, eq=False)
class Protocol:
    """What is tested.

    Attributes:
        run: `run(inputs, channel)`; draws every coin from the channel and sends every message through it.
        parties: between whom it runs.
        modulus: size of the field, or ring, that messages live in; only statistical checks use it.
        owners: int64 [rows], the party that brings each row of the inputs; None where row i is party i's.
        batched: whether `run` handles the leading axes `channel.batch_shape` of draws and payloads, so that one call
            covers all tapes or samples; False calls it once for each, which is slow and asks nothing of `run`.
        name: what messages call it; the name of `run` unless given.

    Examples:
        masked_sum = Protocol(run, Directory({Role.SILO: 3, Role.SERVER: 1}), modulus=5)
    """

    run: Run
    parties: Directory
    modulus: int = MERSENNE_31
    owners: NDArray[np.int64] | None = None
    batched: bool = True
    name: str = ""

    def __str__(self) -> str:
        inner = getattr(self.run, "func", self.run)  # a partial is called by what it wraps
        return self.name or str(getattr(inner, "__name__", type(inner).__name__))

    def run_once(self, inputs: Inputs, coins: Coins, recording: Recording) -> tuple[Transcript, Exception | None]:
        """Runs the protocol once.

        Returns:
            what the channel recorded, and the error that the run ended with, None where it came to its end.

        Raises:
            TapeError: draws depend on coins.
        """
        channel = Channel(self.parties, coins, recording)
        try:
            self.run(inputs.copy(), channel)
        except TapeError:
            raise
        except Exception as error:  # whatever a run ends with is seen by those who take part
            if self.batched and isinstance(error, InputError):
                error.add_note(
                    "payloads must carry the channel's batch_shape as leading axes; "
                    "Protocol(..., batched=False) runs a protocol that has none"
                )
            return channel.transcript, error
        return channel.transcript, None

    def transcript(self, inputs: Inputs, coins: Coins, recording: Recording) -> Transcript:
        """Runs the protocol once and returns what the channel recorded, or raises what the run ended with."""
        transcript, error = self.run_once(inputs, coins, recording)
        if error is not None:
            raise error
        return transcript

    def checked_inputs(self, inputs: ArrayLike, name: str) -> Inputs:
        """An array with one row for each owner, or an `InputError`."""
        array = np.asarray(inputs)
        rows = len(self.parties) if self.owners is None else len(self.owners)
        if array.ndim < 1 or len(array) != rows:
            raise InputError(f"{name} must have {rows} rows, one for each owner; found shape {list(array.shape)}")
        return array

    def rows_of(self, coalition: Iterable[Party]) -> NDArray[np.bool_]:
        """Which rows of the inputs are the coalition's own: bool [rows]."""
        owners = np.arange(len(self.parties)) if self.owners is None else self.owners
        return np.isin(owners, [self.parties.id_of(party) for party in coalition])


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Two inputs between which a coalition must not be able to tell.

    Attributes:
        a: the first input.
        b: the second.
        coalition: who pools views.
    """

    a: Inputs
    b: Inputs
    coalition: tuple[Party, ...]

    @classmethod
    def about(cls, protocol: Protocol, a: ArrayLike, b: ArrayLike, coalition: Iterable[Party]) -> Question:
        """Checks that the question is fair: the coalition's own inputs are the same in both."""
        first, second = protocol.checked_inputs(a, "inputs_a"), protocol.checked_inputs(b, "inputs_b")
        members = tuple(sorted(set(coalition)))
        if not members:
            raise InputError("coalition must have at least one member; found none")
        if first.shape != second.shape:
            raise InputError(f"inputs_a and inputs_b must have one shape; found {first.shape} and {second.shape}")
        if np.array_equal(first, second):
            raise InputError("inputs_a and inputs_b must differ; found equal inputs, which nothing distinguishes")
        own_rows = protocol.rows_of(members)
        if not np.array_equal(first[own_rows], second[own_rows]):
            differs = np.flatnonzero(own_rows)[
                (first[own_rows] != second[own_rows]).reshape(int(own_rows.sum()), -1).any(axis=1)
            ]
            raise InputError(
                "the coalition's own inputs must be equal in inputs_a and inputs_b, or it can tell them apart without "
                f"the protocol; found different rows {differs.tolist()} for {words(members)}"
            )
        return cls(first, second, members)

    def __str__(self) -> str:
        return words(self.coalition)


def words(coalition: Iterable[Party]) -> str:
    """The members, as sentences name them."""
    return " and ".join(map(str, coalition))


_ONE_SUM = (Step(0),)


def protocol_of(
    scheme: Scheme, grouping: Grouping, parties: Directory, *, steps: tuple[Step, ...] = _ONE_SUM, batched: bool = True
) -> Protocol:
    """Wraps a scheme: opens it on a grouping and computes one sum a step.

    Inputs are the rows of the grouping: reals [n, d], the same in every step, or [n, steps, d].

    Args:
        scheme: what is tested.
        grouping: who sends what to whom.
        parties: numbering of the parties that `grouping` speaks of.
        steps: rounds, layers and directions of the sums.
        batched: False for a scheme that draws more than uniform elements (such as points of its own choice).
    """
    if not steps:
        raise InputError("steps must hold at least one step; found none")
    modulus = scheme.public.modulus or MERSENNE_31
    run = _SchemeRun(scheme, grouping, steps)
    return Protocol(run, parties, modulus, grouping.row_owner, batched, scheme.name)


@dataclass(frozen=True, slots=True, eq=False)
class _SchemeRun:
    scheme: Scheme
    grouping: Grouping
    steps: tuple[Step, ...]

    def __call__(self, inputs: Inputs, channel: Channel) -> None:
        session = Collective(self.scheme, Topology(NEIGHBOURS, self.grouping, inputs.shape[-1]), channel)
        for number, step in enumerate(self.steps):
            session.sum(inputs if inputs.ndim == 2 else inputs[:, number], step)
