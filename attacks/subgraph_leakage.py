"""What a silo literally sees of other silos' devices and edges (HiFGL A.1, replaced by what the transcript shows)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Phase, PublicParameters, Role, Secret, View
from fgl_secure.statistics.metrics import advantage, exact_proportion, node_block_proportion

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NamedDevices:
    """Foreign devices that silos believe to be neighbours of their own.

    Attributes:
        silos: int64 [k], silo indices.
        devices: int64 [k], party identifiers.
    """

    silos: Ids
    devices: Ids


@dataclass(frozen=True, slots=True, eq=False)
class NamedEdges:
    """Edges that silos read off their messages: int64 [k] each, party identifiers."""

    sources: Ids
    targets: Ids


class VisibleDevices(Attack[NamedDevices]):
    """A silo notes every foreign device that sends it anything: it must have a neighbour among the silo's devices."""

    @property
    def card(self) -> Card:
        """HiFGL's own measure, taken from what was said: every silo alone."""
        return Card(
            "visible-devices",
            "a silo lists the foreign devices that talk to it: neighbours of its own devices",
            "against HiFGL 5.1: 0 % of eps_p (A.1, Eq. 6)",
            Role.SILO,
            Secret.FOREIGN_NODE,
            Material.TRAINING,
            Reference.SILO_PATH,
        )

    def infer(self, view: View, public: PublicParameters) -> NamedDevices | None:  # noqa: ARG002  # needs no parameter
        """Lists, for every silo, the devices outside it that sent it anything."""
        own = view.own("own devices")
        if not own:
            return None
        parties, devices = len(view.parties), view.parties.ids(Role.DEVICE)
        mine = own[0].owners * parties + own[0].values
        seen = [batch.receivers * parties + batch.senders for batch in view.received]
        pairs = np.setdiff1d(np.unique(np.concatenate([*seen, mine])), mine)
        pairs = pairs[np.isin(pairs % parties, devices)]
        return NamedDevices(view.parties.index_of(pairs // parties, Role.SILO), pairs % parties)

    def score(self, guess: NamedDevices, truth: Truth) -> tuple[Measurement, ...]:
        """The share of devices that a foreign silo sees (vis_node), and the advantage over pairs (device, silo).

        A device counts as seen only by silos that name no device wrongly: what stands in a message is certain, and
        where most devices are on a boundary, naming some at random would be right most of the time.
        """
        actual = truth.foreign_neighbours
        named = np.zeros_like(actual)
        named[truth.parties.index_of(guess.devices, Role.DEVICE), guess.silos] = True
        return (_share_seen(named, actual), _advantage_over_pairs(named, actual, truth.silo_of))


def _share_seen(named: NDArray[np.bool_], actual: NDArray[np.bool_]) -> Measurement:
    certain = ~(named & ~actual).any(axis=0)
    seen: NDArray[np.bool_] = np.asarray((named & certain).any(axis=1))
    share = exact_proportion(int(seen.sum()), len(seen))
    finding = f"{int(seen.sum()):,} of {len(seen):,} devices are known by name to a silo that is not theirs."
    reachable = float(actual.any(axis=1).mean())
    return Measurement("vis_node", share.value, share.interval, share.n, 0.0, 0.0, reachable, True, finding)


def _advantage_over_pairs(named: NDArray[np.bool_], actual: NDArray[np.bool_], silo_of: Ids) -> Measurement:
    foreign = np.ones_like(actual)
    foreign[np.arange(len(silo_of)), silo_of] = False
    positive, negative = actual & foreign, ~actual & foreign
    found, wrong = int((named & positive).sum()), int((named & negative).sum())
    gain = advantage(found, int(positive.sum()), wrong, int(negative.sum()))
    finding = (
        f"Of {int(positive.sum()):,} pairs of a device and a foreign silo with a neighbour of it, {found:,} are "
        f"known to the silo, with {wrong:,} false ones."
    )
    return Measurement("advantage", gain.value, gain.interval, gain.n, 0.0, 0.0, 1.0, False, finding)


class VisibleEdges(Attack[NamedEdges]):
    """A silo reads both ends of an edge off a message that names its sender and whom it is for."""

    @property
    def card(self) -> Card:
        """The same for edges: every silo alone."""
        return Card(
            "visible-edges",
            "a silo reads cross-silo edges off messages that name both ends",
            "on HiFGL 4.1.1: cross-silo edges are known to their two devices only",
            Role.SILO,
            Secret.CROSS_EDGE,
            Material.TRAINING,
            Reference.SILO_PATH,
        )

    def infer(self, view: View, public: PublicParameters) -> NamedEdges | None:  # noqa: ARG002  # needs no parameter
        """Lists the edges of the first layer that messages to a silo spell out."""
        if not view.own("own devices"):
            return None
        batches = view.messages(Phase.ADDRESSES, round=0, layer=0)
        nothing = np.empty(0, dtype=np.int64)
        sources = np.concatenate([nothing, *(batch.senders for batch in batches)])
        targets = np.concatenate([nothing, *(np.asarray(batch.payload)[:, 0].astype(np.int64) for batch in batches)])
        return NamedEdges(sources, targets)

    def score(self, guess: NamedEdges, truth: Truth) -> tuple[Measurement, ...]:
        """The share of cross-silo edges that a silo sees (vis_edge); chance is the density of such edges.

        As for devices, silos that name an edge wrongly know none for certain.
        """
        devices = len(truth.silo_of)
        crossing = truth.edges[:, truth.silo_of[truth.edges[0]] != truth.silo_of[truth.edges[1]]]
        source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (guess.sources, guess.targets))
        named, there = source * devices + target, truth.edges[0] * devices + truth.edges[1]
        certain = bool(np.isin(named, there).all())
        hit = np.isin(crossing[0] * devices + crossing[1], named) & certain
        share = node_block_proportion(hit, crossing, devices, seed=0)
        density = crossing.shape[1] / max(devices * (devices - 1), 1)
        finding = (
            f"{int(hit.sum()):,} of {len(hit):,} cross-silo messages show a silo both of their ends."
            if len(named)
            else "No message to a silo names both ends of an edge, so there was nothing to read."
        )
        return (
            Measurement(
                "vis_edge",
                share.value,
                share.interval,
                share.n,
                density,
                density,
                1.0,
                True,
                finding,
                context=not len(named),
            ),
        )
