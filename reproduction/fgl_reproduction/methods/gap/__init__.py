"""GAP (USENIX Security 2023) and ProGAP (WSDM 2024): noisy sums over neighbours, once per hop."""
