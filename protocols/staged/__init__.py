"""Sums over clients in stages, message by message: what each party does when it is a process of its own."""
