"""The parties of staged LightSecAgg, whose scheme is `fgl_secure.protocols.staged.lightsecagg`."""
