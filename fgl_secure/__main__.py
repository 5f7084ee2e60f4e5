"""`python -m fgl_secure`: the command line."""

from __future__ import annotations

import sys

from fgl_secure.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
