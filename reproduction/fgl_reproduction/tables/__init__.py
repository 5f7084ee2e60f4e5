"""Tables of papers, run again beside the printed numbers."""
