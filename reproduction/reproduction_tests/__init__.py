"""Tests of the second distribution."""
