"""A process for each silo: what they send each other, turn by turn, and the machines of schemes that they host."""
