import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fgl_secure import plugins, schemes
from fgl_secure.attacks.registry import attacks
from fgl_secure.cli import listing as listing_module
from fgl_secure.cli.listing import listing, load_rows
from fgl_secure.graph import GraphSetDataset, available
from fgl_secure.methods import method, names

EVERYTHING = {
    "datasets": (*available(), *available(GraphSetDataset)),
    "schemes": schemes.names(),
    "attacks": attacks(),
    "methods": names(),
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_a_kind_lists_all_its_names_and_no_others(kind: str) -> None:
    """The table of one kind has one line a name, each with words behind it."""
    head, *lines = listing(kind).splitlines()
    named = [line for line in lines if not line.startswith("   ")]  # what follows under a name is indented further
    assert head == kind
    assert [line.split()[0] for line in named] == list(EVERYTHING[kind])
    assert all(len(line.split()) > 3 for line in named)


def test_a_method_says_what_is_summed_and_who_sees_what() -> None:
    """Every method has its sums, a line for each scheme, and the schemes are real ones that serve it."""
    text = listing("methods")
    for each in map(method, names()):
        lines = text.partition(f"\n  {each.name} ")[2].split("\n  ")[1:]
        seen = ["sees" for _ in each.sees] + ["tells" for _ in each.tells]
        wanted = ["sums", *seen, "schemes", "backbones"]
        assert [line.split()[0] for line in lines[: len(wanted)]] == wanted
        known = {name for group in each.sees for name in group.split(", ")}
        assert "plaintext" in known
        assert all(any(schemes.refusal(name, where) is None for where in each.topologies) for name in known)


def test_no_kind_lists_all_kinds() -> None:
    """Without a kind the tables of all kinds follow each other."""
    assert listing() == "\n\n".join(listing(kind) for kind in EVERYTHING)


def test_what_promises_nothing_says_so() -> None:
    lines = {line.split()[0]: line for line in listing("schemes").splitlines()[1:]}
    assert "promises nothing; takes [threshold, path, minimum_group]" in lines["plaintext"]
    assert "promises 4; takes [field, T, " in lines["secmp"]


def test_what_was_listed_is_kept(tmp_path: Path) -> None:
    """The second time nothing is made; another version of any file makes it anew, and only the newest is kept."""
    made: list[str] = []

    def rows() -> list[tuple[str, str]]:
        made.append("once")
        return [("name", "w\u00f6rds"), ("", "more")]

    assert load_rows("schemes", tmp_path, rows) == load_rows("schemes", tmp_path, rows) == rows()
    assert len(made) == 2
    (file,) = (tmp_path / "listings").iterdir()
    file.write_text("{", encoding="utf-8")
    assert load_rows("schemes", tmp_path, rows) == rows()
    assert len(made) == 4


def test_changed_sources_are_listed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of other sources is another file, and the old one goes."""
    load_rows("schemes", tmp_path, lambda: [("old", "")])
    monkeypatch.setattr(listing_module, "_key", lambda: "another")
    assert load_rows("schemes", tmp_path, lambda: [("new", "")]) == [("new", "")]
    assert [path.name for path in (tmp_path / "listings").iterdir()] == ["schemes-another.json"]


@pytest.mark.parametrize("file", ["some_package/deep/file.py", "some_package.py"])
def test_plugins_are_listed_anew_where_a_file_of_their_package_changes(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an entry point; a package and a module of its own are found without importing them."""
    cache, source = tmp_path / "cache", tmp_path / "installed" / file
    source.parent.mkdir(parents=True)
    for folder in source.parents[: file.count("/")]:
        (folder / "__init__.py").touch()
    source.write_text("raise ImportError\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    points = [EntryPoint("mine", "some_package:thing", "fgl_secure.attacks")]
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: points if group == "fgl_secure.attacks" else [])
    assert (
        load_rows("attacks", cache, lambda: [("one", "")]) == load_rows("attacks", cache, lambda: []) == [("one", "")]
    )
    source.write_text("raise ImportError  # later\n", encoding="utf-8")
    assert load_rows("attacks", cache, lambda: [("two", "")]) == [("two", "")]
    points.append(EntryPoint("another", "no_such_package:thing", "fgl_secure.attacks"))
    assert load_rows("attacks", cache, lambda: [("three", "")]) == [("three", "")]


def test_a_folder_that_takes_nothing_is_done_without(tmp_path: Path) -> None:
    """Where nothing can be kept, names are listed all the same."""
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert load_rows("schemes", tmp_path / "file", lambda: [("one", "")]) == [("one", "")]


def test_kept_names_load_nothing(tmp_path: Path) -> None:
    """The second call of `list` loads no torch."""
    lines = (
        "import sys",
        "from fgl_secure.cli.main import main",
        "assert main(['list', 'attacks']) == 0",
        "print('torch' in sys.modules)",
    )
    cache = {**os.environ, "FGL_SECURE_CACHE": str(tmp_path)}
    loaded = [
        subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, env=cache, check=True)
        for _ in range(2)
    ]
    assert [each.stdout.splitlines()[-1] for each in loaded] == ["True", "False"]
