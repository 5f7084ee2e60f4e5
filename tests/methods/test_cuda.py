"""Each method computes on a CUDA device where there is one: a round of training, and a run of its first table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from fgl_secure import train
from fgl_secure.methods import (
    GCFL,
    Ditto,
    Fed2GNN,
    FedAvg,
    FedGCN,
    FedPub,
    FedSage,
    FedSpray,
    FedStar,
    FedStruct,
    FedVN,
    HiFGL,
    table,
)
from fgl_secure.methods.comparison.runs import source_of
from fgl_secure.tables.table import Choices

TABLES = ("fed2gnn-table1", "fedspray-table2", "fedstruct-table2", "fedvn-table1", "hifgl-table3")
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))


def data_of(method: str) -> str:
    """An embedded data set for a method."""
    return "Motif-mini" if method == "fedvn" else "digits"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Kinds of devices of the losses that gradients are taken of, in whatever thread."""
    kinds: set[str] = set()

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(outputs: torch.Tensor | Sequence[torch.Tensor], *rest: Any, **more: Any) -> Any:
            kinds.update(each.device.type for each in ([outputs] if isinstance(outputs, torch.Tensor) else outputs))
            return work(outputs, *rest, **more)

        return noted

    for name in ("grad", "backward"):
        monkeypatch.setattr(torch.autograd, name, noting(getattr(torch.autograd, name)))
    return kinds


@pytest.mark.parametrize("device", [CUDA])
@pytest.mark.parametrize(
    "method", [GCFL, Ditto, Fed2GNN, FedAvg, FedGCN, FedPub, FedSage, FedSpray, FedStar, FedStruct, FedVN, HiFGL]
)
def test_a_method_trains_there(method: Any, device: str, seen: set[str]) -> None:
    """One round under the scheme that is usual for it."""
    result = train(method(epochs=1), source_of(data_of(method.name)), device=device)
    assert result.accuracy.test is not None
    assert seen == {device}


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", TABLES)
def test_runs_of_tables_are_computed_there(name: str, device: str, seen: set[str]) -> None:
    """The last case that can be run, whatever the device is."""
    printed, choices = table(name), Choices(epochs=1, device=device)
    measure = next(case.measure for case in reversed(printed.cases) if case.measure is not None)
    assert measure(printed.load(data_of(name.partition("-")[0]), None), choices, 0)
    assert seen == {device}
