"""Distinguishing games: can parties of a role tell two inputs apart that differ in a secret alone?

For each guarantee of a run there are pairs of runs by its machines and driver on a few neighbourhoods of its graph.
Two runs with equal randomness differ in the secret. Whatever differs in the messages of the observers is a violation,
unless the field is one whose words must be uniform. Words of these fields are tested (`words`) and compared with those
of other randomness. Runs on graphs with an edge elsewhere are compared by all that does not change with randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgl_secure.auditing.game_edges import Signature, compare_graphs, signature
from fgl_secure.auditing.game_edges import sees_a_word as edges_see_a_word
from fgl_secure.auditing.game_variations import Change, SwappedRows, Swaps, change_of, swapped_edges
from fgl_secure.auditing.game_views import (
    Batch,
    Difference,
    Key,
    differences,
    place_of,
    received,
    sees_a_word,
    words,
    words_of,
)
from fgl_secure.auditing.game_words import Trial, Words, smallest_share, trials
from fgl_secure.auditing.plan import BRIEF, CARRIED, Effort, Subject
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FglSecureError, ProtocolError
from fgl_secure.host import library_settings
from fgl_secure.protocols.scheme import UniformField
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import (
    Channel,
    Circumstance,
    Claim,
    Direction,
    Directory,
    Guarantee,
    LazyArray,
    MessageKind,
    Messages,
    Recording,
    Role,
    SecretKind,
    Transcript,
)
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.runtime.transcript import Endpoints
from fgl_secure.statistics.statistical import ALPHA, POWER, holm
from fgl_secure.training.calls import Call
from fgl_secure.training.job import Job
from fgl_secure.training.one_process import OneProcess
from fgl_secure.training.parties import helpers_of, hierarchy_of
from fgl_secure.typing import Ids

DRAWS = 3
"""Draws of places into which a positive control puts words, of which one must be found."""
CONFIRMING = "confirming"
"""In the names of runs that confirm a difference."""
NULL_COINS = 100
"""Randomness of the first run that the null control of a comparison of graphs adds."""
SAMPLES = 8
"""Draws of neighbourhoods that are tried until a run on them goes through."""


HEADER_BYTES = 15
"""A field of a sealed message with more bytes than that is taken for a ciphertext; those with fewer can be read."""


class GameChannel(Channel):
    """A channel that keeps all payloads, and of sealed messages what stands beside the ciphertext.

    It names sessions alike in all runs: names are public, and hide nothing.

    Args:
        parties: who takes part.
        seed: of the randomness of all parties.
    """

    def __init__(self, parties: Directory, seed: int) -> None:
        super().__init__(parties, SimulationCoins(seed), Recording.everything())
        self._names = SimulationCoins(0)

    def session(self) -> bytes:
        """The public name of a session, whatever the seed."""
        return bytes(self._names.uniform(256, (SESSION_BYTES,)).tolist())

    def keeping_only(self, *_phases: MessageKind) -> Channel:
        """The same channel."""
        return self

    def carry(self, messages: Messages) -> Messages:
        """See `Channel.carry`."""
        arrived = super().carry(messages)
        if messages.sealed:
            ends = Endpoints(messages.senders, messages.receivers)
            kept = replace(self.transcript.messages[-1], ends=ends, fields=_headers(messages))
            self.transcript.messages[-1] = kept
        return arrived


def _headers(messages: Messages) -> dict[str, NDArray[Any]]:
    """The fields of sealed messages that are no ciphertexts."""
    rows = {name: value for name, value in messages.fields.items() if not isinstance(value, LazyArray)}
    small = {name: value for name, value in rows.items() if value[:1].nbytes <= HEADER_BYTES}
    return {name: np.array(value) for name, value in small.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """What a game about one secret and one role came to.

    Attributes:
        secret: what differs.
        role: who looks.
        guarantee: what is tested.
        coalition: who pools views, in words.
        broken: for each rule that does not hold, where and which; empty if no violation was found.
        share: the smallest share of words without masks that would be seen; 0 where no field may depend on the secret.
        tests: of words, in one run.
        runs: of the machines, of all games of the subject together, beside those that chance calls for to confirm what
            random bytes have in common.
        devices: of the graph on which it was played.
        seen: messages that reached the observers.
        null: whether two runs of one input were told apart, so that what is broken is no evidence.
        control: whether a leak of the stated size was found that was put into the view; True where one is found anyway.
        rounds: of each run.
    """

    secret: SecretKind
    role: Role
    guarantee: Guarantee
    coalition: str
    broken: tuple[str, ...]
    share: float
    tests: int
    runs: int
    devices: int
    seen: int
    null: bool
    control: bool
    rounds: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one game came to; see `Game`."""

    broken: list[str]
    share: float
    tests: int
    seen: int
    null: bool
    control: bool


@dataclass(slots=True, eq=False)
class _Script:
    """Answers of the first run, with which the programs of all others go on."""

    answers: list[Any] = field(default_factory=list)
    process: OneProcess | None = None

    def recorded(self, process: OneProcess, calls: list[Call]) -> Any:
        """Answers of the first run."""
        self.process = process
        found = process.answer(calls)
        self.answers.append(found)
        return found

    def following(self, change: Change | None) -> Callable[[OneProcess, list[Call]], Any]:
        """What stands between programs and sums in another run."""
        left = iter(self.answers)

        def answer(process: OneProcess, calls: list[Call]) -> Any:
            process.answer(calls if change is None else change(process, calls))
            found = next(left, None)
            if found is None:
                raise ProtocolError("programs must ask for as many sums as in the first run; found more")
            return found

        return answer


@dataclass(eq=False)
class GameRuns:
    """The runs of all games of one subject.

    Args:
        subject: on the graph on which games are played.
        seed: of randomness and of what is varied.
        effort: how large games are.
    """

    subject: Subject
    seed: int
    effort: Effort = BRIEF
    runs: int = 0
    _script: _Script = field(default_factory=_Script)
    _known: dict[tuple[str, int], Transcript] = field(default_factory=dict)
    _signatures: dict[tuple[Role, str, int], Signature] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = self._run(self._job, self.seed, self._script.recorded)

    @cached_property
    def _job(self) -> Job:
        job = self.subject.job
        assert job is not None, "games are played with programs of silos"
        return job

    @property
    def parties(self) -> Directory:
        """Of every run."""
        return self.first.parties

    def _run(self, job: Job, seed: int, between: Callable[[OneProcess, list[Call]], Any]) -> Transcript:
        parties = hierarchy_of(job.graph, helpers_of(job.task.schemes.values()))
        channel = GameChannel(parties, seed)
        self.runs += 1
        replace(job, intermediary=between).train(channel)
        return channel.transcript

    def run(self, name: str, coins: int, change: Change | None = None, subject: Subject | None = None) -> Transcript:
        """A run whose programs go on with the answers of the first one.

        Args:
            name: of the input.
            coins: number of the randomness; 0 is that of the first run.
            change: what differs in what silos hand in.
            subject: on another graph; the same one unless given.
        """
        if (name, coins) not in self._known:
            job = self._job if subject is None else subject.job
            assert job is not None
            self._known[name, coins] = self._run(job, self.seed + coins, self._script.following(change))
            self.runs -= CONFIRMING in name
        return self._known[name, coins]

    def fresh(self, coins: int) -> Transcript:
        """A run on the same input under the randomness of a number; 0 is that of the first run."""
        return self.run("", coins) if coins else self.first

    def signature(self, role: Role, name: str, coins: int, subject: Subject | None = None) -> Signature:
        """What a run looks like to the parties of a role; the first four arguments name it."""
        key = role, name, coins
        if key not in self._signatures:
            self._signatures[key] = signature(received(self.run(name, coins, None, subject), self.observers(role)))
        return self._signatures[key]

    @cached_property
    def process(self) -> OneProcess:
        """The silos of the first run."""
        assert self._script.process is not None, "the first run has called sums"
        return self._script.process

    @cached_property
    def fields(self) -> tuple[UniformField, ...]:
        """Fields of all schemes that must be uniform."""
        found = list[UniformField]()
        for name, scheme in self._job.task.schemes.items():
            found += [each for each in scheme.uniform_fields(Topology.example(name)) if each not in found]
        return tuple(found)

    def masked(self, topologies: tuple[str, ...]) -> frozenset[Key]:
        """Fields that may depend on rows of sums of some topologies."""
        schemes = self._job.task.schemes
        declared = (schemes[name].uniform_fields(Topology.example(name)) for name in topologies if name in schemes)
        return frozenset(each.key for fields in declared for each in fields)

    def observers(self, role: Role) -> Ids:
        """All parties of a role."""
        return self.parties.ids(role) if role in self.parties.roles else np.empty(0, dtype=np.int64)

    @cached_property
    def swaps(self) -> SwappedRows:
        """Rows that change places so that sums of some devices stay."""
        grouping, whole = self.process.neighbour_grouping, self.process.neighbour_messages
        owners = np.unique(grouping.group_owner)
        forward = Swaps.of(grouping, owners, self.seed, whole=whole, most=self.effort.observers)
        backward = Swaps.among(grouping.reverse(), forward.observers)
        return SwappedRows({Direction.FORWARD: forward, Direction.BACKWARD: backward})


def play_games(subject: Subject, seed: int, effort: Effort = BRIEF) -> tuple[Game, ...]:
    """Plays a game for each guarantee of a run whose owner says how its secret varies.

    Args:
        subject: what was run.
        seed: of the draw of devices, of randomness, and of what is varied.
        effort: how large games are.

    Returns:
        One game for each secret and role; none where no sample of the graph can be run.
    """
    claim = subject.claim
    wanted = [(promise, role) for promise in claim.guarantees for role, most in promise.coalition.items() if most > 0]
    secrets = {*subject.carried, *subject.links}
    wanted = [
        (promise, role)
        for promise, role in wanted
        if promise.secret in secrets
        and (claim.borne_on(promise.secret, {role: 1}, Circumstance.ANY) or guaranteed(subject, promise.secret, role))
    ]
    table = _table(subject, seed, effort) if wanted else None
    if table is None:
        return ()
    with library_settings():
        return tuple(_games(table, wanted, claim))


def guaranteed(subject: Subject, secret: SecretKind, role: Role) -> tuple[str, ...]:
    """Return the topologies of the sums of a secret whose own schemes guarantee to hide their rows from a role.

    A run may declare that other messages reveal a part of the secret, such as its size. That hides no other flaw.
    """
    carried = subject.carried.get(secret, ())
    rows = {topology: item for item, names in CARRIED.items() for topology in names}
    claims = {
        name: subject.schemes[name].claim_for(Topology.example(name))
        for name in carried if name in subject.schemes and name in rows
    }  # fmt: skip
    return tuple(name for name, it in claims.items() if it.borne_on(rows[name], {role: 1}, Circumstance.ANY))


def _table(subject: Subject, seed: int, effort: Effort) -> GameRuns | None:
    for number in range(SAMPLES):
        sample = subject.sample(seed + number, effort)
        if sample is None:
            return None
        try:
            return GameRuns(sample, seed, effort)
        except FglSecureError:
            continue  # a scheme may need more neighbours than this sample has
    return None


def _games(table: GameRuns, wanted: list[tuple[Guarantee, Role]], claim: Claim) -> Iterator[Game]:
    played = dict[tuple[SecretKind, Role], Guarantee]()
    for promise, role in wanted:
        if len(table.observers(role)):
            played.setdefault((promise.secret, role), promise)
    tested: dict[tuple[Role, bool], WordTests] = {}
    outcomes: list[tuple[SecretKind, Role, Guarantee, Outcome]] = []
    for (secret, role), promise in played.items():
        most = max(each.coalition.get(role, 0) for each in claim.guarantees if each.secret is secret)
        pools = most >= len(table.observers(role))
        try:
            if secret in table.subject.links:
                if (outcome := _of_edges(table, secret, role)) is not None:
                    outcomes.append((secret, role, promise, outcome))
                continue
            if (role, pools) not in tested:
                tested[role, pools] = WordTests(table.fresh, table.observers(role), table.fields, pools=pools)
            outcomes.append((secret, role, promise, _of_rows(table, secret, role, tested[role, pools])))
        except FglSecureError:
            continue  # the second input is none that the scheme takes, so that the guarantee is not tested
    for secret, role, promise, outcome in outcomes:
        yield Game(
            secret=secret, role=role, guarantee=promise, coalition=f"1 {role}", seen=outcome.seen, null=outcome.null,
            broken=tuple(dict.fromkeys(outcome.broken)), share=outcome.share, tests=outcome.tests, runs=table.runs,
            devices=table.subject.graph.num_devices, control=outcome.control, rounds=table.effort.rounds,
        )  # fmt: skip


class WordTests:
    """Tests of the words that reach some parties.

    Args:
        run: gives the run on one input under the randomness of a number.
        observers: int64 [k], party identifiers.
        fields: that must be uniform.
        pools: whether they may pool their views.
    """

    def __init__(
        self, run: Callable[[int], Transcript], observers: Ids, fields: tuple[UniformField, ...], *, pools: bool
    ) -> None:
        self._run, self._observers, self._fields, self._pools = run, observers, fields, pools
        self._known: dict[int, dict[Key, list[Words]]] = {}
        self.words = self._words(0)
        self.trials = self._trials(self.words, self._words(1))

    def _words(self, coins: int) -> dict[Key, list[Words]]:
        if coins not in self._known:
            self._known[coins] = words(received(self._run(coins), self._observers), self._fields)
        return self._known[coins]

    def _trials(
        self, found: dict[Key, list[Words]], fresh: dict[Key, list[Words]]
    ) -> dict[tuple[Key, int, tuple[str, int]], tuple[Words, Trial]]:
        out = {}
        for key, parts in found.items():
            for number, (part, other) in enumerate(zip(parts, fresh.get(key, parts), strict=False)):
                for trial in trials(part, other, receivers_pool=self._pools):
                    out[key, number, trial.key] = part, trial
        return out

    @cached_property
    def rejected(self) -> dict[Key, list[str]]:
        """Rules that do not hold, by field: in this randomness and in another one."""
        keys = list(self.trials)
        p_values = np.array([self.trials[key][1].outcome.p_value for key in keys])
        adjusted = holm(p_values, max(len(keys), 1))
        first = [key for key, p in zip(keys, adjusted, strict=True) if p <= ALPHA]
        if not first:
            return {}
        again = self._trials(self._words(1), self._words(2))
        out: dict[Key, dict[str, tuple[float, str]]] = {}
        for key in first:
            if key not in again or again[key][1].outcome.p_value * len(first) > ALPHA:
                continue
            part, trial = self.trials[key]
            rule = trial.rule.partition(" (")[0]
            finding = self._describe(key[0], part, trial)
            known = out.setdefault(key[0], {})
            if rule not in known or trial.outcome.p_value < known[rule][0]:
                known[rule] = trial.outcome.p_value, finding
        return {key: [finding for _, finding in rules.values()] for key, rules in out.items()}

    def share(self, key: Key) -> tuple[float, int]:
        """The smallest share of words of a field without masks that would be seen, and where: in which of its parts."""
        shares = [smallest_share(part, len(self.trials), ALPHA, POWER) for part in self.words[key]]
        return min(shares), int(np.argmin(shares))

    def sees_words(self, key: Key, seed: int) -> bool:
        """Whether words of a field without masks in the stated share of places are found, in one of a few draws."""
        share, place = self.share(key)
        samples = [self._words(coins)[key][place] for coins in range(3)]
        return any(self._rejects([_unmasked(each, share, (seed, draw)) for each in samples]) for draw in range(DRAWS))

    def _rejects(self, samples: list[Words]) -> bool:
        """Whether two of three samples in a row show that words are not uniform."""
        one, two = (
            {trial.key: trial.outcome.p_value for trial in trials(*pair, receivers_pool=self._pools)}
            for pair in (samples[:2], samples[1:])
        )
        low = [key for key, p_value in one.items() if p_value * len(self.trials) <= ALPHA]
        return any(two.get(key, 1.0) * len(low) <= ALPHA for key in low)

    def _describe(self, key: Key, part: Words, trial: Trial) -> str:
        rows = trial.rows
        place = place_of(key, None, part.senders[rows], part.receivers[rows], self._run(0).parties)
        steps = len(np.unique(part.steps[rows]))
        when = "" if not len(rows) else f" in {steps} step{'s' if steps > 1 else ''}"
        return f"{place}{when} {trial.rule}"


def _of_rows(table: GameRuns, secret: SecretKind, role: Role, tested: WordTests) -> Outcome:
    """Play the game of a secret that is a row of sums."""
    topologies = guaranteed(table.subject, secret, role) or table.subject.carried[secret]
    owns = role in (Role.DEVICE, Role.SILO) and topologies == (NEIGHBOURS,) and _owns_sums(table, role)
    change: Change = table.swaps if owns else change_of(topologies)
    observers = table.swaps.swaps[Direction.FORWARD].observers if owns else table.observers(role)
    name = f"{'swapped' if owns else 'changed'} {topologies}"

    def run(kind: str) -> Transcript:
        return table.run(kind.replace("changed", name), 0, change if kind.startswith("changed") else None)

    return compare_rows(table.first, run, observers, table.masked(topologies), tested)


def compare_rows(
    first: Transcript, run: Callable[[str], Transcript], observers: Ids, fields: frozenset[Key], tested: WordTests
) -> Outcome:
    """Compare runs on two inputs with equal randomness, and add tests of words that may depend on the input.

    Args:
        first: a run on the first input.
        run: gives another one: "" and "null" are on the first input, "changed" on the second. Words after these name
            repetitions.
        observers: int64 [k], party identifiers.
        fields: that may depend on what differs.
        tested: words that reached the observers.
    """

    @cache
    def read(kind: str) -> list[Batch]:
        return received(run(kind), observers)

    def again(kind: str) -> Callable[[int], list[Batch]]:
        first = "" if not kind else f"{kind} again"
        return lambda number: read(first if number == 1 else f"{kind} {CONFIRMING} {number}")

    mine = received(first, observers)
    seen = sum(len(each.receivers) for each in mine if each.sent)
    changed = list(differences(mine, read("changed"), again(""), again("changed")))
    null = any(differences(mine, read("null"), again(""), again("null")))
    broken = _describe_differences(first.parties, [each for each in changed if each.key not in fields])
    dependent = {each.key for each in changed if each.key in fields}
    # a word that must be uniform and is no mask of this row, such as a seed, hides every row that it is a mask's of
    still = {key for key in tested.words if key in fields and not any(each.key == key for each in changed)}
    for key, findings in tested.rejected.items():
        if key in dependent or key in still:
            broken += findings
    hidden = sorted(dependent & set(tested.words))
    control = bool(broken) or (
        sees_a_word(mine, read(""), fields, seen) and all(tested.sees_words(key, seen) for key in hidden)
    )
    share = max((tested.share(key)[0] for key in hidden), default=0.0)
    return Outcome(broken, share, len(tested.trials), seen, null, control)


def _unmasked(found: Words, share: float, seed: tuple[int, int]) -> Words:
    """Words with small numbers in a share of places, in all runs the same ones."""
    values = found.values.copy()
    rows = np.arange(len(values))[:, None], np.arange(values.shape[1])[None]
    rng = np.random.default_rng(seed)
    holes, plain = rng.random(values.shape), rng.integers(0, max(found.modulus // 512, 2), size=values.shape)
    values[rows] = np.where(holes < share, plain, values)
    return replace(found, values=values)


def _owns_sums(table: GameRuns, role: Role) -> bool:
    return bool(np.isin(table.observers(role), table.process.neighbour_grouping.group_owner).any())


def _describe_differences(parties: Directory, changed: list[Difference]) -> list[str]:
    """Return differences in words, those of one field and rule together."""
    groups: dict[tuple[Key, str], list[Difference]] = {}
    for each in changed:
        groups.setdefault((each.key, each.rule), []).append(each)
    out = []
    for (key, rule), several in groups.items():
        senders, receivers = (
            np.concatenate([getattr(each, end) for each in several]) for end in ("senders", "receivers")
        )
        steps = {each.step: None for each in several}
        when = f"{words_of(next(iter(steps)))}" + (f" and {len(steps) - 1} more steps" if len(steps) > 1 else "")
        out.append(f"{place_of(key, None, senders, receivers, parties)}, {when}: {rule}")
    return out


def _of_edges(table: GameRuns, secret: SecretKind, role: Role) -> Outcome | None:
    """Play the game of a secret that lies in the edges; None if no other graph has equal degrees where they must be."""
    degrees, observers = secret.name == "DEGREE", table.observers(role)
    seen = sum(len(each.receivers) for each in received(table.first, observers) if each.sent)

    def one(coins: int) -> Signature:
        return table.signature(role, "", coins)

    def repeated(coins: int) -> Signature:
        return one(coins + NULL_COINS)

    broken, features, null, control = list[str](), 0, False, True
    for number in range(table.effort.graphs):
        graph = swapped_edges(table.subject.graph, table.seed + number, degrees=degrees)
        if graph is None:
            return None
        other, name = table.subject.on_graph(graph, table.effort.rounds), f"degrees {degrees} {number}"
        found = compare_graphs(one, partial(table.signature, role, name, subject=other))
        features += found.features
        for (kind, what), (step, receivers) in found.broken.items():
            place = place_of((kind, ""), step, np.empty(0, dtype=np.int64), receivers, table.parties)
            place = place.replace(" from no party", "").replace(" to no party", "")
            broken.append(f"{place}: {what} depends on the graph")
        if found.broken:
            null = bool(compare_graphs(one, repeated).broken)
            break
        views = (
            (lambda coins: received(table.run("", coins), observers)),
            (lambda coins, name=name, other=other: received(table.run(name, coins, None, other), observers)),
        )
        control = control and edges_see_a_word(*views, table.seed)
    return Outcome(broken, 0.0, features, seen, null, bool(broken) or control)
