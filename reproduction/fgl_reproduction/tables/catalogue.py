"""All tables of the five papers that can be run again, by name."""

from __future__ import annotations

from fgl_reproduction.tables import fed2gnn, fedspray, fedstruct, fedvn, hifgl
from fgl_reproduction.tables.table import PaperTable
from fgl_secure.errors import UnknownNameError

TABLES = {table.name: table for paper in (hifgl, fedstruct, fedspray, fed2gnn, fedvn) for table in paper.TABLES}


def table(name: str) -> PaperTable:
    """A table of some paper.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in TABLES:
        raise UnknownNameError("table", name, tuple(TABLES))
    return TABLES[name]
