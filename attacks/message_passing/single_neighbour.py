"""A sum over one neighbour is that neighbour's embedding, and a device that deviates can have one made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.codes import basis_at, weighted_rows
from fgl_secure.attacks.message_passing.knowledge import DEVIATION, SECMP, SECMP_DEVIATING, TRAINING
from fgl_secure.attacks.message_passing.truth import MessageTruth
from fgl_secure.attacks.recovery import RecoveredRows, largest_share, score_recovered_rows
from fgl_secure.attacks.truth import only_source
from fgl_secure.runtime import Circumstance, Direction, Phase, PublicParameters, Role, Secret, Step, View
from fgl_secure.statistics.metrics import exact_proportion, exact_rows_recovered

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SingleSums:
    """Sums that an observer believes to be one neighbour's embedding.

    Attributes:
        step: when the embeddings were sent.
        targets: int64 [k], party identifiers of the devices whose sums they are.
        values: elements [k, d].
    """

    step: Step
    targets: Ids
    values: NDArray[np.signedinteger]


class SingleNeighbourAtDevice(Attack[SingleSums, MessageTruth]):
    """A device that received one code only takes its decoded sum for the embedding: which the paper admits."""

    card = Card(
        "single-neighbour-device",
        "a device with one neighbour reads that neighbour's embedding from its decoded sum",
        "declared in HiFGL 4.2.3, last paragraph",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, Circumstance.SINGLE_NEIGHBOUR, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SingleSums | None:
        """Takes the sums of devices that received one code in the first layer."""
        decoded = view.messages(Phase.DECODED, direction=Direction.FORWARD, round=0, layer=0)
        codes = view.messages(Phase.CODES, direction=Direction.FORWARD, round=0, layer=0)
        if public.modulus is None or not decoded or not codes:
            return None
        received = np.bincount(codes[0].receivers, minlength=len(view.parties))
        single = received[decoded[0].receivers] == 1
        values = np.asarray(decoded[0].payload)[single]
        return SingleSums(decoded[0].step, decoded[0].receivers[single], values)

    def score(self, guess: SingleSums, truth: MessageTruth) -> tuple[Measurement, ...]:
        """How many claimed embeddings are exact, and how many devices of all that exposes, in the first layer."""
        return _score(guess, truth)


class SingleNeighbourAtSilo(Attack[SingleSums, MessageTruth]):
    """A silo recognises aggregates of one code by their masks and decodes the neighbour's embedding.

    At beta_2 the sum of k codes is k z_2, and the silo drew z_2: it learns the number of neighbours of each of its
    devices from what it is asked to decode, and where k = 1 the embedding, which the paper does not admit.
    """

    card = Card(
        "single-neighbour-silo",
        "a silo counts the codes in an aggregate by its own masks and decodes those of one neighbour",
        "against HiFGL 4.2.3 step 2: the silo decodes without seeing single embeddings",
        Role.SILO, Secret.EMBEDDING, TRAINING, SECMP, Circumstance.SINGLE_NEIGHBOUR, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> SingleSums | None:
        """Decodes the aggregates of one code in the first layer."""
        aggregates = view.messages(Phase.AGGREGATE, direction=Direction.FORWARD, round=0, layer=0)
        points, masks = view.own("alphas and betas"), view.own("z")
        if public.modulus is None or public.T is None or not aggregates or not points or not masks:
            return None
        field, T = PrimeField(public.modulus), public.T
        batch, sums = aggregates[0], np.asarray(aggregates[0].payload)
        own = np.searchsorted(points[0].owners, batch.receivers)
        alphas, betas = points[0].values[own, : T + 1], points[0].values[own, T + 1 :]
        z = masks[0].values[own, 0, : sums.shape[2]]
        single = (weighted_rows(field, basis_at(field, alphas, betas[:, 1]), sums) == z).all(axis=1)
        embeddings = weighted_rows(field, basis_at(field, alphas[single], betas[single, 0]), sums[single])
        return SingleSums(batch.step, batch.senders[single], embeddings)

    def score(self, guess: SingleSums, truth: MessageTruth) -> tuple[Measurement, ...]:
        """How many claimed embeddings are exact, and how many devices of all that exposes, in the first layer."""
        return _score(guess, truth)


def _score(guess: SingleSums, truth: MessageTruth) -> tuple[Measurement, ...]:
    """The share of claimed embeddings that are exact, and the share of all devices that this exposes."""
    target = truth.parties.index_of(guess.targets, Role.DEVICE)
    source = only_source(truth)[target]
    secret = truth.embeddings[guess.step][source].astype(guess.values.dtype, copy=False)
    hit = exact_rows_recovered(guess.values, secret) & (source >= 0)
    devices, hits = len(truth.silo_of), int(hit.sum())
    exact, exposed = exact_proportion(hits, len(hit)), exact_proportion(hits, devices)
    there = float((only_source(truth) >= 0).mean())
    finding = (
        f"{hits:,} of {len(hit):,} sums taken for one neighbour's embedding are exactly that; "
        f"{hits:,} of {devices:,} devices are exposed so."
    )
    share = Measurement.of_share("exposed devices", exposed, finding, reachable=there, context=True)
    if not len(hit):
        return (share,)
    prior = largest_share(secret)
    return (Measurement.of_share("exact recovery", exact, finding, prior=prior), share)


CHOSEN = "chosen neighbour"
"""Name of a deviating device's own row: the party identifier of the neighbour whose codes it had decoded."""


class MaliciousSingleNeighbour(Attack[RecoveredRows, MessageTruth]):
    """A device with several neighbours sends the codes of one as its aggregate, and gets that one's embedding back.

    The silo cannot tell them from a sum by anything that the protocol has it check.
    """

    card = Card(
        "malicious-single-neighbour",
        "a deviating device has its silo decode the codes of one neighbour alone",
        "beyond HiFGL 3.3, where all parties are semi-honest: silos decode whatever a device sends",
        Role.DEVICE, Secret.EMBEDDING, DEVIATION, SECMP_DEVIATING, Circumstance.MALICIOUS_DEVICE, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> RecoveredRows | None:  # noqa: ARG002  # needs no parameter
        """Takes what the silo decoded for the embedding of the neighbour that was chosen."""
        chosen, decoded = view.own(CHOSEN), view.messages(Phase.DECODED)
        if not chosen or not decoded:
            return None
        neighbour = np.full(len(view.parties), -1, dtype=np.int64)
        neighbour[chosen[0].owners] = chosen[0].values
        sender = neighbour[decoded[0].receivers]
        rows = np.asarray(decoded[0].payload)[sender >= 0]
        return RecoveredRows(decoded[0].step, sender[sender >= 0], rows)

    def score(self, guess: RecoveredRows, truth: MessageTruth) -> tuple[Measurement, ...]:
        """The share of rows that are exact, see `score_recovered_rows`."""
        return score_recovered_rows([guess], truth)
