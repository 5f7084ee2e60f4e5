"""Results, settings and errors are the same after a pickle and after a copy, and take no secret along."""

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from fgl_secure import Data, FederatedGraph, SecureAggregator, audit, methods, schemes, train
from fgl_secure.aggregation.privacy import DistributedNoise
from fgl_secure.aggregation.report import LabelTest
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Graph
from fgl_secure.graph.partition import random_split
from fgl_secure.runtime import Role
from tests.error_codes import about

STATES = [{"w": torch.full((3,), float(client)), "b": [np.ones(2), None]} for client in range(3)]
LEFT_OUT = {"controls", "private"}
"""Of a plan, functions of the process that audits; of a transcript, what parties hold."""


def graph() -> FederatedGraph:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 40, (2, 160))
    whole = Graph.from_arrays("small", rng.random((40, 4)), rng.integers(0, 3, 40), np.hstack([edges, edges[::-1]]))
    return FederatedGraph.from_assignment(whole, np.arange(40) % 4, random_split(40, 0))


def parts(value: Any) -> Any:
    """All that a result holds, as values that `==` compares."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: parts(getattr(value, each.name)) for each in fields(value) if each.name not in LEFT_OUT}
    if isinstance(value, Mapping):
        return {key: parts(each) for key, each in value.items()}
    if scipy.sparse.issparse(value):
        value = [value.data, value.indices, value.indptr]
    if isinstance(value, list | tuple):
        return [parts(each) for each in value]
    if isinstance(value, np.ndarray | torch.Tensor):
        return [str(value.dtype), list(value.shape), np.asarray(value).tobytes()]
    if hasattr(type(value), "__slots__") and "__eq__" not in vars(type(value)):
        return {name: parts(getattr(value, name)) for name in type(value).__slots__ if hasattr(value, name)}
    return value


def record(**more: Any) -> Any:
    made = SecureAggregator.for_clients(3, **more)
    made.mean(STATES, dropped={2} if "threshold" in more else ())
    return made.last_round


def comparison(folder: Path) -> Any:
    made = SecureAggregator.for_clients(3)
    made.mean(STATES)
    return made.write_report(folder / "page.html", STATES, LabelTest("w", STATES[0], [[0], [1], [1]]))


def trained(method: str, scheme: str) -> Any:
    made: Any = methods.method(method)
    return train(made(epochs=1), graph(), scheme)


RESULTS: dict[str, Callable[[Path], Any]] = {
    "record": lambda _: record(),
    "record with a drop-out": lambda _: record(threshold=2),
    "record at a precision": lambda _: record(precision=8),
    "record of lightsecagg": lambda _: record(scheme="lightsecagg"),
    "record of ckks": lambda _: record(scheme="ckks-shared-key", bound=8.0),
    "record with k_min": lambda _: record(k_min=2),
    "record with noise": lambda _: record(privacy=DistributedNoise(1.0, 4.0, 1e-5, 10)),
    "comparison": comparison,
    "view": lambda _: record().transcript.views(Role.SERVER),
    "rules": lambda _: SecureAggregator.for_clients(3).rules,
    "claim": lambda _: SecureAggregator.for_clients(3).claim,
    "trained fedavg": lambda _: trained("fedavg", "plaintext"),
    "trained hifgl": lambda _: trained("hifgl", "relay-coded"),
    "report": lambda _: audit(methods.FedSpray(epochs=1), graph(), ["plaintext"]),
    "graph": lambda _: graph(),
    "data": lambda _: Data("digits", "random", 3),
    "scheme": lambda _: schemes.parse("pairwise-masking[degree=8]"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_the_same_after_a_pickle_and_a_copy(name: str, tmp_path: Path) -> None:
    """Part by part; what is equal by `==` still is."""
    result = RESULTS[name](tmp_path)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):  # noqa: S301  # made above
        assert type(again) is type(result)
        assert parts(again) == parts(result)
        if "__eq__" in vars(type(result)):
            assert again == result
        if hasattr(result, "to_json"):
            assert again.to_json() == result.to_json()


@pytest.mark.parametrize("scheme", ["pairwise-masking", "lightsecagg"])
def test_a_pickled_record_has_no_secret_of_a_client(scheme: str) -> None:
    """Neither the keys that clients drew nor the updates; arrays stay read-only, and what arrived is still read."""
    whole = record(scheme=scheme)
    data = pickle.dumps(whole)
    secrets = [
        row.tobytes() for batch in whole.transcript.private for row in batch.values if str(batch.kind) != "output"
    ]
    assert secrets
    assert not any(secret in data for secret in secrets)
    again = pickle.loads(data)  # noqa: S301  # made above
    assert not again.transcript.private
    assert (again.received_words(1) == whole.received_words(1)).all()
    for batch in again.transcript.messages:
        assert not any(field.flags.writeable for field in batch.fields.values())
        with pytest.raises(TypeError):
            batch.fields["other"] = np.ones(1)


def test_an_aggregator_is_not_copied() -> None:
    """Two of them would draw the same masks."""
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(InputError, check=about("secret coins")):
            copied(SecureAggregator.for_clients(3))


def test_errors_are_the_same_after_a_pickle() -> None:
    """An error that is none afterwards breaks the pool of processes that it was raised in."""
    error = UnknownNameError("scheme", "magic", ("one", "two"))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # made above
    assert type(again) is UnknownNameError
    assert str(again) == str(error)
