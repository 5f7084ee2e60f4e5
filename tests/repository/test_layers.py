"""Imports point downward only, between parts of the package and between the folders and files inside them."""

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from networkx import DiGraph, strongly_connected_components

ROOT = Path(__file__).parents[2]

_LOW = {"typing", "errors", "plugins", "config_fields", "threads", "crypto", "coins", "algebra"}
_MIDDLE = _LOW | {"runtime", "dp", "graph"}
_HOST = {"host"}
_HIGH = _MIDDLE | _HOST | {"protocols", "aggregation", "training", "statistics", "attacks"}

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "typing": set(),
    "plugins": {"errors"},
    "ceilings": {"errors", "statistics"},  # statistics for names of types alone
    "config_fields": {"errors"},
    "ledger": {"errors"},
    "backbones": {"errors", "plugins", "training"},  # for names of types alone
    "threads": {"errors"},
    "host": set(),
    "progress": {"errors", "ledger", "training"},  # training for names of types alone
    "private_files": {"errors"},
    "crypto": {"errors", "threads"},
    "coins": {"errors", "crypto"},
    "algebra": {"errors", "threads", "crypto", "coins"},
    "runtime": _LOW,
    "dp": _LOW,
    "graph": _LOW,
    "statistics": _LOW,
    "attacks": _MIDDLE - {"dp", "crypto"} | {"statistics", "ceilings"},
    "protocols": _LOW | {"runtime", "dp"},
    "schemes": _LOW | {"protocols"},
    "aggregation": _LOW | {"host", "runtime", "dp", "protocols", "schemes"},
    "training": _MIDDLE | _HOST | {"protocols", "schemes", "aggregation", "private_files"},
    "auditing": _HIGH | {"schemes", "ceilings"},
    "methods": _HIGH | {"testing", "auditing", "schemes", "backbones", "ledger"},
    "flower": _MIDDLE | _HOST | {"protocols", "schemes", "aggregation", "training", "auditing", "private_files"},
    "testing": _LOW | {"runtime", "statistics", "protocols", "ceilings"},
    "cli": _HIGH | {"auditing", "methods", "schemes", "testing", "flower", "ledger", "progress", "ceilings"},
    "public": _HIGH | {"auditing", "methods", "schemes", "progress"},
    "__main__": {"cli"},
    "hierarchy": _MIDDLE | {"protocols", "schemes", "training"},
    "__init__": {
        "aggregation",
        "algebra",
        "attacks",
        "dp",
        "graph",
        "hierarchy",
        "methods",
        "protocols",
        "public",
        "schemes",
    },
}

FILES = sorted(
    path
    for folder in ("fgl_secure", "protocols", "attacks")
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)


TYPES = "TYPE_CHECKING"

KNOWN_CIRCLES: set[tuple[str, ...]] = set()
"""Folders, and files, that import each other: there are none, and none is added."""


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    inside = path.relative_to(ROOT).parts
    return (inside[1] if inside[0] == "fgl_secure" else inside[0]).removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    """A file's syntax."""
    return ast.parse(path.read_text(encoding="utf-8"))


def _for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported_names(path: Path, *, types: bool = True) -> set[str]:
    """Full names of all that a file imports, anywhere in it: of modules, and of what it takes from them.

    Args:
        path: of the file.
        types: whether imports for annotations alone, under `if TYPE_CHECKING`, are among them.
    """
    names: set[str] = set()
    for node in (each for top in tree_of(path).body if types or not _for_types(top) for each in ast.walk(top)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a file imports, but for types of arrays, which every part may import."""
    ours = {name.split(".")[1] for name in imported_names(path) if name.startswith("fgl_secure.")}
    return ours - {"__version__", "typing"}  # the first is an attribute of the package


def place_of(path: Path) -> str:
    """Where a file is in the package: "protocols/secmp.py", "audit/records.py"."""
    inside = path.relative_to(ROOT)
    return (inside.relative_to("fgl_secure") if inside.parts[0] == "fgl_secure" else inside).as_posix()


def module_of(place: str) -> str:
    """The full name that the file at a place is imported by."""
    name = place.removesuffix(".py").replace("/", ".")
    return f"fgl_secure.{name}".removesuffix(".__init__")


def file_imports(names_of: Mapping[str, Iterable[str]]) -> DiGraph:
    """Which place imports which: of each name the module itself, or the one that it is taken from.

    Args:
        names_of: the names that the file at each place imports.
    """
    place = {module_of(each): each for each in names_of}
    graph = DiGraph()
    graph.add_nodes_from(names_of)
    for source, names in names_of.items():
        found = {
            place.get(name) or place.get(name.rpartition(".")[0]) for name in names if name != "fgl_secure.__version__"
        }
        graph.add_edges_from((source, target) for target in found if target not in (None, source))
    return graph


def circles_of(imports: DiGraph) -> set[tuple[str, ...]]:
    """Those that import each other, in one step or several."""
    return {tuple(sorted(circle)) for circle in strongly_connected_components(imports) if len(circle) > 1}


def folder_circles(files: DiGraph) -> set[tuple[str, ...]]:
    """Folders that import each other, in one step or several, at every depth.

    Seen from a folder its sub-folders are one thing each, whatever is in them, and its own files are another; of the
    package itself each file is one. So two folders of any depth that import each other are found where their paths
    part. Sub-folders that import each other without the folder's own files are named besides.
    """
    above = {str(folder) for place in files for folder in PurePosixPath(place).parents}
    seen = {folder: _seen_from(folder, files) for folder in above}
    beside = [graph.subgraph(set(graph) - {folder}) for folder, graph in seen.items()]
    return {circle for graph in (*seen.values(), *beside) for circle in circles_of(graph)}


def _seen_from(folder: str, files: DiGraph) -> DiGraph:
    inside = [place for place in files if PurePosixPath(folder) in PurePosixPath(place).parents]
    seen = {place: _child(folder, place) for place in inside}
    pairs = {(seen[source], seen[target]) for source, target in files.edges if source in seen and target in seen}
    return DiGraph([(source, target) for source, target in pairs if source != target])


def _child(folder: str, place: str) -> str:
    """The sub-folder of a folder that a place is in, or the folder itself."""
    head, *rest = PurePosixPath(place).relative_to(folder).parts
    if rest or folder == ".":
        return str(PurePosixPath(folder) / head)
    return folder


def test_imports_point_downward() -> None:
    """A file imports its own part and those below it, and every part has its place in the table."""
    upward = {place_of(path): imported_parts(path) - {part_of(path)} - ALLOWED[part_of(path)] for path in FILES}
    assert {place: parts for place, parts in upward.items() if parts} == {}


def test_the_table_has_no_cycle() -> None:
    """What a part may import may not import it in turn."""
    assert not [(a, b) for a, below in ALLOWED.items() for b in below if a in ALLOWED[b]]


def test_circles_are_those_that_are_known() -> None:
    """Folders of every depth and files import each other in the known circles and nowhere else."""
    files = file_imports({place_of(path): imported_names(path, types=False) for path in FILES})
    assert folder_circles(files) | circles_of(files) == KNOWN_CIRCLES


def test_no_text_names_a_place_in_the_code() -> None:
    """ "module:name" texts hide imports from this test and from mypy; entry points are in pyproject.toml."""
    tree = {"fgl_secure.methods": 6}  # lazily loaded configurations, in one file
    found: dict[str, int] = {}
    for path in FILES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and re.fullmatch(r"fgl_\w+(\.\w+)+:\w+", str(node.value)):
                name = module_of(place_of(path))
                found[name] = found.get(name, 0) + 1
    assert found == tree


def test_the_toolkit_imports_nothing_of_the_reproduction() -> None:
    """The second distribution reaches the toolkit, by entry points, and never the other way round."""
    assert not [path for path in FILES for name in imported_names(path) if name.startswith("fgl_reproduction")]
