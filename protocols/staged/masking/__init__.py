"""The parties of staged pairwise masking, whose scheme is `fgl_secure.protocols.staged.pairwise`."""
