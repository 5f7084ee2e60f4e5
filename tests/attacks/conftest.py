"""What the tests of attacks share."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fgl_secure.attacks.base import Reference
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.methods.hifgl.runs import reference_runs


@pytest.fixture(scope="session")
def references() -> Mapping[Reference, RecordedRun]:
    """The runs that attacks must break, recorded once."""
    return reference_runs()
