"""`python .ci/pins.py [REQUIREMENT ...]`: writes constraints.txt anew.

Each line names the newest release that pyproject.toml and the requirements admit, and the SHA-256 of all of its files
in the index, for other systems and Pythons too. Where pip found a file that the index does not list, such as a build
of torch for this machine, its hash is added; the local part of a version (+cpu) is dropped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = {
    "runtime": (".",),
    "development": (".[dev]",),
    "other extras": (".[dev]", "./reproduction[molecules,superpixels]"),
}
"""Folders that are resolved in turn; a section of the file lists what they add to the sections before."""


def normalize(name: str) -> str:
    """Return a distribution's name as indexes spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(python: Path, *arguments: object) -> None:
    """Run pip's install."""
    subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", *arguments], check=True, cwd=ROOT
    )


def resolve(python: Path, report: Path, *arguments: str) -> dict[str, tuple[str, str]]:
    """Return version and SHA-256 of the file that pip would install, by name of the distribution."""
    install(python, "--dry-run", "--ignore-installed", "--report", report, "--no-build-isolation", *arguments)
    chosen = {}
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        if "archive_info" in item["download_info"]:  # not the package itself, which is a folder
            metadata, sha256 = item["metadata"], item["download_info"]["archive_info"]["hashes"]["sha256"]
            chosen[normalize(metadata["name"])] = (metadata["version"].partition("+")[0], sha256)
    return chosen


def list_releases(python: Path, versions: dict[str, str]) -> dict[str, set[str]]:
    """Return the SHA-256 of all files of each release, as the index of pip's configuration lists them."""
    index = subprocess.run(
        [python, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    environment = os.environ | ({"UV_DEFAULT_INDEX": index.stdout.strip()} if index.returncode == 0 else {})
    pins = "".join(f"{name}=={version}\n" for name, version in versions.items())
    options = ["--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--quiet", "--python", str(python)]
    done = subprocess.run(
        [python.with_name("uv"), "pip", "compile", "-", *options],
        input=pins, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    lines = done.stdout.replace("\\\n", "").splitlines()
    return {line.partition("==")[0]: set(re.findall(r"--hash=sha256:(\w+)", line)) for line in lines}


def main() -> None:
    """Write the file."""
    path = ROOT / "constraints.txt"
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if re.match(r"#(?! --)", line)]
    sections: dict[str, set[str]] = {}
    with TemporaryDirectory() as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        python, report = Path(folder) / "venv" / "bin" / "python", Path(folder) / "report.json"
        install(python, "--upgrade", "setuptools", "uv")
        for section, targets in SECTIONS.items():
            editable = [word for target in targets for word in ("-e", target)]
            chosen = resolve(python, report, *sys.argv[1:], "setuptools", *editable)
            sections[section] = set(chosen) - set().union(*sections.values())
        hashes = list_releases(python, {name: version for name, (version, _) in chosen.items()})
    lines = list(head)
    for section, names in sections.items():
        lines.append(f"# -- {section}")
        for name in sorted(names):
            version, sha256 = chosen[name]
            listed = " ".join(f"--hash=sha256:{item}" for item in sorted({*hashes[name], sha256}))
            lines.append(f"{name}=={version} {listed}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
