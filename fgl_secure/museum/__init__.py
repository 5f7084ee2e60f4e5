"""A museum of protocols: ten with published flaws, which the kit finds without hints, and five that are sound."""

from __future__ import annotations

from fgl_secure.museum.catalogue import EXHIBITS
from fgl_secure.museum.examination import Finding, examine
from fgl_secure.museum.exhibit import Exhibit, Hiding, Releasing
from fgl_secure.museum.visit import HEADER, records, table, visit

__all__ = ["EXHIBITS", "HEADER", "Exhibit", "Finding", "Hiding", "Releasing", "examine", "records", "table", "visit"]
