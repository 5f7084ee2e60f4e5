"""Coded products: sums of products of devices' rows, multiplied in shares by relays."""

from __future__ import annotations

from fgl_secure.protocols.coded_products.encoding import FactorParts, ProductCode
from fgl_secure.protocols.coded_products.plan import OuterProduct, ProductLayout
from fgl_secure.protocols.coded_products.scheme import (
    LARGEST_LEFT,
    LARGEST_PRODUCT,
    LARGEST_RIGHT,
    CodedProducts,
    ProductCollective,
    ProductRoles,
    SumsProducts,
    with_products,
)

__all__ = [
    "LARGEST_LEFT",
    "LARGEST_PRODUCT",
    "LARGEST_RIGHT",
    "CodedProducts",
    "FactorParts",
    "OuterProduct",
    "ProductCode",
    "ProductCollective",
    "ProductLayout",
    "ProductRoles",
    "SumsProducts",
    "with_products",
]
