"""The parties of staged sums under CKKS, whose scheme is `fgl_secure.protocols.staged.ckks`."""
