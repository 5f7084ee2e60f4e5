"""Runs of the Flower layer by its own recorder: views, games on pairs of runs, planted leaks, and what is refused."""

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.serverapp.strategy import FedAvg

from fgl_secure.attacks.updates import vectors_of
from fgl_secure.auditing.game import Game
from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
from fgl_secure.flower.recorded_run import FlowerRecords, FlowerRuns, play_flower_games, read_run
from fgl_secure.flower.recorder import FOLDER_KEY, SEED_KEY, RecordingGrid
from fgl_secure.protocols.identity import Identity
from fgl_secure.runtime import Party, Phase, Role
from fgl_secure.runtime.packing import named_from_bytes
from tests.error_codes import about
from tests.flower.fake_federation import OFF, FakeGrid, memory_of, numbered_grid, played, record, strategy_of, update

NODES, SIZE = 4, 12
OPEN: dict[str, Any] = {"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1}
"""With an evaluation."""


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """States of nodes go where a disk doesn't make them wait."""
    if Path("/dev/shm").is_dir():  # noqa: S108  # each run makes a folder with a name of its own
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")  # noqa: S108  # the same


def own_update(partition: int) -> RecordDict:
    """What a partition trains: other numbers and another number of examples for each."""
    return update(np.random.default_rng(partition).normal(size=SIZE), partition + 1)


def app_with(*mods: Mod, of: Callable[[Context], int] = lambda c: int(c.node_config["partition-id"])) -> ClientApp:
    """An app whose updates follow from the partition."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def _train(message: Message, context: Context) -> Message:
        return Message(own_update(of(context)), reply_to=message)

    @app.evaluate()
    def _evaluate(message: Message, context: Context) -> Message:
        metrics = MetricRecord({"num-examples": 1, "partition": of(context)})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def runs_of(
    app: ClientApp,
    *,
    seed: int = 0,
    rounds: int = 1,
    dropped: Collection[int] = (),
    inner: dict[str, Any] | None = None,
    **terms: Any,
) -> FlowerRuns:
    """Runs of an app with four nodes."""
    given: dict[str, Any] = {"threshold": 3, "bound": 8.0, "run_config": {}, **terms}
    return FlowerRuns(
        app,
        lambda coins: SecureAggregationStrategy(FedAvg(**(inner or OFF)), coins=coins, **given),
        record(np.zeros(SIZE)),
        NODES,
        rounds,
        seed=seed,
        dropped=dropped,
    )


def games_of(runs: FlowerRuns) -> dict[str, Game]:
    """Games by coalition."""
    return {game.coalition: game for game in play_flower_games(runs)}


@pytest.mark.parametrize(
    ("scheme", "seed", "rounds", "dropped"),
    [
        ("pairwise-masking", 1, 2, ()),
        ("pairwise-masking", 2, 1, (1,)),
        ("lightsecagg", 3, 1, (3,)),
        ("ckks-shared-key", 4, 1, ()),
    ],
)
def test_a_right_run_keeps_each_clients_update(scheme: str, seed: int, rounds: int, dropped: tuple[int, ...]) -> None:
    """From the server, from each client, and from both together where the scheme says so; over several seeds.

    Also where a node vanishes after it shared its keys. Replies to an evaluation are the app's own: they are in the
    transcript, and no matter of games.
    """
    app = app_with(SecureAggregationMod(schemes=(scheme,)))
    runs = runs_of(app, seed=seed, rounds=rounds, dropped=dropped, scheme=scheme, inner=OPEN)
    games = games_of(runs)
    together = {"1 server and 1 silo"} if scheme != "ckks-shared-key" else set()
    assert set(games) == {"1 server", "1 silo"} | together
    assert [game.broken for game in games.values() if game.broken or game.null] == []
    assert 0 < games["1 server"].share < 1
    vectors = [batch for batch in runs.run().messages if batch.phase in (Phase.MASKED_VECTORS, Phase.CIPHERTEXTS)]
    assert len(vectors) == (NODES - len(dropped)) * rounds
    shown = [batch for batch in runs.run().messages if batch.phase is FlowerRecords.OPEN]
    assert sum("metrics/partition" in (batch.fields or {}) for batch in shown) == NODES * rounds


Attach = Callable[[Context], RecordDict]


def attaching(attach: Attach) -> Mod:
    """A mod before that of secure aggregation, which attaches records to each reply."""

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        reply = call_next(message, context)
        memory = memory_of(context)
        if memory is not None and memory.secrets:
            reply.content.update(attach(context))
        return reply

    return mod


def own_reply(context: Context) -> RecordDict:
    return own_update(int(context.node_config["partition-id"]))


def mask_secrets(context: Context) -> RecordDict:
    memory = memory_of(context)
    assert memory is not None
    return RecordDict({"hint": ConfigRecord({"key": named_from_bytes(memory.secrets)["machine/secrets"].tobytes()})})


def padding(context: Context) -> RecordDict:
    return RecordDict({"hint": ConfigRecord({"pad": bytes(int(context.node_config["partition-id"]))})})


LEAKS: dict[str, tuple[Attach, str]] = {
    "update in a record of arrays": (
        own_reply,
        "arrays/w of training records from silos 0, 1, 2 and 1 more to server 0",
    ),
    "number of examples in a metric": (
        lambda context: RecordDict({"metrics": own_reply(context)["metrics"]}),
        "metrics/num-examples of training records from silos 0, 1, 2 and 1 more to server 0, round 0",
    ),
    "key of a mask": (  # it does not depend on the update, so comparing two inputs would not find it
        mask_secrets,
        "hint/key of training records from silos 0, 1, 2 and 1 more to server 0, round 0: changes with randomness",
    ),
    "size": (padding, "training records from silo 0 to server 0, round 0: changes in number, size"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_found_at_its_field(name: str) -> None:
    """The server's game names the record; so does that of the server with a client, and no client's own game."""
    attach, place = LEAKS[name]
    runs = runs_of(app_with(attaching(attach), SecureAggregationMod()))
    games = games_of(runs)
    assert not any(game.null for game in games.values())
    found = {coalition: [rule for rule in game.broken if place in rule] for coalition, game in games.items()}
    assert found["1 server"]
    assert not found["1 silo"]
    assert [incident.party.role for incident in runs.run().incidents].count(Role.SILO) >= NODES


def test_the_ally_of_a_server_keeps_its_own_update() -> None:
    """A metric of the last client alone is no leak to the server together with that client."""

    def last(context: Context) -> RecordDict:
        return own_reply(context) if context.node_id == 99 + NODES else RecordDict()

    games = games_of(runs_of(app_with(attaching(last), SecureAggregationMod())))
    assert "arrays/w" in " ".join(games["1 server"].broken)
    assert not games["1 server and 1 silo"].broken


def test_views_are_those_of_any_other_run() -> None:
    """An attack reads each client's vector from the server's view in the clear, and nothing under masks."""
    found = {}
    for scheme in ("plaintext", "pairwise-masking"):
        runs = runs_of(app_with(SecureAggregationMod(schemes=(scheme,))), scheme=scheme)
        found[scheme] = vectors_of(runs.run().views(Role.SERVER))
        if scheme == "plaintext":
            assert play_flower_games(runs) == ()
    clients, vectors = found["plaintext"][0]
    order = np.argsort(clients)
    expected = np.stack([own_update(partition).array_records["arrays"]["w"].numpy() for partition in range(NODES)])
    weights = np.arange(1, NODES + 1)[:, None]
    units = vectors[order][:, :SIZE] / (expected * weights)
    np.testing.assert_allclose(units, units[0, 0], rtol=1e-4)
    assert not found["pairwise-masking"]


def test_a_coalition_sees_what_reached_its_members() -> None:
    transcript = runs_of(app_with(SecureAggregationMod())).run()
    view = transcript.view([Party(Role.SERVER, 0), Party(Role.SILO, 2)])
    receivers = {view.parties.party_of(int(end)) for rows in view.received for end in rows.receivers}
    assert receivers == {Party(Role.SERVER, 0), Party(Role.SILO, 2)}
    (vectors,) = {rows["vector"].shape for rows in view.messages(Phase.MASKED_VECTORS)}
    assert vectors == (1, SIZE + 1)


def recorded(folder: Path, grid: FakeGrid, nodes: int = NODES, **config: Any) -> FakeGrid:
    """A grid whose first nodes record."""
    for context in [*grid.contexts.values()][:nodes]:
        context.node_config.update({FOLDER_KEY: str(folder), SEED_KEY: 7, **config})
    return grid


def test_nodes_record_by_their_own_configuration_alone(tmp_path: Path) -> None:
    """A configuration of the run turns nothing on."""
    grid = numbered_grid()
    for context in grid.contexts.values():
        context.run_config = {FOLDER_KEY: str(tmp_path), SEED_KEY: 7}
    secure = played(grid, run_config={FOLDER_KEY: str(tmp_path), SEED_KEY: 7})
    assert len(secure.rounds[0].included) == NODES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "config",
    [{SEED_KEY: "7"}, {SEED_KEY: True}, {FOLDER_KEY: 3}, {FOLDER_KEY: "here"}, {FOLDER_KEY: "/nowhere/at/all"}],
)
def test_a_half_named_test_run_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    """Before anything is answered, and without a round."""
    grid = recorded(tmp_path, numbered_grid(), **config)
    assert not played(grid).rounds[0].included
    assert len(grid.refusals) == NODES
    assert list(tmp_path.iterdir()) == []


def test_a_node_with_an_identity_records_nothing(tmp_path: Path) -> None:
    """An identity is for runs that count."""
    mod = SecureAggregationMod(identity=lambda _context: mine, trusted=[bytes(32)])
    mine = Identity.generate(SystemCoins())
    grid = recorded(tmp_path, numbered_grid(mod))
    assert not played(grid, identities=[mine.public]).rounds[0].included
    assert len(grid.refusals) == NODES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("nodes", "server"), [(NODES - 1, True), (NODES, False)])
def test_a_party_without_a_record_is_named(tmp_path: Path, nodes: int, server: bool) -> None:
    grid = recorded(tmp_path, numbered_grid(), nodes)
    secure = SecureAggregationStrategy(FedAvg(**OFF), threshold=3, bound=8.0, run_config={})
    secure.start(RecordingGrid(grid, tmp_path) if server else grid, record(np.zeros(3)), num_rounds=1, timeout=0.0)
    with pytest.raises(InputError, check=about("nodes" if server else "folder of records")):
        read_run(tmp_path)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """The folder of a run's records."""
    grid = recorded(tmp_path, numbered_grid())
    secure = SecureAggregationStrategy(FedAvg(**OFF), threshold=3, bound=8.0, run_config={})
    secure.start(RecordingGrid(grid, tmp_path), record(np.zeros(3)), num_rounds=1, timeout=0.0)
    return tmp_path


def test_records_are_for_their_owner_alone(recordings: Path) -> None:
    files = sorted(recordings.iterdir())
    assert [file.name for file in files] == [*(f"node{100 + place}" for place in range(NODES)), "server"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert not read_run(recordings).incidents


def test_other_randomness_for_each_message_and_node(recordings: Path) -> None:
    """Keys, shares and masks of a node are drawn apart, and those of two nodes, too."""
    keys = [batch["sealing"].tobytes() for batch in read_run(recordings).messages if batch.phase is Phase.KEYS][:NODES]
    assert len(set(keys)) == NODES


def test_an_app_that_trains_on_more_than_its_partition_is_refused() -> None:
    """Its pairs of runs have two sums, which any game would tell apart."""
    app = app_with(
        SecureAggregationMod(), of=lambda context: context.node_id * int(context.node_config["partition-id"])
    )
    with pytest.raises(InputError, check=about("app")):
        play_flower_games(runs_of(app))


def test_a_strategy_with_randomness_of_its_own_is_refused() -> None:
    """Its keys would differ in each run, and nothing could be compared."""
    runs = runs_of(app_with(SecureAggregationMod()))
    runs.strategy = lambda _coins: strategy_of()
    with pytest.raises(InputError, check=about("strategy")):
        play_flower_games(runs)


def test_sums_that_vary_are_refused() -> None:
    with pytest.raises(InputError, check=about("updates")):
        play_flower_games(runs_of(app_with(SecureAggregationMod()), precision=16, bound=None))
