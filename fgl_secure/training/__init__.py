"""Methods: graph learning programs written against grouped sums, never against a scheme."""
