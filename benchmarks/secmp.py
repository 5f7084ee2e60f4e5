"""Secured training: an epoch under each message-passing protocol against the same epoch in plain PyTorch Geometric."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch.nn import functional

from benchmarks.pieces import COPY, BenchPart, Piece, measure_copy
from benchmarks.timing import BoundedFigure, BoundSide, Timing
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import DataNotFoundError
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.configuration import HiFGL
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.relay_coded.wire import HEADER_BYTES
from fgl_secure.runtime import Channel, Phase, Role

DATASETS = ("digits", "Cora", "PubMed")
HIDING, SHOWING, UNTOLD = "relay-coded", "relay-coded[graph-shown]", "relay-coded[tags=sealed]"
ROWS_ALONE = f"{SHOWING},members=plaintext,server=plaintext"
"""Neighbours' rows over relays, as these see the graph, and nothing else protected."""
PROTOCOLS = (HIDING, UNTOLD, SHOWING, ROWS_ALONE, "secmp", "plaintext")
EPOCHS = 15
"""Rounds of each, taking turns; the first, which compiles, agrees on keys and shares static rows, is apart."""
HIDDEN, T = 64, 1
DEFAULT_BOUNDS = {"PubMed": 8.0}
DEFAULT_BOUND, BYTES_BOUND, COVERED_BOUND = 12.0, 0.65, 3.0
BOUNDS = {ROWS_ALONE: 2.5, "secmp": 2.5, "plaintext": 1.3}
"""Of an epoch over plain PyG's; of others the default's, which is less where the graph is larger."""
SEALS = "seals of messages"
ONCE = f"{SEALS}; a mask is expanded once for both of its ends"
CLEAR = "gradients to silos in the clear"
COUNTED = {
    HIDING: SEALS,
    UNTOLD: SEALS,
    SHOWING: ONCE,
    ROWS_ALONE: f"{ONCE}; {CLEAR}",
    "secmp": CLEAR,
    "plaintext": CLEAR,
}
"""What of an epoch is counted and not done, by protocol."""
PUBLISHED_BYTES = 4 * (HIDDEN * (T + 1) + 3 * T + 2)
"""What HiFGL prices one message at (A.4.1, items 1 and 2): d (T + 1) codes and 3 T + 2 parameters of 4 bytes."""

Round = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    run: Round
    channel: Channel | None


def _pieces() -> dict[str, Callable[[], Piece]]:
    """Every data set that is there, at hidden width 64 and T = 1, with GCN."""
    return {COPY: measure_copy()} | {dataset: partial(_dataset, dataset) for dataset in DATASETS}


def _dataset(dataset: str) -> Piece:
    try:
        prepared = _prepare_subjects(dataset)
    except DataNotFoundError:
        name = f"{dataset}: secured epoch over plain PyG"
        return Piece((), (BoundedFigure(name, None, BoundSide.AT_MOST, DEFAULT_BOUND, "no data"),))
    return _measure_passes(prepared)


def _prepare_subjects(dataset: str) -> tuple[HiFGLSubject, ...]:
    """Raises `DataNotFoundError` where the data set is not there."""
    return cast(tuple[HiFGLSubject, ...], HiFGL().plan(dataset, PROTOCOLS).subjects)


def _measure_passes(subjects: tuple[HiFGLSubject, ...]) -> Piece:
    prepared = subjects[0]
    name = prepared.graph.graph.name
    cases = [_Case("plain PyG", plain_epoch(prepared), None), *map(_secure_case, subjects)]
    first = {case.name: seconds_of(case.run, 0) for case in cases}
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    worked: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in range(1, EPOCHS + 1):
        for case in cases:
            before = time.process_time()
            seconds[case.name].append(seconds_of(case.run, number))
            worked[case.name].append(time.process_time() - before)
    timings = [_timing(f"{name}: epoch, {case.name}", case, seconds[case.name]) for case in cases]
    timings += [_timing(f"{name}: epoch, {case.name}, processor time", case, worked[case.name]) for case in cases]
    timings += [_timing(f"{name}: first epoch with set-up, {case.name}", case, [first[case.name]]) for case in cases]
    figures = [
        BoundedFigure(
            f"{name}: epoch under {case.name} over plain PyG",
            statistics.median(
                ours / plain for ours, plain in zip(seconds[case.name], seconds["plain PyG"], strict=True)
            ),
            BoundSide.AT_MOST,
            BOUNDS.get(case.name, DEFAULT_BOUNDS.get(name, DEFAULT_BOUND)),
            "all parties' work in one process",
            COUNTED[case.name],
        )
        for case in cases[1:]
    ]
    channels = {case.name: case.channel for case in cases if case.channel is not None}
    result = (
        *figures,
        *(_cover_figure(prepared, channels[key], key) for key in (HIDING, UNTOLD)),
        *_bytes(name, channels[SHOWING]),
    )
    return Piece(tuple(timings), result)


def _timing(name: str, case: _Case, seconds: Sequence[float]) -> Timing:
    return Timing.of(name, seconds, counted=COUNTED.get(case.name, ""))


def _cover_figure(prepared: HiFGLSubject, channel: Channel, scheme: str) -> BoundedFigure:
    """How many messages go to one relay in a pass, with covers, for one along an edge; and what devices send."""
    of_round = [b for b in channel.transcript.messages if b.step.round == 1]
    seeds = next(b.messages for b in of_round if b.phase is Phase.SHARE_SEEDS)
    ids = channel.parties.ids(Role.DEVICE)
    devices, sent = len(ids), sum(b.bytes for b in of_round if np.isin(b.senders[:1], ids).any())
    item = f"every device sends {seeds // devices} in a pass, and {sent // devices:,} bytes in an epoch, seals included"
    return BoundedFigure(
        f"{prepared.graph.graph.name}: messages with covers over those along edges, {scheme}",
        seeds / prepared.graph.edges.shape[1],
        BoundSide.AT_MOST,
        COVERED_BOUND,
        basis=item,
    )


def _bytes(name: str, channel: Channel) -> list[BoundedFigure]:
    """Bytes that a message of the hidden layer costs on its way to the relays, and with its share of the answers."""
    layer = [b for b in channel.transcript.messages if b.step.round == 1 and b.step.layer == 0]
    forward = [b for b in layer if b.step.direction == "forward"]
    messages = next(b.messages for b in forward if b.phase is Phase.SHARES)
    to_relays = sum(b.bytes for b in forward if b.phase in (Phase.TAGS, Phase.SHARE_HEADERS, Phase.SHARES))
    everything = sum(b.bytes for b in forward)
    sealed = next(b.item_bytes for b in forward if b.phase is Phase.FETCH)
    basis = f"headers of {HEADER_BYTES} and sealed fetches of {sealed} bytes included"
    return [
        BoundedFigure(
            f"{name}: bytes a message over the published {PUBLISHED_BYTES}",
            to_relays / messages / PUBLISHED_BYTES,
            BoundSide.AT_MOST,
            BYTES_BOUND,
            basis=basis,
        ),
        BoundedFigure(
            f"{name}: the same with each target's fetches and answers, by way of its silo",
            everything / messages / PUBLISHED_BYTES,
            BoundSide.AT_MOST,
            BYTES_BOUND,
            "every device fetches from every relay, whatever its degree, or silos would see degrees",
            basis=basis,
        ),
    ]


def _secure_case(subject: HiFGLSubject) -> _Case:
    job = silos_of(subject.graph, subject.schemes, subject.preset, device=torch.device("cpu"))
    channel = job.channel(SystemCoins())
    return _Case(subject.name, job.open(channel).round, channel)


def plain_epoch(prepared: HiFGLSubject, device: torch.device | None = None) -> Round:
    """Full-batch training of PyG's two-layer GCN on the same graph, with the same optimiser and the same scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.nn import GCN  # noqa: PLC0415  # takes seconds to import, and only this baseline needs it
    graph = prepared.graph
    x, y = torch.tensor(graph.features, device=device), torch.tensor(graph.labels, device=device)
    edges, training = torch.tensor(graph.edges, device=device), torch.tensor(graph.train_mask, device=device)
    judged = [torch.tensor(mask, device=device) for mask in (graph.validation_mask, graph.test_mask)]
    model = GCN(x.shape[1], prepared.preset.hidden, 2, graph.num_classes).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=prepared.preset.learning_rate)

    def epoch(_: int) -> list[float]:
        optimiser.zero_grad()
        scores = model(x, edges)
        loss = functional.cross_entropy(scores[training], y[training])
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        right = scores.detach().argmax(dim=1) == y
        return [loss.item(), *(right[mask].float().mean().item() for mask in judged)]

    return epoch


def seconds_of(work: Round, number: int) -> float:
    """What one round takes."""
    start = time.perf_counter()
    work(number)
    return time.perf_counter() - start


PART = BenchPart(_pieces)
