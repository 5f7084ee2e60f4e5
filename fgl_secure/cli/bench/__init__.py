"""How fast the arithmetic and the protocols are here, one module a part."""
