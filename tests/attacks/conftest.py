"""What the tests of attacks share."""

from collections.abc import Mapping

import pytest

from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.hifgl.controls import CONTROLS


@pytest.fixture(scope="session")
def references() -> Mapping[str, RecordedRun]:
    """The runs that attacks must break, recorded once."""
    return {name: make() for name, make in CONTROLS.items()}
