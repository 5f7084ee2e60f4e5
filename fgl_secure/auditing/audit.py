"""Trains a method under its schemes, attacks what was said, and compares the findings with the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from fgl_secure.attacks.base import FINISHED_MODEL, Attack, KnowledgeBaseline, Measurement, alone
from fgl_secure.attacks.registry import attack, model_attacks
from fgl_secure.attacks.registry import attacks as all_attacks
from fgl_secure.auditing.controls import control
from fgl_secure.auditing.game import Game, play_games
from fgl_secure.auditing.game_records import card_of, record_of
from fgl_secure.auditing.method import Method, Source, check_method, several
from fgl_secure.auditing.plan import BRIEF, THOROUGH, AuditPlan, Effort, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Report, report_of, sentence
from fgl_secure.auditing.verdict import Verdict, detectable_difference, detectable_rate, detectable_shift, judge
from fgl_secure.ceilings import read_ceilings
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import boundary_nodes
from fgl_secure.host import collect_if_large, library_settings
from fgl_secure.runtime import Circumstance, Claim
from fgl_secure.schemes import Assignment
from fgl_secure.statistics.metrics import Interval, exact_proportion
from fgl_secure.threads import one_thread
from fgl_secure.training.loop import Progress, TrainingResult

if TYPE_CHECKING:
    from fgl_secure.auditing.finished_models import FinishedModel, FinishedModels

ALL = "all"
GAMES = "games"
"""In the place of an attack: distinguishing games, see `fgl_secure.auditing.game`."""
OUTPUTS = "outputs"
"""In the place of an attack: those on the finished model, see `fgl_secure.auditing.finished_models`."""

_Chosen = tuple[Attack[Any, Any], ...]


@library_settings()
@one_thread()
def audit(
    method: Method,
    data: Source | str | None = None,
    schemes: Iterable[str | Assignment] | str | Assignment = (),
    attacks: Iterable[str] | str = ALL,
    *,
    seed: int = 0,
    device: str = "auto",
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
    thorough: bool = False,
    ceilings: Mapping[str, float] = MappingProxyType({}),
) -> Report:
    """Trains a method under each of some schemes, attacks every recorded run and reports.

        from fgl_secure import audit
        from fgl_secure.methods import HiFGL

        report = audit(HiFGL(epochs=5), schemes=["relay-coded", "relay-coded[k_min=1]"])
        print(report.violations)
        report.write("report")

    Args:
        method: what is trained, with its choices.
        data: name of a data set or path of a graph, a configuration such as `Data`, or a graph of the caller's own;
            None takes a data set that needs no download.
        schemes: for each run its schemes: text as in `fgl_secure.schemes`, or schemes by topology. Those that
            the method demonstrates when empty.
        attacks: names; "all" for all on messages, and games; "games" for games; "outputs" for those on the finished
            model, for which models are trained as the method does.
        seed: of partition, split, initial weights and coins: equal seeds give equal reports.
        device: where model compute runs: "auto", "cpu" or "cuda".
        command: how to repeat it, for the report.
        progress: given what is being done, in words, what to call after each step of it: a round, or an attack.
        thorough: whether games are larger, so that they see smaller leaks; see `THOROUGH`.
        ceilings: by metric of `fgl_secure.ceilings`, what figures of finished models may be at most.

    Raises:
        FglSecureError: a choice breaks a rule, before anything ran; or schemes were named and no attack that was
            chosen measured anything.
    """
    check_method(method)
    if not isinstance(thorough, bool):
        raise InputError(f"thorough must be True or False; found {thorough!r}")
    wanted = several("attacks", attacks)
    selection = () if wanted == (GAMES,) else chosen_attacks(tuple(name for name in wanted if name != GAMES))
    if ceilings and not any(item.card.scenario == FINISHED_MODEL for item in selection):
        raise InputError(f"ceilings must go with attacks 'outputs', whose figures they bound; found {wanted}")
    read_ceilings(f"{metric}={value}" for metric, value in ceilings.items())
    scheme_names = several("schemes", schemes)
    plan = method.plan(data, scheme_names, seed=seed, device=device)
    games = not wanted or ALL in wanted or GAMES in wanted
    if thorough and not games:
        raise InputError(f"thorough must go with games, which are played with attacks 'all' or 'games'; found {wanted}")
    effort = (THOROUGH if thorough else BRIEF) if games else None
    report = examine(plan, selection, command=command, progress=progress, effort=effort)
    if scheme_names:
        _check_measured(plan, report.records)
    return replace(report, run={**report.run, "ceilings": ceilings}) if ceilings else report


def examine(
    plan: AuditPlan,
    attacks: _Chosen,
    *,
    command: str = "",
    progress: Callable[[str], Progress] | None = None,
    effort: Effort | None = None,
) -> Report:
    """Trains and attacks what a plan says; see `audit`.

    Args:
        plan: the runs, checked.
        attacks: attacks, of which those that can read a run do.
        command: how to repeat it, for the report.
        progress: as in `audit`.
        effort: how large distinguishing games are; None for none.
    """
    on_models = tuple(item for item in attacks if item.card.scenario == FINISHED_MODEL)
    models = _models_beside(plan, progress) if on_models else None
    everything, attacks = attacks, tuple(item for item in attacks if item not in on_models)
    scenarios = frozenset(item.card.scenario for item in attacks)
    plan = replace(plan, subjects=tuple(subject.read_in(scenarios) for subject in plan.subjects))
    results, records = {}, [_boundary_record(plan)]
    positive = cache(lambda item: _positive_control(item, control(item.card.control, [plan.controls])))
    outcome: dict[str, list[_Attempt]] = {}
    for subject in plan.subjects:
        result = _recorded_training(plan, subject, progress, models)
        results[subject.name] = replace(result, transcript=result.transcript.sizes())
        on_progress, runs = progress(f"attacking {subject.name}") if progress else None, subject.record_training(result)
        del result  # what was said is gigabytes, which nothing needs once it has been attacked
        outcome[subject.name] = list(attempts(attacks, subject, runs, plan.seed + 1, on_progress)) if attacks else []
    if progress:
        progress("attacking runs in the clear, and controls")
    clear = _in_the_clear(plan, attacks, outcome)
    for subject in plan.subjects:
        claim = subject.claims[subject.name]
        for attempt in outcome[subject.name]:
            for figure in attempt.found:
                null = clear.get(_finding_key(attempt.attack, attempt, figure.metric))
                working = positive(attempt.attack)[figure.metric]
                records.append(_record(attempt, figure, null, working, claim, plan))
        if models is not None:
            records += _model_records(plan, on_models, models.model_of(subject))
    played = {} if effort is None else _play_games(plan, effort, progress)
    records += [record_of(game, name, plan) for name, item in played.items() for game in item if game.seen]
    cards = {card.name: card for item in played.values() for card in map(card_of, item)}
    unseen = {
        name: {card_of(game).name for game in item if not game.seen and game.control} for name, item in played.items()
    }
    if models is not None:
        plan = replace(plan, notes=(*plan.notes, models.note))
    report = report_of(plan, results, records, everything, cards, unseen, command)
    return replace(report, run={**report.run, "thorough": effort is THOROUGH})


def _play_games(
    plan: AuditPlan, effort: Effort, progress: Callable[[str], Progress] | None
) -> dict[str, tuple[Game, ...]]:
    """The games of each run."""
    if progress:
        progress("playing distinguishing games")
    return {subject.name: play_games(subject, plan.seed, effort) for subject in plan.subjects}


@dataclass(frozen=True, slots=True)
class _Null:
    """What an attack that was shown an independent run gets right of this one: 0 where it makes no claim."""

    value: float = 0.0
    interval: Interval = Interval(0.0, 0.0)  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True, eq=False)
class _Attempt:
    """One attack on one recorded run.

    Attributes:
        attack: whose.
        protocol: the scheme of the run.
        what: was exchanged, in words.
        scenario: the kind of run.
        found: the figures, with the priors that the attack's knowledge has by itself; none if it found nothing to read.
        nulls: of each metric; those that are missing are `_Null()`.
    """

    attack: Attack[Any, Any]
    protocol: str
    what: str
    scenario: str
    found: tuple[Measurement, ...]
    nulls: Mapping[str, _Null]

    def null(self, metric: str) -> _Null:
        """The null control of a figure."""
        return self.nulls.get(metric, _Null())


def _verdict_on(measurement: Measurement) -> Verdict:
    """What a figure says by itself."""
    return (
        Verdict.CONTEXT
        if measurement.context
        else judge(measurement.value, measurement.interval, measurement.prior, exact=measurement.exact)
    )


class _Repeatable(Protocol):
    """A subject, or its finished model: gives what attacks read, and the same of other inputs."""

    @property
    def name(self) -> str: ...
    def independent(self, seed: int) -> _Repeatable: ...
    def record_runs(self, seed: int) -> Iterator[RecordedRun]: ...


def _model_records(plan: AuditPlan, attacks: _Chosen, model: FinishedModel) -> Iterator[Record]:
    """The findings on a subject's finished model, beside the one that its training gives with sums in plaintext."""
    seed, claim = plan.seed + 1, model.subject.claims[model.name]
    (clear,) = model.unprotected().record_runs(seed)
    for attempt in attempts(attacks, model, model.record_runs(seed), seed):
        guess = clear.guess(attempt.attack)
        unprotected = {} if guess is None else {f.metric: f for f in clear.measure(attempt.attack, guess)}
        working = _positive_control(attempt.attack, control(attempt.attack.card.control, [model.controls]))
        for figure in attempt.found:
            yield _record(attempt, figure, unprotected.get(figure.metric), working[figure.metric], claim, plan)


def attempts(
    attacks: _Chosen, subject: _Repeatable, runs: Iterable[RecordedRun], seed: int, progress: Progress | None = None
) -> Iterator[_Attempt]:
    """Every attack on every run that it is for, each beside an independent run of the same shape.

    One that finds nothing to read gives an attempt without figures. Of a run and the independent one, what was said in
    the first is forgotten before the second is there.

    Args:
        attacks: the attacks.
        subject: what was run.
        runs: of the subject, as attacks read them.
        seed: of the independent runs.
        progress: called when an attack begins, with how many began and how many there are; some read no run of these.
    """
    started_attacks, others = set[str](), None
    for run in runs:
        reading = [item for item in attacks if run.is_for(item)]
        result: list[tuple[Measurement, ...] | None] = []
        for item in reading:
            started_attacks.add(item.card.name)
            if progress is not None:
                progress(len(started_attacks), len(attacks))
            guess = run.guess(item)
            result.append(None if guess is None else run.measure(item, guess))
            del guess
        run = run.without_messages()  # noqa: PLW2901  # what was said in it takes gigabytes, and so does the other one
        collect_if_large()
        others = subject.independent(seed).record_runs(seed) if others is None else others
        other = next(others, None)
        if other is None or run.scenario != other.scenario:
            raise _other_runs(subject)
        for item, figures in zip(reading, result, strict=True):
            nulls = {} if figures is None else _nulls(item, run, other)
            yield _Attempt(item, run.protocol, run.what, run.scenario, figures or (), nulls)
        del run, other
        collect_if_large()
    if others is not None and next(others, None) is not None:
        raise _other_runs(subject)


def _other_runs(subject: _Repeatable) -> AssertionError:
    return AssertionError(f"independent of {subject.name} must give the same kinds of runs in the same order")


def _nulls(attack: Attack[Any, Any], run: RecordedRun, other: RecordedRun) -> dict[str, _Null]:
    guess = run.guess_elsewhere(attack, other)
    return {} if guess is None else {f.metric: _Null(f.value, f.interval) for f in run.score(attack, guess)}


def chosen_attacks(names: Iterable[str] | str) -> _Chosen:
    """The attacks of these names, each once; all that there are for "all" or none.

    Raises:
        InputError: there is none of a name.
    """
    requested_names = several("attacks", names)
    if requested_names in ((), (ALL,)):
        return tuple(all_attacks().values())
    groups = {ALL: all_attacks().values, OUTPUTS: model_attacks}
    invalid = next((name for name in requested_names if not isinstance(name, str)), None)
    if invalid is not None:
        raise InputError(f"attacks must be names, see fgl_secure.attacks.names(); found {invalid!r}")
    found = [item for name in requested_names for item in (groups[name]() if name in groups else (attack(name),))]
    return tuple({item.card.name: item for item in found}.values())


def _check_measured(plan: AuditPlan, records: Iterable[Record]) -> None:
    """Refuses to say of named schemes that nothing violates them when nothing was measured.

    Attacks that read the run of one scheme and find nothing to read in that of another have said something of both.
    """
    names = {name for subject in plan.subjects for name in subject.claims}
    if not any(record.protocol in names and record.verdict.is_measured for record in records):
        runs = " or ".join(subject.name for subject in plan.subjects)
        raise InputError(f"attack must name at least one that can read a run of {runs}; those chosen measured nothing")


def _models_beside(plan: AuditPlan, progress: Callable[[str], Progress] | None) -> FinishedModels:
    """Train what attacks on finished models need, before anything else."""
    from fgl_secure.auditing.finished_models import FinishedModels  # noqa: PLC0415  # few audits need it

    return FinishedModels(plan, progress)


def _recorded_training(
    plan: AuditPlan, subject: Subject, progress: Callable[[str], Progress] | None, models: FinishedModels | None
) -> TrainingResult:
    return subject.train(
        coins=SimulationCoins(plan.seed),
        recording=subject.recording,
        progress=progress(f"training under {subject.name}") if progress else None,
        shown=None if models is None else models.watch(subject),
    )


_What = tuple[str, str, str, str]
"""An attack, a kind of run, what was exchanged, and a metric."""


def _finding_key(attack: Attack[Any, Any], run: RecordedRun | _Attempt, metric: str) -> _What:
    return attack.card.name, run.scenario, run.what, metric


def _in_the_clear(plan: AuditPlan, attacks: _Chosen, result: Mapping[str, list[_Attempt]]) -> dict[_What, Measurement]:
    """The most that attacks which found something find on the same subject where nothing is protected.

    Plaintext runs that are audited themselves are not run again.
    """
    at_work = {attempt.attack.card.name for item in result.values() for attempt in item if attempt.found}
    working = tuple(item for item in attacks if item.card.name in at_work)
    clear: dict[_What, Measurement] = {}
    subjects = [item for one in plan.subjects for item in one.unprotected_subjects()]
    for subject in {item.name: item for item in reversed(subjects)}.values():
        earlier_attempts = ((item.attack, item, item.found) for item in result.get(subject.name, ()))
        for tried, run, figures in (
            earlier_attempts if subject.name in result else _run_unprotected(working, subject, plan.seed)
        ):
            for figure in figures:
                best = clear.setdefault(_finding_key(tried, run, figure.metric), figure)
                if figure.value > best.value:
                    clear[_finding_key(tried, run, figure.metric)] = figure
    return clear


def _run_unprotected(
    working: _Chosen, subject: Subject, seed: int
) -> Iterator[tuple[Attack[Any, Any], RecordedRun | _Attempt, tuple[Measurement, ...]]]:
    """Runs a subject for its figures alone."""
    for run in subject.record_runs(seed):
        for item in working:
            guess = run.guess(item) if run.is_for(item) else None
            if guess is not None:
                yield item, run, run.measure(item, guess)
            del guess
        del run  # before the next one is there
        collect_if_large()


def _positive_control(attack: Attack[Any, Any], broken: RecordedRun) -> dict[str, float]:
    """By metric: the attack's figure on its control, as a share of what a complete break would have."""
    guess = broken.guess(attack)
    if guess is None:
        raise AssertionError(f"attack {attack.card.name} must be able to read its control")
    return {result.metric: result.value / result.reachable for result in broken.score(attack, guess)}


def _record(
    attempt: _Attempt,
    measurement: Measurement,
    clear: Measurement | None,
    positive: float,
    claim: Claim,
    plan: AuditPlan,
) -> Record:
    card, null, verdict = attempt.attack.card, attempt.null(measurement.metric), _verdict_on(measurement)
    record = Record(
        attack=card.name,
        view=f"{card.observer}, {attempt.what}{f'; knows {card.auxiliary}' if card.auxiliary else ''}",
        coalition=" and ".join(f"{count} {role}" for role, count in card.coalition.items()),
        protocol=attempt.protocol,
        dataset=plan.graph.graph.name,
        partition=plan.graph.partition,
        metric=measurement.metric,
        value=measurement.value,
        ci95=measurement.interval,
        random=measurement.random,
        prior=measurement.prior,
        knowledge=alone(attempt.attack),
        in_the_clear=None if clear is None else clear.value,
        in_the_clear_verdict=None if clear is None else _verdict_on(clear),
        n=measurement.n,
        seed=plan.seed,
        positive_control=positive,
        positive_minimum=card.minimum,
        null_control=null.value,
        null_interval=null.interval,
        detectable_advantage=detectable(measurement),
        verdict=verdict,
        finding=measurement.finding,
    )
    broken = claim.broken_by(card.secret, card.coalition, card.circumstance)
    outside = card.circumstance is Circumstance.MALICIOUS_DEVICE  # every claim assumes semi-honest parties
    if broken is None or outside or not verdict.is_exposure or not record.controls_hold:
        return record
    return replace(record, violates_guarantee=True, claim=sentence(broken))


def detectable(measurement: Measurement) -> float:
    """The smallest true figure that the verdict rule calls a leak 99 times in 100."""
    if measurement.exact:
        return detectable_rate(measurement.n, measurement.prior)
    if measurement.arms is not None:
        return detectable_difference(measurement.arms[:2], measurement.arms[2], measurement.prior)
    return detectable_shift(measurement.value, measurement.interval, measurement.prior)


def _boundary_record(plan: AuditPlan) -> Record:
    """eps_p of HiFGL (A.1, Eq. 6): what silos would see if they could read their devices' neighbours."""
    on_boundary = boundary_nodes(plan.graph)
    share = exact_proportion(int(on_boundary.sum()), len(on_boundary))
    return Record(
        attack="boundary",
        view="graph and partition, no protocol",
        coalition="none",
        protocol=plan.subjects[0].name,
        dataset=plan.graph.graph.name,
        partition=plan.graph.partition,
        metric="eps_p",
        value=share.value,
        ci95=share.interval,
        random=0.0,
        prior=0.0,
        knowledge=KnowledgeBaseline.NOTHING_KNOWN,
        n=share.n,
        seed=plan.seed,
        detectable_advantage=detectable_rate(share.n, 0.0),
        verdict=Verdict.CONTEXT,
        finding=f"{int(on_boundary.sum()):,} of {len(on_boundary):,} devices have a neighbour in another silo.",
    )
