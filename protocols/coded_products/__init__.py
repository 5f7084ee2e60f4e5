"""Coded products: sums of products of devices' rows, multiplied in shares by relays."""

from __future__ import annotations

from fgl_secure.protocols.coded_products.collective import ProductCollective
from fgl_secure.protocols.coded_products.encoding import Parts, ProductCode
from fgl_secure.protocols.coded_products.plan import Layout, Product
from fgl_secure.protocols.coded_products.scheme import (
    LARGEST_LEFT,
    LARGEST_PRODUCT,
    LARGEST_RIGHT,
    CodedProducts,
    ProductRoles,
    SumsProducts,
    with_products,
)

__all__ = [
    "LARGEST_LEFT",
    "LARGEST_PRODUCT",
    "LARGEST_RIGHT",
    "CodedProducts",
    "Layout",
    "Parts",
    "Product",
    "ProductCode",
    "ProductCollective",
    "ProductRoles",
    "SumsProducts",
    "with_products",
]
