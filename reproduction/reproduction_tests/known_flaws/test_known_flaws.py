"""Known flaws: every flaw is found, no sound protocol is rejected, and the finding is due to the flaw."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fgl_reproduction.known_flaws import (
    CASES,
    FlawCase,
    HidingProtocol,
    ReleasingMechanism,
    examine,
    mechanisms,
    run,
    run_cases,
    schemes,
    subjects,
)
from fgl_reproduction.known_flaws.bounds import lower_bound, lowest_bit
from fgl_reproduction.known_flaws.case import Subject
from fgl_reproduction.known_flaws.questions import candidates_of, questions_of
from fgl_secure.cli.main import BAD_INPUT, OK, VIOLATED, main
from fgl_secure.coins import SimulationCoins, SystemCoins
from fgl_secure.crypto.cryptography import KeyPurpose
from fgl_secure.runtime import Channel, Party, Phase, Role, Step
from fgl_secure.testing import Protocol
from fgl_secure.testing.protocol import Inputs
from tests.protocols.lightsecagg import twins as coding_flaws
from tests.protocols.pairwise_masking import flaws as masking_flaws
from tests.protocols.relay_coded import twins as relay_flaws

BY_NAME = {case.name: case for case in CASES}
COALITIONS = {
    "secmp": "device 2",
    "fedml-lightsecagg-clear": "server 0",
    "fedml-lightsecagg-ramp": "server 0 and silo ",
    "flower-secagg-plus": "server 0",
    "fedgraph-ckks": "server 0",
    "microsecagg": "server 0",
    "sparse-sums": "server 0",
    "two-participant-sets": "server 0",
    "laplace-doubles": "receiver of the output",
    "node-embeddings": "receiver of the output",
}


def case_of(subject: Callable[[], Subject], *, sound: bool = True) -> FlawCase:
    """A case without descriptions."""
    return FlawCase("x", sound, "", "", "", subject)


@pytest.mark.parametrize("name", COALITIONS)
def test_flaws_are_found(name: str) -> None:
    """The examination finds the flaw, by a coalition as small as the flaw allows, and says by what."""
    finding = examine(BY_NAME[name])
    assert finding.violated
    assert finding.is_expected
    assert finding.observer.startswith(COALITIONS[name])
    assert len(finding.observer) <= len(COALITIONS[name]) + 1
    assert any(word in finding.statistic for word in ("total variation", "chi-square", "epsilon is at least"))


@pytest.mark.parametrize("name", [case.name for case in CASES if case.sound])
def test_sound_protocols_pass(name: str) -> None:
    """Exact comparison of many pairs of inputs finds nothing, whatever the coins: it has no false alarms."""
    finding = examine(BY_NAME[name])
    assert finding.is_expected
    assert not finding.violated
    assert finding.check in ("traces; exact enumeration", "traces; exact, by row spaces")
    assert finding.statistic.startswith("total variation 0 ")
    assert finding.questions >= 20


REPAIRED: dict[str, Callable[[], Subject]] = {
    "codes over sealed links": partial(subjects.plaintext_codes, sealed=True),
    "codes with noise": partial(subjects.codes_without_noise, noisy=True),
    "whole seeds": partial(subjects.masks_from_short_seeds, folded=False),
    "a key without the server": partial(subjects.shared_ckks_key, server_has_it=False),
    "fresh masks": partial(subjects.masks_set_up_once, fresh=True),
    "two contributors": partial(subjects.sum_of_sparse_vectors, least=2),
    "one participant set": partial(subjects.two_participant_sets, compared=True),
    "noise on a grid": partial(mechanisms.laplace_count, on_grid=True),
    "noise for all sums that a node changes": partial(mechanisms.node_embeddings, covers_neighbours=True),
}


@pytest.mark.parametrize("name", REPAIRED)
def test_the_same_protocol_without_its_flaw_passes(name: str) -> None:
    """The finding is due to the flaw, and not to the adapter."""
    finding = examine(case_of(REPAIRED[name]))
    assert not finding.violated, finding.statistic
    assert finding.questions


CONTROLS: dict[str, Callable[[], Subject]] = {
    "bonawitz without pair masks": partial(
        schemes.pairwise_masking, cryptography=partial(masking_flaws.Without, purpose=KeyPurpose.PAIR_MASK)
    ),
    "bell with shares that are the secret": partial(
        subjects.bell, cryptography=partial(masking_flaws.Without, purpose=KeyPurpose.SHARING)
    ),
    "lightsecagg with one mask for two": partial(schemes.lightsecagg, coding_flaws.OneMaskForTwo),
    "shamir of degree 1": partial(subjects.shamir, degree=1),
    "relay-coded with one mask for all senders": partial(schemes.relay_coded, relay_flaws.OneForAllSenders),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_negative_controls_of_sound_protocols_are_rejected(name: str) -> None:
    """The examination that passes sound protocols rejects each with an injected flaw."""
    finding = examine(case_of(CONTROLS[name]))
    assert finding.violated
    assert not finding.is_expected
    assert finding.statistic.startswith("total variation ")


def test_there_are_ten_and_five() -> None:
    """Ten flaws and five sound protocols, each with a unique name, a source and a scale."""
    assert [case.sound for case in CASES] == [False] * 10 + [True] * 5
    assert len(BY_NAME) == 15
    assert all(case.source and case.flaw and case.scale for case in CASES)


def test_the_examination_is_given_the_subject_alone() -> None:
    """Fields of the catalogue do not change the result: a flawed subject with a sound case's fields is found too."""
    disguised = replace(BY_NAME["shamir"], subject=BY_NAME["microsecagg"].subject)
    finding = examine(disguised)
    assert finding.violated
    assert not finding.is_expected


def shamir() -> HidingProtocol:
    """The sound case with servers, clients and a receiver."""
    return subjects.shamir()


def test_all_coalitions_of_a_guarantee_are_tested_or_covered() -> None:
    """Every pair that a coalition must not distinguish is tested with a coalition that contains it."""
    subject = shamir()
    asked = questions_of(subject)
    pairs = {(a.tobytes(), b.tobytes()) for _, found in asked for a, b in found}
    assert len(pairs) > 5
    for coalition, found in asked:
        assert sum(party.role is Role.SERVER for party in coalition) == 2
        for a, b in found:
            own = subject.protocol.rows_of(coalition)
            assert np.array_equal(a[own], b[own])
            assert subject.allowed(a, coalition) == subject.allowed(b, coalition)
    assert {each for coalition, _ in asked for each in coalition if each.role is Role.SERVER} == {
        Party(Role.SERVER, number) for number in range(3)
    }


def test_candidates_move_one_entry_or_two() -> None:
    """Zeros, one entry by 1 or 2, and one up and another down."""
    found = candidates_of(np.zeros((3, 1), dtype=np.int64))
    assert len(found) == 1 + 2 * 3 + 3 * 2
    assert len({values.tobytes() for values in found}) == len(found)


def test_traces_are_examined_too() -> None:
    """A protocol that hides every value and sends one message more for some of them is found by its trace."""
    honest = shamir()

    def chatty(inputs: Inputs, channel: Channel) -> None:
        honest.protocol.run(inputs, channel)
        clients = channel.parties.ids(Role.SILO)[np.flatnonzero(inputs[:, 0])]
        payload = np.zeros((*channel.batch_shape, len(clients), 1), dtype=np.int64)
        channel.send(Phase.VALUES, Step(0), clients, clients, payload)

    protocol = Protocol(chatty, honest.protocol.parties, 5, honest.protocol.owners)
    finding = examine(case_of(lambda: replace(honest, protocol=protocol)))
    assert (finding.violated, finding.check) == (True, "traces")


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, 0), (3.0, 0), (6.0, 1), (0.75, -2), (-0.5, -1), (2.0**-60, -60), (0.0, 1024)]
)
def test_lowest_bits_are_those_of_doubles(value: float, expected: int) -> None:
    """The exponent of the lowest bit that is set; 1024 for zero."""
    assert lowest_bit(np.array([value])).tolist() == [expected]


def test_bounds_of_releases_without_noise_are_large_and_of_constants_zero() -> None:
    """A mechanism that says its data is bounded far from what it promises; one that says nothing is not."""

    def make_release(scale: float) -> ReleasingMechanism:
        return ReleasingMechanism(lambda data, runs, _: np.full((runs, 1), scale * data.sum()), 1, 1.0, 1.0, 0.0)

    data = make_release(1.0).neighbours(0)
    assert lower_bound(make_release(1.0), data, SystemCoins(), 1e-8).epsilon > 6
    assert lower_bound(make_release(0.0), data, SystemCoins(), 1e-8).epsilon == 0


def test_a_seed_repeats_samples() -> None:
    """Bounds of two runs with one seed are equal, and another seed gives others."""
    first, again, other = (run_cases(["laplace-doubles"], seed=seed)[0].statistic for seed in (1, 1, 2))
    assert first == again
    release = mechanisms.laplace_count().release
    a, b = (release(np.zeros(1), 8, SimulationCoins(seed)) for seed in (1, 2))
    assert not np.array_equal(a, b)
    assert other.startswith("epsilon is at least")


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, result and coalition stand in the table, and the sum below; in JSON everything."""
    assert main(["known-flaws", "shamir", "microsecagg"]) == OK
    said = capsys.readouterr().out
    for word in ("case", "coalition", "statistic", "seconds", "passed", "found", "server 0", "arXiv 2410.09676"):
        assert word in said
    assert said.strip().endswith("1 of 1 flaws found; 0 of 1 sound protocols rejected")
    assert main(["known-flaws", "microsecagg", "--json"]) == OK
    printed = json.loads(capsys.readouterr().out)
    assert printed["command"] == "fgl-secure known-flaws microsecagg --json"
    (record,) = printed["cases"]
    assert (record["case"], record["result"], record["coalition"]) == ("microsecagg", "found", "server 0")
    assert record["seconds"] >= 0


def test_the_command_says_when_something_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound protocol that is rejected, or a flaw that is missed, has its own exit status; so has a wrong name."""
    assert main(["known-flaws", "nothing"]) == BAD_INPUT
    assert "cases must be among secmp" in capsys.readouterr().err
    assert main(["known-flaws", "--seed", "-1"]) == BAD_INPUT
    missed = replace(BY_NAME["microsecagg"], subject=partial(subjects.masks_set_up_once, fresh=True))
    rejected = replace(BY_NAME["shamir"], subject=partial(subjects.shamir, degree=1))
    monkeypatch.setattr(run, "CASES", (missed, rejected))
    assert main(["known-flaws"]) == VIOLATED
    said = capsys.readouterr().out
    assert "missed" in said
    assert "REJECTED" in said
