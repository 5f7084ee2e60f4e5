"""Silos' processes whose devices agree on partners: what they know after it, and what they refuse."""

from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.coins import SystemCoins
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.partners.agreement import FIRST_ALIAS
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.topology import NEIGHBOURS
from fgl_secure.runtime import Step
from fgl_secure.runtime.packing import named_from_bytes, named_to_bytes
from fgl_secure.training.presets import HONEST
from fgl_secure.training.processes.neighbours import PartnerSums, hosted_sums
from fgl_secure.training.processes.process import Inbox
from fgl_secure.training.silo import Silo
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.mailbox import Mailbox

SESSION = bytes(range(16))
ANON = RelayCoded(profile=Profile.HIDDEN, k_min=2, max_degree=4)
SILOS = 3


def chain(graph: FederatedGraph) -> FederatedGraph:
    """Paths of three devices, one of each silo."""
    node = np.arange(graph.num_devices)
    first = np.stack([node[:-1], node[1:]])[:, node[:-1] % SILOS < SILOS - 1]
    edges = np.concatenate([first, first[::-1]], axis=1)
    whole = replace(graph.graph, edges=read_only(edges[:, np.lexsort(edges)]))
    return replace(graph, graph=whole, silo_of=read_only(node % SILOS))


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return chain(two_communities(devices=12, silos=SILOS))


def agreed(graph: FederatedGraph) -> list[PartnerSums]:
    """The silos' parts after the agreement, put down after each turn."""
    shares, coins = [Silo.of(graph, silo) for silo in range(SILOS)], [SystemCoins() for _ in range(SILOS)]

    def made(silo: int) -> PartnerSums:
        part = hosted_sums(shares[silo], ANON, SESSION, coins[silo], 1)
        assert isinstance(part, PartnerSums)
        return part

    parts, box = [made(silo) for silo in range(SILOS)], Mailbox(SILOS)
    inboxes: dict[int, Inbox] = dict(box.sorted({silo: part.prepare() for silo, part in enumerate(parts)}))
    while not parts[0].is_agreed:
        out = {}
        for silo, before in enumerate(parts):
            parts[silo] = made(silo)
            parts[silo].restore(named_from_bytes(named_to_bytes(before.state())))
            out[silo] = parts[silo].take(inboxes.get(silo, {})) or {}
        assert len({part.is_agreed for part in parts}) == 1
        inboxes = dict(box.sorted(out))
    return parts


def test_all_silos_agree_in_the_same_turn_and_know_no_other_end(graph: FederatedGraph) -> None:
    """Ends of paths have a partner more than they know: to their process it is a number beyond all parties."""
    parts = agreed(graph)
    for silo, part in enumerate(parts):
        assert part.message_counts().tolist() == part.partners().tolist() == [2] * 4
        known = part._partners.grouping
        strangers = known.row_owner[known.row_owner >= FIRST_ALIAS]
        assert len(strangers) == (0 if silo == 1 else 4)
        assert np.isin(known.row_custodian[known.row_owner >= FIRST_ALIAS], 1 + silo).all()
        everybody = part._numbering.node(known.row_owner[known.row_owner < FIRST_ALIAS])
        assert set(graph.silo_of[everybody].tolist()) == ({0, 1, 2} if silo == 1 else {silo, 1})


def test_a_step_is_summed_once_after_the_agreement_too(graph: FederatedGraph) -> None:
    """Also by a process that is taken up again."""
    part = agreed(graph)[0]
    kept = named_to_bytes(part.state())
    part.begin(np.ones((4, 1)), Step(0, 0))
    again = hosted_sums(Silo.of(graph, 0), ANON, SESSION, SystemCoins(), 1)
    again.restore(named_from_bytes(kept))
    again.begin(np.ones((4, 1)), Step(0, 0))
    again.restore(named_from_bytes(named_to_bytes(again.state())))
    with pytest.raises(ProtocolError, check=about("a step")):
        again.begin(np.ones((4, 1)), Step(0, 0))


def test_nobody_is_left_to_guess_how_many_partners_there_may_be(graph: FederatedGraph) -> None:
    """A job says it by the number of edges; a process is not made without it, or where silos add up beforehand."""
    share, unbounded = Silo.of(graph, 0), replace(ANON, max_degree=None)
    with pytest.raises(InputError, check=about("scheme")):
        hosted_sums(share, unbounded, SESSION, SystemCoins(), 1)
    with pytest.raises(InputError, check=about("scheme")):
        hosted_sums(share, ANON, SESSION, SystemCoins(), 1, crossing=True)
    job = silos_of(graph, {"neighbours": unbounded, "server": Plaintext()}, HONEST)
    assert job.complete_task.schemes[NEIGHBOURS] == replace(ANON, max_degree=4)  # three times 16 / 12
    clear = silos_of(graph, {"neighbours": Plaintext(), "server": Plaintext()}, HONEST)
    assert clear.complete_task is clear.task
