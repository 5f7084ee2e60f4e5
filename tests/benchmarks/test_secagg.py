"""`python -m benchmarks secagg` on small rounds: tests of what is printed, not of speed."""

import json
from typing import Any

import pytest

from benchmarks import measure as bench
from benchmarks import secagg as bench_secagg
from benchmarks.secagg_round import timed_round
from benchmarks.timing import BenchReport, verdict
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.schemes import names, server_scheme

SMALL: dict[str, Any] = {
    "CLIENTS": (4, 10), "LENGTH": 2000, "IN_FULL": dict.fromkeys(names("server"), 4), "SHARES_OF_LENGTH": (20, 4),
    "ROUND_CLIENTS": 10,
    "MANY": (("pairwise-masking[x25519,dropout=0.2]", 40, 200),),
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> BenchReport:
    """A run over rounds of four and ten clients, the larger ones from shorter vectors."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SMALL.items():
            patch.setattr(bench_secagg, name, value)
        return bench_secagg.PART.run()


def test_every_scheme_is_measured_with_and_without_drop_outs(report: BenchReport) -> None:
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


def test_figures_have_their_bounds_and_say_what_limits_them(report: BenchReport) -> None:
    """Masks against Flower's in two fields, rounds against plain sums and key streams, and rounds of many clients."""
    assert [figure.bound for figure in report.figures] == [5.0, 5.0, 6.0, 4.0, 90.0, 5.0, 2.0]
    for figure in report.figures:
        assert figure.value is None or figure.value > 0
        assert figure.note
        assert figure.is_reached in (None, "NOT reached" not in verdict(figure))
    assert f"limited by {PairwiseMasking().degree_for(10) + 1} masks a client" in report.figures[2].note


def test_rounds_of_many_clients_say_what_they_took(report: BenchReport) -> None:
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


def test_without_flower_the_rest_is_measured_and_the_lack_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Flower isn't installed its ratios are missing, with the reason."""
    for name, value in {**SMALL, "CLIENTS": (4,), "ROUND_CLIENTS": 4, "MANY": SMALL["MANY"][:1]}.items():
        monkeypatch.setattr(bench_secagg, name, value)
    monkeypatch.setattr(bench_secagg, "find_spec", lambda _: None)
    monkeypatch.setattr(bench_secagg, "round_alone", lambda name, *sizes: timed_round(server_scheme(name), *sizes))
    found = bench_secagg.PART.run()
    assert [figure.value for figure in found.figures[:2]] == [None, None]
    assert "not measured, Flower is not installed" in verdict(found.figures[0])
    text = json.dumps(bench.as_json(bench.HostMachine.here(), found))
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
