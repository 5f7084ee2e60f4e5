"""Records and reports for the tests, each field overridable by name."""

from dataclasses import replace

from fgl_secure.attacks.base import KnowledgeBaseline
from fgl_secure.auditing.matrix import Cell, State
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.report import Exposure, Report
from fgl_secure.auditing.verdict import Verdict
from fgl_secure.runtime import Secret
from fgl_secure.statistics.metrics import Interval

CLAIM = "No party learns the embedding of a single device."

RECORD = Record(
    attack="shared-mask difference",
    view="device",
    coalition="one device",
    protocol="secmp",
    dataset="Cora",
    partition="Louvain, 10 silos",
    metric="exact recovery",
    value=0.998,
    ci95=Interval(0.994, 1.0),
    random=0.0,
    prior=0.0,
    knowledge=KnowledgeBaseline.NOTHING_KNOWN,
    in_the_clear=1.0,
    in_the_clear_verdict=Verdict.BROKEN,
    n=10556,
    seed=7,
    positive_control=1.0,
    positive_minimum=0.9,
    null_control=0.0,
    null_interval=Interval(0.0, 0.001),
    detectable_advantage=0.037,
    verdict=Verdict.BROKEN,
    violates_guarantee=True,
    finding="A device that knows one message decodes every other message of that silo.",
    claim=CLAIM,
)

QUIET = replace(
    RECORD,
    attack="distinguisher",
    metric="advantage",
    value=0.01,
    ci95=Interval(-0.01, 0.03),
    verdict=Verdict.NOT_DETECTED,
    violates_guarantee=False,
    finding="One code does not tell two inputs apart.",
    claim="",
)

EXPOSURE = Exposure(
    protocol="secmp",
    phase="forward",
    sender_role="source device",
    receiver_role="target device",
    messages=21112,
    bytes=5404672,
    content="two codes of the neighbour's embedding",
)

ACCURACY = {"test": 0.811, "validation": 0.806, "per_silo": [0.84, None, 0.79]}
COST = {"messages": 21112, "bytes": 5404672, "rounds": 4, "seconds": 12.5}

EMBEDDING = Secret.EMBEDDING

CELLS = (
    Cell(scheme="plaintext", secret=EMBEDDING, role="device", state=State.NO_GUARANTEE, attacks=(RECORD.attack,),
         value=0.998, prior=0.0, metric="exact recovery"),
    Cell(scheme="secmp", secret=EMBEDDING, role="device", state=State.VIOLATED, promises=(CLAIM,),
         attacks=(RECORD.attack,), value=0.998, prior=0.0, metric="exact recovery"),
    Cell(scheme="plaintext", secret=Secret.DEGREE, role="silo", state=State.NO_GUARANTEE),
    Cell(scheme="secmp", secret=Secret.DEGREE, role="silo", state=State.NOT_TESTED, promises=("Degrees stay.",)),
)  # fmt: skip

ABOUT = {
    "summary": "a device subtracts single codes of two neighbours",
    "source": "against HiFGL 5.1",
    "papers": {"HiFGL": "https://arxiv.org/abs/2406.10616"},
    "page": "docs/message_passing.md",
    "observer": "device",
    "secret": EMBEDDING,
    "circumstance": "any",
    "knows": "",
}

REPORT = Report(
    run={
        "protocol": "secmp",
        "protocols": ["plaintext", "secmp"],
        "dataset": "Cora",
        "seed": 7,
        "version": "0.1.0",
        "command": ["fgl-secure", "audit", "--out", "a folder"],
    },
    accuracy={**ACCURACY, "protocols": {"plaintext": ACCURACY, "secmp": ACCURACY}},
    cost={**COST, "protocols": {"plaintext": COST, "secmp": COST}},
    matrix=CELLS,
    attacks={RECORD.attack: ABOUT},
    records=(QUIET, RECORD, replace(RECORD, protocol="plaintext", violates_guarantee=False, claim="")),
    exposures=(EXPOSURE,),
    claims={"secmp": {"protects": [CLAIM, "The silo learns only sums."], "source": "Section 4.2"}},
    notes=("The backward pass sends messages too.",),
)
