"""The prior of an attack with knowledge is what that knowledge tells without a message, and records say so."""

from typing import Any

import pytest

from fgl_secure.attacks.base import Attack, InformedAttack, KnowledgeBaseline, alone
from fgl_secure.attacks.message_passing.knowledge import PublicRows
from fgl_secure.attacks.registry import attack as named
from fgl_secure.attacks.registry import attacks
from fgl_secure.attacks.truth import MessageTruth, StructureTruth
from fgl_secure.auditing.controls import control
from fgl_secure.methods.fed2gnn.audit_target import CONTROLS as FED2GNN
from fgl_secure.methods.fedavg.audit_runs import CONTROLS as FEDAVG
from fgl_secure.methods.fedspray.audit_runs import CONTROLS as FEDSPRAY
from fgl_secure.methods.fedstruct.audit_runs import CONTROLS as FEDSTRUCT
from fgl_secure.methods.fedvn.audit_target import CONTROLS as FEDVN
from fgl_secure.methods.hifgl.controls import CONTROLS as HIFGL

INFORMED = [each for each in attacks().values() if isinstance(each, InformedAttack)]
MAKERS = (HIFGL, FEDSTRUCT, FED2GNN, FEDSPRAY, FEDAVG, FEDVN)


def name_of(each: Attack[Any, Any]) -> str:
    """On its card."""
    return each.card.name


@pytest.mark.parametrize("each", INFORMED, ids=name_of)
def test_every_attack_with_knowledge_has_looked_at_it(each: InformedAttack[Any, Any, Any]) -> None:
    """It guesses from it alone, or its card says why there is nothing to guess; never both, never neither."""
    assert alone(each) in (KnowledgeBaseline.GUESSED, KnowledgeBaseline.TELLS_NOTHING)
    guesses = type(each).guess_without is not InformedAttack.guess_without
    assert guesses is not bool(each.card.tells_nothing)


def test_attacks_without_knowledge_keep_their_prior() -> None:
    quiet = next(each for each in attacks().values() if not isinstance(each, InformedAttack))
    assert alone(quiet) is KnowledgeBaseline.NOTHING_KNOWN
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

    assert alone(Forgets()) is KnowledgeBaseline.NOT_LOOKED_AT


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
