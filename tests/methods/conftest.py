"""The embedded data set, smaller."""

import pytest

from fgl_secure.graph import datasets
from tests.graphs import first_digits


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads 300 of the 1,797 digits, for tests that ask which runs there are and not how good they are."""
    monkeypatch.setattr(datasets, "load_digits_graph", lambda: first_digits(300))
