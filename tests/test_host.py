"""Results don't depend on what the calling program has set, and its settings are the same afterwards."""

import decimal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from fgl_secure import SecureAggregator, audit, backbones, methods, train
from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.coins import SimulationCoins
from fgl_secure.threads import most
from fgl_secure.training.backbones import GCNLayer
from tests.graphs import two_communities

Settings = Callable[[], AbstractContextManager[Any]]


@contextmanager
def globally(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """A setting of the process; fails if it is another one in the end."""
    before = read()
    write(value)
    try:
        yield
        assert read() == value
    finally:
        write(before)


def flushes() -> bool:
    """Whether floats below the normal ones count as 0."""
    return bool(torch.tensor(1e-310, dtype=torch.float64, device="cpu") == 0)


@contextmanager
def decimals() -> Iterator[None]:
    """Three decimal digits, none of which may be rounded."""
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP) as context:
        context.traps[decimal.Inexact] = True
        yield


DTYPE = partial(globally, torch.get_default_dtype, torch.set_default_dtype)
DEVICE = partial(globally, torch.get_default_device, torch.set_default_device)
STATES: dict[str, Settings] = {
    "float64": lambda: DTYPE(torch.float64),
    "bfloat16": lambda: DTYPE(torch.bfloat16),
    "default device": lambda: DEVICE(torch.device("meta")),
    "device of a block": lambda: torch.device("meta"),
    "numpy raises": lambda: np.errstate(all="raise"),
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "products": partial(globally, torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    "denormals": partial(globally, flushes, torch.set_flush_denormal, True),
    "threads": partial(globally, torch.get_num_threads, torch.set_num_threads, 3),
    "decimals": decimals,
}
GRAPH = two_communities()
PLAIN = ("hifgl", "fedstruct", "fedspray", "fedavg")
"""Methods that take a second or less on so small a graph."""


def trained(name: str) -> tuple[Any, ...]:
    """Everything that a run gives but its seconds, to the bit."""
    kind: Any = methods.method(name)
    result = train(kind(epochs=2), GRAPH, "plaintext").result
    return result.losses, result.accuracy, {key: np.asarray(value).tobytes() for key, value in result.report.items()}


@pytest.fixture(scope="module")
def usual() -> Callable[[str], tuple[Any, ...]]:
    """What a method gives under the usual settings."""
    return cache(trained)


@pytest.mark.parametrize("state", STATES)
def test_every_setting_leaves_training_as_it_is(state: str, usual: Callable[[str], tuple[Any, ...]]) -> None:
    """Equal bits, and random states are neither needed nor changed."""
    wanted = usual("fedavg")
    drawn = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    with STATES[state]():
        assert trained("fedavg") == wanted
    assert torch.equal(drawn[0], torch.get_rng_state())
    assert drawn[1] == np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("name", PLAIN)
def test_all_settings_together_leave_every_method_as_it_is(name: str, usual: Callable[[str], tuple[Any, ...]]) -> None:
    check_settings(name, usual(name))


def check_settings(name: str, wanted: tuple[Any, ...]) -> None:
    """A run under many settings at once gives what is wanted."""
    with ExitStack() as states:
        for state in ("float64", "default device", "numpy raises", "inference", "autocast", "products", "threads"):
            states.enter_context(STATES[state]())
        assert trained(name) == wanted


def test_settings_are_given_back_after_an_error() -> None:
    """Whatever ended the run, and from whatever thread its models computed."""

    class Stop(Exception):  # noqa: N818
        pass

    def stop(_done: int, _most: int) -> None:
        raise Stop

    with DTYPE(torch.float64), DEVICE(torch.device("meta")), np.errstate(all="raise"), torch.inference_mode():
        with pytest.raises(Stop):
            train(methods.FedAvg(epochs=2), GRAPH, "plaintext", progress=lambda _name: stop)
        assert np.geterr() == dict.fromkeys(("divide", "over", "under", "invalid"), "raise")
        assert torch.is_inference_mode_enabled()


def test_an_audit_finds_the_same_under_all_settings() -> None:
    """Attacks compute with numpy and PyTorch, too."""

    def found() -> list[Any]:
        report = audit(methods.FedSpray(epochs=1), GRAPH, ["plaintext"], ["proxy-classes"])
        return [(each.attack, each.metric, each.value, each.ci95, each.null_control) for each in report.records]

    wanted = found()
    with DTYPE(torch.float64), DEVICE(torch.device("meta")), np.errstate(all="raise"), torch.inference_mode():
        assert found() == wanted


def means(scheme: str) -> list[Any]:
    """Of tiny floats, by both forms of an aggregator."""
    trees = [
        {"tiny": np.full(2, 1e-7, np.float16), "one": torch.full((3,), 0.25 * i, dtype=torch.float32)} for i in range(3)
    ]
    aggregator = SecureAggregator.for_clients(3, scheme, bound=1.0, coins=SimulationCoins(3))
    first = aggregator.mean(trees)
    server = aggregator.server_round(TensorLayout.of(trees[0]))
    clients = [aggregator.client_round(i, server.session, server.number) for i in range(3)]
    for client, tree in zip(clients, trees, strict=True):
        client.provide(tree)
    while not server.is_done:
        for i, request in server.requests().items():
            server.receive(i, clients[i].reply(request))
        server.advance()
    return [first, server.result]


@pytest.mark.filterwarnings("ignore::fgl_secure.errors.PrecisionWarning")  # tiny numbers are lost at 16 bits
@pytest.mark.parametrize("scheme", ["pairwise-masking", "pairwise-masking[precision=16]", "lightsecagg"])
def test_means_are_the_same_under_all_settings(scheme: str) -> None:
    """And can be trained from: they are no tensors of inference mode."""
    wanted = means(scheme)
    with ExitStack() as states:
        for state in ("float64", "device of a block", "numpy raises", "inference", "autocast", "decimals"):
            states.enter_context(STATES[state]())
        with torch.device("cpu"):
            trees = means(scheme)
    for mean, other in zip(trees, wanted, strict=True):
        assert not mean["one"].is_inference()
        assert torch.equal(mean["one"], other["one"])
        assert mean["tiny"].tobytes() == other["tiny"].tobytes()


SEEN: list[tuple[Any, ...]] = []


class Watching(GCNLayer):
    """A layer that notes under which settings it is computed."""

    def update(self, *arguments: Any, **named: Any) -> Any:
        """As its base."""
        blas = {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
        SEEN.append((torch.get_num_threads(), blas, torch.get_default_dtype()))
        return super().update(*arguments, **named)


def test_models_compute_with_one_thread_and_the_callers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the threads of silos, too; compiled loops may take as many as the caller's PyTorch."""
    monkeypatch.setattr(backbones, "_registered", {"watching": Watching})
    loops: list[int] = []
    SEEN.clear()
    with STATES["threads"](), STATES["float64"]():
        before = threadpool_info()
        train(methods.HiFGL(backbone="watching", epochs=1), GRAPH, "plaintext",
              progress=lambda _name: lambda _done, _most: loops.append(most()))  # fmt: skip
        usual = most()
        assert threadpool_info() == before
    assert SEEN
    assert {seen[0] for seen in SEEN} == {1}
    assert all(seen[1] <= {1} for seen in SEEN)
    assert {seen[2] for seen in SEEN} == {torch.float32}
    assert set(loops) == {usual}
