"""The sums that observers end up with: one over one neighbour, and those of rounds in which neighbours come and go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.algebra import PrimeField
from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.message_passing.codes import RowReader, basis_at, weighted_rows
from fgl_secure.attacks.message_passing.knowledge import (
    DEVIATION,
    DROP_OUTS,
    SECMP,
    SECMP_DEVIATING,
    SECMP_DROP_OUTS,
    TRAINING,
)
from fgl_secure.attacks.recovery import ClaimedTerms, Recovered, RecoveredRows, largest_share, score_recovered_rows
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.runtime import Circumstance, Direction, Phase, PublicParameters, ReceivedRows, Role, Secret, Step, View
from fgl_secure.statistics.metrics import exact_proportion, exact_rows_recovered, node_block_proportion
from fgl_secure.typing import Floats, Ids

OPENED = "opened sums"
"""Name of what owners of sums open of relays' answers: a relay, a count and a sum of shares each."""

UNKNOWN = -1
"""Number of rows in a sum where the observer cannot tell."""

CHECKED = 8
"""Coordinates on which a silo checks how many masks a sum carries."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenSums:
    """Sums of one step in the hands of their observers."""

    step: Step  # when the rows were sent
    targets: Ids  # int64 [k], party identifiers of the devices whose sums they are, ascending
    terms: Ids  # int64 [k], how many rows are in each; UNKNOWN where the observer cannot tell
    values: NDArray[Any]  # [k, d], elements of a field as integers, or real numbers


def seen_sums(view: View, public: PublicParameters, role: Role) -> tuple[SeenSums, ...]:
    """The sums that every party of a role has: devices get theirs, silos decode those of their devices.

    Args:
        view: of parties of that role.
        public: parameters of the scheme.
        role: DEVICE or SILO.

    Returns:
        One entry a step, of the layers' forward passes in training alone, in order.
    """
    result = _at_devices(view, public) if role is Role.DEVICE else _at_silos(view, public)
    orders = ((sums, np.argsort(sums.targets, kind="stable")) for sums in result)
    return tuple(SeenSums(s.step, s.targets[order], s.terms[order], s.values[order]) for s, order in orders)


def _at_devices(view: View, public: PublicParameters) -> Iterator[SeenSums]:
    """Decoded by a silo, interpolated from what relays send, or added up by the device itself."""
    for batch in _forward(view, Phase.DECODED):
        codes = [rows for rows in view.messages(Phase.CODES) if rows.step == batch.step]
        yield SeenSums(
            batch.step, batch.receivers, _count_received(view, codes, batch.receivers), np.asarray(batch.payload)
        )
    for batch in _forward(view, Phase.SUMS):
        terms = np.full(len(batch.receivers), UNKNOWN)
        yield SeenSums(batch.step, batch.receivers, terms, np.asarray(batch.payload))
    for batch in _forward(view, Phase.VALUES):
        starts = np.flatnonzero(np.diff(batch.receivers, prepend=-1))
        totals = np.add.reduceat(np.asarray(batch.payload), starts, axis=0)
        targets = batch.receivers[starts]
        yield SeenSums(batch.step, targets, _count_received(view, [batch], targets), totals)
    for step in dict.fromkeys(batch.step for batch in _forward(view, Phase.SHARE_SUMS)):
        if public.modulus is not None and public.T is not None:
            yield _interpolate_sums(view, step, PrimeField(public.modulus), public.T)


def _at_silos(view: View, public: PublicParameters) -> Iterator[SeenSums]:
    """Aggregates of codes: their value at beta_1 is the sum, that at beta_2 is the first mask as often as rows."""
    points, masks = view.own("alphas and betas"), view.own("z")
    if public.modulus is None or public.T is None or not points or not masks:
        return
    field, T = PrimeField(public.modulus), public.T
    alphas, betas = points[0].values[:, : T + 1], points[0].values[:, T + 1 :]
    to_sum, to_mask = (basis_at(field, alphas, betas[:, j]) for j in (0, 1))
    mask = masks[0].values[:, 0, :CHECKED].astype(np.int64)
    inverse = field.inverse(np.where(mask != 0, mask, 1))
    for batch in _forward(view, Phase.AGGREGATE):
        row = np.searchsorted(points[0].owners, batch.receivers)
        codes = np.asarray(batch.payload)
        probe = codes[..., : mask.shape[1]]
        carried = weighted_rows(field, to_mask[row], probe)
        width = carried.shape[1]
        times, usable = (field.multiply(carried, inverse[row, :width]).astype(np.int64), mask[row, :width] != 0)
        most = np.where(usable, times, -1).max(axis=1)
        alike = (np.where(usable, times, most[:, None]) == most[:, None]).all(axis=1)
        terms = np.where(alike & usable.any(axis=1), most, UNKNOWN)
        yield SeenSums(batch.step, batch.senders, terms, weighted_rows(field, to_sum[row], codes))


def _answers(view: View, step: Step) -> tuple[Ids, Ids, Ids, NDArray[Any]]:
    """Relays, receivers, counts and sums of shares [k, d], of answers in plain sight and of those that owners open."""
    shown = [rows for rows in _forward(view, Phase.SHARE_SUMS) if rows.step == step and "count" in rows.fields]  # type: ignore[operator]
    parts = [(rows.senders, rows.receivers, np.asarray(rows["count"]), np.asarray(rows["sum"])) for rows in shown]
    for opened in view.own(OPENED):
        if opened.step == step:
            relays, counts = opened.values[:, 0], opened.values[:, 1]
            parts.append((relays.astype(np.int64), opened.owners, counts, opened.values[:, 2:]))
    senders, receivers, counts, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    return senders, receivers, counts.astype(np.int64), sums


def _interpolate_sums(view: View, step: Step, field: PrimeField, T: int) -> SeenSums:
    """The polynomial of each target at 0, from the first T + 1 relays that answered; relay i holds its value at i."""
    senders, receivers, counts, shares = _answers(view, step)
    order = np.lexsort((senders, receivers))
    senders, receivers, counts, shares = senders[order], receivers[order], counts[order], shares[order]
    targets, first, received = np.unique(receivers, return_index=True, return_counts=True)
    reported_counts = np.zeros(
        len(view.parties), dtype=np.int64
    )  # what relays say about the number of rows in each sum
    reported_counts[receivers] = counts
    terms = reported_counts[targets]
    usable = np.flatnonzero((received > T) & (terms > 0))
    rows = first[usable, None] + np.arange(T + 1)
    alphas = view.parties.index_of(senders[rows], Role.RELAY) + 1
    weights = basis_at(field, alphas, np.zeros(len(rows), dtype=np.int64))
    return SeenSums(step, targets[usable], terms[usable], weighted_rows(field, weights, shares[rows]))


def _count_received(view: View, batches: Iterable[ReceivedRows], targets: Ids) -> Ids:
    """How many messages of some batches each target received."""
    counts = np.zeros(len(view.parties), dtype=np.int64)
    for batch in batches:
        counts += np.bincount(batch.receivers, minlength=len(counts))
    return counts[targets]


def _forward(view: View, phase: Phase) -> tuple[ReceivedRows, ...]:
    batches = view.messages(phase, direction=Direction.FORWARD)
    steps = [batch for batch in batches if batch.step.layer >= 0 and not batch.step.evaluation]
    return tuple(batch for batch in steps if len(batch.receivers))


PARTICIPANTS = "participants"
"""Name of an observer's rows (target, sender), one for each message that took part in a sum of that step."""

DETERMINED = 1e-8
"""How far from 1 the leverage of a determined message may be, in double precision."""

Determined = tuple[RecoveredRows, Ids]
"""Rows, and int64 [k] whose sums they were read from."""


@dataclass(frozen=True, slots=True)
class _Differencing(Attack[Determined, MessageTruth]):
    """Observers subtract the sums that they get in every round.

    A scheme that answers every tag once, or refuses small sums, still gives a device *one* sum a round. What helps is a
    fresh row in every round, or to sum a static layer once and keep the result.
    """

    card: Card = field()  # no default: the base class has a property of that name

    def infer(self, view: View, public: PublicParameters) -> Determined | None:
        taking_part = {rows.step: rows.values for rows in view.own(PARTICIPANTS)}
        sums = [item for item in seen_sums(view, public, self.card.observer) if item.step in taking_part]
        if not sums or public.modulus is None:
            return None
        rounds = [taking_part[item.step].astype(np.int64) for item in sums]
        modulus = public.modulus
        ends, senders = np.concatenate(rounds).T
        apart = senders.max(initial=0) + 1
        pairs, number = np.unique(ends * apart + senders, return_inverse=True)  # messages, by ascending target
        targets, senders = pairs // apart, pairs % apart
        present = np.zeros((len(rounds), len(pairs)), dtype=np.bool_)
        present[np.repeat(np.arange(len(rounds)), [len(rows) for rows in rounds]), number] = True
        owners, first, terms = np.unique(targets, return_index=True, return_counts=True)
        values, known = _align_rounds(sums, owners, modulus)
        result: list[tuple[Ids, Floats]] = []
        for k in np.unique(terms).tolist():
            alike = np.flatnonzero(terms == k)
            messages = first[alike, None] + np.arange(k)
            matrix = present[:, messages].transpose(1, 0, 2) & known[alike, :, None]
            inverse = np.linalg.pinv(matrix.astype(np.float64), rcond=DETERMINED)
            leverage = np.einsum("gkr,grk->gk", inverse, matrix.astype(np.float64))
            group, column = np.nonzero(leverage > 1 - DETERMINED)
            rows = np.einsum("cr,crd->cd", inverse[group, column], values[alike[group]])
            result.append((messages[group, column], rows))
        differing = np.concatenate([message for message, _ in result])
        rows = np.concatenate([values for _, values in result])
        exact = (np.rint(rows).astype(np.int64) % modulus).astype(sums[0].values.dtype)
        return RecoveredRows(sums[0].step, senders[differing], exact), targets[differing]

    def score(self, guess: Determined, truth: MessageTruth) -> tuple[Measurement, ...]:
        rows, targets = guess
        precisions = (replace(row, metric="precision", context=True) for row in score_recovered_rows([rows], truth))
        devices = len(truth.silo_of)
        source, target = (truth.parties.index_of(ids, Role.DEVICE) for ids in (rows.senders, targets))
        secret = truth.embeddings[rows.step][source].astype(rows.values.dtype, copy=False)
        same = exact_rows_recovered(rows.values, secret)
        right = source[same] * devices + target[same]
        read = np.isin(truth.edges[0] * devices + truth.edges[1], right)
        share = node_block_proportion(read, truth.edges, devices, seed=0)
        finding = f"{int(read.sum()):,} of {len(read):,} messages are determined by the sums of all rounds, and right."
        return Measurement.of_share("messages read", share, finding), *precisions


def _align_rounds(sums: list[SeenSums], owners: Ids, modulus: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Sums float64 [owners, rounds, d], elements by their representatives of least magnitude; and which are there."""
    values = np.zeros((len(owners), len(sums), sums[0].values.shape[1]))
    known = np.zeros((len(owners), len(sums)), dtype=np.bool_)
    for r, item in enumerate(sums):
        place = np.searchsorted(owners, item.targets)
        inside = np.flatnonzero(place < len(owners))
        matching = inside[owners[place[inside]] == item.targets[inside]]
        received = item.values[matching].astype(np.float64)
        values[place[matching], r] = np.where(received > modulus // 2, received - modulus, received)
        known[place[matching], r] = True
    return values, known


@dataclass(frozen=True, slots=True)
class _SingleNeighbour(Attack[ClaimedTerms, MessageTruth]):
    """Observers take a sum over one neighbour for that neighbour's embedding.

    A device counts the codes that it received, which the paper admits. A silo recognises aggregates of one code by
    their masks: at beta_2 the sum of k codes is k z_2, and the silo drew z_2. It learns the number of neighbours of
    each of its devices from what it is asked to decode, and where k = 1 the embedding, which the paper does not admit.
    """

    card: Card = field()  # no default: the base class has a property of that name

    def infer(self, view: View, public: PublicParameters) -> ClaimedTerms | None:
        role, codes = self.card.observer, view.messages(Phase.CODES, direction=Direction.FORWARD, round=0, layer=0)
        if public.modulus is None or (role is Role.DEVICE and not codes):
            return None
        sums = [item for item in seen_sums(view, public, role) if (item.step.round, item.step.layer) == (0, 0)]
        if not sums:
            return None
        single = sums[0].terms == 1
        return ClaimedTerms(sums[0].step, sums[0].targets[single], sums[0].values[single])

    def score(self, guess: ClaimedTerms, truth: MessageTruth) -> tuple[Measurement, ...]:
        target = truth.parties.index_of(guess.targets, Role.DEVICE)
        source = _only_sources(truth)[target]
        secret = truth.embeddings[guess.step][source].astype(guess.values.dtype, copy=False)
        hit = exact_rows_recovered(guess.values, secret) & (source >= 0)
        devices, hits = len(truth.silo_of), int(hit.sum())
        exact, exposed = exact_proportion(hits, len(hit)), exact_proportion(hits, devices)
        single_share = float((_only_sources(truth) >= 0).mean())
        finding = (
            f"{hits:,} of {len(hit):,} sums taken for one neighbour's embedding are exactly that; "
            f"{hits:,} of {devices:,} devices are exposed so."
        )
        share = Measurement.of_share("exposed devices", exposed, finding, reachable=single_share, context=True)
        if not len(hit):
            return (share,)
        return Measurement.of_share("exact recovery", exact, finding, prior=largest_share(secret)), share


CHOSEN = "chosen neighbour"
"""Name of a deviating device's own row: the party identifier of the neighbour whose codes it had decoded."""


class _MaliciousSingleNeighbour(RowReader):
    """A device with several neighbours sends the codes of one as its aggregate, and gets that one's embedding back.

    The silo cannot tell them from a sum by anything that the protocol has it check.
    """

    card = Card(
        "malicious-single-neighbour",
        "a deviating device has its silo decode the codes of one neighbour alone",
        "beyond HiFGL 3.3, where all parties are semi-honest: silos decode whatever a device sends",
        Role.DEVICE, Secret.EMBEDDING, DEVIATION, SECMP_DEVIATING, Circumstance.MALICIOUS_DEVICE, truth=MessageTruth,
    )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> Recovered | None:  # noqa: ARG002  # needs no parameter
        chosen_rows, decoded = view.own(CHOSEN), view.messages(Phase.DECODED)
        if not chosen_rows or not decoded:
            return None
        neighbour = np.full(len(view.parties), -1, dtype=np.int64)
        neighbour[chosen_rows[0].owners] = chosen_rows[0].values
        sender = neighbour[decoded[0].receivers]
        rows = np.asarray(decoded[0].payload)[sender >= 0]
        return (RecoveredRows(decoded[0].step, sender[sender >= 0], rows),)


def _only_sources(truth: MessageTruth) -> Ids:
    """int64 [n]: the one device that sends to a device, or -1 where there are none or several."""
    counts = np.bincount(truth.edges[1], minlength=len(truth.silo_of))
    sources = np.full(len(truth.silo_of), -1, dtype=np.int64)
    sources[truth.edges[1]] = truth.edges[0]
    return np.where(counts == 1, sources, -1)


ATTACKS: tuple[Attack[Any, Any], ...] = (
    _SingleNeighbour(Card(
        "single-neighbour-silo",
        "a silo counts the codes in an aggregate by its own masks and decodes those of one neighbour",
        "against HiFGL 4.2.3 step 2: the silo decodes without seeing single embeddings",
        Role.SILO, Secret.EMBEDDING, TRAINING, SECMP, Circumstance.SINGLE_NEIGHBOUR, truth=MessageTruth,
    )),
    _SingleNeighbour(Card(
        "single-neighbour-device",
        "a device with one neighbour reads that neighbour's embedding from its decoded sum",
        "declared in HiFGL 4.2.3, last paragraph",
        Role.DEVICE, Secret.EMBEDDING, TRAINING, SECMP, Circumstance.SINGLE_NEIGHBOUR, truth=MessageTruth,
    )),
    _Differencing(Card(
        "differencing-silo",
        "a silo solves the decoded sums of several rounds, in which different devices took part, for single rows",
        "against HiFGL 4.2.3 step 2: the silo decodes sums and cannot know the embedding of a neighbour",
        Role.SILO, Secret.EMBEDDING, DROP_OUTS, SECMP_DROP_OUTS, Circumstance.REPEATED_SUM,
        auxiliary="who took part in which sum of its devices", truth=MessageTruth,
    )),
    _Differencing(Card(
        "differencing-device",
        "a device solves the sums of several rounds, in which different neighbours took part, for single rows",
        "on HiFGL 4.2: the same layer is summed in every round",
        Role.DEVICE, Secret.EMBEDDING, DROP_OUTS, SECMP_DROP_OUTS, Circumstance.REPEATED_SUM,
        auxiliary="who took part in which of its sums", truth=MessageTruth,
    )),
    _MaliciousSingleNeighbour(),
)  # fmt: skip
