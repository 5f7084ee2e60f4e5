"""Games as findings of a report."""

from __future__ import annotations

from fgl_secure.attacks.base import Card, KnowledgeBaseline
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.game import Game
from fgl_secure.auditing.plan import LINKS, AuditPlan
from fgl_secure.auditing.records import GAME, Record
from fgl_secure.auditing.report import sentence
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.auditing.wording import plural
from fgl_secure.statistics.metrics import Interval

SCENARIO = "distinguishing game"
_MOST_SAID = 6
"""Rules that one finding names."""


def card_of(game: Game) -> Card:
    """What a game is, for lists and for the comparison with claims."""
    secret = game.secret.name.lower().replace("_", "-")
    return Card(
        name=f"game-{secret}-{game.role}",
        summary=f"compares what {game.role}s receive in runs that differ in a secret alone: {game.secret}",
        source="docs/audit_your_run.md",
        observer=game.role,
        secret=game.secret,
        scenario=SCENARIO,
        control=SCENARIO,
        truth=MessageTruth,
    )


def record_of(game: Game, run: str, plan: AuditPlan) -> Record:
    """A game as a finding.

    Args:
        game: what it came to.
        run: name of the run.
        plan: of the audit.
    """
    found = bool(game.broken)
    value, seen = float(found), min(game.share, 1.0)
    return Record(
        attack=card_of(game).name,
        view=f"{game.role}, {plural(game.rounds, 'round')} on {game.devices} of {plan.graph.num_devices:,} devices",
        coalition=game.coalition,
        protocol=run,
        dataset=plan.graph.graph.name,
        partition=plan.graph.partition,
        metric=GAME,
        value=value,
        ci95=Interval(value, value) if found else Interval(0.0, seen),
        random=0.0,
        prior=0.0,
        knowledge=KnowledgeBaseline.NOTHING_KNOWN,
        n=game.runs,
        seed=plan.seed,
        positive_control=float(game.control),
        positive_minimum=1.0,
        null_control=float(game.null),
        null_interval=Interval(float(game.null), float(game.null)),
        detectable_advantage=game.share,
        verdict=Verdict.LEAKS if found else Verdict.NOT_DETECTED,
        violates_guarantee=found and not game.null,
        finding=_finding(game),
        claim=sentence(game.guarantee) if found and not game.null else "",
    )


def _finding(game: Game) -> str:
    """What a game came to, in a sentence or several."""
    if game.broken:
        more = len(game.broken) - _MOST_SAID
        rules = "; ".join(game.broken[:_MOST_SAID]) + (f"; and {plural(more, 'rule')} more" if more > 0 else "")
        return f"{rules[0].upper()}{rules[1:]}."
    if game.secret in LINKS:
        return (
            f"Of {plural(game.seen, 'message')} neither words that randomness leaves as they are nor counts that it "
            "changes depend on the graph."
        )
    if not game.share:
        return f"None of {plural(game.seen, 'message')} depends on the secret: any other word would have been seen."
    return (
        f"Of {plural(game.seen, 'message')} masked fields alone depend on the secret, and their words look uniform and "
        f"independent: a share of {game.share:.2g} without masks would have been seen."
    )
