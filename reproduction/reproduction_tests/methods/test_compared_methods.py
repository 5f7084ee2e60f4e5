"""What holds of every method of the toolkit holds of the compared methods: training, messages, silos apart, audits."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fgl_reproduction.methods import GAP, GCFL, Ditto, FedGCN, FedPub, FedSage, FedStar, ProGAP
from fgl_secure import attacks, methods, train
from fgl_secure.auditing.method import Method
from fgl_secure.cli.main import OK, main
from tests.auditing.test_null_control import check_independent
from tests.graphs import two_communities
from tests.methods.test_cuda import check_equal_runs
from tests.methods.test_data_sets import needs_data, refuses_directed, runs, some
from tests.methods.test_phases import Runs, check_said
from tests.methods.test_reported_round import ROUNDS, check_last_round
from tests.test_host import check_settings, trained
from tests.test_mission import check_learns
from tests.training.test_ranges import check_large_features, graph_with

METHODS: Mapping[str, Any] = {
    "ditto": Ditto,
    "fedgcn": FedGCN,
    "fedpub": FedPub,
    "fedsage": partial(FedSage, generator_rounds=1),
    "fedstar": FedStar,
    "gap": GAP,
    "gcfl": GCFL,
    "progap": ProGAP,
}
OTHER_RUNS: Mapping[str, Runs] = {
    "fedsage": ((FedSage(epochs=1, generator_rounds=1), "ckks"),),
    "fedgcn": ((FedGCN(epochs=2, hops=1), None),),
}
ACCURACY = {
    "ditto": (20, 0.6),
    "fedgcn": (5, 0.8),
    "fedpub": (5, 0.6),
    "fedsage": (1, 0.6),
    "fedstar": (20, 0.55),
    "gap": (15, 0.5),
    "gcfl": (20, 0.6),
    "progap": (15, 0.5),
}
"""Rounds, and an accuracy that the method reaches in them."""
GRAPH, FOUR = (two_communities(devices=48, silos=silos) for silos in (3, 4))

each_method = pytest.mark.parametrize("name", METHODS)


def small(name: str) -> Method:
    """Two rounds, and of FedSage+ one for generators before one."""
    made: Method = METHODS[name](epochs=1 if name == "fedsage" else 2)
    return made


def graph_for(name: str) -> Any:
    """FedGCN's relays refuse sums over few clients."""
    return FOUR if name == "fedgcn" else GRAPH


@each_method
def test_a_method_is_found_by_its_entry_point(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By name, in the list, and after the toolkit's own methods."""
    assert methods.method(name) is getattr(METHODS[name], "func", METHODS[name])
    assert methods.names().index(name) > methods.names().index("fedavg")
    assert main(["list", "methods"]) == OK
    assert name in capsys.readouterr().out


def test_attacks_are_found_by_their_entry_points() -> None:
    found = (
        "weighted-models",
        "average-classes",
        "functional-embeddings",
        "generator-gradient-rows",
        "encoder-degrees",
    )
    pages = {attacks.attack(name).card.page for name in found}
    assert pages == {"reproduction/docs/fedpub.md", "reproduction/docs/fedsage.md", "reproduction/docs/fedstar.md"}
    assert all((Path(__file__).parents[3] / page).is_file() for page in pages)


@each_method
def test_a_method_learns_under_its_default_scheme(name: str) -> None:
    epochs, least = ACCURACY[name]
    check_learns(METHODS[name](epochs=epochs), least)


@each_method
def test_all_that_is_said_is_a_collective_s_or_declared(name: str) -> None:
    """Under every scheme that a run names."""
    check_said(((small(name), None), *OTHER_RUNS.get(name, ())), graph_for(name))


@each_method
def test_independent_subjects_have_the_same_shape_and_other_secrets(name: str) -> None:
    check_independent(METHODS[name](epochs=1))


@each_method
def test_without_validation_nodes_the_last_round_is_reported(name: str) -> None:
    check_last_round(METHODS[name](epochs=ROUNDS))


@pytest.mark.parametrize("method", [Ditto, FedGCN, GCFL])
def test_equal_runs_end_equal(method: Any) -> None:
    check_equal_runs(method, "cpu")


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"fedsage", "gap", "progap"}))
def test_settings_of_the_host_leave_a_method_as_it_is(name: str) -> None:
    """The bits of every method that takes a second and draws no noise."""
    check_settings(name, trained(name))


@pytest.mark.parametrize("change", ["1e3", "1e6"])
def test_averages_take_features_of_any_size(change: str) -> None:
    """FED-PUB's, under masks."""
    check_large_features(FedPub(epochs=2), "pairwise-masking", change)


@pytest.mark.parametrize("scheme", ["plaintext", "relay-coded[k_min=2]"])
def test_sums_over_hops_take_large_features(scheme: str) -> None:
    """Rows of a hop beyond what is usual are sent in units that are found; in the clear they need none."""
    assert train(FedGCN(epochs=1), graph_with("1e3"), scheme).accuracy.test is not None


@needs_data
@pytest.mark.parametrize(("name", "dataset"), [*((name, "Cora") for name in METHODS), ("fedgcn", "Chameleon")])
def test_a_data_set_runs_under_defaults(name: str, dataset: str) -> None:
    """An epoch, and one round for generators; FedGCN wants every edge in both directions."""
    data = some(dataset)
    (refuses_directed if (name, dataset) == ("fedgcn", "Chameleon") else runs)(METHODS[name], data)
