"""Methods whose silos are processes of their own: programs that take what has arrived and say what leaves."""
