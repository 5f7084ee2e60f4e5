"""Every scheme sends the messages, bit for bit, whose digests are recorded."""

import json

import pytest

from tests.golden.transcripts import FILE, cases, digests

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


def test_each_scheme_has_recorded_digests() -> None:
    """None is left out, and none is left of a scheme that is gone."""
    assert set(RECORDED) == set(cases())


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_messages_are_as_recorded(name: str) -> None:
    """Differences name the phase; `python -m tests.golden.transcripts` records a change that is meant."""
    assert digests(name) == RECORDED[name]
