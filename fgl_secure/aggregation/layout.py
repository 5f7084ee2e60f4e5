"""What a mapping or list of arrays looks like: the names, shapes and types on which all clients must agree."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parameter import is_lazy

from fgl_secure.aggregation.arguments import DEFAULT_LIMITS, Limits
from fgl_secure.algebra.checks import largest_magnitude
from fgl_secure.errors import InputError, MalformedMessageError

Array = Any
"""A torch tensor or a numpy array."""


class Kind(StrEnum):
    """Whose array it is."""

    TORCH = "torch"
    NUMPY = "numpy"


FLOATS: Mapping[str, int] = MappingProxyType({"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53})
"""Names of the float types, and the bits of their significands."""
SMALLEST: Mapping[str, int] = MappingProxyType({"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074})
"""Binary exponents of their smallest positive numbers."""
LARGEST: Mapping[str, int] = MappingProxyType({"float16": 16, "bfloat16": 128, "float32": 128, "float64": 1024})
"""Binary exponents that all their numbers stay below."""
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
BOOL = "bool"
DTYPES = (*FLOATS, *_INTEGERS, BOOL)


def _kind_of(value: object, name: str) -> Kind:
    """Return whether a value is a torch tensor or a numpy array.

    Raises:
        InputError: it is neither, or one without plain memory: sparse, quantised, masked or without data. The message
            says how it becomes one.
    """
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized or value.is_meta or not _is_plain(value):
            raise InputError(f"tensor {name!r} must be dense and hold data; found {_special(value)}")
        return Kind.TORCH
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.ma.MaskedArray):
        return Kind.NUMPY
    result = f"{type(value).__name__} under {name!r}: {_array_remedy(value)}"
    raise InputError(f"values must be torch tensors or numpy arrays; found {result}")


def _is_plain(value: torch.Tensor) -> bool:
    """Return whether a tensor is one block of numbers, and no class of tensors that computes in its own way."""
    dispatch = type(value).__torch_dispatch__
    return not (value.is_nested or is_lazy(value)) and dispatch == torch.Tensor.__torch_dispatch__


def _special(value: torch.Tensor) -> str:
    """Return what kind of tensor it is that is refused, and how to make a plain one of it."""
    if value.is_nested:
        return "a nested tensor: give the list of its parts, unbind()"
    if is_lazy(value):
        return "a parameter without a shape: run the model once"
    if value.is_meta:
        return "a tensor on the meta device, which holds no numbers: give the tensors of the model that was trained"
    if value.is_quantized:
        return "a quantised tensor: call its dequantize()"
    if value.layout is not torch.strided:
        return f"{value.layout}: call its to_dense()"
    return f"{type(value).__name__}: give a plain torch.Tensor"


def _array_remedy(value: object) -> str:
    """Return how a value that is no array becomes one."""
    if isinstance(value, np.ma.MaskedArray):
        return "call its filled(0)"
    if isinstance(value, torch.nn.Module):
        return "give its state_dict()"
    if hasattr(value, "toarray"):
        return "call its toarray()"
    with suppress(Exception):  # a foreign class may raise anything
        if np.asarray(value).dtype.name in DTYPES:
            return "give numpy.asarray of it"
    return "leave it out, or give dict(pairs) where names and arrays come in pairs"


def _dtype_of(value: Array, name: str) -> str:
    """Return the name of its type, one of `DTYPES`, in any byte order.

    Raises:
        InputError: another type, complex among them.
    """
    result = _name_of(value.dtype)
    if result not in DTYPES:
        convert = "float()" if isinstance(value, torch.Tensor) else "astype('float64')"
        remedy = "real and its imag as two arrays" if result.startswith("complex") else f"{convert}, or leave it out"
        raise InputError(f"dtype of {name!r} must be one of {', '.join(DTYPES)}; found {result}: give its {remedy}")
    return result


@cache
def _name_of(dtype: torch.dtype | np.dtype[Any]) -> str:
    return str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else dtype.name


def reals_of(value: Array) -> NDArray[np.float64]:
    """All entries in row-major order, float64 [size]; exact for every float type and for integers below 2^53."""
    return np.asarray(entries_of(value), dtype=np.float64)


def entries_of(value: Array) -> NDArray[Any]:
    """Return all entries in row-major order, in their own type and the byte order of this machine, [size].

    Entries of the type of floats that numpy lacks, bfloat16, are float32.
    """
    if isinstance(value, torch.Tensor):
        tensor = value.detach().cpu().resolve_neg()
        value = (
            tensor.float() if tensor.dtype is torch.bfloat16 else tensor
        ).numpy()  # torch would wake threads to convert
    flat = np.asarray(value).reshape(-1)
    # Compiled kernels take no foreign byte order, which arrays from files and networks may have.
    return flat if flat.dtype.isnative else flat.astype(flat.dtype.newbyteorder("="))


@torch.inference_mode(mode=False)
def _array_from(values: NDArray[Any], shape: tuple[int, ...], dtype: str, kind: Kind, device: str) -> Array:
    """An array of that type and place, in memory of its own; a value rounded to a float type stays finite.

    Rounding to a narrower type may step over its largest number, beside which every mean of its numbers lies.
    """
    if kind is Kind.NUMPY:
        if dtype in FLOATS:
            most = float(np.finfo(dtype).max)
            values = values.clip(-most, most)
        return values.astype(dtype).reshape(shape)
    if dtype == "bfloat16":
        most = torch.finfo(torch.bfloat16).max
        return torch.from_numpy(values.clip(-most, most).reshape(shape)).to(device=device, dtype=torch.bfloat16)
    return torch.from_numpy(_array_from(values, shape, dtype, Kind.NUMPY, device)).to(device)


Tree = Mapping[str, Any] | Sequence[Any]
"""Arrays and None by name or in order, nested or not; members of lists and tuples go by the names "0", "1", ..."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a mapping.

    Attributes:
        path: its key, and those of the mappings that it is nested in, outermost first.
        shape: of the tensor.
        dtype: name of its type, one of `arrays.DTYPES`.
        kind: torch or numpy; clients may differ in it.
        device: where a torch tensor lives; clients may differ in it.
        name: the keys joined by dots.
        size: how many numbers it has.
        is_float: whether it holds floats of any type, and not integers or truth values.
    """

    path: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    kind: Kind = field(default=Kind.NUMPY, compare=False)
    device: str = field(default="cpu", compare=False)
    name: str = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)
    is_float: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", ".".join(self.path))
        object.__setattr__(self, "size", math.prod(self.shape))
        object.__setattr__(self, "is_float", self.dtype in FLOATS)


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """The names, shapes and types of a mapping of arrays; equal for mappings that can be averaged.

    Attributes:
        entries: the tensors, ascending by name: the order in which they stand in a vector.
        order: their names as the mapping has them; mappings that are built have them in this order.
        frame: the mapping with names in place of its arrays: what is built looks like it.
        size: P, how many numbers there are in all tensors together.
        floats: the tensors that hold floats.

    Examples:
        >>> import numpy as np
        >>> TensorLayout.of({"weight": np.zeros((2, 3)), "bias": np.zeros(2)}).size
        8
    """

    entries: tuple[TensorEntry, ...]
    order: tuple[str, ...] = field(compare=False)
    frame: Tree = field(compare=False, repr=False)
    size: int = field(init=False, compare=False, repr=False)
    floats: tuple[TensorEntry, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(entry.size for entry in self.entries))
        object.__setattr__(self, "floats", tuple(entry for entry in self.entries if entry.is_float))

    def __hash__(self) -> int:
        return hash(tuple(entry.name for entry in self.entries))  # looked up many times a round

    @classmethod
    def of(cls, mapping: Tree) -> TensorLayout:
        """The layout of torch tensors or numpy arrays in mappings, lists and tuples, nested or not.

        None stands for nothing: it is in the mean where the first mapping has it.

        Raises:
            InputError: a key that is no text, a value that is no array, a type that cannot be averaged, two tensors
                of one name, or nothing at all.
        """
        return _layout([_entry(path, value) for path, value in _walk(mapping, ())], _frame(mapping, ()))

    def places(self) -> Iterator[tuple[TensorEntry, slice]]:
        """Each tensor, and where it stands in a vector."""
        start = 0
        for entry in self.entries:
            yield entry, slice(start, start + entry.size)
            start += entry.size

    def check(self, mapping: Tree, who: str = "mapping") -> None:
        """Raises unless a mapping has this layout; the order of its keys does not matter.

        Args:
            mapping: of arrays.
            who: whose it is, for the message.

        Raises:
            InputError: names the key that is missing or too many, or whose shape or type differs, and both values.
        """
        self._check_members(list(_walk(mapping, ())), who)

    def _check_members(self, members: list[tuple[tuple[str, ...], Array]], who: str) -> None:
        by_path = {entry.path: entry for entry in self.entries}
        if len(members) == len(by_path) and all(_is_like(by_path.get(path), value) for path, value in members):
            return
        entries = _ascending([_entry(path, value) for path, value in members])
        result, expected = {e.name: e for e in entries}, {e.name: e for e in self.entries}
        for name in [*expected, *result]:
            if name not in result:
                raise InputError(f"{who} must have the keys of the others; {name!r} is missing")
            if name not in expected:
                raise InputError(f"{who} must have the keys of the others; {name!r} is none of them")
            for attribute in ("shape", "dtype"):
                own_value, other_value = getattr(result[name], attribute), getattr(expected[name], attribute)
                if own_value != other_value:
                    raise InputError(
                        f"{attribute} of {name!r} must be {other_value} as the others have it; {who} has {own_value}"
                    )

    def arrays(self, mapping: Tree, who: str = "mapping") -> Arrays:
        """The arrays of a mapping of this layout, by name; those that it has given before, as they are.

        Raises:
            InputError: it has another layout.
        """
        if isinstance(mapping, Arrays) and (mapping.layout is self or mapping.layout == self):
            return mapping
        members = list(_walk(mapping, ()))
        self._check_members(members, who)
        return Arrays(self, {".".join(path): value for path, value in members})

    def flatten(self, mapping: Tree) -> NDArray[np.float64]:
        """All numbers of a mapping of this layout, float64 [P]; integers beyond 2^53 are rounded."""
        arrays = self.arrays(mapping)
        return np.concatenate([np.zeros(0), *(reals_of(arrays[entry.name]) for entry in self.entries)])

    def unflatten(self, vector: NDArray[np.float64]) -> Any:
        """The mapping with these numbers, float64 [P], rounded to the tensors' types."""
        if vector.shape != (self.size,):
            raise InputError(f"vector must be float64 [{self.size}]; found {vector.dtype} {list(vector.shape)}")
        parts = {e.name: vector[place] if e.is_float else np.rint(vector[place]) for e, place in self.places()}
        return self.build(parts)

    def build(self, parts: Mapping[str, NDArray[Any]]) -> Any:
        """The mapping with these numbers, by tensor, each [size]; nested and ordered as the first mapping was."""
        arrays = {e.name: _array_from(parts[e.name], e.shape, e.dtype, e.kind, e.device) for e in self.entries}
        return _fill(self.frame, arrays)

    def pack(self, mapping: Tree) -> dict[str, NDArray[Any]]:
        """The bare numbers of a mapping of this layout, by name, for `unpack`: arrays of types that travel."""
        arrays = self.arrays(mapping)
        return {entry.name: entries_of(arrays[entry.name]).astype(_bare_type(entry)) for entry in self.entries}

    def unpack(self, parts: Mapping[str, NDArray[Any]]) -> Any:
        """The mapping whose numbers were packed, on the CPU.

        Raises:
            MalformedMessageError: they are of other names, types or sizes.
        """
        forms = {entry.name: (_bare_type(entry), (entry.size,)) for entry in self.entries}
        if {name: (part.dtype, part.shape) for name, part in parts.items()} != forms:
            raise MalformedMessageError("numbers must have the names, types and sizes of their layout; they have not")
        return self.build(parts)

    def to_bytes(self) -> bytes:
        """As JSON, for `from_bytes`; devices are left out, and lists are mappings there."""
        by_name = {entry.name: entry for entry in self.entries}
        rows = [[by_name[n].path, by_name[n].shape, by_name[n].dtype, by_name[n].kind] for n in self.order]
        return json.dumps(rows, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes, limits: Limits = DEFAULT_LIMITS) -> TensorLayout:
        """The layout that was written, on the CPU.

        Args:
            data: as it arrived.
            limits: of the party that reads it.

        Raises:
            MalformedMessageError: it is none, or beyond a limit.
        """
        limits.check_layout(data)
        try:
            rows = json.loads(data)
            limits.check_sizes(len(rows), 0)
            entries = [_read_entry(limits, *row) for row in rows]
            limits.check_sizes(len(entries), sum(entry.size for entry in entries))
            return _layout(entries)
        except (ValueError, TypeError, RecursionError) as error:  # InputError is a ValueError
            raise MalformedMessageError("layout must be a list of paths, shapes and types; it is not") from error

    @property
    def digest(self) -> bytes:
        """32 bytes that are equal for equal layouts only."""
        rows = [[entry.path, entry.shape, entry.dtype] for entry in self.entries]
        return hashlib.sha256(json.dumps(rows).encode()).digest()


class Arrays(dict[str, Array]):
    """The arrays of a mapping, by name, which stay as they are: what is found of one is kept.

    Args:
        layout: that they have, as `TensorLayout.arrays` has checked.
        arrays: by name.
    """

    def __init__(self, layout: TensorLayout, arrays: Mapping[str, Array]) -> None:
        super().__init__(arrays)
        self.layout = layout
        self._entries: dict[str, NDArray[Any]] = {}
        self._largest: dict[str, float] = {}

    def entries(self, name: str) -> NDArray[Any]:
        """See `entries_of`."""
        if name not in self._entries:
            self._entries[name] = entries_of(self[name])
        return self._entries[name]

    def largest(self, name: str) -> float:
        """See `largest_magnitude`."""
        if name not in self._largest:
            self._largest[name] = largest_magnitude(self.entries(name))
        return self._largest[name]


def _layout(entries: list[TensorEntry], frame: Tree | None = None) -> TensorLayout:
    names = tuple(entry.name for entry in entries)
    return TensorLayout(_ascending(entries), names, _nest(entries) if frame is None else frame)


def _ascending(entries: list[TensorEntry]) -> tuple[TensorEntry, ...]:
    """Entries by name, if they can be told apart by it."""
    if not entries:
        raise InputError("mapping must hold at least one array; found none")
    ascending = sorted(entries, key=lambda entry: entry.name)
    twice = next((entry.name for entry, after in pairwise(ascending) if entry.name == after.name), None)
    if twice is not None:
        raise InputError(f"names must differ, nested ones joined by dots; found {twice!r} twice")
    paths = sorted(entry.path for entry in entries)  # one that others begin with stands before the first of them
    if any(below[: len(path)] == path for path, below in pairwise(paths)):
        raise InputError("names must not be those of nested mappings too; one is")
    return tuple(ascending)


def _walk(tree: object, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Array]]:
    for key, value in _members(tree):
        path = (*above, key)
        if _is_nested(value):
            yield from _walk(value, path)
        elif value is not None:
            yield path, value


def _is_nested(value: object) -> bool:
    """Whether a value is a mapping, list or tuple; most are arrays, which are quickly told from these."""
    return not isinstance(value, torch.Tensor | np.ndarray) and isinstance(value, Mapping | list | tuple)


def _members(tree: object) -> Iterator[tuple[str, Any]]:
    """The members of a mapping, list or tuple, by name."""
    if isinstance(tree, list | tuple):
        yield from ((str(place), value) for place, value in enumerate(tree))
        return
    if not isinstance(tree, Mapping):
        result = f"{type(tree).__name__}{_mapping_remedy(tree)}"
        raise InputError(f"mapping must be from names to arrays, or a list of arrays; found {result}")
    for key, value in tree.items():
        if not isinstance(key, str):
            raise InputError(f"keys must be text; found {key!r}: give {{str(key): array for key, array in ...}}")
        yield key, value


def _mapping_remedy(value: object) -> str:
    """Return how a value that is no mapping becomes one."""
    if isinstance(value, torch.nn.Module):
        return ": call its state_dict()"
    if isinstance(value, torch.Tensor | np.ndarray):
        return ": give {'update': array}"
    return ": give a list of it" if isinstance(value, Iterable) and not isinstance(value, str | bytes) else ""


def _frame(tree: Any, path: tuple[str, ...]) -> Any:
    """Mappings, lists, tuples and None as they are, with names in place of arrays."""
    if tree is None:
        return None
    if not _is_nested(tree):
        return ".".join(path)
    return _alike(tree, {key: _frame(value, (*path, key)) for key, value in _members(tree)})


def _fill(frame: Any, arrays: Mapping[str, Array]) -> Any:
    if frame is None or isinstance(frame, str):
        return None if frame is None else arrays[frame]
    return _alike(frame, {key: _fill(value, arrays) for key, value in _members(frame)})


def _alike(tree: Any, members: dict[str, Any]) -> Any:
    """A tuple, named or not, a list, or else a mapping, as the tree is, of other members."""
    if not isinstance(tree, list | tuple):
        return members
    if isinstance(tree, list):
        return list(members.values())
    return tree._make(members.values()) if hasattr(tree, "_make") else tuple(members.values())


def _nest(entries: list[TensorEntry]) -> dict[str, Any]:
    """Mappings in mappings, as entries' paths have them, with names in place of arrays."""
    frame: dict[str, Any] = {}
    for entry in entries:
        inner = frame
        for key in entry.path[:-1]:
            inner = inner.setdefault(key, {})
        inner[entry.path[-1]] = entry.name
    return frame


def _entry(path: tuple[str, ...], value: Array) -> TensorEntry:
    name = ".".join(path)
    kind, dtype = _kind_of(value, name), _dtype_of(value, name)
    device = str(value.device) if kind is Kind.TORCH else "cpu"
    return TensorEntry(path, tuple(value.shape), dtype, kind, device)


def _is_like(entry: TensorEntry | None, value: Array) -> bool:
    """Whether a value has the shape and type of an entry.

    Raises:
        InputError: it is none that can be averaged.
    """
    if entry is None:
        return False
    _kind_of(value, entry.name)
    return _dtype_of(value, entry.name) == entry.dtype and tuple(value.shape) == entry.shape


def _read_entry(limits: Limits, path: object, shape: object, dtype: object, kind: object) -> TensorEntry:
    if not (isinstance(path, list) and path and all(isinstance(key, str) for key in path)):
        raise MalformedMessageError("paths must be lists of keys; one is not")
    limits.check_path(path)
    if not (isinstance(shape, list) and len(shape) <= 64 and all(type(n) is int and n >= 0 for n in shape)):
        raise MalformedMessageError("shapes must be lists of lengths; one is not")
    if dtype not in DTYPES or kind not in tuple(Kind) or (dtype == "bfloat16" and kind == Kind.NUMPY):
        raise MalformedMessageError("types must be known; one is not")
    return TensorEntry(tuple(path), tuple(shape), str(dtype), Kind(str(kind)))


def _bare_type(entry: TensorEntry) -> np.dtype[Any]:
    return np.dtype(np.float64 if entry.is_float else entry.dtype)
