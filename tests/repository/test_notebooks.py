"""Notebooks: each runs under names of its own on the public interface; what is committed is the record of a run.

One is run by a kernel, as its reader would; the others in this process, where all is loaded already.
"""

import ast
import contextlib
import io
import logging
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib import pyplot as plt
from nbclient import NotebookClient
from nbformat import NotebookNode

import fgl_secure

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS_A_CELL = 300
BY_A_KERNEL = FOLDER / "11_propositions.ipynb"

# Two components or more after a slash that no word, dot or address precedes; or a user's folder on Windows.
MACHINE_PATH = re.compile(r"(?<![\w.:/~<)}\]\\-])/(?:[\w.-]+/)+[\w.-]+|\b[A-Za-z]:\\Users\\")

PACKAGES = {
    "algebra", "auditing", "coins", "dp", "errors", "graph", "runtime", "schemes", "statistics", "testing",
}  # fmt: skip
"""Parts of the package of which a notebook may take what they export, and nothing from inside."""

OPEN = {"aggregation", "attacks", "methods", "protocols"}
"""Parts in which each method, scheme or attack has modules of its own, which a notebook may take apart."""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def complaints(notebook: NotebookNode) -> list[str]:
    """Errors, and anything on stderr: warnings that a reader of the notebook would meet."""
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    errors = [f"{output.ename}: {output.evalue}" for output in outputs if output.output_type == "error"]
    return errors + [output.text for output in outputs if output.get("name") == "stderr"]


def texts(notebook: NotebookNode) -> Iterator[str]:
    """Everything in the notebook that can be read; pictures are left out."""
    for cell in notebook.cells:
        yield cell.source
        for output in cell.get("outputs", []):
            yield output.get("text", "")
            yield "\n".join(output.get("traceback", []))
            yield from (data for kind, data in output.get("data", {}).items() if kind.startswith("text/"))


def test_there_are_notebooks() -> None:
    """The folder holds notebooks, so that the tests below have something to say."""
    assert NOTEBOOKS, "no notebook in notebooks/: a step that runs none can't pass"


def test_what_notebooks_write_is_not_kept() -> None:
    """Beside notebooks git has nothing: reports and files that their runs leave there are nobody's source."""
    known = subprocess.run(["git", "ls-files", "."], cwd=FOLDER, capture_output=True, text=True, check=False)
    if known.returncode:
        pytest.skip("the source is not in git here")
    assert [name for name in known.stdout.split() if not name.endswith(".ipynb")] == []


@each_notebook
def test_notebook_is_valid_and_was_run_from_top_to_bottom(path: Path) -> None:
    """A committed notebook is well-formed, and its cells were run once each, in order, without error or warning."""
    notebook = read(path)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert counts, "a notebook without code shows nothing"
    assert complaints(notebook) == []


@each_notebook
def test_notebook_names_no_folder_of_a_machine(path: Path) -> None:
    """Neither the cells nor the outputs of a committed notebook hold an absolute path."""
    assert [found.group() for text in texts(read(path)) for found in MACHINE_PATH.finditer(text)] == []


def is_public(module: str, name: str) -> bool:
    """Whether a notebook may import a name from a module of the package."""
    _, part, *inside = f"{module}.{name}".split(".")
    if any(each.startswith("_") or each == "cli" for each in (part, *inside)):
        return False
    if module == "fgl_secure":
        return part in fgl_secure.__all__
    return part in OPEN or (part in PACKAGES and len(inside) == 1)


@each_notebook
def test_notebook_imports_the_public_interface_alone(path: Path) -> None:
    """No notebook imports the command line, nor what a part keeps to itself."""
    tree = ast.parse("\n".join(cell.source for cell in code_cells(read(path))))
    nodes = list(ast.walk(tree))
    assert not [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names if a.name.startswith("fgl_secure")]
    taken = [(n.module, a.name) for n in nodes if isinstance(n, ast.ImportFrom) and n.module for a in n.names]
    ours = [(module, name) for module, name in taken if module.split(".")[0] == "fgl_secure"]
    assert ours or any(module.split(".")[0] == "fgl_reproduction" for module, _ in taken)
    assert [pair for pair in ours if not is_public(*pair)] == []


def draw() -> None:
    """Draws all figures, as a notebook shows them."""
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


def execute(source: str, names: dict[str, object]) -> None:
    """Runs a cell, and shows what its last line comes to."""
    tree, last = ast.parse(source), None
    if tree.body and isinstance(end := tree.body[-1], ast.Expr):
        last = ast.Expression(end.value)
        tree.body.pop()
    exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102  # our own notebooks
    if last is not None:
        DisplayFormatter().format(eval(compile(last, "<cell>", "eval"), names))  # type: ignore[no-untyped-call]  # noqa: S307
    draw()


def said_by(sources: list[str], folder: Path) -> str:
    """What cells write to stderr, run one after the other in a folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch, mpl.rc_context(), contextlib.redirect_stdout(io.StringIO()):
        patch.chdir(folder)
        patch.setattr(plt, "show", draw)
        patch.setattr(logging.root, "handlers", [])  # what nobody handles goes to stderr
        plt.switch_backend("agg")
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.ExitStack() as behind:
            behind.callback(plt.close, "all")
            for source in sources:
                execute(source, names)
    return said.getvalue()


@each_notebook
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error::DeprecationWarning:__main__")
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    """A notebook runs to its end in an empty folder, and without the names of another; a warning is an error."""
    assert said_by([cell.source for cell in code_cells(read(path))], tmp_path) == ""


FAILING = (
    "1 / 0", "undefined", "import warnings; warnings.warn('said', stacklevel=1)", "plt.figure().text(0, 0, r'$\\no$')",
)  # fmt: skip
SPEAKING = (
    "import sys; print('said', file=sys.stderr)", "import logging; logging.getLogger('nobody').warning('said')",
    "class Bad:\n    def _repr_html_(self): return 1 / 0\nBad()",
)  # fmt: skip


@pytest.mark.parametrize("bad", [*FAILING, *SPEAKING])
def test_a_bad_cell_is_noticed(bad: str, tmp_path: Path) -> None:
    """Be it when a figure is drawn or a value is shown; and a name of one notebook is none of the next."""
    loads = "import matplotlib.pyplot as plt"
    assert said_by([loads, "undefined = 1", "undefined"], tmp_path) == ""
    with pytest.raises(Exception) if bad in FAILING else contextlib.nullcontext():  # noqa: PT011  # of any kind
        assert said_by([loads, bad], tmp_path)


def test_a_notebook_runs_in_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this environment alone, and with nobody's start-up files."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    notebook = read(BY_A_KERNEL)
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=SECONDS_A_CELL, kernel_name="python3", resources=place).execute()
    assert complaints(notebook) == []
