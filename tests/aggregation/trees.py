"""Random trees of tensors, and their exact mean."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import torch
from hypothesis import strategies as st

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
WIDTH: dict[str, Literal[16, 32, 64]] = {"float16": 16, "bfloat16": 32, "float32": 32, "float64": 64}

Shape = tuple[int, ...]
Plan = dict[str, Any]


def shapes() -> st.SearchStrategy[Shape]:
    """Scalars, empty tensors and small ones."""
    return st.lists(st.integers(0, 3), max_size=3).map(tuple)


def plans(dtypes: Sequence[str] = (*FLOATS, *INTEGERS)) -> st.SearchStrategy[Plan]:
    """Trees whose leaves are (shape, type, whether it is a torch tensor)."""
    leaf = st.tuples(shapes(), st.sampled_from(dtypes), st.booleans())
    keys = st.text("abcxyz", min_size=1, max_size=3)
    return st.dictionaries(keys, st.one_of(leaf, st.dictionaries(keys, leaf, min_size=1, max_size=2)), min_size=1)


def trees(plan: Plan, bound: float) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings of that plan with magnitudes up to a bound, a power of two."""
    return st.fixed_dictionaries(
        {key: trees(part, bound) if isinstance(part, dict) else _leaves(bound, *part) for key, part in plan.items()}
    )


def _leaves(bound: float, shape: Shape, dtype: str, in_torch: bool) -> st.SearchStrategy[Any]:
    size = int(np.prod(shape, dtype=np.int64))
    if dtype in FLOATS:
        elements: st.SearchStrategy[Any] = st.floats(-bound, bound, width=WIDTH[dtype])
    else:
        elements = st.integers(0 if dtype == "uint8" else -100, 100)
    return st.lists(elements, min_size=size, max_size=size).map(lambda values: _leaf(values, shape, dtype, in_torch))


def _leaf(values: list[Any], shape: Shape, dtype: str, in_torch: bool) -> Any:
    if in_torch or dtype == "bfloat16":
        wide = torch.float64 if dtype in FLOATS else torch.int64
        tensor = torch.tensor(values, dtype=wide).to(getattr(torch, dtype)).reshape(shape)
        return tensor.T if tensor.ndim == 2 and shape[0] == shape[1] else tensor  # some lie across memory
    array = np.array(values, dtype=dtype).reshape(shape)
    return array[::-1] if array.ndim else array


def leaves(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Names and arrays of a tree."""
    for key, part in tree.items():
        if isinstance(part, Mapping):
            yield from leaves(part, f"{above}{key}.")
        else:
            yield f"{above}{key}", part


def exact(array: Any) -> list[Fraction]:
    """Every entry as the rational number that it is."""
    wide = array.detach().cpu() if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))
    values = wide.to(torch.float64) if wide.is_floating_point() else wide.to(torch.int64)
    return [Fraction(value) for value in values.reshape(-1).tolist()]


def exact_mean(arrays: Sequence[Any], weights: Sequence[float]) -> list[Fraction]:
    """The weighted mean without any rounding."""
    terms = [
        [Fraction(weight) * value for value in exact(array)] for array, weight in zip(arrays, weights, strict=True)
    ]
    total = sum((Fraction(weight) for weight in weights), Fraction(0))
    return [sum(column, Fraction(0)) / total for column in zip(*terms, strict=True)]
