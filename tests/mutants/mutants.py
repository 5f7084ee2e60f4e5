"""Changes to the source that each make one promise untrue, and the tests that must notice.

Every TOML file in this folder holds some: a name, the promise (`property`), tests, and for each place that changes, a
file or a class or function in it (`folder/file.py::Class.method`), what stands there once, an expression or statements,
and what takes its place. Code is compared by syntax: spaces, line breaks and comments do not matter.
`python -m tests.mutants` applies one mutant after the other to a copy of the source and runs its tests there: a mutant
whose tests all pass has survived, and the promise has no evidence. Tests that failed are run once more without mutants,
all together, for one that fails anyway has noticed nothing.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
SOURCES = ("fgl_secure", "protocols", "attacks", "reproduction")
SECONDS = 600
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)
PASSED, FAILED = 0, 1
"""What pytest exits with when tests ran, and none or some failed; anything else is no evidence."""


class Edit(NamedTuple):
    """Code in a place, and what takes its place."""

    place: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change under which something private is no more.

    Attributes:
        name: of the mutant.
        property: what is true without it.
        tests: of which one at least must fail, as pytest names them.
        edits: what changes.
    """

    name: str
    property: str
    tests: tuple[str, ...]
    edits: tuple[Edit, ...]

    def texts(self, root: Path) -> dict[Path, str]:
        """The files that change, below a folder, with their new text.

        Raises:
            ValueError: the code before an edit does not stand in its place once, or the edit changes nothing.
        """
        trees: dict[Path, ast.Module] = {}
        for place, before, after in self.edits:
            file, _, name = place.partition("::")
            if (path := root / file) not in trees:
                trees[path] = ast.parse(path.read_text(encoding="utf-8"))
            change = _Change(before, after)
            for scope in _scopes(trees[path], name):
                change.visit(scope)
            if change.times != 1 or _dumps(change.before) == _dumps(change.after):
                raise ValueError(f"{self.name}: {place} must hold once, and lose, {before}; it does {change.times}")
        return {path: ast.unparse(tree) + "\n" for path, tree in trees.items()}


class _Change(ast.NodeTransformer):
    """Puts an expression, or statements, in the place of such as read like others."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = ast.parse(before).body, ast.parse(after).body
        self.times = 0

    def visit(self, node: ast.AST) -> ast.AST:
        """A node as it is after the change."""
        self.generic_visit(node)
        match self.before, self.after:
            case [ast.Expr(before)], [ast.Expr(after)]:
                if type(node) is type(before) and ast.dump(node) == ast.dump(before):
                    self.times += 1
                    return after
            case _:
                for field in ("body", "orelse", "finalbody"):
                    if isinstance(body := getattr(node, field, None), list):
                        self._replace(body)
        return node

    def _replace(self, body: list[ast.stmt]) -> None:
        size, before = len(self.before), _dumps(self.before)
        for at in range(len(body) - size, -1, -1):
            alike = all(
                type(mine) is type(theirs) for mine, theirs in zip(body[at : at + size], self.before, strict=True)
            )
            if alike and _dumps(body[at : at + size]) == before:
                self.times += 1
                body[at : at + size] = self.after or [ast.Pass()]


def _dumps(nodes: Iterable[ast.AST]) -> list[str]:
    return [ast.dump(node) for node in nodes]


def _scopes(tree: ast.AST, name: str) -> list[ast.AST]:
    """The classes and functions of a qualified name; the whole tree for none."""
    found = [tree]
    for part in name.split(".") if name else ():
        found = [node for scope in found for node in ast.iter_child_nodes(scope) if getattr(node, "name", None) == part]
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests of a mutant said.

    Attributes:
        status: of pytest.
        by: the first test that failed; else what pytest said last.
    """

    status: int
    by: str

    @property
    def passed(self) -> bool:
        """Whether tests ran, and none failed."""
        return self.status == PASSED

    @property
    def killed(self) -> bool:
        """Whether tests ran, and one failed."""
        return self.status == FAILED


def load(folder: Path = FOLDER) -> dict[str, Mutant]:
    """All mutants, by name.

    Raises:
        ValueError: two have one name.
    """
    found: dict[str, Mutant] = {}
    for file in sorted(folder.glob("*.toml")):
        for name, places in tomllib.loads(file.read_text(encoding="utf-8")).items():
            promise, tests = places.pop("property"), tuple(places.pop("tests"))
            pairs = [(place, *pair) for place in places for pair in zip(*2 * [iter(places[place])], strict=True)]
            if name in found:
                raise ValueError(f"mutants must have names of their own; found {name} twice")
            found[name] = Mutant(name, promise, tests, tuple(map(Edit._make, pairs)))
    return found


def copy_of_the_source(folder: Path) -> Path:
    """Makes a copy of all that is tested, and of its tests, in which mutants may be applied."""
    ignore = shutil.ignore_patterns("__pycache__", "golden")
    for name in (*SOURCES, "tests"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def tried(mutant: Mutant, copy: Path) -> Outcome:
    """Applies a mutant to a copy, runs its tests there up to the first that fails, and takes the mutant back."""
    originals = {path: path.read_text(encoding="utf-8") for path in mutant.texts(copy)}
    try:
        _write(mutant.texts(copy))
        return run_tests(mutant.tests, copy)
    finally:
        _write(originals)


def failing_anyway(tests: Iterable[str], copy: Path) -> set[str]:
    """Those tests that fail in a copy without a mutant too, and so kill none; all run in one process.

    Args:
        tests: that failed with a mutant.
        copy: as it was made.
    """
    named = sorted(set(tests))
    if not named:
        return set()
    found = _pytest(named, copy, "--maxfail=0")
    failed = {match.group(1) for match in _FAILED.finditer(found.stdout)}
    return failed if found.returncode in (PASSED, FAILED) else set(named)


def run_tests(tests: tuple[str, ...], copy: Path) -> Outcome:
    """Runs tests in a copy, up to the first that fails, on the same drawn examples each time."""
    try:
        found = _pytest(tests, copy, "-x")
    except subprocess.TimeoutExpired:
        return Outcome(PASSED, f"no end within {SECONDS} s")
    failed = _FAILED.search(found.stdout)
    last = (found.stdout + found.stderr).strip().splitlines()[-1:]
    return Outcome(found.returncode, failed.group(1) if failed else "".join(last))


def _pytest(tests: Sequence[str], copy: Path, *options: str) -> subprocess.CompletedProcess[str]:
    usual = ("-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-rfE")
    command = [sys.executable, "-m", "pytest", *usual, *options, *tests]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=SECONDS)


def _write(texts: Mapping[Path, str]) -> None:
    """Writes files and removes what was compiled of them: a mutant may have the original's time and size."""
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        compiled = Path(cache_from_source(str(path)))
        for each in compiled.parent.glob(f"{path.stem}.*.pyc"):
            each.unlink()
