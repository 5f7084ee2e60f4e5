"""The hook that brings pages outside docs/ into the site, and a build of broken pages, which fails."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("mkdocs", reason="the docs extra is not installed")


@pytest.fixture(scope="module")
def outside() -> ModuleType:
    """The hook, which mkdocs loads by its path."""
    spec = importlib.util.spec_from_file_location("outside", ROOT / ".ci" / "outside.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rewritten(outside: ModuleType, page: str, link: str) -> str:
    """A link of a page, as the site has it; the page must have it on disk."""
    path = ROOT / page
    assert f"]({link}" in path.read_text(encoding="utf-8")
    found: str = outside.on_page_markdown(f"[a]({link})", SimpleNamespace(file=SimpleNamespace(abs_src_path=str(path))))
    return found.removeprefix("[a](").removesuffix(")")


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "docs/results/index.md", "results/index.md"),
        ("README.md", "docs/images/report.png", "images/report.png"),
        ("README.md", "CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("docs/results/gradients.md", "../../notebooks/06_gradient_inversion.ipynb",
         "../notebooks/06_gradient_inversion.ipynb"),
        ("docs/flower_silos.md", "../examples/flower_silos", "examples/flower_silos/README.md"),
        ("docs/hifgl.md", "schemes/secmp.md", "schemes/secmp.md"),
    ],
)  # fmt: skip
def test_links_point_to_where_the_site_has_the_file(outside: ModuleType, page: str, link: str, there: str) -> None:
    """Files in docs/ lie under their path from there, others under theirs from the root."""
    assert rewritten(outside, page, link) == there


def test_links_to_nothing_and_to_elsewhere_stay(outside: ModuleType) -> None:
    """The build warns of the first, and the second are none of its business."""
    page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(ROOT / "README.md")))
    text = "[a](docs/nothing.md) [b](https://example.org/docs/limits.md) [c](#limits)"
    assert outside.on_page_markdown(text, page) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Whole\n\n[here](#whole)\n", ()),
        (
            "# Broken\n\n[nowhere](nowhere.md) [no anchor](#nothing) [no page](nowhere)\n",
            (
                "'nowhere.md', but the target is not found", "there is no such anchor",
                "unrecognized relative link 'nowhere'", "Aborted with 3 warnings",
            ),
        ),
        ("# Broken\n\n::: fgl_secure.nothing\n", ("fgl_secure.nothing could not be found",)),
    ],
    ids=["whole", "links", "module"],
)  # fmt: skip
def test_a_broken_page_breaks_the_build(text: str, said: tuple[str, ...], tmp_path: Path) -> None:
    """Under the settings of the site, with one page in it, and as `make docs` builds it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(text)
    settings, _, _ = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")
    settings = settings.replace("hooks: [.ci/outside.py]\n", "").replace("paths: [.]", f"paths: [{ROOT}]")
    (tmp_path / "mkdocs.yml").write_text(settings)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (built.returncode != 0) == bool(said), built.stderr
    assert [each for each in said if each not in built.stdout + built.stderr] == []
