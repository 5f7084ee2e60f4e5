"""Reconstruction from gradients by optimisation: guesses whose gradient matches the one that was seen."""
