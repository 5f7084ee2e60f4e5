"""Silos as SuperNodes: the run is that of one process, and what goes wrong has a name."""

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.flower.kept import KEY
from fgl_secure.flower.mailbox import RunStoppedError, SiloMailbox, fresh_session
from fgl_secure.flower.silos import TOLD, WHO, Turn, silo_app
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.fedstruct.exchange import RowExchange
from fgl_secure.methods.fedstruct.program import FedStruct, FedStructTask
from fgl_secure.methods.hifgl.program import HiFGL
from fgl_secure.protocols.identity import Identities, Identity, Names
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel, Recording
from fgl_secure.training.collectives import Collectives
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST
from fgl_secure.training.processes.neighbours import HostedSums, RelayProcess
from fgl_secure.training.processes.process import SealedParty
from fgl_secure.training.processes.program_run import SiloProcess
from fgl_secure.training.processes.sums import Company, SumServer
from fgl_secure.training.silo import Silo
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.flower.fake_federation import FakeGrid, file_of
from tests.graphs import two_communities
from tests.methods.fedstruct.test_processes import SMALL
from tests.training.processes.runs import same_everywhere, silo_makes, together

SILOS = 3
SCHEME = PairwiseMasking()
RELAYS = RelayCoded(k_min=1, profile=Profile.SHOWN)
FEDSTRUCT_TASK = FedStructTask(replace(SMALL, epochs=1, hops=2), RowExchange(SCHEME, SCHEME))
HIFGL = replace(HONEST, epochs=1, hidden=8)
EVERYTHING = (*TOLD, "theta", "structure", "own test", "budget spent")

WHO_IS_WHO = [Identity.generate(SystemCoins()) for _ in range(SILOS)]
KNOWN = Identities({number: identity.public for number, identity in enumerate(WHO_IS_WHO)})


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=36, silos=SILOS)


def number_of(context: Context) -> int:
    return int(context.node_config["partition-id"])


def grid_of(
    parties: int, make: Callable[[Context, bytes], SealedParty], told: Collection[str] = TOLD, **app: Any
) -> FakeGrid:
    grid = FakeGrid([silo_app(number_of, make, told, **app) for _ in range(parties)])
    for number, context in enumerate(reversed(list(grid.contexts.values()))):
        context.node_config["partition-id"] = number
    return grid


def fedstruct_grid(graph: FederatedGraph, told: Collection[str] = TOLD, parties: int = SILOS, **app: Any) -> FakeGrid:
    """A node a silo, every key signed; of fewer parties only the first turn can be had."""

    def make(context: Context, session: bytes) -> SealedParty:
        silo, coins = number_of(context), SystemCoins()
        signing = WHO_IS_WHO[silo], KNOWN
        company = Company(SILOS, SCHEME, session)
        held, names = Silo.of(graph, silo), Names({silo: WHO_IS_WHO[silo]}, KNOWN)
        program = SiloProcess(held, lambda talk: FedStruct(talk, FEDSTRUCT_TASK), company, coins, names=names)
        return SealedParty(silo, parties, program, session, coins, *signing)

    return grid_of(parties, make, told, **app)


def hifgl_grid(graph: FederatedGraph, told: Collection[str] = TOLD) -> FakeGrid:
    """A node a silo, and one a relay."""
    parties = SILOS + RELAYS.R

    def make(context: Context, session: bytes) -> SealedParty:
        number, coins = number_of(context), SystemCoins()
        if number >= SILOS:
            relay = RelayProcess(number - SILOS, SILOS, RELAYS, session, coins)
            return SealedParty(number, parties, relay, session, coins)
        share = Silo.of(graph, number)
        neighbours = HostedSums(share, RELAYS, session, coins)
        sums = Company(SILOS, SCHEME, session)
        silo = SiloProcess(share, lambda talk: HiFGL(talk, HIFGL), sums, coins, neighbours, RELAYS)
        return SealedParty(number, parties, silo, session, coins)

    return grid_of(parties, make, told)


def run(grid: FakeGrid, session: bytes | None = None) -> dict[int, dict[str, Array]]:
    company = Company(SILOS, SCHEME, session or fresh_session())
    return SiloMailbox(grid, SumServer(company, SystemCoins()), len(grid.apps), timeout=0.5).run()


@pytest.mark.parametrize("method", ["fedstruct", "hifgl"])
def test_the_run_is_that_of_one_process(graph: FederatedGraph, method: str) -> None:
    """Nodes that remember their contexts alone train what programs in one process train."""
    if method == "fedstruct":
        grid = fedstruct_grid(graph, EVERYTHING)
        makes = silo_makes(graph, lambda talk: FedStruct(talk, FEDSTRUCT_TASK), {"server": SCHEME})
    else:
        grid, makes = (
            hifgl_grid(graph, EVERYTHING),
            silo_makes(graph, lambda talk: HiFGL(talk, HIFGL), {"neighbours": RELAYS, "server": SCHEME}),
        )
    found, expected = run(grid), together(makes, graph, SCHEME)
    assert same_everywhere({silo: {"loss": found[silo]["losses"]} for silo in found})
    for silo, report in expected.items():
        assert all(np.array_equal(found[silo][name], value, equal_nan=True) for name, value in report.items())


def test_the_link_does_not_see_what_silos_send_each_other(graph: FederatedGraph) -> None:
    """Features that go from silo to silo in the clear are in their parcels, and in none of the nodes' replies."""
    preset = replace(HIFGL, static_first_layer=True)

    def made(talk: Collectives) -> HiFGL:
        return HiFGL(talk, preset, backbone="sage")

    def make(context: Context, session: bytes) -> SealedParty:
        silo, coins = number_of(context), SystemCoins()
        share = Silo.of(graph, silo)
        rows = HostedSums(share, Plaintext(), session, coins, width=100)
        program = SiloProcess(share, made, Company(SILOS, SCHEME, session), coins, rows)
        return SealedParty(silo, SILOS, program, session, coins)

    channel = Channel(hierarchy_of(graph), SystemCoins(), Recording.everything())
    together(silo_makes(graph, made, {"neighbours": Plaintext(), "server": SCHEME}), graph, SCHEME, channel)
    said = [batch.payload.tobytes() for batch in channel.transcript.messages if batch.payload is not None]
    crossing = graph.features[np.unique(graph.edges[0, graph.crosses_silos])]
    grid = grid_of(SILOS, make)
    run(grid)
    replied = [data for _, reply in grid.answered for data in Turn.of(reply.content).post.values()]
    assert all(any(row.tobytes() in data for data in said) for row in crossing)
    assert not any(row.tobytes() in data for row in crossing for data in replied)


def test_a_node_that_falls_silent_stops_the_run(graph: FederatedGraph) -> None:
    """Silos cannot do without one another, and the error says which turn and whose answer is missing."""
    grid = fedstruct_grid(graph)
    grid.tamper = lambda node, _stage, reply: None if node == 100 and len(grid.answered) > 3 * SILOS else reply
    with pytest.raises(ProtocolError, check=about("all 3 parties")):
        run(grid)


def test_a_node_that_fails_is_named_and_says_nothing_more(graph: FederatedGraph) -> None:
    """An exception in a node arrives as an error of its party, without the exception's own words."""
    grid = fedstruct_grid(graph)

    def broken(_context: Context, _session: bytes) -> SealedParty:
        raise InputError("nodes must be 7; found 12")

    grid.apps[101] = silo_app(number_of, broken)
    with pytest.raises(ProtocolError, check=about("all 3 parties")):
        run(grid)
    assert grid.refusals == {101: "ProtocolError: the silo failed; see the log of this node"}


def mailed(grid: FakeGrid) -> None:
    """A run of as many parties as there are nodes."""
    company = Company(len(grid.apps), SCHEME, fresh_session())
    SiloMailbox(grid, SumServer(company, SystemCoins()), len(grid.apps), timeout=0.5).run()


@pytest.mark.parametrize(
    ("parties", "settings", "told"),
    [
        (2, {}, "at least 3 for this node; found 2"),
        (3, {"least": 4}, "at least 4 for this node; found 3"),
        (3, {"silos": lambda _context: 2}, "at least 3 for this node; found 2"),
    ],
)
def test_a_silo_takes_no_part_among_too_few(
    graph: FederatedGraph, parties: int, settings: dict[str, Any], told: str
) -> None:
    """A node that asks for more silos than a run has gives no key away: counted by parties, or as the run says."""
    grid = fedstruct_grid(graph, parties=parties, **settings)
    with pytest.raises(ProtocolError, check=about("parties")):
        mailed(grid)
    assert len(grid.refusals) == parties
    assert all(told in why for why in grid.refusals.values())
    assert not any(file_of(context).file.exists() for context in grid.contexts.values())


def test_two_silos_are_enough_where_every_node_says_so(graph: FederatedGraph) -> None:
    """A least of two lets two silos exchange keys: the control of the test above; one is never enough."""
    grid = fedstruct_grid(graph, parties=2, least=2)
    with pytest.raises(ProtocolError, check=about("all 2 parties")):  # their programs are of three
        mailed(grid)
    with pytest.raises(InputError, check=about("least")):
        fedstruct_grid(graph, least=1)


def test_a_turn_is_had_once(graph: FederatedGraph) -> None:
    """A turn that is asked for again has the same answer, whatever came with it; one too early is refused."""
    grid, session = fedstruct_grid(graph), fresh_session()
    context, app = grid.contexts[100], grid.apps[100]

    def asked(number: int) -> Message:
        return Message(Turn(session, number, {}).content(), dst_node_id=100, message_type="query")

    first = Turn.of(app(asked(0), context).content)
    kept = file_of(context).load(session)
    again = Message(Turn(session, 0, {1: b"x"}).content(), dst_node_id=100, message_type="query")
    assert Turn.of(grid.run_app(100, again).content) == first
    assert len(first.post) == SILOS - 1
    reply = grid.run_app(100, asked(2))
    assert reply.has_error()
    assert "turn must be the next one, 1" in str(reply.error.reason)
    after = file_of(context).load(session)
    assert kept is not None
    assert after is not None
    assert set(after) == set(kept)
    assert all(np.array_equal(after[name], value) for name, value in kept.items())


def test_a_turn_that_failed_is_not_tried_with_other_messages(graph: FederatedGraph) -> None:
    """Whether a turn fails is a bit about the silo's numbers, so a server has one try for each turn."""

    def asked(node: int, number: int, post: dict[int, bytes]) -> Message:
        turn = Turn(session, number, post)
        return Message(turn.content(), dst_node_id=node, message_type="query")

    for tampered in (False, True):
        grid, session = fedstruct_grid(graph), fresh_session()
        first = {
            number_of(context): Turn.of(grid.run_app(node, asked(node, 0, {})).content)
            for node, context in grid.contexts.items()
        }
        own = number_of(grid.contexts[100])
        honest = {number: turn.post[own] for number, turn in first.items() if number != own}
        if tampered:
            forged = dict.fromkeys(honest, b"x")
            for _ in range(2):
                reply = grid.run_app(100, asked(100, 1, forged))
                assert "the silo failed" in str(reply.error.reason)
        assert grid.run_app(100, asked(100, 1, honest)).has_error() is tampered


def test_a_turn_is_had_once_whatever_context_comes_with_it(graph: FederatedGraph) -> None:
    """A server that has Flower hand over a context from before the turn has the answer that it has, and no other."""
    grid, session = fedstruct_grid(graph), fresh_session()
    context, app = grid.contexts[100], grid.apps[100]
    stale = deepcopy(context)
    answers = []
    for each in (context, stale):
        asked = Message(Turn(session, 0, {}).content(), dst_node_id=100, message_type="query")
        answers.append(Turn.of(app(asked, each).content))
    assert answers[0] == answers[1]
    assert context.state == RecordDict()


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("over", [False, True])
def test_a_second_session_is_refused(graph: FederatedGraph, tmp_path: Path, in_file: bool, over: bool) -> None:
    """During the first session and after it: the error names the state file, and the first session continues."""
    grid, first = fedstruct_grid(graph), fresh_session()
    for number, context in enumerate(grid.contexts.values()):
        context.node_config |= {"state": str(tmp_path / f"state{number}")} if in_file else {}
    if over:
        run(grid, first)
    else:
        asked = Message(Turn(first, 0, {}).content(), dst_node_id=100, message_type="query")
        answer = Turn.of(grid.run_app(100, asked).content)
    with pytest.raises(RunStoppedError, match="turn 0"):
        run(grid)
    assert f"state file {'state0' if in_file else 'node-100'} " in grid.refusals[100]
    if not over:
        assert Turn.of(grid.run_app(100, asked).content) == answer


def test_a_file_of_another_party_is_refused(graph: FederatedGraph, tmp_path: Path) -> None:
    """Or the second party would send the stored reply of the first one as its own."""
    grid = fedstruct_grid(graph)
    for context in grid.contexts.values():
        context.node_config["state"] = str(tmp_path / "state")
    with pytest.raises(RunStoppedError, match="turn 0"):
        run(grid)
    assert any("one party" in refusal for refusal in grid.refusals.values())


def test_a_new_file_begins_anew(graph: FederatedGraph, tmp_path: Path) -> None:
    """What the error asks for: a second run on the same nodes has keys and sums of its own, and finds the same."""
    grid, found = fedstruct_grid(graph), list[np.ndarray]()
    for number in range(2):
        for node, context in grid.contexts.items():
            context.node_config["state"] = str(tmp_path / f"{number} of {node}")
        found.append(run(grid)[0]["losses"])
    assert np.array_equal(found[0], found[1])


def test_models_stay_with_the_silos(graph: FederatedGraph) -> None:
    """A silo's report has parameters and learnt structure features; the server is told figures and nothing else."""
    found = run(fedstruct_grid(graph))
    assert all(set(report) == {"losses", "selected round", "validation", "test"} for report in found.values())


def test_nodes_must_be_one_of_each_party(graph: FederatedGraph) -> None:
    """Two nodes with one number, or too few nodes."""
    grid = fedstruct_grid(graph)
    grid.contexts[100].node_config["partition-id"] = 1
    with pytest.raises(InputError, check=about("nodes")):
        run(grid)
    del grid.apps[100]
    company = Company(SILOS, SCHEME, fresh_session())
    with pytest.raises(InputError, check=about("nodes")):
        SiloMailbox(grid, SumServer(company, SystemCoins()), SILOS, timeout=0.1).run()


GOOD = {"session": bytes(16), "number": 0, "ends": [1], "post": [b""], "report": b"", "over": False, "due": ""}


@pytest.mark.parametrize(
    "record",
    [
        {},
        GOOD | {"session": b"short"},
        GOOD | {"ends": [1, 1], "post": [b"", b""]},
        GOOD | {"post": [b"", b""]},
        GOOD | {"ends": ["1"]},
        GOOD | {"number": "0"},
        GOOD | {"over": 1},
        GOOD | {"due": "x" * 101},
        GOOD | {"due": "two\nlines"},
    ],
)
def test_what_is_no_turn_is_refused(record: dict[str, object]) -> None:
    """A message without the record, or with one of another shape."""
    assert Turn.of(RecordDict({KEY: ConfigRecord(GOOD)})).number == 0  # type: ignore[arg-type]
    with pytest.raises(MalformedMessageError):
        Turn.of(RecordDict({KEY: ConfigRecord(record)}))  # type: ignore[arg-type]
    with pytest.raises(MalformedMessageError):
        Turn.of(RecordDict())


def test_who_changes_nothing(graph: FederatedGraph) -> None:
    """A node says which party it is without making it."""
    grid = fedstruct_grid(graph)
    app: ClientApp = grid.apps[102]
    reply = app(Message(Turn(bytes(16), WHO, {}).content(), dst_node_id=102, message_type="query"), grid.contexts[102])
    assert Turn.of(reply.content).number == 0
    assert not file_of(grid.contexts[102]).file.exists()
