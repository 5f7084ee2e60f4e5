"""Silos that a server sends different results open no further sum, so that none is a single silo's vector."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fgl_secure.auditing.method import Method
from fgl_secure.errors import InputError, ProtocolError
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods import FedAvg, FedStruct, HiFGL
from fgl_secure.methods.fedavg.program import UpdateRule, clients_of
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.runtime import Phase, Step
from fgl_secure.schemes import server_scheme
from fgl_secure.training.job import Job
from fgl_secure.training.presets import HONEST
from fgl_secure.training.processes.neighbours import HostedSums
from fgl_secure.training.processes.process import Inbox, Outbox
from fgl_secure.training.processes.program_run import ProgramRun
from fgl_secure.training.processes.sums import EVERYBODY, Company, SiloSums
from fgl_secure.typing import Array
from tests.error_codes import about
from tests.graphs import two_communities
from tests.training.processes.lying import VICTIM, Lie, LyingServer, run_under, server_of
from tests.training.processes.runs import SESSION

SILOS = 3
GRAPH = two_communities(devices=36, silos=SILOS)


def once(false: Lie) -> Lie:
    """One lie and no other."""
    told: list[bool] = []

    def lie(total: Array) -> Array | None:
        found = None if told else false(total)
        told.extend([True] * (found is not None))
        return found

    return lie


def widest(total: Array) -> Array | None:
    """The widest range there is, in place of the one that was found."""
    return np.ones_like(total) if total.dtype == np.bool_ else None


def false_mean(total: Array) -> Array | None:
    """Another sum, or mean, of gradients or parameters than that of all."""
    return total + total.dtype.type(2**20) if total.dtype != np.bool_ and total.size > 10 else None


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> list[list[Array]]:
    """What each silo adds to sums for all, in the order of its sums."""
    found: list[list[Array]] = []
    whose: dict[int, int] = {}
    begin = SiloSums.begin

    def noted(part: SiloSums, given: Mapping[int, Array], *rest: object, **named: object) -> Outbox:
        if id(part) not in whose:
            whose[id(part)] = len(found)
            found.append([])
        if EVERYBODY in given:
            found[whose[id(part)]].append(np.array(given[EVERYBODY]))
        return begin(part, given, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SiloSums, "begin", noted)
    return found


@pytest.mark.parametrize("name", ["pairwise-masking", "lightsecagg"])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_range_that_one_silo_alone_gets_opens_no_sum(name: str, bits: int, vectors: list[list[Array]]) -> None:
    """Where the others round to 0, the sum would be the victim's own numbers in 99 % of its entries."""
    job = clients_of(GRAPH, UpdateRule(server_scheme(f"{name}[precision={bits}]")), HONEST.with_epochs(1))
    server = server_of(job, once(widest))
    error = run_under(job, server)
    assert server.lied
    assert [share_of(vectors[VICTIM][1], mean) for mean in server.read[:1]] == [], "so much is the victim's own"
    assert isinstance(error, ProtocolError)


def share_of(vector: Array, mean: Array) -> float:
    """How many entries of a mean, times the weights, are those of one silo's vector, to 2 % of its largest."""
    own = vector[: mean.size]
    return float(np.mean(np.abs(mean * GRAPH.train_mask.sum() - own) < 0.02 * np.abs(own).max()))


def job_of(method: Method, scheme: str, graph: FederatedGraph = GRAPH) -> Job:
    (subject,) = method.plan(graph, scheme).subjects
    assert subject.job is not None
    return subject.job


@pytest.mark.parametrize(
    ("method", "scheme"),
    [
        (FedAvg(epochs=2), "pairwise-masking"),
        (FedAvg(epochs=2), "lightsecagg"),
        (FedAvg(epochs=2), "ckks-shared-key"),
        (FedStruct(epochs=2, hops=1), "clients=ckks,server=pairwise-masking"),
        (HiFGL(epochs=2), "relay-coded[k_min=1],server=lightsecagg"),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_false_mean_for_all_but_one_opens_no_sum(method: Method, scheme: str) -> None:
    """With false gradients for long enough the others' would be 0, and the sum the victim's."""
    job = job_of(method, scheme)
    server = server_of(job, once(false_mean))
    error = run_under(job, server)
    assert (server.lied, server.read) == (True, [])
    assert isinstance(error, ProtocolError)


@pytest.mark.filterwarnings("ignore:rows for neighbours")  # which is what a false range does to them
@pytest.mark.parametrize("scheme", ["relay-coded", "relay-coded[graph-shown]"])
@pytest.mark.parametrize("false", [false_mean, widest], ids=["mean", "range"])
def test_no_rows_leave_after_a_false_result(scheme: str, false: Lie, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows of some silos at 0, another one would read single rows of the rest from sums over neighbours."""
    features = GRAPH.features * (20 if false is widest else 1)
    whole = Graph.from_arrays("large features", features, GRAPH.labels, GRAPH.edges)
    graph = replace(GRAPH, graph=whole)
    job = job_of(HiFGL(epochs=2), f"{scheme},server=pairwise-masking", graph)
    server, begun, begin = server_of(job, once(false)), list[bool](), HostedSums.begin

    def noted(part: HostedSums, rows: Array, step: Step) -> Outbox:
        begun.append(server.lied)
        return begin(part, rows, step)

    monkeypatch.setattr(HostedSums, "begin", noted)
    assert isinstance(run_under(job, server), ProtocolError)
    assert server.lied
    assert not any(begun)


def test_what_no_silo_can_notice() -> None:
    """The limit: the same false result for all silos ends no run, and what is read then is still of all of them."""
    job = job_of(FedAvg(epochs=2), "pairwise-masking")
    server = server_of(job, once(false_mean), set(range(SILOS)))
    assert run_under(job, server) is None
    assert server.read


@pytest.mark.parametrize("scheme", ["pairwise-masking", "plaintext"])
def test_an_honest_server_ends_no_run(scheme: str) -> None:
    """The control: where nothing is false, nothing is refused."""
    job = job_of(FedAvg(epochs=2), scheme)
    assert run_under(job, server_of(job, lambda _: None)) is None


class Lenient(PairwiseMasking):
    """A server's scheme that goes on without one of the silos, whatever theirs does."""

    def require_all(self, senders: int) -> PairwiseMasking:
        """All but one."""
        return replace(self, threshold=senders - 1)


class LosingServer(LyingServer):
    """It says that masked vectors of the victim got lost."""

    def turn(self, inbox: Inbox) -> Outbox:
        """As the honest server's, without them."""
        heard = [parcel for parcel in inbox.get(VICTIM, ()) if parcel.phase is not Phase.MASKED_VECTORS]
        self.lied |= len(heard) < len(inbox.get(VICTIM, ()))
        return super().turn({**inbox, VICTIM: heard})


@pytest.mark.parametrize("scheme", [PairwiseMasking(), Lenient()], ids=["honest", "lenient"])
def test_a_vector_that_got_lost_opens_no_sum(scheme: PairwiseMasking) -> None:
    """Or a sum of the rest, in one session or another, would give the victim's vector by subtraction."""
    graph = two_communities(devices=48, silos=SILOS + 1)
    job = job_of(FedAvg(epochs=1), "pairwise-masking", graph)
    server = LosingServer(Company(SILOS + 1, scheme, SESSION), lambda _: None)
    error = run_under(job, server)
    assert (server.lied, server.read) == (True, [])
    assert isinstance(error, ProtocolError)


@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg", "ckks-shared-key"])
def test_schemes_that_do_without_some_are_refused(scheme: str) -> None:
    """Where a threshold below all silos is asked for by name, before anything starts; all of them may be."""
    graph = two_communities(devices=60, silos=SILOS + 2)
    with pytest.raises(InputError, check=about("threshold")):
        ProgramRun(job_of(FedAvg(), f"{scheme}[threshold=4]", graph).complete_task, SILOS + 2)
    assert ProgramRun(job_of(FedAvg(), f"{scheme}[threshold=5]", graph).complete_task, SILOS + 2).parties == SILOS + 2


@pytest.mark.parametrize("scheme", ["pairwise-masking[dropout=0.3]", "pairwise-masking[degree=2]"])
def test_masking_that_does_without_some_is_refused(scheme: str) -> None:
    """By a share of silos that may drop out, or by neighbours of whom a majority opens a silo's secrets."""
    with pytest.raises(InputError):
        server_scheme(scheme).require_all(SILOS + 1)
    everybody = server_scheme("pairwise-masking[collusion=0.2]").require_all(100)
    assert isinstance(everybody, PairwiseMasking)
    assert (everybody.threshold_for(100), everybody.degree_for(100)) == (100, 99)
