"""Settings and small examples that every test may use."""

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fgl_secure import progress
from fgl_secure.algebra import PrimeField

# Compiled kernels make first examples slow, and a conformance suite runs inherited tests from several classes.
_EXPECTED = (HealthCheck.too_slow, HealthCheck.differing_executors)

# Every run draws other examples. What hypothesis itself sets where CI is set would repeat one draw of examples for
# ever, and hide what users see.
settings.register_profile("quick", deadline=None, max_examples=15, derandomize=False, suppress_health_check=_EXPECTED)
settings.register_profile("ci", settings.get_profile("quick"), print_blob=True)
# For an installed wheel, which is not the place to find new examples.
settings.register_profile("brief", settings.get_profile("ci"), max_examples=6, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick"))

LONG = (
    "flower/test_processes.py",
    "flower/test_engine.py",
    "repository/test_notebooks.py",
    "golden/test_golden.py",
    "methods/test_data_sets.py",
)
"""Files that begin first where tests run side by side, so that none is left over; the first two mostly wait."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and all that they import stay to the end: a million objects, which nobody need look through for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, all others as they are."""
    place = {Path(__file__).parent / name: at for at, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


@pytest.fixture
def field() -> PrimeField:
    """The field of production: 2^31 - 1 elements."""
    return PrimeField()


@pytest.fixture(scope="session", autouse=True)
def _silence() -> Iterator[None]:
    """No line of progress in the middle of what a command prints, however slow the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "EVERY", 3600.0)
        yield


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the raw public data, parsed into a cache of its own; tests that need it are skipped without."""
    folder = os.environ.get("FGL_SECURE_DATA")
    if not folder:
        pytest.skip("needs the raw public data sets: set FGL_SECURE_DATA to their folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FGL_SECURE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Path(folder)
