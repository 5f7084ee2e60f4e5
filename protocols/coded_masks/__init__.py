"""Coded masks, opened in one shot: the parts of `fgl_secure.protocols.lightsecagg`."""
