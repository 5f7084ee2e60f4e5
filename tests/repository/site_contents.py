"""Fails when a page of the built site would load anything from elsewhere: `python site_contents.py SITE`.

A reader of these pages should be seen by nobody, and a machine without a network shows them whole. Links that a reader
may follow are no concern here; scripts, styles, fonts and pictures are.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LINKS = frozenset({"stylesheet", "icon", "preconnect", "preload", "dns-prefetch", "modulepreload", "manifest"})


class Loads(HTMLParser):
    """Collects the addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        said = dict(attrs)
        if tag in LOADS:
            self.found.append(said.get(LOADS[tag]) or "")
        if tag == "link" and LINKS & set((said.get("rel") or "").split()):
            self.found.append(said.get("href") or "")


def faults(site: Path) -> list[str]:
    """What pages would load from elsewhere, a sentence each."""
    pages = sorted(site.rglob("*.html"))
    found = [] if pages else [f"{site} has no pages"]
    for page in pages:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        elsewhere = [each for each in loads.found if each.startswith(("http:", "https:", "//"))]
        found += [f"{page.relative_to(site)} loads {each}" for each in elsewhere]
    return found


def main(site: str) -> None:
    """Exits with the faults, if any."""
    found = faults(Path(site))
    if found:
        sys.exit("\n".join(found))
    print(f"{len(list(Path(site).rglob('*.html')))} pages load nothing from elsewhere")


if __name__ == "__main__":
    main(*sys.argv[1:])
