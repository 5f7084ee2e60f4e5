"""Audits that several tests look at, run once a session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgl_secure.audit import Report
from fgl_secure.commands.audit import audit
from fgl_secure.commands.options import Options

QUICK = Options(epochs=1, device="cpu")
"""The embedded data set, one round."""


@pytest.fixture(scope="session")
def demonstration() -> Report:
    """What an audit says when no protocol is named."""
    return audit(QUICK, command="fgl-secure audit --epochs 1")


@pytest.fixture(scope="session")
def audited() -> Report:
    """What an audit of the published scheme says."""
    return audit(QUICK, ("secmp",), command="fgl-secure audit --epochs 1 --protocol secmp")


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the raw public data, parsed into a cache of its own; tests that need it are skipped without."""
    folder = os.environ.get("FGL_SECURE_DATA")
    if not folder:
        pytest.skip("needs the raw public data sets: set FGL_SECURE_DATA to their folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FGL_SECURE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Path(folder)
