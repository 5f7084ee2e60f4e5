"""What the papers call parameters are options of the methods: each reaches training, and is checked first."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fgl_secure import train
from fgl_secure.auditing.method import Method
from fgl_secure.errors import FglSecureError
from fgl_secure.methods import Fed2GNN, FedSpray, FedVN, HiFGL
from tests.error_codes import about
from tests.graphs import two_communities

OPTIONS: Mapping[str, tuple[type[Method], Mapping[str, object]]] = {
    "FedVN, Eq. 5 as printed": (FedVN, {"injection": "output"}),
    "FedVN, lambda_1": (FedVN, {"lambda_1": 5.0}),
    "FedVN, lambda_2": (FedVN, {"lambda_2": 0}),
    "FedVN, tau": (FedVN, {"tau": 0.5}),
    "FedVN, M": (FedVN, {"virtual_nodes": 4}),
    "FedSpray, lambda_1": (FedSpray, {"lambda_1": 0.1}),
    "FedSpray, lambda_2": (FedSpray, {"lambda_2": 4}),
    "FedSpray, d_s": (FedSpray, {"d_s": 16}),
    "FedSpray, local epochs": (FedSpray, {"local_epochs": 2}),
}


def losses(kind: type[Method], **options: object) -> list[float]:
    method: Any = kind
    data = None if kind is FedVN else two_communities(devices=40, silos=2)
    return list(train(method(epochs=2, **options), data, "plaintext").result.losses)


@pytest.fixture(scope="module")
def usual() -> dict[type[Method], list[float]]:
    return {kind: losses(kind) for kind in (FedVN, FedSpray)}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_reaches_training(name: str, usual: dict[type[Method], list[float]]) -> None:
    """Losses are others than those of the preset, and numbers."""
    kind, options = OPTIONS[name]
    found = losses(kind, **options)
    assert found != usual[kind]
    assert all(map(math.isfinite, found))


def test_k_counts_propagations() -> None:
    """The preset's k is 2."""
    assert (
        losses(FedSpray, backbone="sgc", k=2)
        == losses(FedSpray, backbone="sgc")
        != losses(FedSpray, backbone="sgc", k=3)
    )


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: FedVN(injection="middle"), "injection"),
        (lambda: FedVN(lambda_1=-1), "lambda_1"),
        (lambda: FedVN(lambda_2=math.nan), "lambda_2"),
        (lambda: FedVN(tau=0), "tau"),
        (lambda: FedVN(tau=math.inf), "tau"),
        (lambda: FedVN(tau="hot"), "tau"),  # type: ignore[arg-type]
        (lambda: FedSpray(lambda_1=-0.5), "lambda_1"),
        (lambda: FedSpray(d_s=0), "d_s"),
        (lambda: FedSpray(backbone="sgc", k=0), "k"),
        (lambda: FedSpray(k=3), "k"),
        (lambda: Fed2GNN(decoder="one"), "decoder"),
        (lambda: HiFGL(preset="code"), "preset"),
        (lambda: FedSpray(d_s=2.5), "d_s"),  # type: ignore[arg-type]
        (lambda: FedSpray(local_epochs=0), "local_epochs"),
    ],
)
def test_options_out_of_range_are_refused(make: Callable[[], Method], name: str) -> None:
    with pytest.raises(FglSecureError, check=about(name)):
        make()
