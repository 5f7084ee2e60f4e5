"""Types of arrays that many modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
"""Numbers of parties, nodes, rows or groups."""
Integers = NDArray[np.int64]
