"""Fails when a wheel isn't the tree: `python wheel_contents.py WHEEL TREE`.

A subpackage that pyproject.toml forgets vanishes from the wheel, and an editable install hides that; a stale build/
folder adds modules that were deleted. So the wheel is compared with the tree, file by file and byte by byte.
"""

import hashlib
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path

FOLDERS = {"protocols": "fgl_secure/protocols", "attacks": "fgl_secure/attacks", "fgl_secure": "fgl_secure"}
NOT_SHIPPED = re.compile(r"/__pycache__/|/\.|\.pyc$")


def tree_files(tree: Path) -> dict[str, str]:
    """What the wheel should hold, by name, with the digest of each file."""
    linked = tuple(tree / "fgl_secure" / name for name in ("protocols", "attacks"))
    return {
        f"{inside}/{path.relative_to(tree / folder).as_posix()}": _digest(path.read_bytes())
        for folder, inside in FOLDERS.items()
        for path in (tree / folder).rglob("*")
        if path.is_file() and not NOT_SHIPPED.search(f"/{path.relative_to(tree).as_posix()}")
        if not any(link in path.parents for link in linked)
    }


def wheel_files(wheel: zipfile.ZipFile) -> dict[str, str]:
    """What the wheel holds, its own records left out, with the digest of each file."""
    return {name: _digest(wheel.read(name)) for name in wheel.namelist() if ".dist-info/" not in name}


def faults(path: Path, tree: Path) -> list[str]:
    """What is wrong with the wheel, a sentence each."""
    with zipfile.ZipFile(path) as wheel:
        names, found = Counter(wheel.namelist()), wheel_files(wheel)
    wanted = tree_files(tree)
    return [
        *(f"{name} is in the wheel {count} times" for name, count in names.items() if count > 1),
        *(f"{name} is missing: is its package listed in pyproject.toml?" for name in sorted(wanted.keys() - found)),
        *(f"{name} is in the wheel, not in the tree" for name in sorted(found.keys() - wanted)),
        *(f"{name} differs from the tree" for name in sorted(wanted) if found.get(name, wanted[name]) != wanted[name]),
        *(["the licence is missing"] if not any(name.endswith("/licenses/LICENSE") for name in names) else []),
    ]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(wheel: str, tree: str) -> None:
    """Exits with the faults, if any."""
    found = faults(Path(wheel), Path(tree))
    if found:
        sys.exit("\n".join(found))
    print(f"{Path(wheel).name} holds the {len(tree_files(Path(tree)))} files of the tree")


if __name__ == "__main__":
    main(*sys.argv[1:])
