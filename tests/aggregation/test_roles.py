"""A round whose parties are processes of their own: bytes in, bytes out, and nothing else between them."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.client_round import ClientRound
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.server_round import OPENING, ServerRound
from fgl_secure.aggregation.sums import Opening, SumKind, SumRequest
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.schemes import names
from tests.error_codes import about

CLIENTS = 4
MAPPINGS = [{"w": torch.full((3,), float(i)), "n": np.array([2])} for i in range(CLIENTS)]


def aggregator_of(scheme: str, seed: int, **more: Any) -> SecureAggregator:
    """One party's own aggregator, made from the rules that all agreed on."""
    bound = {"bound": 8.0} if scheme == "ckks-shared-key" else {}
    return SecureAggregator.for_clients(CLIENTS, scheme, threshold=3, coins=SimulationCoins(seed), **{**bound, **more})


def parties(scheme: str) -> tuple[ServerRound, dict[int, ClientRound]]:
    """A server and clients that share nothing but rules, session and number."""
    server = aggregator_of(scheme, 100).server_round(TensorLayout.of(MAPPINGS[0]))
    clients = {i: aggregator_of(scheme, i).client_round(i, server.session, server.number) for i in range(CLIENTS)}
    return server, clients


def steps(server: ServerRound) -> Iterator[str]:
    """What the server asks for, each ended when the caller asks for the next."""
    while not server.is_done:
        yield server.request_kind
        server.advance()


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_processes_that_share_rules_alone_get_the_mean(scheme: str) -> None:
    """A server that knows the layout, and clients that train when the first sum is opened, get the mean.

    Each client is written down and goes on in another process after every answer.
    """
    server, clients = parties(scheme)
    for asked in steps(server):
        for index, message in server.requests().items():
            if asked == OPENING and not clients[index].has_contribution:
                clients[index].provide(MAPPINGS[index], index + 1)
            server.receive(index, clients[index].reply(message))
            clients[index] = aggregator_of(scheme, 50 + index).restored_client(clients[index].state())
    assert torch.allclose(server.result["w"], torch.full((3,), 2.0))
    assert server.result["n"].tolist() == [2]
    assert server.contributors == tuple(range(CLIENTS))


@pytest.mark.parametrize("scheme", sorted(names("server")))
def test_a_client_that_fails_leaves_the_round_unharmed(scheme: str) -> None:
    """A client that refuses its own NaN drops out; the mean is over the others, who can be as many as the threshold."""
    server, clients = parties(scheme)
    for index, client in clients.items():
        client.provide({"w": torch.full((3,), torch.nan), "n": np.array([2])} if index == 2 else MAPPINGS[index])
    for _ in steps(server):
        for index, message in server.requests().items():
            if index != 2:
                server.receive(index, clients[index].reply(message))
                continue
            with pytest.raises(InputError, check=about("'w'")):
                clients[index].reply(message)
    assert server.contributors == (0, 1, 3)
    assert torch.allclose(server.result["w"], torch.full((3,), 4 / 3))


def test_nothing_leaves_without_a_mapping() -> None:
    """A client that has nothing to add says so, and answers the same request once it has."""
    server, clients = parties("pairwise-masking")
    message = server.requests()[1]
    with pytest.raises(InputError, check=about("mapping")):
        clients[1].reply(message)
    clients[1].provide(MAPPINGS[1])
    server.receive(1, clients[1].reply(message))


def test_a_mapping_is_provided_once_and_fits() -> None:
    """A second mapping, and one of another layout than the server's, are refused."""
    server, clients = parties("pairwise-masking")
    clients[0].provide(MAPPINGS[0])
    with pytest.raises(InputError, check=about("mapping")):
        clients[0].provide(MAPPINGS[0])
    clients[1].provide({"w": torch.zeros(3)})
    with pytest.raises(InputError, check=about("mapping")):
        clients[1].reply(server.requests()[1])
    clients[2].provide({"w": torch.zeros(4), "n": np.array([2])})
    with pytest.raises(InputError, check=about("shape of 'w'")):
        clients[2].reply(server.requests()[2])


def test_a_client_takes_part_in_a_round_once() -> None:
    """The same place of the same round is given out once by one aggregator; another round is another place."""
    aggregator = aggregator_of("plaintext", 1)
    aggregator.client_round(0, bytes(16), 0)
    with pytest.raises(InputError, check=about("client")):
        aggregator.client_round(0, bytes(16), 0)
    aggregator.client_round(0, bytes(16), 1)
    state = aggregator_of("plaintext", 1).client_round(1, bytes(16), 0).state()
    aggregator.restored_client(state)
    with pytest.raises(InputError, check=about("client")):
        aggregator.client_round(1, bytes(16), 0)
    with pytest.raises(InputError, check=about("index")):
        aggregator.client_round(4, bytes(16), 0)
    with pytest.raises(InputError, check=about("session")):
        aggregator.rules.session(b"short", Opening(TensorLayout.of(MAPPINGS[0]), {"w": 1.0}))
    for number in (-1, 2**32):
        with pytest.raises(InputError, check=about("number of a round")):
            aggregator.rules.step(SumKind.VALUES, number)


def test_messages_of_another_session_round_or_sum_are_stale() -> None:
    """What belongs elsewhere is refused, and the client answers the right request afterwards."""
    server, clients = parties("pairwise-masking")
    elsewhere = aggregator_of("pairwise-masking", 999).server_round(TensorLayout.of(MAPPINGS[0]))
    later = aggregator_of("pairwise-masking", 100)
    later.server_round(TensorLayout.of(MAPPINGS[0]))
    clients[0].provide(MAPPINGS[0])
    for wrong in (elsewhere.requests()[0], later.server_round(TensorLayout.of(MAPPINGS[0])).requests()[0]):
        with pytest.raises(StaleMessageError):
            clients[0].reply(wrong)
    server.receive(0, clients[0].reply(server.requests()[0]))
    with pytest.raises(ProtocolError):
        server.receive(0, b"again")


def test_clients_say_no_where_the_rules_leave_nothing_open() -> None:
    """Where the bound is given, a server can neither ask for ranges nor name bounds of its own."""
    layout = TensorLayout.of(MAPPINGS[0])
    client = aggregator_of("plaintext", 1, bound=8.0).client_round(0, bytes(16), 0)
    client.provide(MAPPINGS[0])
    for purpose, bounds in ((SumKind.RANGES, None), (SumKind.VALUES, {"w": 1e-3})):
        with pytest.raises(ProtocolError, match="only where the rules leave them open"):
            client.reply(SumRequest(bytes(16), 0, purpose, Opening(layout, bounds)).to_bytes())
    with pytest.raises(StaleMessageError, match="must open it"):
        client.reply(SumRequest(bytes(16), 0, SumKind.VALUES, None).to_bytes())
    for scheme, bounds in (("plaintext", {"w": 1.0}), ("pairwise-masking", None)):
        asked = SumRequest(bytes(16), 0, SumKind.WATCHED, Opening(layout, bounds)).to_bytes()
        who = aggregator_of(scheme, 1).client_round(0, bytes(16), 0)
        who.provide(MAPPINGS[0])
        with pytest.raises(ProtocolError):
            who.reply(asked)
    unbounded = aggregator_of("plaintext", 1).client_round(0, bytes(16), 0)
    with pytest.raises(ProtocolError, match="only where the rules leave them open"):
        unbounded.reply(SumRequest(bytes(16), 0, SumKind.VALUES, Opening(layout)).to_bytes())


def watched_rounds(*grown: int) -> tuple[ServerRound, list[ClientRound]]:
    """The second of two rounds, in which some clients' numbers have exceeded the ranges of the first."""
    aggregator = SecureAggregator.for_clients(4, coins=SimulationCoins(3))
    for number in range(2):
        server = aggregator.server_round(TensorLayout.of({"w": np.zeros(3)}))
        clients = [aggregator.client_round(u, server.session, number) for u in range(4)]
        for u, client in enumerate(clients):
            client.provide({"w": np.full(3, 1e6 if number and u in grown else 0.5 + u)})
        if number:
            return server, clients
        while not server.is_done:
            turn(server, clients)
    raise AssertionError


def turn(server: ServerRound, clients: list[ClientRound], without: Collection[int] = ()) -> None:
    """One exchange."""
    for u, request in dict(server.requests()).items():
        if u not in without:
            server.receive(u, clients[u].reply(request))
    server.advance()


@pytest.mark.parametrize("grown", [(), (2,), (0, 3)])
def test_who_has_outgrown_a_range_vetoes_the_mean(grown: tuple[int, ...]) -> None:
    """In processes of their own: a mean that nobody vetoes is one sum, another one is summed again in new ranges."""
    server, clients = watched_rounds(*grown)
    asked = [server.purpose]
    while not server.is_done:
        turn(server, clients)
        asked += [server.purpose] * (server.purpose is not asked[-1])
    assert asked == [SumKind.WATCHED, *([SumKind.RANGES, SumKind.VALUES] if grown else [])]
    expected = np.mean([1e6 if u in grown else 0.5 + u for u in range(4)])
    np.testing.assert_allclose(server.result["w"], np.full(3, expected), rtol=1e-9)
    assert all(client.over for client in clients)


def test_who_has_opened_a_mean_opens_no_other() -> None:
    """A server that lies can't have one client's update summed twice: who has opened a mean takes no other request."""
    server, clients = watched_rounds()
    request = SumRequest(server.session, 1, SumKind.RANGES, Opening(server.layout, server.bounds)).to_bytes()
    mean = SumRequest(server.session, 1, SumKind.VALUES, Opening(server.layout, server.bounds)).to_bytes()
    while not server.is_done:
        turn(server, clients)
    for client in clients:
        for wrong in (request, mean):
            with pytest.raises(StaleMessageError, check=about("request")):
                client.reply(wrong)
    server, clients = watched_rounds(2)
    turn(server, clients)
    with pytest.raises(StaleMessageError, check=about("request")):  # ranges alone may follow it
        clients[0].reply(replace(SumRequest.from_bytes(mean), session=server.session).to_bytes())


def test_a_sum_is_opened_once() -> None:
    """A second opening of a sum, the same or another, is refused: masks of its step have left."""
    layout = TensorLayout.of(MAPPINGS[0])
    client = aggregator_of("plaintext", 1, bound=8.0).client_round(0, bytes(16), 0)
    client.provide(MAPPINGS[0])
    opening = SumRequest(bytes(16), 0, SumKind.VALUES, Opening(layout)).to_bytes()
    client.reply(opening)
    with pytest.raises(StaleMessageError, check=about("sum of VALUES")):
        client.reply(opening)


def isolating(scheme: str, others: Opening) -> ServerRound:
    """A round whose server tells client 2 the ranges that were found, and all others something else."""
    server, clients = parties(scheme)
    for index, client in clients.items():
        client.provide(MAPPINGS[index])
    for _ in steps(server):
        for index, message in server.requests().items():
            said = SumRequest.from_bytes(message)
            if said.purpose is SumKind.VALUES and said.opening is not None and index != 2:
                said = replace(said, opening=others)
            with suppress(ProtocolError):
                server.receive(index, clients[index].reply(said.to_bytes()))
    return server


@pytest.mark.filterwarnings("ignore::fgl_secure.errors.PrecisionWarning")  # by which an honest client tells its user
@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg"])
def test_a_server_that_tells_clients_different_bounds_gets_no_sum_with_the_odd_one(scheme: str) -> None:
    """Huge bounds make the others' numbers round to 0, and would leave one update in the sum; alike they do not."""
    layout = TensorLayout.of(MAPPINGS[0])
    # the control: in the clear nothing ties clients together, and the update is read
    open_to_it = isolating("plaintext", Opening(layout, {"w": 2.0**120}))
    assert torch.allclose(open_to_it.result["w"] * CLIENTS, torch.full((3,), 2.0))
    try:
        server = isolating(scheme, Opening(layout, {"w": 2.0**120}))
    except ProtocolError:
        return
    assert 2 not in server.contributors
    assert float(server.result["w"].abs().max()) == 0.0


def test_terms_differ_where_anything_that_a_vector_means_differs() -> None:
    """Two parties whose rules, bounds or layouts differ have no keys in common; with equal ones they have."""
    layout, other, bounds = (
        TensorLayout.of(MAPPINGS[0]),
        TensorLayout.of({"v": np.zeros(3), "n": np.array([2])}),
        {"w": 4.0},
    )
    contexts = [
        aggregator_of("pairwise-masking", 0, **more).rules.session(bytes(16), Opening(layout, found))
        for more, found in (
            ({}, bounds), ({}, {"w": 8.0}), ({"fraction_bits": 5}, bounds), ({"weight_bound": 4.0}, bounds),
            ({"weight_fraction_bits": 2}, bounds), ({"integers": "exact"}, bounds), ({"watched": False}, bounds),
            ({"bound": 4.0}, None), ({"bound": 8.0, "clip": True}, None), ({"bound": 8.0}, None),
        )
    ]  # fmt: skip
    contexts.append(aggregator_of("pairwise-masking", 0).rules.session(bytes(16), Opening(other, {"v": 4.0})))
    assert len(set(contexts)) == len(contexts)
    assert aggregator_of("pairwise-masking", 1, bound=8).rules.session(bytes(16), Opening(layout)) == contexts[-2]


@pytest.mark.parametrize("scheme", sorted(set(names("server")) - {"plaintext"}))
def test_a_client_of_unknown_identity_is_noticed(scheme: str) -> None:
    """With identities the round gives the mean, and one who signs with another key is refused by the others."""
    keys = {i: Identity.generate(SimulationCoins(i)) for i in range(CLIENTS)}
    server, clients = signed(scheme, keys, keys)
    for _ in steps(server):
        for index, message in server.requests().items():
            server.receive(index, clients[index].reply(message))
    assert torch.allclose(server.result["w"], torch.full((3,), 1.5))

    with pytest.raises(InputError, check=about("identity and identities")):
        aggregator_of(scheme, 0).restored_client(clients[0].state())

    server, clients = signed(scheme, keys, {**keys, 0: Identity.generate(SimulationCoins(77))})
    for index, message in server.requests().items():
        server.receive(index, clients[index].reply(message))
    server.advance()
    with pytest.raises(ProtocolError, check=about("client 0")):
        clients[1].reply(server.requests()[1])


def signed(
    scheme: str, known: dict[int, Identity], used: dict[int, Identity]
) -> tuple[ServerRound, dict[int, ClientRound]]:
    """A server and clients that know some keys of each other, and sign with others."""
    server = aggregator_of(scheme, 100, bound=8.0).server_round(TensorLayout.of(MAPPINGS[0]))
    clients = {}
    for i in range(CLIENTS):
        identities = Identities({j: (used[i] if i == j else key).public for j, key in known.items()})
        clients[i] = aggregator_of(scheme, i, bound=8.0).client_round(
            i, server.session, server.number, identity=used[i], identities=identities
        )
        clients[i].provide(MAPPINGS[i])
    return server, clients


@pytest.mark.parametrize(("weight", "fine"), [(5, True), (6, False)])
def test_weights_that_nobody_may_have_are_noticed(weight: int, fine: bool) -> None:
    """Four weights of up to 2 add up to 8: a vector that makes it 9 gives an error and no mean."""
    rules = {"bound": 8.0, "weight_bound": 2.0}
    server = aggregator_of("plaintext", 100, **rules).server_round(TensorLayout.of(MAPPINGS[0]))
    for index, message in server.requests().items():
        client = aggregator_of("plaintext", index, **rules).client_round(index, server.session, server.number)
        client.provide(MAPPINGS[index])
        answer = client.reply(message)
        assert answer.endswith((1).to_bytes(8, "little"))
        server.receive(index, answer[:-8] + weight.to_bytes(8, "little") if index == 0 else answer)
    server.advance()
    if fine:
        assert server.result["n"].tolist() == [1]
    else:
        with pytest.raises(ProtocolError, check=about("weights of 4 clients")):
            _ = server.result


def test_there_is_no_mean_before_the_end() -> None:
    """Result and record are there when the round is done, and not before."""
    server, _ = parties("pairwise-masking")
    for ask in (lambda: server.result, lambda: server.record):
        with pytest.raises(ProtocolError, check=about("round")):
            ask()
    assert server.contributors == ()


def test_nothing_secret_is_shown() -> None:
    """The text of a client shows which it is, and none of its numbers."""
    _, clients = parties("plaintext")
    clients[3].provide({"w": torch.full((3,), 123.25), "n": np.array([2])})
    assert "123" not in repr(clients[3])
    assert "<secrets>" in repr(clients[3])


def test_states_that_are_cut_are_malformed() -> None:
    """A state that lost or gained bytes is refused."""
    server, clients = parties("plaintext")
    clients[0].provide(MAPPINGS[0])
    clients[0].reply(server.requests()[0])
    state = clients[0].state()
    for bad in (state[:-1], state[:40], b"", state + b"x"):
        with pytest.raises(MalformedMessageError):
            aggregator_of("plaintext", 1).restored_client(bad)
