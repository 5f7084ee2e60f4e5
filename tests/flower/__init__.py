"""Tests of secure aggregation on Flower; they need the extra `flower`."""

import warnings
from contextlib import suppress
from importlib import import_module

with warnings.catch_warnings(), suppress(ModuleNotFoundError):
    # Flower's command line imports a name that click calls deprecated; imported once, it does not do so again.
    warnings.simplefilter("ignore", DeprecationWarning)
    import_module("flwr.serverapp.strategy")
