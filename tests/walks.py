"""How many of the toolkit's files one call enters, counted in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]

CALLS: Mapping[str, str] = MappingProxyType(
    {
        "mean": """
import numpy as np
from fgl_secure import SecureAggregator
aggregator = SecureAggregator.for_clients(8, bound=8.0)
updates = [{"weight": np.full(1, client / 2)} for client in range(8)]
call = lambda: aggregator.mean(updates)
""",
        "neighbour sum": """
import numpy as np
from fgl_secure.coins import SimulationCoins
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.topology import NEIGHBOURS, Topology
from fgl_secure.runtime import Channel, Step
from fgl_secure.schemes import parse
from fgl_secure.training.parties import helpers_of, hierarchy_of, neighbour_sums
from tests.graphs import two_communities
graph, (_, scheme) = two_communities(), parse("neighbours=relay-coded")
channel = Channel(hierarchy_of(graph, helpers_of([scheme])), SimulationCoins(0))
topology, code = Topology(NEIGHBOURS, neighbour_sums(graph), 4), scheme.fixed_point(40)
call = lambda: Collective(scheme, topology, channel, code).sum(np.ones((40, 4)), Step(0))
""",
        # On few digits, with few steps of one descent, and without the others, which enter the same files.
        "audit": """
from fgl_secure import audit
from fgl_secure.attacks import attack, names
from fgl_secure.attacks.gradients.inversion import Effort
from fgl_secure.graph import datasets
from fgl_secure.methods import FedAvg
from tests.graphs import joined_digits
few = joined_digits(200)
datasets.load_digits_graph = lambda: few
alike = {"gradient-dlg", "gradient-idlg", "gradient-joint"}
chosen = [name for name in names() if name not in alike]
object.__setattr__(attack("gradient-inverting"), "effort", Effort(steps=10))
call = lambda: audit(FedAvg(epochs=1), "digits", "pairwise-masking", attacks=chosen, device="cpu")
""",
    }
)

_COUNT = """
import cProfile, json, os, sys
import numba, torch
from fgl_secure import SecureAggregator, audit
for name, setup in json.load(sys.stdin).items():
    if child := os.fork():  # so that no call finds what another one has kept
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    exec(setup)
    profile = cProfile.Profile(builtins=False)
    profile.runcall(call)
    entered = {e.code.co_filename for e in profile.getstats() if not isinstance(e.code, str)}
    print(json.dumps([name, *entered]), flush=True)
    os._exit(0)
"""


def files_entered() -> dict[str, list[str]]:
    """The toolkit's files that each of `CALLS` enters, from the repository's root; imports are not counted."""
    command, calls = [sys.executable, "-c", _COUNT], json.dumps(dict(CALLS))
    told = subprocess.run(command, input=calls, cwd=ROOT, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in told.stdout.splitlines() if line.startswith("[")]
    return {name: _ours(entered) for name, *entered in found}


def _ours(entered: list[str]) -> list[str]:
    paths = {Path(name).resolve() for name in entered if name.endswith(".py")}
    homes = tuple(ROOT / name for name in ("fgl_secure", "protocols", "attacks"))
    return sorted(str(path.relative_to(ROOT)) for path in paths if any(path.is_relative_to(home) for home in homes))
