"""What a relay would read from its shares if senders were careless with their masks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField, lagrange_matrix
from fgl_secure.attacks.base import Attack, Card, Material, Measurement, Reference
from fgl_secure.attacks.recovery import RecoveredRows, score_recovered_rows
from fgl_secure.attacks.shared_mask import Differences, score_differences
from fgl_secure.attacks.truth import Truth
from fgl_secure.runtime import Phase, PublicParameters, ReceivedRows, Role, Secret, View

Ids = NDArray[np.int64]
Unscaled = tuple[ReceivedRows, NDArray[np.signedinteger]]


class SingleShares(Attack[tuple[RecoveredRows, ...]]):
    """A relay takes each share for the sender's row, scaled by the public weight of its point: right without masks."""

    @property
    def card(self) -> Card:
        """The counterpart of reading a single code of secmp: every relay alone."""
        return Card(
            "single-shares",
            "a relay takes each share that it is sent for the row behind it: right where masks are missing",
            "Shamir 1979: one share of degree T tells nothing, unless its masks are known",
            Role.RELAY,
            Secret.EMBEDDING,
            Material.TRAINING,
            Reference.UNMASKED,
        )

    def infer(self, view: View, public: PublicParameters) -> tuple[RecoveredRows, ...] | None:
        """Divides every share by the weight of the secret at the relay's point."""
        found = [RecoveredRows(batch.step, batch.senders, rows) for batch, rows in _unscaled(view, public)]
        return tuple(found) or None

    def score(self, guess: tuple[RecoveredRows, ...], truth: Truth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows(guess, truth)


class ShareDifferences(Attack[tuple[Differences, ...]]):
    """A relay subtracts the shares of two senders: right where both used the same masks."""

    @property
    def card(self) -> Card:
        """The counterpart of the shared mask of secmp: every relay alone."""
        return Card(
            "share-differences",
            "a relay subtracts shares of two senders: right where senders share masks",
            "what breaks HiFGL's z, tried on shares",
            Role.RELAY,
            Secret.EMBEDDING,
            Material.TRAINING,
            Reference.SHARED_MASKS,
        )

    def infer(self, view: View, public: PublicParameters) -> tuple[Differences, ...] | None:
        """Takes each message's share from that of the message before it at the same relay."""
        if public.modulus is None:
            return None
        field, found = PrimeField(public.modulus), []
        for batch, rows in _unscaled(view, public):
            pairs = np.flatnonzero((batch.receivers[1:] == batch.receivers[:-1]) & (np.diff(batch.senders) != 0))
            if len(pairs):
                values = field.subtract(rows[pairs], rows[pairs + 1])
                found.append(
                    Differences(batch.step, batch.senders[pairs], batch.senders[pairs + 1], values, field.modulus)
                )
        return tuple(found) or None

    def score(self, guess: tuple[Differences, ...], truth: Truth) -> tuple[Measurement, ...]:
        """The share of differences that are exact, see `score_differences`."""
        return score_differences(guess, truth)


def _unscaled(view: View, public: PublicParameters) -> Iterator[Unscaled]:
    """Shares of devices that relays know, divided by the weight of the secret at the relay's point."""
    if public.modulus is None or public.T is None:
        return
    field, devices = PrimeField(public.modulus), view.parties.ids(Role.DEVICE)
    for batch in view.messages(Phase.SHARES):
        if not len(batch.senders) or not np.isin(batch.senders, devices).all():
            continue  # silos forward the messages of devices that they do not name
        points = view.parties.index_of(batch.receivers, Role.RELAY) + 1
        known, place = np.unique(points, return_inverse=True)
        weights = lagrange_matrix(field, tuple(range(public.T + 1)), tuple(known.tolist()))[:, 0]
        factors = field.inverse(weights)[place]
        yield batch, field.multiply(batch["share"], factors[:, None])
