"""What the command line does, as functions: train, audit, list."""

from __future__ import annotations
