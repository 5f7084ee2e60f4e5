"""The prior of an attack with knowledge is what that knowledge tells without a message, and records say so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.attacks.base import Alone, Attack, InformedAttack, alone
from fgl_secure.attacks.edge_claims import ClaimedEdges
from fgl_secure.attacks.gradients.fields import FieldGuess, by_degree
from fgl_secure.attacks.gradients.knowledge import Candidates
from fgl_secure.attacks.message_passing import fingerprint
from fgl_secure.attacks.message_passing.fingerprint import likest_pairs
from fgl_secure.attacks.message_passing.knowledge import PublicRows
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.truth import MessageTruth, StructureTruth
from fgl_secure.auditing.controls import control
from fgl_secure.methods.fed2gnn.audit_runs import CONTROLS as FED2GNN
from fgl_secure.methods.fedavg.audit_runs import CONTROLS as FEDAVG
from fgl_secure.methods.fedspray.audit_runs import CONTROLS as FEDSPRAY
from fgl_secure.methods.fedstruct.audit_runs import CONTROLS as FEDSTRUCT
from fgl_secure.methods.fedvn.audit_runs import CONTROLS as FEDVN
from fgl_secure.methods.hifgl.controls import CONTROLS as HIFGL
from fgl_secure.runtime import Directory, Role

INFORMED = [each for each in attacks().values() if isinstance(each, InformedAttack)]
MAKERS = (HIFGL, FEDSTRUCT, FED2GNN, FEDSPRAY, FEDAVG, FEDVN)


def name_of(each: Attack[Any, Any]) -> str:
    """On its card."""
    return each.card.name


@pytest.mark.parametrize("each", INFORMED, ids=name_of)
def test_every_attack_with_knowledge_has_looked_at_it(each: InformedAttack[Any, Any, Any]) -> None:
    """It guesses from it alone, or its card says why there is nothing to guess; never both, never neither."""
    assert alone(each) in (Alone.GUESSED, Alone.TELLS_NOTHING)
    guesses = type(each).guess_without is not InformedAttack.guess_without
    assert guesses is not bool(each.card.tells_nothing)


def test_attacks_without_knowledge_keep_their_prior() -> None:
    quiet = next(each for each in attacks().values() if not isinstance(each, InformedAttack))
    assert alone(quiet) is Alone.NOTHING_KNOWN
    run = HIFGL["plaintext"]()
    each = next(each for each in attacks().values() if each.card.name == "clear-values")
    guess = run.guess(each)
    assert guess is not None
    assert run.score(each, guess) == run.measure(each, guess)


def test_an_attack_that_forgets_it_is_called_out() -> None:
    """The default guesses nothing, and is told apart from a reason."""

    class Forgets(InformedAttack[object, PublicRows, MessageTruth]):
        card = named("containment-device").card
        infer_with = score = None  # type: ignore[assignment]

    assert alone(Forgets()) is Alone.NOT_LOOKED_AT


@given(st.integers(0, 10_000), st.integers(1, 40))
def test_likest_pairs_are_those_of_a_full_ranking(seed: int, most: int) -> None:
    """In many blocks or in one: the pairs of largest cosine, each once, ties by their indices."""
    rows = np.random.default_rng(seed).integers(0, 3, size=(12, 5)).astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    unit = rows / np.where(length > 0, length, 1)[:, None]
    pairs = [(a, b) for a in range(12) for b in range(a + 1, 12)]
    best = sorted((round(-float(unit[a] @ unit[b]), 12) for a, b in pairs))[:most]
    for cells in (1, 30, 4_000_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fingerprint, "PAIRS_AT_ONCE", cells)
            first, second = likest_pairs(rows, most)
        assert (first < second).all()
        assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == min(most, len(pairs))
        assert [round(-float(unit[a] @ unit[b]), 12) for a, b in zip(first, second, strict=True)] == best


def test_nodes_of_many_neighbours_are_claimed_first() -> None:
    """As many of each client's nodes as the guess claims, and none of another client's."""
    edges = np.array([[1, 2, 3, 0, 0, 5], [0, 0, 0, 1, 2, 4]])
    candidates = Candidates(np.ones((6, 2)), edges, np.array([0, 0, 0, 0, 1, 1]))
    eligible = candidates.clients == np.array([[0], [1]])
    hits = np.array([[False, True, True, False, False, False], [False, False, False, False, False, True]])
    guess = FieldGuess(0, np.arange(2), np.zeros((2, 6)), hits, eligible, np.arange(6), False, True)
    blind = by_degree(guess, candidates)
    assert blind.hits is not None
    assert np.argwhere(blind.hits).tolist() == [[0, 0], [0, 1], [1, 4]]
    assert blind.scores[0].tolist() == [3, 1, 1, 0, 1, 0]
    assert by_degree(replace(guess, hits=None), candidates).hits is None


def test_names_by_own_edges_and_a_crawl_are_a_prior() -> None:
    """Propagation without features is what a client could do before any message."""
    each = next(each for each in INFORMED if each.card.name == "nsf-propagation")
    run = control(each.card.control, MAKERS)
    guess = run.guess(each)
    assert guess is not None
    right = run.truth(StructureTruth).identity[guess.unaided] == guess.nodes
    (found,) = run.measure(each, guess)
    assert found.prior == pytest.approx(float((right & (guess.unaided >= 0)).mean()))
    assert 0 < found.prior <= found.value


def test_parties_number_the_claims() -> None:
    known = PublicRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    parties = Directory.hierarchy(1, 3)
    devices = parties.ids(Role.DEVICE)
    guess = ClaimedEdges(devices[[0, 2]], devices[[2, 0]])
    attack: Any = named("containment-device")
    blind = attack.guess_without(guess, known, parties)
    assert sorted(zip(blind.sources.tolist(), blind.targets.tolist(), strict=True)) == sorted(
        [(int(devices[0]), int(devices[1])), (int(devices[1]), int(devices[0]))]
    )
