"""Methods with silos as SuperNodes."""
