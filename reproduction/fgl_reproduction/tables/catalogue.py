"""All tables of the five papers that can be run again, by name."""

from __future__ import annotations

from fgl_reproduction.tables import fed2gnn, fedspray, fedstruct, fedvn, hifgl, hifgl_complexity
from fgl_reproduction.tables.table import PaperTable
from fgl_secure.errors import UnknownNameError

_PAPERS = (
    hifgl.TABLES,
    (hifgl_complexity.COMPLEXITY,),
    fedstruct.TABLES,
    fedspray.TABLES,
    fed2gnn.TABLES,
    fedvn.TABLES,
)
TABLES = {item.name: item for tables in _PAPERS for item in tables}


def table(name: str) -> PaperTable:
    """A table of some paper.

    Raises:
        UnknownNameError: there is none of that name.
    """
    if name not in TABLES:
        raise UnknownNameError("table", name, tuple(TABLES))
    return TABLES[name]
