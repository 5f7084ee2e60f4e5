"""What was listed before: loading everything that there is takes seconds, and what there is changes rarely.

Schemes and attacks bring their arithmetic with them, so their names and words are kept in the cache, under a key of
every source file of this package and of packages whose entry points add something.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import fgl_secure
from fgl_secure import plugins

Rows = list[tuple[str, str]]

GROUPS = tuple(f"fgl_secure.{kind}" for kind in ("attacks", "backbones", "datasets", "methods", "schemes"))

FOLDER = "listings"


def kept(kind: str, folder: Path, made: Callable[[], Rows]) -> Rows:
    """The rows of one kind, from the cache where they are those of today's files.

    Args:
        kind: what is listed.
        folder: the cache; it is made when missing, and done without where that fails.
        made: lists it, in seconds.
    """
    place = folder / FOLDER / f"{kind}-{_key()}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [(str(first), str(second)) for first, second in json.loads(place.read_text(encoding="utf-8"))]
    rows = made()
    with suppress(OSError):
        _keep(place, kind, json.dumps(rows, ensure_ascii=False))
    return rows


def _keep(place: Path, kind: str, text: str) -> None:
    """Writes a file beside its place and moves it there; those of other versions go."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(place)
    for old in place.parent.glob(f"{kind}-*.json"):
        if old != place:
            old.unlink(missing_ok=True)


def _key() -> str:
    """What changes with the version, with entry points, and with any source file of their packages and of this one."""
    points = [point for group in GROUPS for point in plugins.installed_plugins(group)]
    state = [fgl_secure.__version__, *_files(Path(fgl_secure.__file__).parent)]
    state += sorted(f"{point.group} {point.name} {point.value}" for point in points)
    for package in sorted({point.value.partition(":")[0].partition(".")[0] for point in points}):
        state += _package_files(package)
    return sha256("\n".join(state).encode()).hexdigest()[:24]


def _package_files(package: str) -> Iterator[str]:
    """Yield the state of each source file of an importable package or module, which is not imported."""
    spec = None
    with suppress(ValueError):  # of a module that is running without a spec
        spec = find_spec(package)
    if spec is not None and spec.submodule_search_locations is not None:
        for folder in spec.submodule_search_locations:
            yield from _files(Path(folder))
    elif spec is not None and spec.origin is not None:
        yield _state(spec.origin, spec.origin)


def _files(folder: Path) -> Iterator[str]:
    for inside, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                yield _state(os.path.join(inside, name), f"{os.path.relpath(inside, folder)}/{name}")


def _state(path: str, name: str) -> str:
    seen = os.stat(path)
    return f"{name} {seen.st_mtime_ns} {seen.st_size}"
