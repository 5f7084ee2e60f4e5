"""What `fgl-secure attack gradient-inversion` does: one round, the attack on what the server saw, and a page."""
