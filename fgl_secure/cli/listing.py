"""What there is to choose from, as text and for programs.

Loading everything that there is takes seconds, and what there is changes rarely. So names and words are kept in the
cache, under a key of every source file of this package and of packages whose entry points add something.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fgl_secure import __version__, plugins

Rows = list[tuple[str, str]]

KINDS = ("datasets", "schemes", "attacks", "methods")

_GROUPS = tuple(f"fgl_secure.{kind}" for kind in ("attacks", "backbones", "datasets", "methods", "schemes"))


def listing(kind: str | None = None) -> str:
    """The names of one kind, or of all, with a line each.

    Args:
        kind: one of `KINDS`, or None for all.
    """
    tables = {name: _rows(name) for name in KINDS if kind in (None, name)}
    width = {name: max(len(first) for first, _ in rows) + 2 for name, rows in tables.items()}
    return "\n\n".join(
        "\n".join([name, *(f"  {first:<{width[name]}}{second}" for first, second in rows)])
        for name, rows in tables.items()
    )


def as_json(kind: str | None = None) -> dict[str, list[dict[str, str]]]:
    """The same for programs: by kind, a name and words for each; lines of a method are joined.

    Args:
        kind: one of `KINDS`, or None for all.
    """
    result: dict[str, list[dict[str, str]]] = {}
    for name in KINDS:
        if kind not in (None, name):
            continue
        result[name] = []
        for first, second in _rows(name):
            if first:
                result[name].append({"name": first, "says": second})
            else:
                result[name][-1]["says"] += f"\n{second}"
    return result


def names(kind: str) -> tuple[str, ...]:
    """The names of one kind."""
    return tuple(first for first, _ in _rows(kind) if first)


def _rows(kind: str) -> Rows:
    from fgl_secure.graph.own_files import cache_folder

    makers = {"datasets": _datasets, "schemes": _schemes, "attacks": _attacks, "methods": _methods}
    return load_rows(kind, cache_folder(), makers[kind])


def _datasets() -> Rows:
    from fgl_secure.graph import GraphDataset, GraphSetDataset, describe

    nodes = [
        (d.name, f"{d.description}; {d.nodes:,} devices, {d.edges:,} messages a layer, {d.features:,} features, "
                 f"{d.classes} classes")
        for d in describe(GraphDataset)
    ]  # fmt: skip
    return nodes + [(d.name, f"{d.description} (fedvn)") for d in describe(GraphSetDataset)]


def _schemes() -> Rows:
    from fgl_secure import schemes

    rows = []
    for name in schemes.names():
        serving = [topology for topology in schemes.TOPOLOGIES if schemes.refusal(name, topology) is None]
        instances = {topology: schemes.parse(name, (topology,))[1] for topology in serving}
        promises = max((schemes.promises(scheme, topology) for topology, scheme in instances.items()), default=0)
        parameters = f"[{', '.join(schemes.parameters(name))}]" if schemes.parameters(name) else "nothing"
        says = f"serves {', '.join(serving) or 'nothing'}; promises {promises or 'nothing'}; takes {parameters}"
        rows.append((name, f"{schemes.summary(name)}; {says}"))
    return rows


def _attacks() -> Rows:
    from fgl_secure.attacks.registry import attacks

    return [(a.card.name, f"{a.card.summary} ({a.card.source})") for a in attacks().values()]


def _methods() -> Rows:
    """The lines of all methods; the first column is empty but on the first line of each."""
    from fgl_secure import methods, schemes

    rows: Rows = []
    for item in map(methods.method, methods.names()):
        served = "; ".join(f"{topology}={'|'.join(schemes.names(topology))}" for topology in item.topologies)
        tells = item.tells.items()
        rows += [
            (item.name, f"{item.title}: {item.task}"),
            ("", f"sums      {item.summed}"),
            *(("", f"sees      {under}: {text}") for under, text in item.sees.items()),
            *(("", f"tells     {kind}, {phase} to {back}: {text}") for (kind, phase, back), text in tells),
            ("", f"schemes   {served}"),
            ("", f"backbones {', '.join(item.backbones()) or 'its own'}"),
        ]
    return rows


def matrix() -> str:
    """Which scheme runs which sums of which method, as Markdown: the table in the README."""
    from fgl_secure import methods, schemes

    header = ["method", "sums", *(f"`{name}`" for name in schemes.names())]
    rows = [header, ["---"] * len(header)]
    for kind in map(methods.method, methods.names()):
        for topology in kind.topologies:
            served = ["yes" if schemes.refusal(name, topology) is None else "" for name in schemes.names()]
            rows.append([f"`{kind.name}`", f"`{topology}`", *served])
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)


def load_rows(kind: str, folder: Path, make_rows: Callable[[], Rows]) -> Rows:
    """The rows of one kind, from the cache where they are those of today's files.

    Args:
        kind: what is listed.
        folder: the cache; it is made when missing, and done without where that fails.
        make_rows: lists it, in seconds.
    """
    place = folder / "listings" / f"{kind}-{_key()}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [(str(first), str(second)) for first, second in json.loads(place.read_text(encoding="utf-8"))]
    rows = make_rows()
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        beside.replace(place)
        for old in place.parent.glob(f"{kind}-*.json"):
            if old != place:
                old.unlink(missing_ok=True)
    return rows


def _key() -> str:
    """What changes with the version, with entry points, and with any source file of their packages and of this one."""
    points = [point for group in _GROUPS for point in plugins.installed_plugins(group)]
    packages = {"fgl_secure", *(point.value.partition(":")[0].partition(".")[0] for point in points)}
    state = [__version__, *sorted(f"{point.group} {point.name} {point.value}" for point in points)]
    state += [line for package in sorted(packages) for line in _sources(package)]
    return sha256("\n".join(state).encode()).hexdigest()[:24]


def _sources(package: str) -> Iterator[str]:
    """Yield the state of each source file of an importable package or module, which is not imported."""
    with suppress(ValueError):  # of a module that is running without a spec
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for inside, folders, files in os.walk(folder, followlinks=True):
                folders.sort()
                yield from (_state(os.path.join(inside, name)) for name in sorted(files) if name.endswith(".py"))
        if spec is not None and spec.submodule_search_locations is None and spec.origin is not None:
            yield _state(spec.origin)


def _state(path: str) -> str:
    status = os.stat(path)
    return f"{path} {status.st_mtime_ns} {status.st_size}"
