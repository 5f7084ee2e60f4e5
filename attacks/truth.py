"""What truths of several families share: who is whose neighbour, what was sent, and clients that move on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fgl_secure.errors import InputError
from fgl_secure.runtime import Directory, PrivateBatch, Role, Step, Transcript
from fgl_secure.typing import Ids


class LinkedDevices(Protocol):
    """A truth with edges between devices of silos."""

    @property
    def silo_of(self) -> Ids:
        """int64 [n], the silo index of each device."""

    @property
    def edges(self) -> Ids:
        """int64 [2, m], source above target, device indices, of messages that were sent."""


class LinkedParties(LinkedDevices, Protocol):
    """A truth that numbers parties, for guesses that name them."""

    @property
    def parties(self) -> Directory:
        """Numbering of the parties."""


class SentRows(LinkedParties, Protocol):
    """A truth with the rows that devices sent along their edges."""

    @property
    def embeddings(self) -> Mapping[Step, NDArray[Any]]:
        """For each step, what each device sent, [n, d] as it entered the scheme."""


class LabelledDevices(Protocol):
    """A truth with a label for each device."""

    @property
    def silo_of(self) -> Ids:
        """int64 [n], the silo index of each device."""

    @property
    def labels(self) -> Ids:
        """int64 [n], the label of each device."""


def sent_rows(transcript: Transcript) -> dict[Step, NDArray[Any]]:
    """The rows [n, d] that devices put in, by step.

    The secrets of a step are the rows that were noted first: a scheme inside another one notes what it is handed, which
    may have noise on it already.

    Raises:
        InputError: the rows of a step are not one a device.
    """
    devices = transcript.parties.ids(Role.DEVICE)
    first: dict[Step, PrivateBatch] = {}
    for batch in transcript.secrets():
        first.setdefault(batch.step, batch)
    if not all(np.array_equal(batch.owners, devices) for batch in first.values()):
        raise InputError("transcript must hold one input row a device, in the order of the devices")
    return {step: batch.values.copy() for step, batch in first.items()}


def moved_on(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of clients or classes, each at the next one."""
    return np.roll(rows, 1, axis=0)


def crosses_silos(truth: LinkedDevices) -> NDArray[np.bool_]:
    """Bool [m]: whether the ends of each edge are in different silos."""
    source, target = truth.silo_of[truth.edges]
    return np.asarray(source != target)


def foreign_neighbours(truth: LinkedDevices) -> NDArray[np.bool_]:
    """Bool [n, silos]: whether a device has an edge to or from a device of that silo, its own left out."""
    silos = int(truth.silo_of.max()) + 1
    touches = np.zeros((len(truth.silo_of), silos), dtype=np.bool_)
    for a, b in (truth.edges, truth.edges[::-1]):
        touches[a, truth.silo_of[b]] = True
    touches[np.arange(len(truth.silo_of)), truth.silo_of] = False
    return touches


def only_source(truth: LinkedDevices) -> Ids:
    """int64 [n]: the one device that sends to a device, or -1 where there are none or several."""
    counts = np.bincount(truth.edges[1], minlength=len(truth.silo_of))
    sources = np.full(len(truth.silo_of), -1, dtype=np.int64)
    sources[truth.edges[1]] = truth.edges[0]
    return np.where(counts == 1, sources, -1)
