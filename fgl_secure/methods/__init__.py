"""Methods of federated graph learning, a folder each: configuration, program, models, claims, scenarios and tables."""
