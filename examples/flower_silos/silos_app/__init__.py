"""HiFGL and FedStruct with silos as SuperNodes."""
