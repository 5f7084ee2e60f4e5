"""A sum driven in one process: who is silent, missing or refused has dropped out."""

from __future__ import annotations

import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, TooFewClientsError
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.interface import Stage, StagedClient
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from tests.protocols.staged.masking_parties import clients_of, terms_of, vectors_of

SCHEME = StagedPairwiseMasking()


def summed(clients: dict[int, StagedClient], silent: dict[int, Stage]) -> tuple[list[int], tuple[int, ...]]:
    """The sum of five clients of whom four must be left, and whose it is."""
    server = SCHEME.server(terms_of(5, 4), SimulationCoins(0))
    run(server, clients, silent)
    return server.result().tolist(), server.included


@pytest.mark.parametrize("stage", Stage)
def test_a_client_is_silent_from_a_stage_on(stage: Stage) -> None:
    """It is in the sum if it fell silent after the vectors, and not otherwise."""
    kept = [0, 1, 2, 3, 4] if stage > Stage.VECTORS else [0, 1, 3, 4]
    total, included = summed(clients_of(SCHEME, terms_of(5, 4)), {2: stage})
    assert total == vectors_of(5)[kept].sum(axis=0).tolist()
    assert included == tuple(kept)


def test_a_client_that_is_not_there_has_dropped_out() -> None:
    """The others' sum is made without it."""
    clients = clients_of(SCHEME, terms_of(5, 4))
    del clients[3]
    assert summed(clients, {})[1] == (0, 1, 2, 4)


def test_a_client_of_another_sum_has_dropped_out() -> None:
    """It refuses every request; one more of them ends the sum, and the error says who refused."""
    clients = clients_of(SCHEME, terms_of(5, 4))
    others = clients_of(SCHEME, terms_of(5, 4, number=1))
    clients[3] = others[3]
    assert summed(clients, {})[1] == (0, 1, 2, 4)
    clients = {**clients_of(SCHEME, terms_of(5, 4)), 3: others[3], 4: others[4]}
    with pytest.raises(TooFewClientsError, match="in stage KEYS") as raised:
        summed(clients, {})
    assert raised.value.__notes__ == [f"client {u} in stage KEYS: message must be of sum 1; found 0" for u in (3, 4)]


def test_a_client_without_a_vector_is_a_mistake() -> None:
    """It has not dropped out: InputError."""
    clients = clients_of(SCHEME, terms_of(5, 4))
    clients[1] = SCHEME.client(terms_of(5, 4), 1, SimulationCoins(1))
    with pytest.raises(InputError, match="vector must be provided to client 1"):
        summed(clients, {})
