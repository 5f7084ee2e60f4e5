"""A hook of mkdocs: pages and files that stand outside docs/, and links to them.

README, CONTRIBUTING and their like belong at the root of a repository, where whoever opens it looks for them, notebooks
and examples into folders of their own. Links between all of these are written as the files lie. Here such files join
the site under their paths from the root, what is in docs/ under its path from there, and links are rewritten to match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(?=[)#])")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/*/README.md", "reproduction/**/*.md")


def place_of(path: Path) -> str:
    """Where the site has a file."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def page_links(page: Path) -> Iterator[tuple[str, Path]]:
    """The files that a page links to, as it writes them and as they lie; of a folder its README."""
    for link in dict.fromkeys(LINK.findall(page.read_text(encoding="utf-8"))):
        path = (page.parent / link).resolve()
        yield link, path / "README.md" if path.is_dir() else path


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages outside docs/, and the files outside it that pages link to."""
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    written = [*pages, *(Path(file.abs_src_path or "") for file in files.documentation_pages())]
    targets = [path for page in written for _, path in page_links(page)]
    outside = [path for path in targets if path.is_file() and path.is_relative_to(ROOT) and DOCS not in path.parents]
    for path in dict.fromkeys([*pages, *outside]):
        files.append(File.generated(config, place_of(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrites links to where the site has the files; those to nothing stay, and are warned of."""
    source = Path(page.file.abs_src_path)
    there = {link: path for link, path in page_links(source) if path.is_file() and path.is_relative_to(ROOT)}
    folder = Path(place_of(source)).parent

    def rewrite_link(result: re.Match[str]) -> str:
        link = result[1]
        return Path(relpath(place_of(there[link]), folder)).as_posix() if link in there else link

    return LINK.sub(rewrite_link, markdown)
