"""HiFGL with a process for each silo trains what HiFGL in one process trains, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.coins import SystemCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.attributed_graph import read_only
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Contributors
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.training.local_privacy import LocalPerturbation
from fgl_secure.training.presets import HONEST, Federation, Preset
from tests.graphs import two_communities
from tests.training.processes.runs import agree_with_one_process, apart

HIFGL: Preset = replace(HONEST, epochs=2, hidden=8)

IN_THE_CLEAR: dict[str, tuple[Preset, str, int]] = {
    "gat": (HIFGL, "gat", 1),
    "dropout": (replace(HIFGL, dropout=0.3), "gcn", 1),
    "three layers, large groups": (replace(HIFGL, layers=3), "gcn", 4),
    "one model": (replace(HIFGL, federation=Federation.SHARED), "gcn", 1),
    "stops early": (replace(HIFGL, patience=1, epochs=30), "gcn", 1),
    "published sage": (replace(HIFGL, layers_of="public-code"), "sage", 1),
}
OVER_RELAYS: dict[str, tuple[Preset, str, RelayCoded, bool]] = {
    "gcn": (HIFGL, "gcn", RelayCoded(k_min=1, profile=Profile.SHOWN), False),
    "edges within splits alone": (
        replace(HIFGL, split_restricted=True),
        "gcn",
        RelayCoded(k_min=1, profile=Profile.SHOWN),
        False,
    ),
    "T = 2": (replace(HIFGL, epochs=1), "gcn", RelayCoded(T=2, R=4, profile=Profile.SHOWN), True),
    "silos too small for sums of gradients": (HIFGL, "gcn", RelayCoded(k_min=17, profile=Profile.SHOWN), True),
    "sage, coded": (HIFGL, "sage", RelayCoded(k_min=4, profile=Profile.SHOWN), True),
    "equations 2 and 3, coded": (HIFGL, "gcn_without_loops", RelayCoded(k_min=1, profile=Profile.SHOWN), True),
    "foreign contributors": (
        HIFGL,
        "gcn",
        RelayCoded(k_min=5, profile=Profile.SHOWN, contributors=Contributors.FOREIGN),
        True,
    ),
    "gat, coded": (HIFGL, "gat", RelayCoded(k_min=1, profile=Profile.SHOWN), True),
    "sums of features kept, coded": (
        replace(HIFGL, static_first_layer=True),
        "gcn",
        RelayCoded(k_min=1, profile=Profile.SHOWN),
        True,
    ),
}
"""The preset, the backbone, the scheme of rows, and whether gradients are coded."""


@pytest.fixture(scope="module")
def graph() -> FederatedGraph:
    return two_communities(devices=48, silos=3)


def test_means_of_perturbed_features_are_kept_between_turns(graph: FederatedGraph) -> None:
    """At an epsilon so large that all drivers draw the same."""
    rows = (graph.graph.features > 0).astype(np.float32)
    binary = graph.with_features(rows)
    local = LocalPerturbation(1e4, hops=2)
    job = silos_of(binary, {"neighbours": Plaintext(), "server": Plaintext()}, HIFGL, perturbation=local)
    agree_with_one_process(job, put_down=True)


@pytest.mark.parametrize("name", IN_THE_CLEAR)
def test_training_in_the_clear_is_that_of_one_process(graph: FederatedGraph, name: str) -> None:
    """Losses, every silo's model, selected round and accuracies agree, though silos are put down after each turn."""
    preset, backbone, minimum = IN_THE_CLEAR[name]
    schemes: dict[str, Scheme] = {"neighbours": Plaintext(minimum_group=minimum), "server": Plaintext()}
    put_down = name != "three layers, large groups"
    job = silos_of(graph, schemes, preset, backbone=backbone)
    agree_with_one_process(job, put_down=put_down)


@pytest.mark.parametrize("name", OVER_RELAYS)
def test_training_over_relays_is_that_of_one_process(graph: FederatedGraph, name: str) -> None:
    """The same under the relay-coded scheme with relays as parties of their own, models averaged under masks."""
    preset, backbone, scheme, coded = OVER_RELAYS[name]
    members = CodedProducts.over(scheme) if coded else scheme
    schemes: dict[str, Scheme] = {"neighbours": scheme, "members": members, "server": PairwiseMasking()}
    job = silos_of(graph, schemes, preset, backbone=backbone)
    agree_with_one_process(job, put_down=name in ("gcn", "sums of features kept, coded"))


FEW = 24
PATHS = np.arange(FEW).reshape(-1, 3)
"""Devices of one path each, a silo each."""


def few(there: NDArray[np.int64], silo_of: NDArray[np.int64]) -> FederatedGraph:
    """Devices with edges in both directions."""
    graph = two_communities(devices=FEW, silos=3)
    edges = np.concatenate([there, there[::-1]], axis=1)
    whole = replace(graph.graph, edges=read_only(edges[:, np.lexsort(edges)]))
    return replace(graph, graph=whole, silo_of=read_only(silo_of % 3))


@pytest.mark.parametrize(("k_min", "put_down"), [(2, False), (3, True)])
def test_training_between_partners_is_that_of_one_process(k_min: int, put_down: bool) -> None:
    """Ends of a path of three fill their groups by way of the middle, whatever is drawn; groups of two stay too small.

    So the same sums are had with other coins.
    """
    paths = few(np.concatenate([PATHS[:, :2], PATHS[:, 1:]]).T, np.arange(FEW))
    scheme = RelayCoded(profile=Profile.HIDDEN, k_min=k_min, max_degree=4)
    schemes: dict[str, Scheme] = {"neighbours": scheme, "members": Plaintext(), "server": Plaintext()}
    job = silos_of(paths, schemes, replace(HIFGL, epochs=1 if put_down else 2))
    agree_with_one_process(job, put_down=put_down)


WITHIN = {
    "cliques of four": (4, [(i, j) for i in range(4) for j in range(i)], (0, 0, 0, 1)),
    "paths whose ends are of one silo": (3, [(0, 1), (1, 2)], (0, 1, 0)),
}
"""Devices of a group, its edges, and how many silos further each is than the first."""


@pytest.mark.parametrize("shape", WITHIN)
def test_foreign_contributors_are_those_of_one_process(shape: str) -> None:
    """A process that hosts both ends of a way counts neither as foreign; a sum goes without few foreign rows."""
    size, pairs, further = WITHIN[shape]
    first = np.arange(0, FEW, size)
    there = np.concatenate([np.stack([first + i, first + j]) for i, j in pairs], axis=1)
    groups = few(there, np.repeat(np.arange(len(first)), size) + np.tile(further, len(first)))
    scheme = RelayCoded(k_min=2, max_degree=4, contributors=Contributors.FOREIGN)
    schemes: dict[str, Scheme] = {"neighbours": scheme, "members": Plaintext(), "server": Plaintext()}
    job = silos_of(groups, schemes, replace(HIFGL, epochs=1))
    agree_with_one_process(job, put_down=shape == "cliques of four")


def test_relays_leave_nothing_in_the_clear(graph: FederatedGraph) -> None:
    """In the clear silos send each other values; over relays they tell each other pseudonyms, and carry circuits."""
    phases = {}
    for rows in (Plaintext(), RelayCoded(k_min=1, profile=Profile.SHOWN)):
        job = silos_of(graph, rows, replace(HIFGL, epochs=1))
        channel = job.channel(SystemCoins(), Recording.everything())
        apart(job, channel)
        silos = channel.parties.ids(Role.SILO)
        between = [b for b in channel.transcript.messages if np.isin([b.senders[0], b.receivers[0]], silos).all()]
        phases[rows.label] = {batch.phase for batch in between}
    told = {Phase.WANTED, Phase.ROSTERS}  # which messages count, and confirmations of the server's results
    assert phases == {
        "plaintext": {*told, Phase.VALUES},
        "relay-coded": {*told, Phase.TAGS, Phase.CIRCUITS, Phase.MIXED},
    }
