"""What there is to choose from, as text and for programs."""

from __future__ import annotations

from fgl_secure.cli.kept import Rows, kept

KINDS = ("datasets", "schemes", "attacks", "methods")


def listing(kind: str | None = None) -> str:
    """The names of one kind, or of all, with a line each.

    Args:
        kind: one of `KINDS`, or None for all.
    """
    return "\n\n".join(_table(name, rows(name)) for name in KINDS if kind in (None, name))


def as_json(kind: str | None = None) -> dict[str, list[dict[str, str]]]:
    """The same for programs: by kind, a name and words for each; lines of a method are joined.

    Args:
        kind: one of `KINDS`, or None for all.
    """
    found: dict[str, list[dict[str, str]]] = {}
    for name in KINDS:
        if kind not in (None, name):
            continue
        found[name] = []
        for first, second in rows(name):
            if first:
                found[name].append({"name": first, "says": second})
            else:
                found[name][-1]["says"] += f"\n{second}"
    return found


def names(kind: str) -> tuple[str, ...]:
    """The names of one kind."""
    return tuple(first for first, _ in rows(kind) if first)


def rows(kind: str) -> Rows:
    """The rows of one kind, loaded only where they are not kept."""
    from fgl_secure.graph.raw_files import cache_folder

    return kept(kind, cache_folder(), lambda: _made(kind))


def _made(kind: str) -> Rows:
    from fgl_secure.cli.catalogue import TABLES

    return TABLES[kind]()


def _table(name: str, rows: Rows) -> str:
    width = max(len(first) for first, _ in rows) + 2
    return "\n".join([name, *(f"  {first:<{width}}{second}" for first, second in rows)])
