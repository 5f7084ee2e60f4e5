"""Tests of the privacy test kit."""
