"""Known flaws: ten protocols with a published flaw and five sound ones, examined by the testing kit without hints."""

from __future__ import annotations

from fgl_reproduction.known_flaws.case import FlawCase, HidingProtocol, ReleasingMechanism
from fgl_reproduction.known_flaws.catalogue import CASES
from fgl_reproduction.known_flaws.examination import Finding, examine
from fgl_reproduction.known_flaws.report import table_rows
from fgl_reproduction.known_flaws.run import run_cases

__all__ = ["CASES", "Finding", "FlawCase", "HidingProtocol", "ReleasingMechanism", "examine", "run_cases", "table_rows"]
