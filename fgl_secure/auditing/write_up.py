"""What an audit's report says of its runs, findings, attacks and claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgl_secure import __version__
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.registry import page_on, papers
from fgl_secure.auditing.figures import accuracy_figures, cost_figures
from fgl_secure.auditing.matrix import matrix
from fgl_secure.auditing.plan import Plan
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report
from fgl_secure.auditing.schema import Exposure
from fgl_secure.runtime import Circumstance, Claim, Guarantee
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.presets import LAST_ROUND


def report_of(
    plan: Plan,
    results: Mapping[str, TrainingResult],
    records: list[Record],
    chosen: tuple[Attack[Any, Any], ...],
    blind: Mapping[str, set[str]],
    command: str,
) -> Report:
    """The report of an audit.

    Args:
        plan: what was run.
        results: of the trainings, by name of the run, the main one first.
        records: the findings.
        chosen: the attacks that were to be tried.
        blind: by name of a run, the attacks that found nothing to read in it.
        command: how to repeat it.
    """
    main, tested = next(iter(results)), promises_tested(plan, records, chosen)
    at_work = {record.attack for record in records}
    used = tuple(each for each in chosen if each.card.name in at_work)
    return Report(
        run={
            "protocol": main,
            "protocols": list(results),
            "method": plan.method,
            "backbone": plan.backbone,
            "dataset": plan.graph.graph.name,
            "devices": plan.graph.num_devices,
            "messages_per_layer": plan.messages,
            "partition": plan.graph.partition,
            "silos": plan.graph.num_silos,
            "preset": plan.preset,
            "epochs": plan.epochs,
            "chosen_on": plan.chosen_on,
            "seed": plan.seed,
            "device": str(plan.device),
            "score": str(plan.score),
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
        matrix=matrix(
            {subject.name: subject.claims for subject in plan.subjects},
            records,
            {each.card.name: each.card for each in chosen},
            blind,
        ),
        records=tuple(records),
        attacks={each.card.name: _about(each) for each in used},
        exposures=tuple(each for name, result in results.items() for each in _exposures(name, result)),
        claims={
            name: {**_claim(claim), "tested": tested.get(name, [])}
            for subject in plan.subjects
            for name, claim in subject.claims.items()
        },
        notes=_notes(plan),
    )


def promises_tested(plan: Plan, records: list[Record], chosen: tuple[Attack[Any, Any], ...]) -> dict[str, list[str]]:
    """By scheme, the sentences of its claim that some figure could have contradicted.

    That takes an attack on what is promised, by those against whom, with controls that hold, enough units for a full
    break to be seen, and something that the attack finds on this subject in the clear.
    """
    cards = {each.card.name: each.card for each in chosen}
    claims = {name: claim for subject in plan.subjects for name, claim in subject.claims.items()}
    found: dict[str, dict[str, None]] = {}
    for record in records:
        card, claim = cards.get(record.attack), claims.get(record.protocol)
        able = record.verdict.is_measured and record.controls_hold and record.could_tell
        if card is None or claim is None or not able or card.circumstance is Circumstance.MALICIOUS_DEVICE:
            continue
        borne = claim.borne_on(card.secret, card.coalition, card.circumstance)
        found.setdefault(record.protocol, {}).update((sentence(each), None) for each in borne)
    return {name: list(sentences) for name, sentences in found.items()}


def _exposures(protocol: str, result: TrainingResult) -> list[Exposure]:
    return [
        Exposure(
            protocol=protocol,
            phase=traffic.phase.label,
            sender_role=str(traffic.sender_role),
            receiver_role=str(traffic.receiver_role),
            messages=traffic.messages,
            bytes=traffic.bytes,
            content=traffic.phase.content,
        )
        for traffic in result.transcript.traffic()
    ]


def _about(each: Attack[Any, Any]) -> dict[str, object]:
    """What an attack is, for readers who have never heard of it."""
    card = each.card
    return {
        "summary": card.summary,
        "source": card.source,
        "papers": papers(card.source),
        "page": page_on(each),
        "observer": str(card.observer),
        "secret": str(card.secret),
        "circumstance": str(card.circumstance),
        "knows": card.auxiliary,
    }


def _claim(claim: Claim) -> dict[str, object]:
    return {
        "protects": [sentence(guarantee) for guarantee in claim.guarantees],
        "leaks_by_design": [leak.statement for leak in claim.leaks_by_design],
        "assumes": list(claim.assumptions),
        "source": "; ".join(dict.fromkeys(guarantee.source for guarantee in claim.guarantees)) or "none",
    }


def sentence(guarantee: Guarantee) -> str:
    """A promise with its source, as claims and findings quote it."""
    return f"{guarantee.statement} ({guarantee.source})"


def _notes(plan: Plan) -> tuple[str, ...]:
    rounds = plan.subjects[0].attacked_rounds
    read = "the first round" if rounds == 1 else f"the first {rounds} rounds"
    return (
        f"Attacks read what was sent in {read} of training and what parties are left with in the end; messages and "
        "bytes are counted over all rounds.",
        "Masks come from repeatable simulation coins, so that every figure can be repeated; training outside an audit "
        "takes them from the operating system.",
        *([f"Reported round: {plan.chosen_on}."] if plan.chosen_on.endswith(LAST_ROUND) else []),
        *plan.notes,
        "Every party attacks alone, with what was sent to it and what it drew itself. All parties run in one process.",
        "An attack that finds nothing to read under a protocol has no row there.",
    )
