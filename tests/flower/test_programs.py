"""Programs of silos on Flower: what one process finds, whatever the method and its schemes."""

import importlib
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import fgl_secure
from fgl_secure.auditing.method import Method, Source
from fgl_secure.auditing.train import train
from fgl_secure.cli.printing import describe
from fgl_secure.errors import DeviceUnavailableError, InputError, ProtocolError, UnknownNameError
from fgl_secure.flower.programs import gpu_share, save_shares, train_on_flower
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, FedVN, HiFGL
from fgl_secure.methods.fedavg.audit_target import FedAvgSubject
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult
from fgl_secure.training.silo import Silo
from tests.error_codes import about
from tests.flower.nodes import reports_of
from tests.graphs import two_communities

OWN = Path(__file__).parents[2] / "examples" / "own"
GRAPH, FOUR = (two_communities(devices=24, silos=silos) for silos in (3, 4))
DATA: dict[str, Source] = {"fedvn": GraphSets("Motif-mini"), "fed2gnn": FOUR}
METHODS: tuple[Method, ...] = (
    HiFGL(epochs=1),
    FedStruct(epochs=1, hops=2),
    FedAvg(epochs=2, local_steps=2, batch=3),
    FedSpray(epochs=1),
    Fed2GNN(epochs=1, hops=1, neighbours=4),
    FedVN(epochs=1),
)
RUNS = (
    (METHODS[0], "relay-coded[k_min=1,graph-shown],server=lightsecagg"),
    (METHODS[1], "clients=ckks,server=pairwise-masking"),
    (METHODS[2], "ckks-shared-key"),
    (METHODS[5], "plaintext"),
)


def job_of(method: Method, scheme: str | None, data: Source | None = None) -> Job:
    (subject,) = method.plan(data or DATA.get(method.name, GRAPH), scheme or method.trained).subjects
    assert subject.job is not None
    return subject.job


def alike(report: dict[str, np.ndarray], expected: TrainingResult) -> bool:
    """Whether losses, the selected round and accuracies are those of one process."""
    accuracy = expected.accuracy
    figures = [float(report["test"]), float(report["validation"])]
    wanted = [math.nan if found is None else found for found in (accuracy.test, accuracy.validation)]
    same = tuple(report["losses"]) == expected.losses and int(report["selected round"]) == expected.selected_round
    return same and np.array_equal(figures, wanted, equal_nan=True)


def check(method: Method, scheme: str | None, data: Source | None = None) -> None:
    """Every silo's report has the figures of one process."""
    data = data or DATA.get(method.name, GRAPH)
    expected = fgl_secure.train(method, data, scheme).result
    reports = reports_of(job_of(method, scheme, data))
    assert len(reports) >= 3
    assert all(alike(dict(report), expected) for report in reports.values())


@pytest.mark.parametrize(("method", "scheme"), RUNS, ids=lambda each: getattr(each, "name", each))
def test_a_run_is_that_of_one_process(method: Method, scheme: str) -> None:
    """With relays, sums for one client, sums at the server, and data that is no graph.

    What each method does in processes, tests/methods hold without Flower.
    """
    check(method, scheme)


def test_a_method_of_ones_own_is_that_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Label propagation as its page has it, without an edit."""
    monkeypatch.syspath_prepend(str(OWN))
    check(importlib.import_module("label_propagation").LabelPropagation(epochs=2), "plaintext")


def test_what_cannot_run_apart_is_refused_before_anything_starts() -> None:
    """Schemes that silos cannot follow, and too few silos."""
    with pytest.raises(InputError, check=about("scheme")):
        train_on_flower(HiFGL(), GRAPH, "secmp")
    for method in (Fed2GNN(hops=1, neighbours=4), FedStruct()):
        with pytest.raises(InputError, check=about("scheme")):
            train_on_flower(method, DATA.get(method.name, GRAPH), "relay-coded[graph-hidden]")
    with pytest.raises(InputError, check=about("silos")):
        train_on_flower(HiFGL(), two_communities(silos=2), "plaintext")


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ("relay-coded", "row of one device of another silo may be left"),
        ("relay-coded[graph-shown,foreign-contributors]", "at least k_min = 3 rows of other silos are left"),
        ("plaintext", None),
    ],
)
def test_figures_name_what_a_process_learns_that_hosts_devices(
    scheme: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In print and as JSON, where the scheme's claim declares it; in one process devices are parties of their own."""
    report = {"losses": np.ones(1), "selected round": np.int64(0), "test": np.nan, "validation": np.nan}
    monkeypatch.setattr("fgl_secure.flower.programs.run_in_simulation", lambda *_, **__: [report])
    done = train_on_flower(HiFGL(epochs=1), GRAPH, scheme, device="cpu")
    figures, printed = done.to_json(), describe(done)
    assert ("hosted_devices" in figures) == ("hosted devices" in printed) == (said is not None)
    assert said is None or (said in str(figures["hosted_devices"]) and said in printed)
    assert not train(HiFGL(epochs=1), GRAPH, "plaintext", device="cpu").hosted


@pytest.mark.parametrize(
    ("device", "there", "expected"),
    [("auto", True, 0.25), ("auto", False, 0.0), ("cpu", True, 0.0), ("cuda", True, 0.25)],
)
def test_processes_take_shares_of_a_gpu_where_one_is_computed_on(
    device: str, there: bool, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One GPU between four parties, on a machine of many cores; none where models are computed on the CPU."""
    asked: list[dict[str, dict[str, float]]] = []
    monkeypatch.setattr("fgl_secure.training.loop.compute_device", lambda _name: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr("flwr.simulation.run_simulation", lambda *_, backend_config: asked.append(backend_config))
    with pytest.raises(ProtocolError, check=about("the run")):
        train_on_flower(FedAvg(), FOUR, device=device)
    assert [each["client_resources"] for each in asked] == [{"num_cpus": 1, "num_gpus": expected}]


@pytest.mark.parametrize(
    ("parties", "cores", "gpus", "expected"),
    [(4, 16, 1, 0.25), (40, 16, 1, 0.0625), (3, 16, 1, 0.3333), (8, 4, 2, 0.5), (3, 16, 8, 1.0), (5, None, 1, 1.0)],
)
def test_as_many_processes_share_gpus_as_run_at_a_time(
    parties: int, cores: int | None, gpus: int, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never more than a whole one each, in ten thousandths, and rounded down so that all of them fit."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert gpu_share(parties) == expected


def test_devices_that_are_not_there_are_refused_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceUnavailableError):
        train_on_flower(FedAvg(), "no such data", device="cuda")
    with pytest.raises(UnknownNameError, check=about("device")):
        train_on_flower(FedAvg(), "no such data", device="tpu")


def test_methods_that_are_no_programs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose subjects have no job."""
    monkeypatch.setattr(FedAvgSubject, "job", None)
    with pytest.raises(InputError, check=about("method")):
        train_on_flower(FedAvg(), GRAPH)


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.name)
def test_shares_in_files_are_those_cut_from_the_data(method: Method, tmp_path: Path) -> None:
    """What a node reads is what its silo holds, what its method needs beside the graph among it."""
    check_shares(job_of(method, None), tmp_path)


def check_shares(job: Job, tmp_path: Path) -> None:
    """Those of silo 1."""
    save_shares(job, tmp_path)
    silo, found = job.share(1), Silo.load(tmp_path / "silo1")
    assert found.facts == silo.facts
    assert found.facts.name == job.graph.graph.name
    assert np.array_equal(found.degrees, job.graph.in_degree[silo.nodes])
    assert all(np.array_equal(found.own[name], value) for name, value in silo.own.items())
    assert found.own.keys() == silo.own.keys()


def test_nothing_of_the_data_is_in_what_all_nodes_are_told() -> None:
    """A task says what is done; the graph is in the shares alone."""
    for method in METHODS:
        check_told(job_of(method, None))


def check_told(job: Job) -> None:
    """No part of the task is a graph or a share."""
    cells = [cell.cell_contents for cell in job.task.make.__closure__ or ()]
    assert not any(isinstance(each, FederatedGraph | Silo) for each in cells)
