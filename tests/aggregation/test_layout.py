"""Layouts: what must agree between clients."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fgl_secure.aggregation.layout import TensorLayout
from fgl_secure.errors import InputError, MalformedMessageError
from tests.aggregation.trees import exact, leaves, plans, trees
from tests.error_codes import about

MODEL: dict[str, Any] = {
    "conv": {"weight": torch.zeros(2, 3), "bias": np.zeros(2, np.float16)},
    "steps": torch.tensor(3),
}


@given(st.data(), plans())
def test_flattening_and_back_is_the_same_tree(data: st.DataObject, plan: Any) -> None:
    """A tree comes back from its vector, and from its packed numbers, with equal entries, types, kinds and nesting."""
    tree = data.draw(trees(plan, 4.0))
    layout = TensorLayout.of(tree)
    for back in (layout.unflatten(layout.flatten(tree)), layout.unpack(layout.pack(tree))):
        assert list(dict(leaves(back))) == list(dict(leaves(tree)))
        for (_, a), (_, b) in zip(leaves(tree), leaves(back), strict=True):
            assert (type(a), a.dtype, tuple(a.shape)) == (type(b), b.dtype, tuple(b.shape))
            assert exact(a) == exact(b)


@given(plans())
def test_layouts_survive_the_wire(plan: Any) -> None:
    """A layout that is written and read is equal, and so is its digest."""
    tree = {key: np.zeros(2) if not isinstance(part, dict) else {"x": torch.zeros(1)} for key, part in plan.items()}
    layout = TensorLayout.of(tree)
    read = TensorLayout.from_bytes(layout.to_bytes())
    assert (read, read.order, read.digest) == (layout, layout.order, layout.digest)


def test_order_of_keys_kind_and_memory_do_not_matter() -> None:
    """The same names in another order, in numpy, and laid out across memory, have the same layout and vector."""
    weight = torch.arange(6.0).reshape(2, 3)
    one = {"a": weight, "b": torch.ones(())}
    other = {"b": np.float32(1), "a": np.asfortranarray(weight.numpy())}
    assert TensorLayout.of(one) == TensorLayout.of(other)
    assert (
        TensorLayout.of(one).flatten(one).tolist()
        == TensorLayout.of(one).flatten(other).tolist()
        == [0, 1, 2, 3, 4, 5, 1]
    )


class Pair(NamedTuple):
    """A tuple whose members have names."""

    left: torch.Tensor
    right: torch.Tensor | None


@pytest.mark.parametrize(
    "tree",
    [
        [torch.ones(2), torch.zeros(0), None],
        (torch.ones(1), [np.ones((0, 3)), None], {"a": {}, "b": ()}),
        {"a": Pair(torch.ones(2), None), "b": [Pair(torch.ones(1), torch.zeros(1))]},
        [torch.full((1,), float(i)) for i in range(12)],
    ],
)
def test_lists_tuples_and_nothing_come_back_as_they_were(tree: Any) -> None:
    """Numbers go through a vector and back into lists, tuples with and without names, mappings, and None."""
    layout = TensorLayout.of(tree)
    back = layout.unflatten(layout.flatten(tree))
    assert repr(back) == repr(tree)
    assert TensorLayout.from_bytes(layout.to_bytes()) == layout


def test_a_client_without_a_tensor_that_others_have_is_named() -> None:
    """None at one client and a tensor at another have no mean."""
    with pytest.raises(InputError, check=about("client 1")):
        TensorLayout.of([torch.ones(1), torch.ones(1)]).check([torch.ones(1), None], "client 1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv": {"weight": torch.zeros(2, 3)}}, "client 2"),
        ({"more": torch.zeros(1)}, "client 2"),
        ({"steps": torch.tensor([3])}, "shape of 'steps'"),
        ({"steps": torch.tensor(3.0)}, "dtype of 'steps'"),
    ],
)
def test_what_differs_is_named(change: dict[str, Any], message: str) -> None:
    """A mapping of another layout is refused with the key, and with both values where there are two."""
    with pytest.raises(InputError, check=about(message)):
        TensorLayout.of(MODEL).check({**MODEL, **change}, "client 2")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "mapping"),
        ([], "mapping"),
        ({"a": None}, "mapping"),
        ({"a": np.array(["x"])}, "dtype of 'a'"),
        ({"a.b": torch.zeros(1), "a": {"b": torch.zeros(1)}}, "names"),
    ],
)
def test_what_cannot_be_averaged_is_refused(mapping: Any, message: str) -> None:
    """Nothing, things that are no arrays, types without a mean, and names that meet are refused."""
    with pytest.raises(InputError, check=about(message)):
        TensorLayout.of(mapping)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'[[["a"],[1],"complex64","torch"]]',
        b'[[["a"],[-1],"float32","torch"]]',
        b'[[["a"],[true],"float32","torch"]]',
        b'[[["a"],[1],"bfloat16","numpy"]]',
        b'[[["a"],[1099511627777],"float32","torch"]]',
        b'[[["a"],[1],"float32","torch"],[["a","b"],[1],"float32","torch"]]',
        b'[[["a"],[1],["float32"],"torch"]]',
    ],
)
def test_what_is_no_layout_is_refused(data: bytes) -> None:
    """Bytes that describe no mapping are malformed, whatever they hold."""
    with pytest.raises(MalformedMessageError):
        TensorLayout.from_bytes(data)


def test_packed_numbers_of_another_size_are_refused() -> None:
    """Numbers that are cut are malformed."""
    layout = TensorLayout.of(MODEL)
    with pytest.raises(MalformedMessageError, check=about("numbers")):
        layout.unpack(dict(list(layout.pack(MODEL).items())[:-1]))


def test_arrays_are_checked_once_and_again_under_another_layout() -> None:
    """Arrays of an equal layout come back as they are; those of another one are looked at like any mapping."""
    mapping = {"a": {"b": np.ones(2)}, "c": np.ones(3)}
    arrays = TensorLayout.of(mapping).arrays(mapping)
    assert TensorLayout.of(mapping).arrays(arrays) is arrays
    assert hash(TensorLayout.of(mapping)) == hash(TensorLayout.of({"c": torch.ones(3), "a": {"b": np.ones(2)}}))
    with pytest.raises(InputError, check=about("shape of 'c'")):
        TensorLayout.of({**mapping, "c": np.ones(4)}).arrays(arrays)
