"""What servers see of staged pairwise masking: nothing but sums, by statistics and by counting keys."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fgl_secure.coins import Coins, SimulationCoins
from fgl_secure.crypto.expansion import add_masks
from fgl_secure.errors import ProtocolError
from fgl_secure.protocols.pairwise_masking.requests import Ask
from fgl_secure.protocols.staged.driver import run
from fgl_secure.protocols.staged.interface import Stage
from fgl_secure.protocols.staged.masking import closing as masking_closing
from fgl_secure.protocols.staged.masking import secrets as masking_secrets
from fgl_secure.protocols.staged.masking.plan import plan_of
from fgl_secure.protocols.staged.pairwise import StagedPairwiseMasking
from fgl_secure.runtime import Channel, Directory, Party, Phase, Role, Step
from fgl_secure.testing import Protocol, assert_statistically_private
from fgl_secure.testing.protocol import Inputs
from tests.protocols.staged import masking_mutations as mutation
from tests.protocols.staged.masking_mutations import Patch
from tests.protocols.staged.masking_parties import (
    EVERYBODY,
    PLAIN,
    TARGET,
    Ints,
    Wire,
    asking,
    clients_of,
    opened,
    terms_of,
    told,
    vectors_of,
)

SCHEME = StagedPairwiseMasking()
SERVER = Party(Role.SERVER, 0)


def masked_vectors(number: int, vectors: Ints, coins: Coins) -> list[Ints]:
    """What two clients send in stage VECTORS of a sum, made by their functions alone: a whole sum takes far longer."""
    plan = plan_of(terms_of(2, 2, number, vectors.shape[1]), SCHEME.modulus, 1)
    drawn = [masking_secrets.OwnSecrets.draw(coins) for _ in range(2)]
    keys = [masking_secrets.agree_all(plan, u, drawn[u], {1 - u: drawn[1 - u].public()}) for u in range(2)]
    return [masking_secrets.masked(plan, u, drawn[u], keys[u], [1 - u], vectors[u] % SCHEME.modulus) for u in range(2)]


def test_the_vectors_of_statistics_are_those_that_are_sent() -> None:
    """Message by message two clients send what their functions make of the same coins."""
    vectors = vectors_of(2)
    wire = Wire.of(2, 2)
    wire.until(Stage.AGREEMENT)

    class Both(SimulationCoins):
        """The coins of client 0, then those of client 1."""

        clients = iter(range(2))

        def uniform(self, modulus: int, shape: tuple[int, ...]) -> Ints:
            return SimulationCoins(next(self.clients)).uniform(modulus, shape)

    made = masked_vectors(0, vectors, Both(0))
    assert [vector.tolist() for vector in made] == [wire.vector(u).tolist() for u in range(2)]


def two_rounds(patch: Patch | None, name: str) -> Protocol:
    """Two sums of two clients in one session, the masked vectors recorded; inputs [clients, sums]."""
    directory = Directory.hierarchy(2, 1)
    silos, server = directory.ids(Role.SILO), directory.ids(Role.SERVER)

    def play(values: Inputs, channel: Channel) -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if patch is not None:
                patch(monkeypatch)
            for number in range(values.shape[1]):
                vectors = masked_vectors(number, values[:, number : number + 1].astype(np.int64), channel.coins)
                channel.send(Phase.MASKED_VECTORS, Step(number), silos, np.repeat(server, 2), np.stack(vectors))

    return Protocol(play, directory, SCHEME.modulus, silos, batched=False, name=name)


def test_statistics_find_nothing_at_production_size() -> None:
    """Masked vectors of two sums tell nothing of their difference; with the same mask in two rounds they do."""
    good, broken = (
        two_rounds(None, "staged"),
        two_rounds(mutation.one_mask_for_all_sums(2), "the same mask in two rounds"),
    )
    a, b = np.array([[0, 0], [0, 0]]), np.array([[0, 1], [0, -1]])
    assert_statistically_private(good, a, b, (SERVER,), broken_twin=broken, advantage=0.8, seed=1, pairs=4)


def most_uses(patch: Patch | None, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the busiest of all mask keys is expanded in three sums of five clients, one of whom drops out."""
    uses: Counter[bytes] = Counter()

    def counted(total: Ints, keys: list[bytes], signs: list[int], modulus: int) -> None:
        uses.update(keys)
        add_masks(total, keys, signs, modulus)

    for module in (masking_secrets, masking_closing):
        monkeypatch.setattr(module, "add_masks", counted)
    if patch is not None:
        patch(monkeypatch)
    for number in range(3):
        terms = terms_of(5, 4, number)
        run(SCHEME.server(terms, SimulationCoins(0)), clients_of(SCHEME, terms), {number: Stage.VECTORS})
    return max(uses.values())


def test_no_key_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is expanded by the two who share it, or by one of them and who takes the mask away: never more."""
    assert most_uses(None, monkeypatch) == 2


def test_a_seed_that_is_used_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: seeds and contexts that last for several sums."""
    assert most_uses(mutation.one_mask_for_all_sums(5), monkeypatch) > 2


@pytest.mark.parametrize(
    "patch", [mutation.mask_added_twice, mutation.wrong_sign], ids=["a mask added twice", "wrong sign"]
)
def test_masks_that_do_not_cancel_are_noticed(patch: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twins: the sum is beyond what vectors can reach, and raises."""
    patch(monkeypatch)
    wire = Wire.of(4)
    with pytest.raises(ProtocolError, match="sum of 5 vectors must have magnitude up to 5,000"):
        run(wire.server, wire.clients)


def late_vector(wire: Wire) -> list[int]:
    """What a server makes of a vector that came too late for the sum: the mask key of its sender is opened to it."""
    wire.until(Stage.AGREEMENT)
    rosters = dict.fromkeys(EVERYBODY, asking(5, [TARGET]))
    assert set(told(wire, rosters)) == {TARGET}
    opened(wire, rosters)
    return wire.without_pair_masks(TARGET, wire.shares(Ask.MASK_KEY, rosters)[TARGET])


def test_a_vector_that_is_late_stays_hidden() -> None:
    """All its pairwise masks are taken away, and it is still under its own."""
    assert late_vector(Wire.of(4)) != PLAIN[TARGET].tolist()


def test_without_self_masks_a_late_vector_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: with pairwise masks alone the server that calls a client late has its vector."""
    mutation.no_self_mask(monkeypatch)
    assert late_vector(Wire.of(4)) == PLAIN[TARGET].tolist()
