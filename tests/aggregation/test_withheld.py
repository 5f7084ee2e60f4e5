"""Entries of a mean to which few clients contribute: who may open them, and what is left of them in messages."""

import itertools
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fgl_secure import SecureAggregator
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.aggregation.record import RoundOutcome
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.aggregation.sums import Opening, SumKind, SumRequest, opened_entries, read_entries
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError
from fgl_secure.runtime import Circumstance
from fgl_secure.schemes import names, server_scheme
from fgl_secure.typing import Integers
from tests.error_codes import about

CLIENTS, THRESHOLD, K_MIN, ENTRIES = 5, 4, 2, 6
NEEDED = K_MIN + CLIENTS - THRESHOLD
STAIRS = np.tri(CLIENTS, ENTRIES, 0) * np.arange(1, CLIENTS + 1)[:, None]
"""Of entry j clients j and above have something: entries have 5, 4, 3, 2, 1 and no contributors."""

Flags = NDArray[np.bool_]


def rules_of(scheme: str, **more: Any) -> Rules:
    """For five clients, of whom one may vanish."""
    return Rules(server_scheme(f"{scheme}[threshold={THRESHOLD}]"), CLIENTS, bound=8.0, **{"k_min": K_MIN, **more})


def aggregator_of(scheme: str, seed: int = 0, **more: Any) -> SecureAggregator:
    """One party's own, under such rules."""
    return SecureAggregator(rules_of(scheme, **more), SimulationCoins(seed))


def mappings_of(rows: NDArray[np.float64]) -> list[dict[str, NDArray[np.float64]]]:
    """One tensor a client."""
    return [{"rows": row.copy()} for row in rows]


updates = st.lists(
    st.lists(st.sampled_from([0.0, 0.0, 1.5, -2.0]), min_size=ENTRIES, max_size=ENTRIES),
    min_size=CLIENTS,
    max_size=CLIENTS,
).map(np.array)


@pytest.mark.parametrize("scheme", sorted(names("server")))
@given(rows=updates)
@settings(max_examples=4)
def test_what_enough_clients_contribute_to_is_opened_and_nothing_else(scheme: str, rows: NDArray[np.float64]) -> None:
    """Entries with k_min contributors and as many more as may vanish are in the mean, all others are 0 and withheld."""
    aggregator = aggregator_of(scheme)
    mean = aggregator.mean(mappings_of(rows))["rows"]
    enough = (rows != 0).sum(axis=0) >= NEEDED
    assert np.allclose(mean, np.where(enough, rows.mean(axis=0), 0.0), atol=1e-4)
    assert aggregator.last_round is not None
    assert np.array_equal(aggregator.last_round.withheld["rows"], ~enough)
    assert aggregator.last_round.k_min == K_MIN


def test_without_k_min_an_entry_of_one_client_is_read_from_the_mean() -> None:
    """The control: the server reads the last client's own entry exactly. With k_min it is told nothing of it."""
    open_to_all = aggregator_of("pairwise-masking", k_min=1)
    assert open_to_all.mean(mappings_of(STAIRS))["rows"][4] * CLIENTS == STAIRS[4, 4]
    assert open_to_all.last_round is not None
    assert open_to_all.last_round.withheld == {}
    assert aggregator_of("pairwise-masking").mean(mappings_of(STAIRS))["rows"][4] == 0.0


def said_in_the_clear(rows: NDArray[np.float64], rules: Rules) -> dict[tuple[SumKind, str], list[list[int]]]:
    """All that clients say where nothing is hidden from anybody, by sum and phase."""
    aggregator = SecureAggregator(rules, SimulationCoins(0))
    aggregator.mean(mappings_of(rows))
    assert aggregator.last_round is not None
    found: dict[tuple[SumKind, str], list[list[int]]] = {}
    for batch in aggregator.last_round.transcript.messages:
        assert batch.fields is not None
        values = [value.reshape(len(value), -1).tolist() for value in batch.fields.values()]
        found.setdefault((SumKind(batch.step.part), batch.phase.name), []).extend(values[0])
    return found


@given(values=st.lists(st.floats(-8, 8).filter(lambda value: abs(value) > 2**-10), min_size=3, max_size=3))
def test_nothing_of_a_closed_entry_leaves_a_client(values: list[float]) -> None:
    """Whatever stands in closed entries, clients say the same, even in the clear: no scheme has to hide it."""
    closed = STAIRS.copy()
    closed[3, 3], closed[4, 3], closed[4, 4] = values
    assert said_in_the_clear(STAIRS, rules_of("plaintext")) == said_in_the_clear(closed, rules_of("plaintext"))


def test_an_open_entry_leaves_a_client() -> None:
    """The broken twin: with k_min 1 the same comparison tells the two apart, and with k_min 2 an open entry does."""
    closed, seen = STAIRS.copy(), STAIRS.copy()
    closed[4, 4], seen[4, 0] = -1.0, -1.0
    first = rules_of("plaintext", k_min=1)
    assert said_in_the_clear(STAIRS, first) != said_in_the_clear(closed, first)
    assert said_in_the_clear(STAIRS, rules_of("plaintext")) != said_in_the_clear(seen, rules_of("plaintext"))


class WithoutMargin(Rules):
    """Entries are opened as soon as k_min clients have marked them."""

    __slots__ = ()

    def next_opening(self, purpose: SumKind, opening: Opening, total: Integers) -> Opening:
        found = super().next_opening(purpose, opening, total)
        return replace(found, opened=opened_entries(total, self.clients, self.k_min))


def fewest_contributors(kind: type[Rules]) -> int:
    """Of all entries that a sum opens, the fewest clients in it, when any one client vanishes after it has marked."""
    found = CLIENTS
    for gone in itertools.combinations(range(CLIENTS), CLIENTS - THRESHOLD):
        server, clients = parties(kind)
        while not server.is_done:
            for index, message in server.requests().items():
                if server.purpose is SumKind.CONTRIBUTOR_COUNT or index not in gone:
                    server.receive(index, clients[index].reply(message))
            server.advance()
        left = STAIRS[list(server.contributors)]
        seen = np.flatnonzero(server.result["rows"])
        found = min(found, int((left[:, seen] != 0).sum(axis=0).min()))
    return found


def parties(kind: type[Rules] = Rules, scheme: str = "plaintext", **more: Any) -> tuple[ServerRound, dict[int, Any]]:
    """A server and clients that share nothing but rules, and have what they add."""
    given = server_scheme(f"{scheme}[threshold={THRESHOLD}]")
    made = [
        SecureAggregator(kind(given, CLIENTS, bound=8.0, **{"k_min": K_MIN, **more}), SimulationCoins(seed))
        for seed in range(CLIENTS + 1)
    ]
    server = made[-1].server_round(TensorLayout.of(mappings_of(STAIRS)[0]))
    clients = {index: made[index].client_round(index, server.session, server.number) for index in range(CLIENTS)}
    for index, mapping in enumerate(mappings_of(STAIRS)):
        clients[index].provide(mapping)
    return server, clients


def test_clients_that_vanish_after_their_marks_leave_k_min() -> None:
    """Whoever vanishes between the two sums, no entry of fewer than k_min clients is opened; without margin one is."""
    assert fewest_contributors(Rules) >= K_MIN
    assert fewest_contributors(WithoutMargin) < K_MIN


def opened_otherwise(scheme: str) -> ServerRound:
    """A round whose server tells the last client that all entries are open, and the others what they have marked."""
    server, clients = parties(scheme=scheme)
    everything = np.packbits(np.ones(ENTRIES, dtype=np.bool_)).tobytes()
    while not server.is_done:
        for index, message in server.requests().items():
            said = SumRequest.from_bytes(message)
            if index == CLIENTS - 1 and said.purpose is SumKind.VALUES and said.opening is not None:
                said = replace(said, opening=replace(said.opening, bounds=None, opened=everything))
            with suppress(ProtocolError):
                server.receive(index, clients[index].reply(said.to_bytes()))
        server.advance()
    return server


@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg"])
def test_a_server_that_opens_entries_to_one_client_has_no_sum_with_it(scheme: str) -> None:
    """Which entries are open is bound to the keys of the sum: none with the odd client, or none at all.

    In the clear, the control, nothing binds them, and the client's own entry is there.
    """
    with pytest.raises(ProtocolError, check=about("closed")):
        _ = opened_otherwise("plaintext").result
    try:
        server = opened_otherwise(scheme)
    except ProtocolError:
        return
    assert CLIENTS - 1 not in server.contributors
    assert server.result["rows"][4] == 0.0


def test_a_client_that_counts_nothing_marks_nothing() -> None:
    """An update with weight 0 is no contribution to a sum."""
    rows = np.ones((CLIENTS, 1))
    aggregator = aggregator_of("pairwise-masking")
    assert aggregator.mean(mappings_of(rows), [1, 1, 1, 0, 0])["rows"] == 1.0
    assert aggregator.mean(mappings_of(rows), [1, 1, 0, 0, 0])["rows"] == 0.0


def test_integers_truth_values_and_found_ranges_go_with_it() -> None:
    """Tensors of every kind are opened or 0 by entry, also where the first round finds ranges before."""
    aggregator = SecureAggregator.for_clients(CLIENTS, threshold=THRESHOLD, k_min=K_MIN, coins=SimulationCoins(0))
    held = [
        {"x": torch.tensor([1.0, float(i == 0)]), "n": torch.tensor([3, i == 1]), "b": torch.tensor([True, i == 2])}
        for i in range(CLIENTS)
    ]
    for _ in range(2):
        mean = aggregator.mean(held)
        assert {name: value.tolist() for name, value in mean.items()} == {"x": [1, 0], "n": [3, 0], "b": [True, False]}
        assert aggregator.last_round is not None
        assert {name: w.tolist() for name, w in aggregator.last_round.withheld.items()} == {
            name: [False, True] for name in mean
        }


def test_a_mapping_without_entries_has_nothing_to_mark() -> None:
    """An empty tensor is averaged as without k_min, in one process and between several."""
    empty = [{"x": np.zeros((0, 3))}] * CLIENTS
    assert aggregator_of("pairwise-masking").mean(empty)["x"].shape == (0, 3)
    server = aggregator_of("plaintext", 9).server_round(TensorLayout.of(empty[0]))
    clients = [aggregator_of("plaintext", k).client_round(k, server.session, server.number) for k in range(CLIENTS)]
    for client in clients:
        client.provide(empty[0])
    while not server.is_done:
        for index, message in server.requests().items():
            server.receive(index, clients[index].reply(message))
        server.advance()
    assert server.result["x"].shape == (0, 3)


def test_a_client_goes_on_from_its_state_between_the_sums() -> None:
    """A client that is put down after every answer gives the same mean as one that stays."""
    server, clients = parties(scheme="pairwise-masking")
    while not server.is_done:
        for index, message in server.requests().items():
            answer = clients[index].reply(message)
            again = aggregator_of("pairwise-masking", index)
            clients[index] = again.restored_client(clients[index].state())
            server.receive(index, answer)
        server.advance()
    assert np.allclose(server.result["rows"], np.where(np.arange(ENTRIES) < 3, STAIRS.mean(axis=0), 0))


def refusal(rules: Mapping[str, Any], purpose: SumKind, opened: bytes | None = None) -> str:
    """Why a client refuses to open a sum."""
    client = aggregator_of("plaintext", **rules).client_round(0, bytes(16), 0)
    client.provide(mappings_of(STAIRS)[0])
    opening = Opening(TensorLayout.of(mappings_of(STAIRS)[0]), None, opened)
    with pytest.raises(ProtocolError) as refused:
        client.reply(SumRequest(bytes(16), 0, purpose, opening).to_bytes())
    return str(refused.value)


def test_clients_mark_and_close_entries_only_where_the_rules_say_so() -> None:
    """No marks without k_min, no values without marks, no entries opened with the marks, and a bit for each entry."""
    bits = bytes(1)
    assert "only where k_min is above 1" in refusal({"k_min": 1}, SumKind.CONTRIBUTOR_COUNT)
    assert "only where k_min is above 1" in refusal({"k_min": 1}, SumKind.VALUES, bits)
    assert "with the sum of the values" in refusal({}, SumKind.VALUES)
    assert "with the sum of the values" in refusal({}, SumKind.CONTRIBUTOR_COUNT, bits)
    assert "a bit for each of 6; found 2 bytes" in refusal({}, SumKind.VALUES, bytes(2))


def test_sums_that_no_honest_clients_have_are_errors() -> None:
    """Marks beyond the number of clients or below 0, and values where nothing was to be handed in."""
    for wrong in (CLIENTS + 1, -1):
        with pytest.raises(ProtocolError, check=about("entries")):
            opened_entries(np.array([0, wrong]), CLIENTS, NEEDED)
    layout, none = TensorLayout.of({"rows": np.zeros(2)}), np.packbits([True, False]).tobytes()
    outcome = RoundOutcome(
        rules_of("plaintext"), Opening(layout, None, none), np.array([5, 1, CLIENTS]), (0, 1, 2, 3, 4)
    )
    with pytest.raises(ProtocolError, check=about("closed")):
        _ = outcome.mean


@given(flags=st.lists(st.booleans(), max_size=40))
def test_bits_are_read_as_they_were_written(flags: list[bool]) -> None:
    """A bit for each entry, and no other number of bytes."""
    total = np.array(flags, dtype=np.int64) * NEEDED
    bits = opened_entries(total, CLIENTS, NEEDED)
    assert read_entries(bits, len(flags)).tolist() == flags
    with pytest.raises(MalformedMessageError, check=about("opened entries")):
        read_entries(bits + b"\0", len(flags))


def test_a_k_min_that_cannot_be_is_refused() -> None:
    """It lies in 1 .. threshold, is an integer, and goes with no privacy, which the counts would undo."""
    for wrong in (0, -1, THRESHOLD + 1):
        with pytest.raises(InputError, check=about("k_min")):
            SecureAggregator.for_clients(CLIENTS, threshold=THRESHOLD, k_min=wrong)
    with pytest.raises(InputError, check=about("k_min")):
        SecureAggregator.for_clients(CLIENTS, k_min=2.5)  # type: ignore[arg-type]
    noise = DistributedNoise(clip=1.0, epsilon=4.0, delta=1e-5, rounds=2)
    with pytest.raises(InputError, check=about("k_min")):
        SecureAggregator.for_clients(CLIENTS, k_min=2, privacy=noise)


def test_the_claim_says_what_sparse_sums_tell() -> None:
    """Without k_min that an entry of one client is that client's, with it how many contribute; no promise, no leak."""
    for k_min, words in ((1, "that client's"), (2, "fewer than 2 are never opened")):
        leaks = aggregator_of("pairwise-masking", k_min=k_min).claim.leaks_by_design
        sparse = [leak for leak in leaks if leak.circumstance is Circumstance.SPARSE_SUM]
        assert sum(words in leak.statement for leak in sparse) == 1
    assert aggregator_of("plaintext").claim.leaks_by_design == ()


def test_the_report_says_how_much_stays_closed(tmp_path: Path) -> None:
    """Of six entries three; a round without k_min has no such line."""
    for k_min, shown in ((K_MIN, True), (1, False)):
        aggregator = aggregator_of("pairwise-masking", k_min=k_min)
        aggregator.mean(mappings_of(STAIRS))
        aggregator.write_report(tmp_path / "report.html", mappings_of(STAIRS))
        text = " ".join((tmp_path / "report.html").read_text(encoding="utf-8").split())
        assert ("3 of 6 entries have too few for k_min = 2, were opened by nobody" in text) is shown
