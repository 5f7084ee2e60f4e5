"""A Flower app: node classification on a graph of handwritten digits, split among silos, under secure aggregation."""
