"""Runs the Python of a page, as somebody would who reads it from top to bottom.

Blocks of a page share their names. What a page leaves to its reader (a graph, a model, a loop) is in `STAND_INS`, and
`SMALLER` says what is small here that pages have large; behind a page's blocks runs what they must have come to.
"""

import io
import re
import sys
import traceback
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

GRAPHS = """
import numpy, torch
from tests.graphs import two_communities
from tests.test_public import ring
data, silo_of, SMALL = ring(), numpy.arange(60) % 3, two_communities(devices=60, silos=3)
FEW = ["single-shares", "message-counts-silo"]
"""

STAND_INS = MappingProxyType({
    "README.md": GRAPHS + """
model = torch.nn.Linear(2, 2)
clients, rounds, train_locally = [data, data, data], 1, lambda model, client: model.state_dict()
""",
    "docs/audit_your_graph.md": GRAPHS,
    "docs/coded_computing.md": "import numpy; blocks = numpy.arange(6).reshape(2, 3)",
    "docs/fedspray.md": GRAPHS,
    "docs/finished_models.md": GRAPHS,
    "docs/fed2gnn.md": GRAPHS,
    "docs/fedstruct.md": GRAPHS,
    "docs/hifgl.md": GRAPHS,
    "docs/paper_figures.md": GRAPHS,
    "docs/quick_start.md": GRAPHS,
    "examples/flower_secagg/README.md": """
from flwr.clientapp import ClientApp; from flwr.serverapp.strategy import FedAvg
from fgl_secure.flower import SecureAggregationMod, SecureAggregationStrategy
""",
    "docs/audit_your_run.md": f"import sys; sys.path.insert(0, {str(ROOT / 'examples' / 'scheme')!r})",
    "docs/your_own.md": GRAPHS + f"import sys; sys.path.insert(0, {str(ROOT / 'examples' / 'own')!r})",
})  # fmt: skip
"""By page, what stands for what its reader has."""

SMALLER = MappingProxyType(
    {
        '"digits"': "SMALL",
        "GraphSAGE(64, 32, num_layers=2, out_channels=10": "GraphSAGE(8, 32, num_layers=2, out_channels=2",
        "train(HiFGL(epochs=20), scheme": "train(HiFGL(epochs=1), SMALL, scheme",
        "LabelPropagation()": "LabelPropagation(epochs=2)",
        'backbone="two_heads"': 'backbone="two_heads", epochs=1',
        "epochs=20": "epochs=1",
        "epochs=5": "epochs=1",
        "epochs=10": "epochs=2",
        '"pairwise-masking"])': '"pairwise-masking"], "gradient-labels")',
        '"relay-coded[k_min=2]"])': '"relay-coded[k_min=2]"], "visible-devices")',
        '"secmp", "relay-coded"])': '"secmp", "relay-coded"], "visible-devices")',
        'scheme="secmp")': 'scheme="secmp", attacks="visible-devices")',
        'scheme="relay-coded").write': 'scheme="relay-coded", attacks=FEW, method=HiFGL(epochs=1)).write',
    }
)
"""By text of a block, what is run in its place: small graphs, few rounds, one attack of all."""

MUST_HOLD = MappingProxyType({
    "README.md": "assert aggregator.last_round.included == (0, 1, 2)",
    "docs/audit_your_graph.md": """
from fgl_secure.cli.main import main
small = ["--epochs", "1", "--attack", "clear-values", "--quiet", "--out", "mine"]
assert main(["audit", "--dataset", "mine.npz", "--silo-file", "silos.txt", "--scheme", "plaintext", *small]) == 0
""",
    "docs/coded_computing.md": "assert (decoded.blocks == blocks**2).all() and decoded.faulty == ()",
    "docs/privacy_tests.md": "test_one_server_learns_nothing()",
})  # fmt: skip
"""By page, what is so when its blocks have run."""


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of each fenced block of a page, in order."""
    return [(found[1], found[2]) for found in BLOCK.finditer(text)]


def fault(text: str, before: str = "", behind: str = "") -> str:
    """What goes wrong when the Python of a page is run, as a traceback; empty where nothing does."""
    names: dict[str, object] = {"__name__": "__main__"}
    python = [content for language, content in blocks(text) if language == "python"]
    for content in (before, *python, behind):
        for large, small in SMALLER.items() if content in python else ():
            content = content.replace(large, small)  # noqa: PLW2901  # what is run in its place
        try:
            exec(compile(content, "<block>", "exec"), names)  # noqa: S102  # our own pages
        except BaseException:  # a block that exits is at fault too
            return f"{content}\n{traceback.format_exc()}"
    return ""


def fault_of(page: str) -> str:
    """What goes wrong on a page of the repository, which is run in a folder of its own."""
    text, path = (ROOT / page).read_text(encoding="utf-8"), list(sys.path)
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(io.StringIO()):
        try:
            return fault(text, STAND_INS.get(page, ""), MUST_HOLD.get(page, ""))
        finally:
            sys.path[:] = path  # where a page adds a folder
