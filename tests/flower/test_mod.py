"""What a client does and refuses, message by message."""

import dataclasses
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict

from fgl_secure.aggregation.encoding import IntegerRule
from fgl_secure.aggregation.sums import SumKind
from fgl_secure.aggregation.sums import SumRequest as RoundRequest
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, RoundsFailedError, StaleMessageError
from fgl_secure.flower import SecureAggregationMod, secure_aggregation_mod
from fgl_secure.flower.mod import APP_FAILED, MOST_SESSIONS, NO_PART, Memory
from fgl_secure.flower.records import KEY, AnswerRecord, RequestRecord, digest_of_configuration
from fgl_secure.flower.terms import MIN_CLIENTS_KEY, MIN_THRESHOLD_KEY, ClientPolicy, RoundTerms
from fgl_secure.protocols.identity import Identity
from fgl_secure.protocols.secagg.terms import Stage
from tests.error_codes import about
from tests.flower.fake_federation import (
    STAGES,
    FakeGrid,
    app_of,
    fresh_run,
    memory_of,
    never,
    numbered_grid,
    played,
    record,
    stage_asked,
    update,
)


@pytest.mark.parametrize(
    ("mod", "node_config", "settings", "match"),
    [
        (SecureAggregationMod(min_clients=5), {}, {}, "at least 5 for this client; found 4"),
        (secure_aggregation_mod, {MIN_CLIENTS_KEY: 6}, {}, "at least 6 for this client; found 4"),
        (secure_aggregation_mod, {MIN_THRESHOLD_KEY: 4}, {}, "at least 4 for this client; found 3"),
        (secure_aggregation_mod, {MIN_THRESHOLD_KEY: "4"}, {}, "must be an integer"),
        (secure_aggregation_mod, {}, {"scheme": "plaintext"}, "scheme must be one of"),
        (secure_aggregation_mod, {}, {"scheme": "ckks-shared-key"}, "one of pairwise-masking, lightsecagg for this"),
        (SecureAggregationMod(bounded=True), {}, {"bound": None}, "bound must be given"),
        (SecureAggregationMod(weight_key="n"), {}, {}, "metric 'n' for this client; found 'num-examples'"),
        (SecureAggregationMod(least_weight_bound=2.0**30), {}, {}, "weight_bound must be at least 1.07374e+09"),
        (secure_aggregation_mod, {}, {"bound": 0.5}, "bound must be at least 1 for this client; found 0.5"),
        (secure_aggregation_mod, {}, {"sparse": True}, "found a sparse graph of masks"),
        (SecureAggregationMod(max_clients=3), {}, {}, "at most 3 for this client; found 4"),
        (secure_aggregation_mod, {}, {"metrics": ["secret-loss"]}, "found ['secret-loss']"),
        (SecureAggregationMod(metrics=["a"]), {}, {"metrics": ["a", "b"]}, "among ('a',) for this client; found ['b']"),
    ],
)
def test_server_cannot_talk_a_client_out_of_its_policy(
    mod: SecureAggregationMod, node_config: dict[str, Any], settings: dict[str, Any], match: str
) -> None:
    """Rounds with fewer clients, a lower threshold, no protection or no bound are refused by every client at once."""
    grid = numbered_grid(mod, **node_config)
    strategy = played(grid, **settings)
    (report,) = strategy.rounds
    assert report.included == ()
    assert len(report.lost) == 4
    assert len(grid.refusals) == 4
    assert all(match in reason for reason in grid.refusals.values())
    assert all(memory_of(context) is None for context in grid.contexts.values())


def test_configuration_cannot_loosen_a_policy() -> None:
    """Lower numbers in a configuration are of no effect, so that a run cannot undo what the app asks for."""
    policy = ClientPolicy(5, 4).tighten({MIN_CLIENTS_KEY: 2, MIN_THRESHOLD_KEY: 2}, {})
    assert (policy.min_clients, policy.min_threshold) == (5, 4)


@pytest.mark.parametrize(
    "settings",
    [
        {"min_clients": 1},
        {"min_threshold": 1},
        {"trusted": [b"x" * 32]},
        {"least_weight_bound": 0.0},
        {"least_bound": float("nan")},
        {"max_failures": 0},
        {"max_clients": 2},
    ],
)
def test_policies_that_protect_nothing_are_refused(settings: dict[str, Any]) -> None:
    """A sum of one is the client's own update; trusted identities without one's own, or bounds of 0, are of no use."""
    with pytest.raises(InputError):
        SecureAggregationMod(**settings)


def test_training_in_the_open_is_refused() -> None:
    """A message for training without secure aggregation never reaches the app."""
    grid = numbered_grid(secure_aggregation_mod)
    message = Message(RecordDict({"arrays": record(np.zeros(3))}), 100, "train")
    assert "without it" in str(grid.run_app(100, message).error.reason)
    forged = Message(RecordDict({KEY: MetricRecord({"message": 1})}), 100, "train")
    assert "MalformedMessageError" in str(grid.run_app(100, forged).error.reason)


def test_train_actions_are_training_too() -> None:
    """`train.other` is protected like `train`."""
    message = Message(RecordDict(), 100, "train.other")
    with pytest.raises(ProtocolError, check=about("training")):
        secure_aggregation_mod(message, Context(1, 100, {}, RecordDict(), {}), never)


def test_app_trains_once_in_a_round_and_memory_ends_clean() -> None:
    """The app is called once a round, also when ranges are found first; afterwards no secret of it is left."""
    calls = []

    def train(_message: Message, context: Context) -> RecordDict:
        calls.append(context.node_id)
        return update(np.ones(3), 1)

    grid = FakeGrid([app_of(secure_aggregation_mod, train)] * 4)
    played(grid, bound=None)
    assert sorted(calls) == [100, 101, 102, 103]
    for context in grid.contexts.values():
        memory = memory_of(context)
        assert memory is not None
        assert memory.secrets == b""
        assert context.state == RecordDict()


def test_replayed_messages_are_refused_and_harm_nothing() -> None:
    """What the server sent in the round before is refused in the next, and the client goes on as if it had not been."""
    grid = numbered_grid(secure_aggregation_mod)
    old: dict[tuple[int, Stage | None], Message] = {}
    refusals = []

    def before(node: int, asked: Stage | None, message: Message) -> Message:
        if (node, asked) in old:
            known = memory_of(grid.contexts[node])
            refusals.append(grid.run_app(node, old[node, asked]))
            assert memory_of(grid.contexts[node]) == known
        old[node, asked] = message
        return message

    grid.before = before
    strategy = played(grid, rounds=2)
    assert [len(report.included) for report in strategy.rounds] == [4, 4]
    assert len(refusals) == 4 * len(STAGES)
    reasons = [str(reply.error.reason) for reply in refusals]  # another round's model is not the one announced
    assert all("StaleMessageError" in reason or "announce" in reason for reason in reasons)


def test_sessions_that_were_left_are_refused() -> None:
    """A server that goes back to the session before the latest is refused, however new its round."""
    grid = numbered_grid(secure_aggregation_mod)
    first, second = played(grid), played(grid)
    for secure, included in ((second, 4), (first, 0), (second, 4)):
        with suppress(RoundsFailedError):
            secure.start(grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
        assert len(secure.rounds[-1].included) == included
    assert all("one that was left" in reason for reason in grid.refusals.values())
    assert len(grid.refusals) == 4


def test_sessions_are_remembered_up_to_a_number() -> None:
    """Beyond it no new session is begun, and the latest goes on."""
    memory = Memory(TERMS, b"", trained=True, earlier=b"".join(n.to_bytes(16) for n in range(1, MOST_SESSIONS)))
    newer = dataclasses.replace(TERMS, session="ff" * 16, number=0)
    Memory.check_new(dataclasses.replace(memory, earlier=memory.earlier[16:]), newer)
    Memory.check_new(memory, dataclasses.replace(TERMS, number=4))
    with pytest.raises(ProtocolError, check=about("sessions of a run")):
        Memory.check_new(memory, newer)
    with pytest.raises(StaleMessageError, check=about("session")):
        Memory.check_new(memory, dataclasses.replace(newer, session=(5).to_bytes(16).hex()))


MALFORMED: dict[str, Any] = {
    "messages": lambda asked: dataclasses.replace(asked, batches=(b"noise",)),
    "no opening": lambda asked: dataclasses.replace(asked, opening=None),
    "bounds": lambda asked: dataclasses.replace(
        asked, opening=dataclasses.replace(asked.opening, bounds={"arrays.w": 2.0})
    ),
    "entries": lambda asked: dataclasses.replace(
        asked, opening=dataclasses.replace(asked.opening, bounds=None, opened=b"\0")
    ),
    "marks": lambda asked: dataclasses.replace(asked, purpose=SumKind.CONTRIBUTOR_COUNT),
    "the other sum": lambda asked: dataclasses.replace(asked, purpose=SumKind.RANGES),
    "another round": lambda asked: dataclasses.replace(asked, number=7),
}


def test_malformed_requests_train_no_app() -> None:
    """Requests that no honest server sends are refused before the app is called, and good ones are then answered."""
    calls = []

    def train(_message: Message, context: Context) -> RecordDict:
        calls.append(context.node_id)
        return update(np.ones(3), 1)

    grid = FakeGrid([app_of(secure_aggregation_mod, train)] * 4)

    def before(node: int, stage: Stage | None, message: Message) -> Message:
        request = RequestRecord.of(message.content)
        if stage is Stage.KEYS and node == 101 and request is not None:
            for change in MALFORMED.values():
                wrong = change(RoundRequest.from_bytes(request.message)).to_bytes()
                content = RequestRecord(wrong, request.terms).added_to(message.content)
                bad = Message(content, node, "train", group_id=message.metadata.group_id)
                assert all(grid.run_app(node, bad).has_error() for _ in range(4))
            assert 101 not in calls
        return message

    grid.before = before
    assert len(played(grid).rounds[0].included) == 4
    assert sorted(calls) == [100, 101, 102, 103]


def test_keys_are_fresh_for_a_restarted_server() -> None:
    """A new session is a new round: its first message is answered with other keys than before."""
    grid = numbered_grid(secure_aggregation_mod)
    played(grid)
    played(grid)
    keys = [reply.content[KEY]["message"] for node, reply in grid.answered if node == 100]
    assert len(set(keys)) == 10


def broken(_message: Message, _context: Context) -> RecordDict:
    """An app whose exception tells what it has."""
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (1234x8 and 7x2)")


def foreign(_message: Message, _context: Context) -> RecordDict:
    """An app whose exception is of this package, and not of the mod."""
    raise InputError("nodes must number 7; found 1234")


def test_errors_of_the_app_stay_at_the_client(caplog: pytest.LogCaptureFixture) -> None:
    """An app that raises or answers with an error is out of the round, and its words are in its own log alone.

    They used to be passed on; but exceptions name sizes of batches, shapes and values, which are what is protected.
    """

    def failing(message: Message, context: Context) -> Message:
        return secure_aggregation_mod(message, context, lambda m, _c: Message(Error(77, "1234 rows"), reply_to=m))

    for app in (failing, app_of(secure_aggregation_mod, broken), app_of(secure_aggregation_mod, foreign)):
        grid = numbered_grid(secure_aggregation_mod)
        grid.apps[101] = app  # type: ignore[assignment]  # called like an app
        assert sorted(played(grid).rounds[0].included) == [100, 102, 103]
        assert grid.refusals == {101: APP_FAILED}
    assert "1234x8" in caplog.text
    assert "1234 rows" in caplog.text
    assert "found 1234" in caplog.text


def test_errors_of_an_app_have_no_cause_that_could_be_printed() -> None:
    """The exception that goes to Flower does not carry the app's own: nothing prints it together with that one."""
    message = Message(RecordDict(), 100, "evaluate")
    with pytest.raises(ProtocolError) as found:
        secure_aggregation_mod(message, CONTEXT, lambda m, c: Message(broken(m, c), reply_to=m))
    assert found.value.__cause__ is None
    assert found.value.__context__ is None


CONTEXT = Context(1, 100, {}, RecordDict(), {})


def weighing(weight: float, mod: SecureAggregationMod, values: float = 1.0) -> FakeGrid:
    """Four nodes, of which 101 has a weight and values of its own."""
    own = {101: (np.full(3, values), weight)}
    apps = [app_of(mod, lambda _m, c: update(*own.get(c.node_id, (np.ones(3), 1)))) for _ in range(4)]
    return FakeGrid(apps)


def bisected(grid: FakeGrid, rounds: int) -> tuple[float, float]:
    """Where a server finds the weight of node 101 to lie, that halves the interval by each round's weight_bound."""
    low, high = 0.0, 2.0**10
    for _ in range(rounds):
        middle = (low + high) / 2
        inside = 101 in played(grid, weight_bound=middle).rounds[0].included
        low, high = (low, middle) if inside else (middle, high)
    return low, high


def test_server_cannot_bisect_a_weight() -> None:
    """Bounds below all that a client accepts are refused whatever its weight is, before it has published a key."""
    told = []
    for weight in (3, 700):
        grid = weighing(weight, SecureAggregationMod())
        bisected(grid, 4)
        told.append([reply.error.reason if reply.has_error() else b"" for _node, reply in grid.answered])
        assert len(told[-1]) == 16
        assert all(memory_of(context) is None for context in grid.contexts.values())
    assert told[0] == told[1]


def test_server_bisects_the_weight_of_a_client_that_lets_it() -> None:
    """Rounds give the weight bit by bit where bounds may be any, and neither stay nor are counted."""

    class Forgetful(SecureAggregationMod):
        def __call__(self, message: Message, context: Context, call_next: Any) -> Message:
            request = RequestRecord.of(message.content)
            if request is not None and request.terms:
                context.run_id = fresh_run()
            return super().__call__(message, context, call_next)

    low, high = bisected(weighing(700, Forgetful(least_weight_bound=1.0)), 4)
    assert (low < 700 <= high, high - low) == (True, 64.0)


CONDITIONS: list[dict[str, Any]] = [
    {"bound": 7.0},
    {"bound": None},
    {"weight_bound": 2.0**21},
    {"weight_fraction_bits": 1},
    {"fraction_bits": 3},
    {"metrics": ["a"]},
    {"integers": IntegerRule.EXACT},
    {"scheme": "lightsecagg"},
]


def test_conditions_stay_in_a_run() -> None:
    """A server that goes from bound to bound is refused in its second round, in a session of its own too."""
    grid = numbered_grid(SecureAggregationMod(metrics=["a"]))
    assert len(played(grid).rounds[0].included) == 4
    for changes in CONDITIONS:
        assert played(grid, **changes).rounds[0].included == ()
        assert all("conditions must be those" in reason for reason in grid.refusals.values())
    assert len(played(grid).rounds[0].included) == 4


@pytest.mark.parametrize(("weight", "values"), [(2.0**21, 1.0), (1.0, 9.0)])
def test_client_that_failed_too_often_takes_no_part_any_more(weight: float, values: float) -> None:
    """What is beyond a bound is told by one sentence, whatever it is, and only so many times; another run ends it."""
    grid = weighing(weight, SecureAggregationMod(max_failures=2), values)
    included = [101 in played(grid).rounds[0].included for _ in range(2)]
    assert grid.refusals == {101: NO_PART}
    included += [101 in played(grid).rounds[0].included for _ in range(2)]
    assert included == [False] * 4
    assert list(grid.refusals) == [101]
    assert "more than 2 times" in grid.refusals[101]
    grid.contexts[101].run_id = fresh_run()
    played(grid)
    assert grid.refusals == {101: NO_PART}


def test_failures_are_counted_over_rounds_that_go_well() -> None:
    """A round that succeeds in between does not give the server another try."""
    grid, values = weighing(1.0, SecureAggregationMod(max_failures=2)), iter([9.0, 1.0, 9.0, 1.0])
    grid.apps[101] = app_of(SecureAggregationMod(max_failures=2), lambda _m, _c: update(np.full(3, next(values)), 1))
    assert [101 in played(grid).rounds[0].included for _ in range(4)] == [False, True, False, False]
    assert next(values) == 1.0  # it did not train in the last round


def test_round_is_over_for_a_client_that_takes_no_part() -> None:
    """Asked again for its update, a client that refused does not train again, and its secrets are gone."""
    grid = weighing(1.0, SecureAggregationMod(), values=9.0)
    played(grid)
    (asked,) = [m for node, m in grid.delivered if node == 101 and stage_asked(m) is Stage.KEYS]
    memory = memory_of(grid.contexts[101])
    assert memory is not None
    assert (memory.secrets, memory.failures) == (b"", 1)
    assert "must come after round 0" in str(grid.run_app(101, asked).error.reason)
    later = next(m for node, m in grid.delivered if node == 100 and stage_asked(m) is Stage.VECTORS)
    assert "none is" in str(grid.run_app(101, later).error.reason)


def test_ranges_that_no_maximum_gives_are_refused() -> None:
    """A server that names finer ranges than a secure maximum finds gets no key; powers of two go through."""
    for bound, refused in ((3.0, 4), (2.0, 0)):
        grid = numbered_grid(secure_aggregation_mod)

        def before(_node: int, stage: Stage | None, message: Message, bound: float = bound) -> Message:
            request = RequestRecord.of(message.content)
            if stage is Stage.KEYS and request is not None:
                asked = RoundRequest.from_bytes(request.message)
                if asked.opening is not None and asked.opening.bounds is not None:
                    bounds = dict.fromkeys(asked.opening.bounds, bound)
                    opening = dataclasses.replace(asked.opening, bounds=bounds)
                    named = dataclasses.replace(asked, opening=opening).to_bytes()
                    message.content = RequestRecord(named, request.terms).added_to(message.content)
            return message

        grid.before = before
        played(grid, bound=None)
        assert sum("powers of two" in reason for reason in grid.refusals.values()) == refused


@pytest.mark.parametrize(
    "content",
    [
        RecordDict({"arrays": record(np.ones(3))}),
        RecordDict({"arrays": record(np.ones(3)), "m": MetricRecord({"num-examples": 2.5})}),
        RecordDict({"arrays": record([np.nan] * 3), "m": MetricRecord({"num-examples": 1})}),
        RecordDict({"arrays": record(np.ones(2)), "m": MetricRecord({"num-examples": 1})}),
        RecordDict(
            {
                "arrays": ArrayRecord({"w": Array(dtype="float32", shape=(1234,), stype="unknown", data=b"")}),
                "m": MetricRecord({"num-examples": 1}),
            }
        ),
    ],
)
def test_replies_that_cannot_be_averaged_are_refused_at_the_client(content: RecordDict) -> None:
    """No weight, no number for one, NaN, or other arrays than were sent: that client alone takes no part."""
    grid = numbered_grid(secure_aggregation_mod)
    grid.apps[101] = app_of(secure_aggregation_mod, lambda _m, _c: content)
    (report,) = played(grid).rounds
    assert len(report.included) == 3
    assert grid.refusals == {101: NO_PART}


def test_identity_is_told_only_where_there_is_one() -> None:
    """The question who a client is gets its public key, or none; and the digest of its run's configuration."""
    question = Message(RequestRecord(b"").added_to(RecordDict()), 100, "train")
    assert AnswerRecord.of(numbered_grid(secure_aggregation_mod).run_app(100, question).content).identity == b""
    own = Identity(b"i" * 32)
    mod = SecureAggregationMod(identity=lambda _c: own, trusted=[own.public])
    answer = AnswerRecord.of(numbered_grid(mod).run_app(100, question).content)
    assert answer == AnswerRecord(b"", own.public, digest_of_configuration({}))


TERMS = RoundTerms(
    session="00" * 16,
    number=3,
    index=1,
    clients=4,
    threshold=3,
    scheme="pairwise-masking",
    bound=8.0,
    fraction_bits=None,
    weight_bound=2.0**20,
    weight_fraction_bits=0,
    integers="exact",
    weight_key="num-examples",
    metrics=(),
)


def test_terms_come_back_as_they_were() -> None:
    """Terms survive being written, and rounds must come in order within a session."""
    assert RoundTerms.from_bytes(TERMS.to_bytes()) == TERMS
    Memory.check_new(Memory(TERMS, b"", trained=False), dataclasses.replace(TERMS, number=4))
    Memory.check_new(Memory(TERMS, b"", trained=False), dataclasses.replace(TERMS, number=0, session="11" * 16))
    with pytest.raises(StaleMessageError, check=about("round")):
        Memory.check_new(Memory(TERMS, b"", trained=False), TERMS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((field.name, {}) for field in dataclasses.fields(RoundTerms)),
        ("session", "0" * 31),
        ("session", "G" * 32),
        ("number", -1),
        ("clients", 2**40),
        ("index", True),
        ("threshold", 2.5),
        ("bound", "8"),
        ("bound", float("nan")),
        ("bound", 10**400),
        ("weight_bound", float("inf")),
        ("weight_bound", 10**400),
        ("integers", "any"),
        ("metrics", [1]),
        ("roster", ["00"]),
        ("training", "00"),
    ],
)
def test_malformed_terms_are_refused(name: str, value: Any) -> None:
    """Terms with a value of another type are a typed error."""
    changed = json.dumps({**json.loads(TERMS.to_bytes()), name: value}).encode()
    with pytest.raises(MalformedMessageError):
        RoundTerms.from_bytes(changed)


@pytest.mark.parametrize("changes", [{"bound": -1.0}, {"clients": 1}, {"threshold": 9}, {"scheme": "x"}, {"index": 4}])
def test_impossible_terms_are_refused(changes: dict[str, Any]) -> None:
    """Terms of a round that cannot be are refused before the client keeps anything of them."""
    context = Context(fresh_run(), 100, {}, RecordDict(), {})
    request = RequestRecord(b"x", dataclasses.replace(TERMS, **changes).to_bytes())
    with pytest.raises((InputError, ProtocolError)):
        secure_aggregation_mod(Message(request.added_to(RecordDict()), 100, "train"), context, never)
    assert memory_of(context) is None
