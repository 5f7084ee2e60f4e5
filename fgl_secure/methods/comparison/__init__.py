"""Methods side by side on one data set: in the clear and secured, what each reaches, costs and shows."""

from fgl_secure.methods.comparison.lines import LeftOut, Line, Reading, Side
from fgl_secure.methods.comparison.page import Comparison
from fgl_secure.methods.comparison.runs import SECURED, compare

__all__ = ["SECURED", "Comparison", "LeftOut", "Line", "Reading", "Side", "compare"]
