"""FedSpray (KDD 2024): personal graph neural networks, taught by an encoder that knows a proxy for each class."""
