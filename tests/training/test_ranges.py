"""Features of any size train: ranges of sums are found, to the same bits with a process for each silo."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure import methods, train
from fgl_secure.algebra import MERSENNE_61
from fgl_secure.auditing.method import Method
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import FieldRangeError, InputError, PrecisionWarning
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Phase, Recording, Role
from fgl_secure.training.presets import HONEST, Preset
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.runs import Reports, agree_with_one_process, in_lockstep

HIFGL: Preset = replace(HONEST, epochs=2, hidden=8)
RELAYS = RelayCoded(k_min=1, profile=Profile.SHOWN)
SCHEMES: dict[str, Scheme] = {"neighbours": RELAYS, "members": CodedProducts.over(RELAYS), "server": PairwiseMasking()}
CLEAR: dict[str, Scheme] = {"neighbours": Plaintext(), "server": Plaintext()}


def graph_with(change: str, devices: int = 48, silos: int = 3) -> FederatedGraph:
    """Two communities whose features are changed; by name."""
    graph = two_communities(devices=devices, silos=silos)
    x = graph.graph.features.copy()
    scales = {"1e-3": 1e-3, "1": 1.0, "10": 10.0, "1e3": 1e3, "1e6": 1e6}
    if change == "mixed":
        x *= np.logspace(-3, 6, x.shape[1], dtype=np.float32)
    elif change == "outlier":
        x[5, 2] = 1e5
    elif change == "zero column, one large silo":
        x[:, 0] = 0
        x[graph.silo_of == 1] *= 500
    elif change == "whole":
        x = np.round(x * 100)
    else:
        x *= scales[change]
    return with_features(graph, x)


def with_features(graph: FederatedGraph, x: NDArray[np.float32]) -> FederatedGraph:
    return graph.with_features(x)


def reports(graph: FederatedGraph, schemes: dict[str, Scheme], preset: Preset = HIFGL) -> Reports:
    job = silos_of(graph, schemes, preset)
    return in_lockstep(job.open(job.channel(SimulationCoins(0))))


CHANGES = ("1e-3", "1e6", "mixed", "outlier")


@pytest.mark.parametrize("change", CHANGES)
def test_features_of_any_size_train_as_in_the_clear(change: str) -> None:
    """Losses over relays are those of plaintext, within what fixed point rounds; so nothing is cut off on the way."""
    graph = graph_with(change)
    hidden, clear = (reports(graph, schemes)[0]["losses"] for schemes in (SCHEMES, CLEAR))
    assert len(hidden) == HIFGL.epochs
    assert hidden == pytest.approx(clear, rel=0.02)


def test_a_process_for_each_silo_finds_the_same_ranges() -> None:
    """Losses and models agree to the last bit, though silos are put down after each turn."""
    job = silos_of(graph_with("mixed", 24), SCHEMES, replace(HIFGL, static_first_layer=True))
    agree_with_one_process(job, put_down=True)


def test_features_of_usual_size_cost_no_sum_more() -> None:
    """Whether entries reach a level is opened for the server in runs with large features, and in no other."""
    opened = {}
    for change in ("1e-3", "1e3"):
        job = silos_of(graph_with(change), SCHEMES, replace(HIFGL, epochs=1))
        channel = job.channel(SimulationCoins(0), Recording.everything())
        in_lockstep(job.open(channel))
        batches = [batch for batch in channel.transcript.messages if batch.phase is Phase.OPENED]
        opened[change] = batches
        server = channel.parties.ids(Role.SERVER)
        assert all(np.isin(batch.senders, server).all() for batch in batches)
    assert not opened["1e-3"]
    assert opened["1e3"]


METHODS: dict[str, tuple[Method, str]] = {
    "hifgl, published": (methods.HiFGL(epochs=2), "secmp"),
    "hifgl, dense": (methods.HiFGL(epochs=2, gradients="dense"), "relay-coded[graph-shown]"),
    "fedavg, ckks": (methods.FedAvg(epochs=2), "ckks-shared-key"),
    "fedavg, 16 bits": (methods.FedAvg(epochs=2), "pairwise-masking[precision=16]"),
    "fedspray": (methods.FedSpray(epochs=2), "pairwise-masking"),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_features_of_any_size(name: str) -> None:
    """Under schemes with and without fields a run ends."""
    check_large_features(*METHODS[name], "1e6")


def check_large_features(method: Method, scheme: str, change: str) -> None:
    """The accuracy is that of the run in the clear, or nearly so."""
    graph = graph_with(change)
    hidden, clear = train(method, graph, scheme), train(method, graph, "plaintext")
    assert hidden.accuracy.test is not None
    assert clear.accuracy.test is not None
    assert abs(hidden.accuracy.test - clear.accuracy.test) <= 0.25


def test_sums_over_hops_take_large_features() -> None:
    """Rows of a hop beyond what is usual are sent in units that are found."""
    scheme = "relay-coded[k_min=2]"
    assert train(methods.Fed2GNN(epochs=1, hops=1, neighbours=4), graph_with("1e3"), scheme).accuracy.test is not None


def test_the_bound_that_an_error_names_is_enough() -> None:
    """Where weights outgrow the bound, features being small, the remedy that the error names lasts for the run."""
    wild = replace(HIFGL, learning_rate=3.0, epochs=8)
    with pytest.raises(FieldRangeError) as error:
        reports(graph_with("1"), SCHEMES, wild)
    named = re.search(r"bound=(\d+)", str(error.value))
    assert named is not None
    rows = replace(RELAYS, bound=float(named.group(1)))
    wider = {**SCHEMES, "neighbours": rows, "members": CodedProducts.over(rows)}
    losses, clear = (reports(graph_with("1"), schemes, wild)[0]["losses"] for schemes in (wider, CLEAR))
    assert len(losses) == wild.epochs
    assert losses[:2] == pytest.approx(clear[:2], rel=0.1)


def test_a_bound_of_the_users_own_covers_gradients_too() -> None:
    """The bound alone is enough, with coded gradients, which is the default, and with dense ones."""
    for gradients in ("coded", "dense"):
        method = methods.HiFGL(epochs=1, gradients=gradients)
        assert train(method, graph_with("1e3"), "relay-coded[bound=1024]").accuracy.test is not None


def test_rows_that_all_round_to_zero_are_warned_of() -> None:
    """One outlier leaves the others nothing over 2^31 - 1; over 2^61 - 1 it does, as the warning says."""
    graph = graph_with("1")
    x = graph.graph.features.copy()
    x[5] = 1e12
    outlier, method = with_features(graph, x), methods.HiFGL(epochs=1)
    with pytest.warns(PrecisionWarning, match="neighbours"):
        train(method, outlier, "relay-coded[graph-shown]")
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        train(method, outlier, f"relay-coded[graph-shown,p={MERSENNE_61}]")


def test_numbers_that_are_none_are_refused_with_a_remedy() -> None:
    with pytest.raises(InputError, check=about("numbers")):
        train(methods.FedAvg(epochs=2), with_features(graph_with("1"), np.full((48, 8), 3e38)), "pairwise-masking")
