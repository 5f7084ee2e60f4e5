"""Answers that another implementation gave: the files say which, and nothing here makes them anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fgl_secure.algebra import LagrangeCode, PrimeField
from fgl_secure.algebra.interpolation import locate_errors
from fgl_secure.coins import SimulationCoins
from tests import vectors

OPERATIONS = vectors.load("field_operations")["cases"]
ENCODINGS = vectors.load("encoding")["cases"]
LOCATIONS = vectors.load("error_location")["cases"]
WITH_POINTS_LEFT = [case for case in LOCATIONS if case["p"] - len(case["points"]) >= case["dimension"]]
"""A code needs points for its blocks beside those of its workers."""
KINDS: dict[str, Callable[[Any], Any]] = {"array": np.array, "tensor": torch.tensor}


def label(case: dict[str, Any]) -> str:
    return "-".join(str(case[name]) for name in ("p", "K", "T", "N", "dimension") if name in case)


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("case", OPERATIONS, ids=label)
def test_field_operations(case: dict[str, Any], kind: str) -> None:
    """Every operation gives galois's answer, on arrays and tensors."""
    field, a, b, rows = PrimeField(case["p"]), *(KINDS[kind](case[name]) for name in ("a", "b", "rows"))
    assert field.add(a, b).tolist() == case["add"]
    assert field.subtract(a, b).tolist() == case["subtract"]
    assert field.multiply(a, b).tolist() == case["multiply"]
    assert field.subtract(0 * a, a).tolist() == case["negate"]
    assert field.inverse(b).tolist() == case["inverse_of_b"]
    assert field.combine(case["matrix"], rows).tolist() == case["combine"]
    assert field.dot(rows, a[:4]).tolist() == case["dot"]


@each_kind
@pytest.mark.parametrize("case", ENCODINGS, ids=label)
def test_encoding_and_decoding(case: dict[str, Any], kind: str) -> None:
    """Shares are the values of galois's Lagrange polynomial, and decode from their last ones."""
    code = LagrangeCode(PrimeField(case["p"]), case["K"], case["T"], case["N"])
    blocks, masks, shares = (KINDS[kind](case[name]) for name in ("blocks", "masks", "shares"))
    assert code.encode_with_masks(blocks, masks).tolist() == case["shares"]
    workers = range(code.N - code.recovery_threshold(), code.N)
    assert code.decode(shares[workers.start :], workers=workers).blocks.tolist() == case["blocks"]
    needed = code.recovery_threshold(2)
    if needed <= code.N:
        products = KINDS[kind](case["product_shares"])[:needed]
        decoded = code.decode(products, workers=range(needed), degree=2)
        assert decoded.blocks.tolist() == case["product_blocks"]


@pytest.mark.parametrize("case", LOCATIONS, ids=label)
def test_error_location(case: dict[str, Any]) -> None:
    """The wrong positions are those of galois's Reed-Solomon decoder, and its codeword has none."""
    arguments = (case["points"], case["values"], case["dimension"], case["max_errors"])
    assert locate_errors(case["p"], *arguments) == tuple(case["wrong"])
    assert locate_errors(case["p"], case["points"], case["corrected"], case["dimension"], case["max_errors"]) == ()


@each_kind
@pytest.mark.parametrize("case", WITH_POINTS_LEFT, ids=label)
def test_decoding_with_liars(case: dict[str, Any], kind: str) -> None:
    """A code whose workers sit at galois's points names the same liars and agrees with galois's codeword."""
    points, dimension, A = case["points"], case["dimension"], case["max_errors"]
    betas = [x for x in range(len(points) + dimension) if x not in points][:dimension]
    code = LagrangeCode(PrimeField(case["p"]), dimension, 0, len(points), tuple(points), tuple(betas))
    shares = KINDS[kind]([[value] for value in case["values"]])
    decoded = code.decode(shares, workers=range(len(points)), max_errors=A, coins=SimulationCoins(0))
    assert decoded.faulty == tuple(case["wrong"])
    again = code.encode_with_masks(decoded.blocks, shares[:0])
    assert again.reshape(-1).tolist() == case["corrected"]
