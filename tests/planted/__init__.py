"""Leaks that are planted into schemes one at a time, and whether the games of an audit find them."""
