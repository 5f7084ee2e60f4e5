"""Planted leaks: changes to the source after which some parties learn a secret, and the audits that must see it.

Every TOML file in this folder holds some: a name, what leaks, the run that is audited (`run`, a method and schemes),
the guarantee that is violated (`secret` and `role`), and the places that change, as mutants have them.
`python -m tests.planted` applies one after the other to a copy of the source, plays the leak's game of the audit there,
and says whether the guarantee is violated and where.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutants import Edit, Mutant, _write

FOLDER = Path(__file__).parent
SECONDS = 600
NOT_FOUND = "not_found.toml"
"""Leaks that games do not find."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A change under which a guarantee does not hold.

    Attributes:
        change: to the source.
        run: method and schemes of the audited run.
        secret: name of what leaks.
        role: to whom.
    """

    change: Mutant
    run: str
    secret: str
    role: str

    @property
    def game(self) -> str:
        """The finding that must violate the guarantee."""
        return f"game-{self.secret.lower().replace('_', '-')}-{self.role}"


def load(folder: Path = FOLDER, *, not_found: bool = False) -> dict[str, Leak]:
    """All planted leaks that games must find, by name; or those that they do not find."""
    found: dict[str, Leak] = {}
    for file in sorted(each for each in folder.glob("*.toml") if (each.name == NOT_FOUND) is not_found):
        for name, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
            what, run, secret, role = (entry.pop(key) for key in ("leak", "run", "secret", "role"))
            pairs = [(place, *pair) for place in entry for pair in zip(*2 * [iter(entry[place])], strict=True)]
            assert name not in found, f"leaks must have names of their own; found {name} twice"
            found[name] = Leak(Mutant(name, what, (), tuple(map(Edit._make, pairs))), run, secret, role)
    return found


@contextmanager
def planted(leak: Leak, copy: Path) -> Iterator[None]:
    """A copy of the source with a leak."""
    texts = leak.change.texts(copy)
    originals = {path: path.read_text(encoding="utf-8") for path in texts}
    try:
        _write(texts)
        yield
    finally:
        _write(originals)


def violations(leak: Leak, folder: Path, seed: int = 0, *, others: bool = False) -> dict[str, str]:
    """What the games of an audit find in a copy of the source: by game what violates its guarantee.

    Args:
        leak: that is planted there.
        folder: the copy.
        seed: of the audit.
        others: whether games about other secrets and roles than the leak's are played as well.
    """
    cell = () if others else (leak.secret, leak.role)
    command = [sys.executable, "-m", "tests.planted.one_audit", leak.run, str(seed), *cell]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS)
    if found.returncode:
        return {"error": found.stderr.strip().splitlines()[-1]}
    told: dict[str, str] = json.loads(found.stdout.strip().splitlines()[-1])
    return told
