"""Commands that this distribution adds to `fgl-secure`. Modules import what is heavy when a command runs."""
