"""A broken twin of the attacks' food: codes with a mask of their own, of which one is delivered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.algebra import MERSENNE_31, Elements, LagrangeCode, PrimeField
from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.codes import AllCodesOfOneSender, OneCodeAndMu, SmallFieldBruteForce
from fgl_secure.attacks.message_passing.messages import ClearValues
from fgl_secure.attacks.message_passing.scope import MessageTruth
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.runtime import Channel, Phase, PublicParameters, Recording, Role, Step
from fgl_secure.training.parties import hierarchy_of, note_membership
from tests.attacks.recorded import Run, random_graph, words

READING: tuple[Attack[Any, Any], ...] = (ClearValues(), OneCodeAndMu(), AllCodesOfOneSender(), SmallFieldBruteForce())
SUCCEEDING = (
    (AllCodesOfOneSender(), 11), (AllCodesOfOneSender(), MERSENNE_31), (SmallFieldBruteForce(), 11),
)  # fmt: skip
STEP = Step(0, 0)


def fresh_masks(modulus: int, T: int, delivered: int, *, parameters: bool) -> Run:
    """Every message is encoded with masks of its own; `delivered` of its codes reach its receiver.

    With `parameters` the receivers also get the points, masks that were drawn for nothing, and decoded sums.
    """
    graph = random_graph(4, directed=False, devices=40, pairs=80)
    code, coins = LagrangeCode(PrimeField(modulus), 1, T, T + 1), SimulationCoins(1)
    channel = Channel(hierarchy_of(graph), coins, Recording.everything())
    note_membership(channel, graph.silo_of)
    devices = channel.parties.ids(Role.DEVICE)
    secret = words(graph.num_devices, 16, share=0.2).astype(code.field.dtype)
    channel.note_inputs("values", STEP, devices, secret)
    codes = np.moveaxis(code.encode(secret[graph.edges[0]][None], coins), 0, 1)
    channel.send(Phase.CODES, STEP, devices[graph.edges[0]], devices[graph.edges[1]], codes[:, :delivered])
    if parameters:
        _hand_out(channel, graph, code, secret)
    return Run(graph, PublicParameters(modulus, T), channel.transcript, MessageTruth.of(channel.transcript, graph))


def _hand_out(channel: Channel, graph: FederatedGraph, code: LagrangeCode, secret: Elements) -> None:
    devices, silos = channel.parties.ids(Role.DEVICE), channel.parties.ids(Role.SILO)[graph.silo_of]
    masks = channel.coins.uniform(code.field.modulus, (len(devices), code.T * secret.shape[1]))
    points = np.broadcast_to(np.array([*code.alphas, *code.betas]), (len(devices), 2 * code.T + 2))
    mu: NDArray[Any] = np.concatenate([points, masks], axis=1).astype(code.field.dtype)
    channel.send(Phase.PARAMETERS, STEP, silos, devices, mu)
    channel.send(Phase.DECODED, STEP, silos, devices, np.zeros_like(secret))


@pytest.mark.parametrize("attack", READING, ids=lambda attack: attack.card.name)
@pytest.mark.parametrize("modulus", [11, MERSENNE_31])
@pytest.mark.parametrize("T", [1, 2])
@pytest.mark.parametrize("parameters", [False, True])
def test_one_code_with_its_own_mask_tells_nothing(
    attack: Attack[Any, Any], modulus: int, T: int, parameters: bool
) -> None:
    """Reading attacks find nothing in one code with a fresh mask, even from observers that hold all the points."""
    run = fresh_masks(modulus, T, 1, parameters=parameters)
    guess = attack.infer(run.transcript.views(Role.DEVICE), run.public)
    if guess is None:
        return
    (found,) = attack.score(guess, run.truth)
    assert found.interval.low <= found.prior + MARGIN
    assert found.value <= found.prior


@pytest.mark.parametrize(("attack", "modulus"), SUCCEEDING)
def test_all_codes_tell_everything_whatever_the_masks(attack: Attack[Any, Any], modulus: int) -> None:
    """The same messages with all T + 1 codes delivered are read exactly, so the test above can fail."""
    run = fresh_masks(modulus, 1, 2, parameters=True)
    guess = attack.infer(run.transcript.views(Role.DEVICE), run.public)
    (found,) = attack.score(guess, run.truth)
    assert found.value == 1


def test_fresh_masks_stop_what_shared_masks_allow() -> None:
    """One code, the points and masks of another message recover no row."""
    run = fresh_masks(MERSENNE_31, 1, 2, parameters=True)
    guess = OneCodeAndMu().infer(run.transcript.views(Role.DEVICE), run.public)
    assert guess is not None
    (found,) = OneCodeAndMu().score(guess, run.truth)
    assert found.value == 0
