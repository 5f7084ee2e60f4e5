"""Runs protocols, attacks what was said, and compares the findings with the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fgl_secure import __version__
from fgl_secure.attacks.base import Attack, Material, Measurement, Reference, guess_of
from fgl_secure.attacks.registry import ATTACKS, attack
from fgl_secure.attacks.truth import Truth
from fgl_secure.audit import Exposure, Record, Report, Verdict, exact_proportion, judge, smallest_detectable
from fgl_secure.coins import SimulationCoins
from fgl_secure.commands.options import Options, Prepared, prepare
from fgl_secure.commands.recorded_run import RecordedRun, public_of
from fgl_secure.commands.runs import reference_runs, special_runs, variant_runs
from fgl_secure.commands.train import accuracy_figures, cost_figures, train
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph, boundary_nodes
from fgl_secure.learning.loop import Progress, TrainingResult
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.runtime import Circumstance, Claim, Guarantee, Recording

DEMONSTRATED = ("secmp", "relay-coded", "plaintext")
"""What an audit runs when no protocol is named; the first heads the report, as the first named one does."""

RECORDED_ROUNDS = 1
"""Rounds of training whose payloads are kept and attacked; sizes are kept of all."""


def audit(
    options: Options,
    protocols: tuple[str, ...] = (),
    attacks: tuple[str, ...] = (),
    *,
    graph: FederatedGraph | None = None,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
) -> Report:
    """Trains under each protocol, attacks every recorded run and reports.

    Args:
        options: the choices of the run.
        protocols: names; `DEMONSTRATED` when empty.
        attacks: names; all when empty.
        graph: a graph of the caller's own, instead of the options' data set and partition.
        command: how to repeat it, for the report.
        progress: given a protocol's name, what to call after each of its rounds.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran.
    """
    chosen = tuple(attack(name) for name in dict.fromkeys(attacks)) or tuple(ATTACKS.values())
    prepared = prepare(options, tuple(dict.fromkeys(protocols)) or DEMONSTRATED, graph)
    references = reference_runs()
    results, records, exposures = {}, [_boundary_record(prepared)], []
    for scheme in prepared.schemes:
        result = _recorded_training(prepared, scheme, progress)
        results[scheme.name] = result
        exposures += _exposures(scheme, result)
        for run in _runs(prepared, scheme, result):
            records += [record for each in chosen for record in _records(each, run, scheme, references, prepared)]
    if protocols:
        _check_measured(prepared, records)
    return _report(prepared, results, records, exposures, command)


def _check_measured(prepared: Prepared, records: list[Record]) -> None:
    """Refuses to say of a named protocol that nothing contradicts it when nothing was measured."""
    for scheme in prepared.schemes:
        names = {each.name for each in (scheme, *scheme.variants)}
        if not any(record.protocol in names and record.verdict.is_measured for record in records):
            raise InputError(
                f"attack must name at least one that can read a run of {scheme.name}; those chosen measured nothing"
            )


def _recorded_training(
    prepared: Prepared, scheme: Scheme, progress: Callable[[str], Progress] | None
) -> TrainingResult:
    return train(
        prepared,
        scheme,
        coins=SimulationCoins(prepared.options.seed),
        recording=Recording.everything(RECORDED_ROUNDS),
        progress=progress(scheme.name) if progress else None,
    )


def _runs(prepared: Prepared, scheme: Scheme, result: TrainingResult) -> Iterator[RecordedRun]:
    truth = Truth.of(result.transcript, prepared.heard)
    what = f"first round of training, {prepared.options.backbone}"
    yield RecordedRun(scheme.name, what, Material.TRAINING, public_of(scheme, prepared.heard), result.transcript, truth)
    yield from special_runs(scheme, prepared.heard, prepared.options.seed)
    yield from variant_runs(scheme, prepared.heard, prepared.options.seed)


def _records(
    each: Attack[Any],
    run: RecordedRun,
    scheme: Scheme,
    references: Mapping[Reference, RecordedRun],
    prepared: Prepared,
) -> Iterator[Record]:
    if each.card.material is not run.material:
        return
    guess = guess_of(each, run.transcript.views(each.card.observer), run.public, run.auxiliary)
    if guess is None:
        return
    positive = _positive_control(each, references[each.card.reference])
    permuted = {null.metric: null for null in each.score(guess, run.truth.permuted(prepared.options.seed + 1))}
    for found in each.score(guess, run.truth):
        if found.metric in permuted:  # without a null control a figure is no evidence
            evidence = _Evidence(each, run, found, permuted[found.metric], positive[found.metric])
            yield _record(evidence, scheme.claim, prepared)


def _positive_control(each: Attack[Any], reference: RecordedRun) -> dict[str, float]:
    """By metric: the attack's figure on the reference run, as a share of what a complete break would have."""
    guess = guess_of(each, reference.transcript.views(each.card.observer), reference.public, reference.auxiliary)
    if guess is None:
        raise AssertionError(f"attack {each.card.name} must be able to read its reference run")
    return {found.metric: found.value / found.reachable for found in each.score(guess, reference.truth)}


@dataclass(frozen=True, slots=True, eq=False)
class _Evidence:
    attack: Attack[Any]
    run: RecordedRun
    found: Measurement
    null: Measurement
    positive: float


def _record(evidence: _Evidence, claim: Claim, prepared: Prepared) -> Record:
    found, each = evidence.found, evidence.attack
    verdict = judge(found.value, found.interval, found.prior, exact=found.exact)
    verdict = Verdict.CONTEXT if found.context else verdict
    record = Record(
        attack=each.card.name,
        view=_view(each, evidence.run),
        coalition=" and ".join(f"{count} {role}" for role, count in each.card.coalition.items()),
        protocol=evidence.run.protocol,
        dataset=prepared.graph.graph.name,
        partition=prepared.graph.partition,
        metric=found.metric,
        value=found.value,
        ci95=found.interval,
        random=found.random,
        prior=found.prior,
        n=found.n,
        seed=prepared.options.seed,
        positive_control=evidence.positive,
        positive_minimum=each.card.minimum,
        null_control=evidence.null.value,
        null_interval=evidence.null.interval,
        detectable_advantage=smallest_detectable(max(found.n, 1)),
        verdict=verdict,
        contradicts_claim=False,
        finding=found.finding,
    )
    broken = claim.broken_by(each.card.secret, each.card.coalition, each.card.circumstance)
    outside = each.card.circumstance is Circumstance.MALICIOUS_DEVICE  # every claim assumes semi-honest parties
    if broken is None or outside or not verdict.is_exposure or not record.controls_hold:
        return record
    return Record(**{**_fields(record), "contradicts_claim": True, "claim": _sentence(broken)})


def _view(each: Attack[Any], run: RecordedRun) -> str:
    knows = f"; knows {each.card.auxiliary}" if each.card.auxiliary else ""
    return f"{each.card.observer}, {run.what}{knows}"


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in Record.__dataclass_fields__}


def _boundary_record(prepared: Prepared) -> Record:
    """eps_p of HiFGL (A.1, Eq. 6): what silos would see if they could read their devices' neighbours."""
    on_boundary = boundary_nodes(prepared.graph)
    share = exact_proportion(int(on_boundary.sum()), len(on_boundary))
    return Record(
        attack="boundary",
        view="graph and partition, no protocol",
        coalition="none",
        protocol=prepared.schemes[0].name,
        dataset=prepared.graph.graph.name,
        partition=prepared.graph.partition,
        metric="eps_p",
        value=share.value,
        ci95=share.interval,
        random=0.0,
        prior=0.0,
        n=share.n,
        seed=prepared.options.seed,
        positive_control=None,
        positive_minimum=0.0,
        null_control=None,
        null_interval=None,
        detectable_advantage=smallest_detectable(share.n),
        verdict=Verdict.CONTEXT,
        contradicts_claim=False,
        finding=f"{int(on_boundary.sum()):,} of {len(on_boundary):,} devices have a neighbour in another silo.",
    )


def _exposures(scheme: Scheme, result: TrainingResult) -> list[Exposure]:
    return [
        Exposure(
            protocol=scheme.name,
            phase=traffic.phase.label,
            sender_role=str(traffic.sender_role),
            receiver_role=str(traffic.receiver_role),
            messages=traffic.messages,
            bytes=traffic.bytes,
            content=traffic.phase.content,
        )
        for traffic in result.transcript.traffic()
    ]


def _report(
    prepared: Prepared,
    results: Mapping[str, TrainingResult],
    records: list[Record],
    exposures: list[Exposure],
    command: str,
) -> Report:
    main = next(iter(results))
    options = prepared.options
    return Report(
        run={
            "protocol": main,
            "protocols": list(results),
            "method": options.method,
            "backbone": options.backbone,
            "dataset": prepared.graph.graph.name,
            "devices": prepared.graph.num_devices,
            "messages_per_layer": int(prepared.heard.edges.shape[1]),
            "partition": prepared.graph.partition,
            "silos": prepared.graph.num_silos,
            "preset": prepared.preset.name,
            "epochs": prepared.preset.epochs,
            "seed": options.seed,
            "device": str(prepared.device),
            "version": __version__,
            "command": command,
        },
        accuracy={
            **accuracy_figures(results[main]),
            "protocols": {name: accuracy_figures(result) for name, result in results.items()},
        },
        cost={
            **cost_figures(results[main]),
            "protocols": {name: cost_figures(result) for name, result in results.items()},
        },
        records=tuple(records),
        exposures=tuple(exposures),
        claims={each.name: _claim(each.claim) for scheme in prepared.schemes for each in (scheme, *scheme.variants)},
        notes=_notes(),
    )


def _claim(claim: Claim) -> dict[str, object]:
    return {
        "protects": [_sentence(guarantee) for guarantee in claim.guarantees],
        "leaks_by_design": [leak.statement for leak in claim.leaks_by_design],
        "assumes": list(claim.assumptions),
        "source": "; ".join(dict.fromkeys(guarantee.source for guarantee in claim.guarantees)) or "none",
    }


def _sentence(guarantee: Guarantee) -> str:
    return f"{guarantee.statement} ({guarantee.source})"


def _notes() -> tuple[str, ...]:
    return (
        "Attacks read the payloads of the first round of training; messages and bytes are counted over all rounds.",
        "Masks come from repeatable simulation coins, so that every figure can be repeated; training outside an audit "
        "takes them from the operating system.",
        "A protocol with parameters in brackets is a variant that was run for one exchange of features, without "
        "training; the claim is the same, so what contradicts it there counts.",
        "Every party attacks alone, with what was sent to it and what it drew itself. All parties run in one process.",
        "Models, and gradients that are summed under a protocol, are counted by size; from the second round on such "
        "gradients are added up without laying out their masks, to the same bits.",
        "An attack that finds nothing to read under a protocol has no row there.",
    )
