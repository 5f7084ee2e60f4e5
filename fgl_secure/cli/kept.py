"""What was listed before: loading everything that there is takes seconds, and what there is changes rarely.

Schemes and attacks bring their arithmetic with them, so their names and words are kept in the cache, under a key of
every source file of this package. Where packages from outside add something, nothing is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import fgl_secure
from fgl_secure import plugins

Rows = list[tuple[str, str]]

GROUPS = ("fgl_secure.attacks", "fgl_secure.backbones", "fgl_secure.methods", "fgl_secure.schemes")

FOLDER = "listings"


def kept(kind: str, folder: Path, made: Callable[[], Rows]) -> Rows:
    """The rows of one kind, from the cache where they are those of today's files.

    Args:
        kind: what is listed.
        folder: the cache; it is made when missing, and done without where that fails.
        made: lists it, in seconds.
    """
    if any(plugins.installed_plugins(group) for group in GROUPS):
        return made()
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
    """What changes with the version and with any source file of the package."""
    state = [fgl_secure.__version__, *_files(Path(fgl_secure.__file__).parent)]
    return sha256("\n".join(state).encode()).hexdigest()[:24]


def _files(folder: Path) -> Iterator[str]:
    for inside, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                seen = os.stat(os.path.join(inside, name))
                yield f"{os.path.relpath(inside, folder)}/{name} {seen.st_mtime_ns} {seen.st_size}"
