"""`python -m benchmarks secagg` on small rounds: tests of what is printed, not of speed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import measure as bench
from benchmarks import secagg as bench_secagg
from benchmarks import secagg_round
from benchmarks.pieces import COPY, Piece
from benchmarks.secagg_round import Round, timed_round
from benchmarks.timing import Report, verdict
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from fgl_secure.runtime import Draws, Later, Step
from fgl_secure.schemes import names, server_scheme

SMALL: dict[str, Any] = {
    "CLIENTS": (4, 10), "LENGTH": 2000, "IN_FULL": dict.fromkeys(names("server"), 4), "SHARES_OF_LENGTH": (20, 4),
    "ROUND_CLIENTS": 10,
    "MANY": (("pairwise-masking[dropout=0.2]", 70, 300), ("pairwise-masking[x25519,dropout=0.2]", 80, 200)),
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    """A run over rounds of four and ten clients, the larger ones from shorter vectors."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(bench_secagg, name, value)
        return bench_secagg.PART.run()


def test_every_scheme_is_measured_with_and_without_drop_outs(report: Report) -> None:
    """Each scheme has a round for each number of clients and of drop-outs, with bytes up and down."""
    told = [timing.name for timing in report.timings]
    for scheme in names("server"):
        for clients in (4, 10):
            for gone in ("", ", 10 % drop out", ", 30 % drop out"):
                (line,) = [name for name in told if name.startswith(f"{scheme}, {clients} clients{gone}: ")]
                assert "MB up" in line
                assert "MB down a client" in line
                assert ("EXTRAPOLATED from rounds of 100 and 500 parameters" in line) == (clients == 10)
    assert all(0 < timing.least <= timing.median <= timing.most for timing in report.timings)


def test_figures_have_their_bounds_and_say_what_limits_them(report: Report) -> None:
    """Masks against Flower's in two fields, rounds against plain sums and key streams, and rounds of many clients."""
    assert [figure.bound for figure in report.figures] == [5.0, 5.0, 6.0, 4.0, 90.0, 5.0, 2.0]
    for figure in report.figures:
        assert figure.value is None or figure.value > 0
        assert figure.note
        assert figure.reached in (None, "NOT reached" not in verdict(figure))
    assert f"limited by {PairwiseMasking().degree_for(10) + 1} masks a client" in report.figures[2].note


def test_rounds_of_many_clients_say_what_they_took(report: Report) -> None:
    """By the clock and by the processor, the server's part, the neighbours, and the memory of a process of its own."""
    told = [timing.name for timing in report.timings]
    for name, clients, length in SMALL["MANY"]:
        neighbours = server_scheme(name).degree_for(clients)  # type: ignore[attr-defined]
        (at,) = [
            i for i, line in enumerate(told) if line.startswith(f"{name}, {clients} clients of {length} parameters")
        ]
        assert f"{neighbours} neighbours" in told[at]
        whole, _, server = (report.timings[at + i].median for i in (1, 2, 3))
        assert 0 < server < whole
        assert "GiB held; by the clock" in told[at]
    assert 0.05 < report.figures[-1].value < 2  # type: ignore[operator]
    assert "of clients' vectors one at a time" in report.figures[-1].note


def test_the_round_is_held_against_plain_sum_key_agreement_and_key_streams() -> None:
    """The figures are the secured round over the sum of both, and over as many streams as it has masks."""
    some = Piece((bench_secagg._once("streams", 0.01), bench_secagg._once("masks", 0.02)))
    many = {
        bench_secagg._many_name(*each): Piece(
            costs=asdict(Round(60.0, 0, 20.0, 1.0, 1.0, server=4.0, wall=50.0, peak=2**30))
        )
        for each in bench_secagg.MANY
    }
    found = {
        "pairwise-masking, 100 clients": Piece(costs=asdict(Round(2.0, 0, 28.0, 1.0, 1.0))),
        "plaintext, 100 clients": Piece(costs=asdict(Round(0.0, 0, 3.0, 1.0, 1.0))),
    }
    found |= many
    figure, streams, *rest = bench_secagg._round_figures({**found, "masks": some, COPY: some})
    assert figure.value == 6.0
    assert figure.reached
    assert streams.value == pytest.approx(30 / (0.001 * 100 * (74 + 1 + 1)))
    assert [other.value for other in rest] == [50.0, 4.0, 1.0]


@pytest.mark.skipif(find_spec("flwr") is None, reason="Flower is not installed")
def test_flower_is_named_with_its_version(report: Report) -> None:
    """Its masks are measured in the same run, expanded alone and added as well."""
    flower = [timing.name for timing in report.timings if "Flower" in timing.name]
    assert len(flower) == 2
    assert all("SecAgg+" in name and "." in name.split("Flower ")[1].split(" ")[0] for name in flower)


def test_without_flower_the_rest_is_measured_and_the_lack_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Flower isn't installed its ratios are missing, with the reason."""
    for name, value in {**SMALL, "CLIENTS": (4,), "ROUND_CLIENTS": 4, "MANY": SMALL["MANY"][:1]}.items():
        monkeypatch.setattr(bench_secagg, name, value)
    monkeypatch.setattr(bench_secagg, "find_spec", lambda _: None)
    monkeypatch.setattr(bench_secagg, "round_alone", lambda name, *sizes: timed_round(server_scheme(name), *sizes))
    found = bench_secagg.PART.run()
    assert [figure.value for figure in found.figures[:2]] == [None, None]
    assert "not measured, Flower is not installed" in verdict(found.figures[0])
    text = json.dumps(bench.as_json(bench.Machine.here(), found))
    assert "Flower is not installed" in text


@pytest.mark.parametrize("name", names("server"))
def test_bytes_of_a_longer_round_follow_from_two_shorter_ones(name: str) -> None:
    """A client's messages grow in line with the length; under CKKS nearly so, where other ciphertexts fit better."""
    scheme = server_scheme(name)
    short, long, full = (timed_round(scheme, 4, length, bench_secagg.BOUND) for length in (8192, 3 * 8192, 9 * 8192))
    longer = long.at(9 * 8192, short, (8192, 3 * 8192))
    assert longer.up == pytest.approx(full.up, rel=0.1)
    assert longer.down == pytest.approx(full.down, rel=0.1)
    assert longer.agreed == pytest.approx(full.agreed, rel=0.1)
    assert (longer.agreed == long.agreed) == (name != "lightsecagg")


def test_time_grows_in_line_with_the_length() -> None:
    """Through two points, and never falls; time for shares grows only where their bytes do."""
    few, many = Round(1.0, 10, 2.0, 10.0, 5.0), Round(1.5, 10, 3.0, 20.0, 4.0)
    assert many.at(40, few, (10, 20)) == Round(1.5, 10, 5.0, 40.0, 4.0)
    assert replace(many, agreed=20).at(40, few, (10, 20)) == Round(2.5, 40, 5.0, 40.0, 4.0)


@pytest.mark.parametrize("name", names("server"))
def test_every_client_has_a_vector_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No two of them are equal; they are laid out, but where machines read one at a time."""
    scheme, given = server_scheme(name), list[NDArray[Any]]()
    genuine = type(scheme).machines

    def machines(self: Scheme, topology: Topology, session: bytes, draws: Draws, parties: Any) -> Any:
        made = genuine(self, topology, session, draws, parties)
        for machine in made:
            begin = machine.begin

            def noted(step: Step, rows: Any = None, begin: Any = begin) -> None:
                given.extend([] if rows is None else [rows])
                begin(step, rows)

            monkeypatch.setattr(machine, "begin", noted)
        return made

    monkeypatch.setattr(type(scheme), "machines", machines)
    timed_round(scheme, 10, 100, 7, gone=3)
    assert [rows.shape for rows in given] == [(7, 100), (3, 100)]
    assert all(isinstance(rows, Later) == scheme.reads_one_by_one for rows in given)
    assert len(np.unique(np.concatenate([np.asarray(rows) for rows in given]), axis=0)) == 10


def test_making_vectors_is_no_part_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it took by its own count is taken off the round's processor time, and off nothing else of it."""
    genuine = secagg_round._Inputs._rows

    def counted(self: Any, places: Any) -> Any:
        rows = genuine(self, places)
        self.seconds += 1000.0
        return rows

    monkeypatch.setattr(secagg_round._Inputs, "_rows", counted)
    found = timed_round(server_scheme("pairwise-masking"), 10, 100, 7)
    assert -10_000 < found.rest < -9000
    assert found.agreement > 0
    assert found.server > 0


def test_who_drops_out_sends_no_vector() -> None:
    """Three of ten fewer vectors reach the server, and the round is exact all the same."""
    scheme = server_scheme("plaintext")
    assert timed_round(scheme, 10, 100, 7, gone=3).up == timed_round(scheme, 10, 100, 7).up
    assert timed_round(server_scheme("pairwise-masking"), 10, 100, 7, gone=3).seconds > 0
