from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from fgl_secure.errors import FglSecureError, FieldRangeError, InputError
from fgl_secure.graph import Data, FederatedGraph, Graph
from fgl_secure.graph.partition import random_split
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.audit_target import HiFGLSubject
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from tests.error_codes import about
from tests.graphs import two_communities


def prepared(
    scheme: str = "secmp", data: Data | str | None = None, *, method: HiFGL | None = None, **rest: Any
) -> HiFGLSubject:
    """What an audit of one scheme runs on."""
    (subject,) = (method or HiFGL()).plan(data, [scheme], **{"device": "cpu", **rest}).subjects
    return cast(HiFGLSubject, subject)


@pytest.mark.parametrize(
    ("data", "seed", "scheme", "kind", "message"),
    [
        (Data(silos=0), 0, "secmp", InputError, "silos must be in 1..1797"),
        (Data(silos=-3), 0, "secmp", InputError, "found -3"),
        (Data(silos=1798), 0, "secmp", InputError, "found 1798"),
        (Data(), -1, "secmp", InputError, "seed must lie in"),
        (Data(), 2**63, "secmp", InputError, "seed must lie in"),
        (Data(), 0, "secmp[p=12]", FieldRangeError, "prime; found 12"),
        (Data(), 0, "secmp[p=11,T=5]", FieldRangeError, "enough for T <= 4"),
        (Data(), 0, "secmp[T=0]", InputError, "T must be at least 1; found 0"),
        (Data(), 0, "secmp[p=11]", FieldRangeError, "must stay below p / 2 = 5.5"),
        (Data(), 0, "secmp[fraction_bits=30]", FieldRangeError, "must stay below p / 2"),
        (Data(), 0, "secmp[bound=-1]", InputError, "bound must be a positive number"),
    ],
)
def test_rules_are_checked_before_anything_runs(
    data: Data, seed: int, scheme: str, kind: type[FglSecureError], message: str
) -> None:
    """Every number out of its range is refused with the rule and the value."""
    with pytest.raises(kind) as refused:
        prepared(scheme, data, seed=seed)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def of_edges(graph: FederatedGraph, pairs: list[tuple[int, int]], *, directed: bool = False) -> FederatedGraph:
    """The devices of a graph, split between training, validation and test in turn, with other edges."""
    there = np.array(pairs).T
    edges = there if directed else np.concatenate([there, there[::-1]], axis=1)
    nodes = graph.num_devices
    of = Graph.from_arrays("small", graph.graph.features, graph.graph.labels, edges)
    return FederatedGraph.from_assignment(of, np.arange(nodes) % 2, random_split(nodes, 0))


def test_relays_dont_see_the_graph_unless_noise_is_added() -> None:
    """The default hides it; noise is counted for an edge's own rows, so that partners are all neighbours."""
    (default,) = HiFGL().plan(None, ["server=pairwise-masking"], device="cpu").subjects
    assert default.name == "relay-coded,server=pairwise-masking"
    (noisy,) = (
        HiFGL(epochs=1, privacy=EmbeddingPrivacy(8.0)).plan(None, ["server=pairwise-masking"], device="cpu").subjects
    )
    assert noisy.name == "relay-coded[graph-shown]+dp,server=pairwise-masking"


def test_a_directed_graph_is_refused_where_partners_are_chosen() -> None:
    """With the remedy in the message; relays that may see who sends to whom add its rows up."""
    graph = of_edges(two_communities(), [(v, (v + k) % 40) for v in range(40) for k in (1, 2)], directed=True)
    with pytest.raises(InputError, check=about("rows")):
        HiFGL(epochs=1).plan(graph, ["relay-coded"], device="cpu")
    assert HiFGL(epochs=1).plan(graph, ["relay-coded[k_min=1,graph-shown]"], device="cpu").subjects


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("relay-coded[k_min=6]", "scheme"),
        ("relay-coded[k_min=3,skip]", "scheme"),
        ("relay-coded[k_min=3,graph-shown]", "scheme"),
    ],
)
def test_a_scheme_that_computes_no_sum_is_refused(scheme: str, message: str) -> None:
    """Six devices in a ring: with the help of others each has five within reach, without it two."""
    ring = of_edges(two_communities(devices=6), [(v, (v + 1) % 6) for v in range(6)])
    with pytest.raises(InputError, check=about(message)):
        HiFGL(epochs=1).plan(ring, [scheme], device="cpu")
    assert HiFGL(epochs=1).plan(ring, ["relay-coded[k_min=3]"], device="cpu").subjects


def test_the_public_code_preset_hears_within_splits_only() -> None:
    code, *others = (prepared(method=HiFGL(preset=name)) for name in ("public-code", "paper", "honest"))
    assert code.message_graph.edges.shape[1] < code.graph.edges.shape[1]
    for other in others:
        assert other.message_graph.edges.shape[1] == other.graph.edges.shape[1]


def test_presets_follow_the_data_set_whatever_its_case(data_root: Path) -> None:
    """The published settings of CiteSeer are taken when its name is written in lower case."""
    found = prepared(data=Data("citeseer", root=data_root), method=HiFGL(preset="public-code"))
    assert found.graph.graph.name == "CiteSeer"
    assert found.preset.dropout == 0.1
