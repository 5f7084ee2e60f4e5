"""Tables of the papers, compared methods and known flaws, as plugins of `fgl_secure`."""
