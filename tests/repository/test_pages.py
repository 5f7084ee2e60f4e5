"""Pages say of schemes and methods what the code says, and there is one for each."""

import ast
import contextlib
import doctest
import html
import importlib
import inspect
import io
import re
import shlex
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml  # type: ignore[import-untyped]
from torch.nn import functional

from fgl_secure import schemes
from fgl_secure.cli.main import with_method
from fgl_secure.cli.usage import parser_for
from fgl_secure.methods import names
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import Topology
from tests.repository import figures, page_tables, pictures
from tests.repository.blocks import blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = [path for path in page_tables.pages() if page_tables.SECTION.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", MADE, ids=lambda path: str(path.relative_to(ROOT)))
def test_sections_say_what_the_code_says(path: Path) -> None:
    """Run `python -m tests.repository.page_tables` where this fails, and read what changed."""
    text = path.read_text(encoding="utf-8")
    assert page_tables.page(text) == text


def test_a_section_that_promises_more_is_noticed() -> None:
    """A page that has a promise where the claim admits a leak is made anew."""
    text = (DOCS / "schemes" / "relay-coded.md").read_text(encoding="utf-8")
    broken = text.replace("| declared |", "| guaranteed |", 1)
    assert broken != text
    assert page_tables.page(broken) == text


WITH_FIGURES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", WITH_FIGURES, ids=lambda path: str(path.relative_to(ROOT)))
def test_figures_of_pages_are_those_of_the_results_file(path: Path) -> None:
    """A block names the entries that its figures come from (`<!-- from: NAME -->`), or says that it has none."""
    assert figures.faults(path.read_text(encoding="utf-8")) == []


def test_every_entry_of_the_results_file_is_complete_and_shown() -> None:
    """Setting, runs, interval, baseline, and the command or why there is none; pages show what is in the file."""
    texts = [path.read_text(encoding="utf-8") for path in WITH_FIGURES]
    shown = {name for text in texts for hit in figures.FROM.findall(text) for name in hit.split()}
    shown |= {hit[2] for text in texts for hit in page_tables.SECTION.findall(text) if hit[1] == "figures"}
    assert shown == set(figures.entries())
    for name, entry in figures.entries().items():
        assert all(entry[key] for key in ("setting", "n", "interval", "baseline")), name
        assert ("command" in entry) is not ("no_command" in entry), name
        assert {"rows", "values", "output"} & entry.keys(), name


def test_another_figure_is_noticed() -> None:
    """In a sentence, in a table, and in a block that names no entry."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert figures.faults(readme.replace("34.4 %", "34.5 %"))
    assert figures.faults(re.sub("<!-- from: .*? -->", "", readme))
    costs = (DOCS / "results" / "costs.md").read_text(encoding="utf-8")
    assert page_tables.page(costs.replace("| 0.15 s, 8.02 MB |", "| 0.16 s, 8.02 MB |")) == costs
    assert figures.faults("It takes 0.5 s, or 3 of 7.\n\n<!-- not measured -->\nIt takes 1 s.") == [
        "0.5: It takes 0.5 s, or 3 of 7.", "3: It takes 0.5 s, or 3 of 7.", "7: It takes 0.5 s, or 3 of 7.",
    ]  # fmt: skip


@pytest.mark.parametrize("name", schemes.names())
def test_every_scheme_has_a_page(name: str) -> None:
    """It has what the scheme's claim says."""
    assert f"<!-- made: scheme {name} -->" in (DOCS / "schemes" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_every_method_has_a_page(name: str) -> None:
    """It has what the method's configuration says."""
    assert f"<!-- made: method {name} -->" in page_tables.method_page(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [each for each in schemes.names() if each != "plaintext"])
def test_a_protocol_diagram_has_the_messages_of_the_code(name: str) -> None:
    """Run `make pictures` where this fails. Words are compared in order: lines break where there is room."""
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", (pictures.IMAGES / f"protocol-{name}.svg").read_text("utf-8"))
    steps = page_tables.traffic(schemes.kinds()[name](), page_tables.summed_by(name)[0])
    written = " ".join(f"{number}. {content}" for number, (*_, content) in enumerate(steps, 1))
    assert html.unescape(" ".join(drawn)).split()[-len(written.split()) :] == written.split()


def test_pages_show_every_picture() -> None:
    """A picture that no page shows is drawn for nobody; one that is missing is a broken page."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *page_tables.pages()])
    shown = set(re.findall(r"images/([\w-]+\.\w+)\)", text))
    assert shown == {path.name for path in pictures.IMAGES.iterdir()} == {*pictures.pictures(), "report.png"}


def test_charts_are_drawn_from_tables_of_pages() -> None:
    """Each table is found, and has figures."""
    for name, draw in pictures.pictures().items():
        if not name.startswith("protocol"):
            (axes,) = draw().axes
            assert len(axes.lines) + len(axes.patches) >= 4, name


def test_warnings_about_pages_are_errors() -> None:
    """The site is built strictly, and not quietly: that drops warnings before they are counted."""
    (line,) = (line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if "mkdocs build" in line)
    assert "--strict" in line
    assert not {"--quiet", "-q"} & set(line.split())
    checked = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["validation"]
    assert {level for kind in checked.values() for level in kind.values()} == {"warn"}


def test_every_page_is_in_the_site() -> None:
    """A page that the navigation lacks is found by nobody."""
    named = _pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = {path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix() for path in page_tables.pages()}
    assert there - named == set()
    assert {page for page in named - there if not (ROOT / page).exists()} == set()


def _pages_of(nav: object) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    below = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(below, list | type({}.values()))
    return {page for each in below for page in _pages_of(each)}


FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
LISTED = frozenset(
    name
    for page in (ROOT / "docs" / "api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
)


SUPPORTED = frozenset(
    (module, name)
    for line in (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for module, *names in [re.findall(r"`([\w.]+)`", line)]
    for name in names
)


def modules_with_examples() -> list[str]:
    found = []
    for folder in ("fgl_secure", "protocols", "attacks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            if not any(parent.is_symlink() for parent in path.parents) and ">>> " in path.read_text(encoding="utf-8"):
                found.append(inside if folder == "fgl_secure" else f"fgl_secure.{inside}")
    return found


def imported() -> list[tuple[str, str, str]]:
    """Where and what Python on pages, and the examples to copy from, import of this package."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [(page, code) for page in pages for language, code in blocks(page.read_text(encoding="utf-8"))
             if language == "python"]  # fmt: skip
    texts += [(path, path.read_text(encoding="utf-8")) for path in sorted((ROOT / "examples" / "own").glob("*.py"))]
    return sorted({
        (str(where.relative_to(ROOT)), node.module, alias.name)
        for where, code in texts
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fgl_secure"
        for alias in node.names
    })  # fmt: skip


def _loaded(module: str, name: str) -> Any:
    with warnings.catch_warnings():  # of libraries, when they are first imported
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(importlib.import_module(module), name)


def is_listed(module: str, name: str) -> bool:
    """Whether the reference has it, by itself or with the module that it is written in."""
    found = _loaded(module, name)
    home = getattr(found, "__module__", f"{module}.{name}")
    return not LISTED.isdisjoint({module, home, f"{module}.{name}", f"{home}.{name}"})


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_run(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(("where", "module", "name"), imported())
def test_the_reference_has_what_readers_import(where: str, module: str, name: str) -> None:
    """A page that says `from fgl_secure.x import y` can rely on the reference for it."""
    assert is_listed(module, name), f"{where} imports {name} of {module}: list its module in docs/api"


def test_pages_and_examples_use_supported_names() -> None:
    """At most sixty, each with a docstring; what readers are told to import is among them."""
    assert 0 < len(SUPPORTED) <= 60
    assert {(module, name) for _, module, name in imported()} <= SUPPORTED
    assert all(_loaded(module, name).__doc__ for module, name in SUPPORTED)


@pytest.mark.parametrize(("module", "name"), sorted(SUPPORTED))
def test_supported_names_say_what_they_return_and_show_how_they_are_used(module: str, name: str) -> None:
    """An indented line of code with the name in it, and `Returns` where there is something."""
    supported = _loaded(module, name)
    text = inspect.getdoc(supported) or ""
    assert re.search(rf"^ {{4}}.*\b{name}\b[(.,=) ]", text, flags=re.MULTILINE)
    returned = inspect.signature(supported).return_annotation if inspect.isfunction(supported) else "None"
    assert returned in ("None", None) or "Returns:" in text


ENTRY_POINTS = ("fgl_secure.controls", "fgl_secure.datasets", "fgl_secure.subcommands")
"""Groups that no module is called like."""

WHOLE = (
    "add_noise.md",
    "deploy_processes.md",
    "many_clients.md",
    "partial_participation.md",
    "secure_aggregation.md",
    "small_updates.md",
    "sparse_updates.md",
)
"""Pages whose examples stand alone, and print what they say; test_blocks.py runs those of the others."""


AT_ROOT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
BELOW = [page for folder in ("docs", "examples", "reproduction") for page in (ROOT / folder).rglob("*.md")]
PAGES = sorted([*AT_ROOT, *BELOW])

LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
PATH = re.compile(r"\b(?:tests|docs|attacks|protocols|fgl_secure|reproduction)/[\w/]+\.(?:py|md)\b")
MODULE = re.compile(r"\bfgl_secure(?:\.[a-z_]\w*)+")
COMMAND = re.compile(r"^(?:\$ )?fgl-secure (?!.*[\[|])(.*?)(?:\s+#.*)?$|`fgl-secure (\w[^`\[|]*)`", flags=re.MULTILINE)
STAND_INS = {"METHOD": "hifgl", "NAME": "secmp", "TABLE": "hifgl-table3"}


@pytest.mark.parametrize("page", WHOLE)
def test_examples_print_what_they_say(page: str) -> None:
    """Each example runs under names of its own and prints what the comment behind its last line says."""
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = [code for language, code in blocks(text) if language == "python"]
    assert examples
    for example in examples:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(example, "<example>", "exec"), {"__name__": "__main__"})  # noqa: S102  # our own pages
        assert out.getvalue().strip() == example.strip().splitlines()[-1].split("#")[1].strip()


def test_the_lines_of_the_readme_wrap_a_loop_over_pyg_models() -> None:
    """They run as they stand, and give the model the weighted mean of the states within the stated error."""
    with warnings.catch_warnings():  # of its own making
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch_geometric.data import Data
        from torch_geometric.nn import GraphSAGE
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = (
        each for each in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "SecureAggregator" in each
    )
    torch.manual_seed(0)
    clients = [
        Data(x=torch.randn(size, 6), edge_index=torch.randint(size, (2, 60)), y=torch.randint(3, (size,)))
        for size in (10, 30, 25, 40)
    ]

    def train_locally(model: torch.nn.Module, client: Any) -> dict[str, torch.Tensor]:
        own = deepcopy(model)
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)
        loss = functional.cross_entropy(own(client.x, client.edge_index), client.y)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimiser.step()
        return own.state_dict()

    model = GraphSAGE(6, 8, 2, 3, norm="batch_norm")
    names: dict[str, Any] = {"model": model, "clients": clients, "train_locally": train_locally, "rounds": 2}
    exec(lines, names)  # noqa: S102  # our own README
    weights = torch.tensor([len(client.y) for client in clients], dtype=torch.float64)
    for name, found in model.state_dict().items():
        plain = sum(w * state[name].double() for w, state in zip(weights, names["states"], strict=True)) / weights.sum()
        assert float((found.double() - plain).abs().max()) <= names["aggregator"].last_round.error_bound[name], name


@pytest.mark.parametrize("topology", schemes.TOPOLOGIES)
def test_no_scheme_in_the_matrix_refuses_what_it_serves(topology: str) -> None:
    for name in schemes.names(topology):
        scheme = schemes.parse(name, (topology,))[1]
        if isinstance(scheme, Scheme):
            assert scheme.refuses(Topology.example(topology)) is None, name


def test_the_readme_is_short() -> None:
    """What belongs on a page of its own goes there."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_paths_and_modules_exist(page: Path) -> None:
    """Pages name files and modules that are there."""
    text = page.read_text(encoding="utf-8")
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []
    assert [path for path in PATH.findall(text) if not (ROOT / path).exists()] == []
    assert [name for name in MODULE.findall(text) if not _is_there(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_those_of_today(page: Path) -> None:
    """The command line takes every command that a page shows."""
    for line, inline in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = [STAND_INS.get(word, word) for word in shlex.split((line or inline).replace("=K]", "=3]"))]
        if {"--help", "--version"}.isdisjoint(words) and len(words) > (0 if line else 1):
            chosen = parser_for(with_method(words)).parse_args(with_method(words))
            for scheme in chosen.scheme if words[0] in {"audit", "train"} else ():
                schemes.assignment(scheme, chosen.method.topologies)


def _is_there(name: str) -> bool:
    """Whether a dotted name is a group of entry points, a module, or something that a module's text speaks of."""
    place = ROOT.joinpath(*name.split("."))
    if name in ENTRY_POINTS or place.is_dir() or place.with_suffix(".py").exists():
        return True
    files = (place.parent.with_suffix(".py"), place.parent / "__init__.py")
    return any(place.name in file.read_text(encoding="utf-8") for file in files if file.exists())
