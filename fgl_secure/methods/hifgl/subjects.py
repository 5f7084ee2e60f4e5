"""HiFGL under each protocol, as an audit runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fgl_secure.audit.recorded_run import RecordedRun
from fgl_secure.coins import Coins
from fgl_secure.commands.options import Options, Prepared, prepare
from fgl_secure.commands.subjects import Plan, Subject
from fgl_secure.commands.train import PrivacyCost, privacy_cost, train
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.methods.hifgl.scenarios import special_runs, training_run, variant_runs
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.runtime import Claim, Recording
from fgl_secure.training.loop import Progress, TrainingResult

DEMONSTRATED = ("secmp", "relay-coded", "plaintext")
"""What an audit runs when no protocol is named; the first heads the report, as the first named one does."""

NOTES = (
    "A protocol with parameters in brackets is a variant that was run for one exchange of features, without "
    "training; the claim is the same, so what contradicts it there counts.",
    "Models, and gradients that are summed under a protocol, are counted by size; from the second round on such "
    "gradients are added up without laying out their masks, to the same bits.",
)


@dataclass(frozen=True, slots=True, eq=False)
class HiFGLSubject(Subject):
    """HiFGL under one scheme for grouped sums.

    Attributes:
        prepared: checked choices.
        scheme: one of `prepared.schemes`.
    """

    prepared: Prepared
    scheme: Scheme

    @property
    def name(self) -> str:
        """The scheme's."""
        return self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """Those of the scheme and its variants."""
        return {each.name: each.claim for each in (self.scheme, *self.scheme.variants)}

    def train(
        self, *, coins: Coins | None = None, recording: Recording | None = None, progress: Progress | None = None
    ) -> TrainingResult:
        """Trains HiFGL."""
        return train(self.prepared, self.scheme, coins=coins, recording=recording, progress=progress)

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:
        """Of noise on embeddings and gradients."""
        return privacy_cost(self.prepared, self.scheme, result, progress)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first round of training, special runs, and an exchange under each variant."""
        heard, seed = self.prepared.heard, self.prepared.options.seed
        what = f"first round of training, {self.prepared.options.backbone}"
        yield training_run(self.scheme, heard, result.transcript, what)
        yield from special_runs(self.scheme, heard, seed)
        yield from variant_runs(self.scheme, heard, seed)


def hifgl_plan(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: names; `DEMONSTRATED` when empty.
        graph: a graph of the caller's own, instead of the options' data set and partition.
    """
    prepared = prepare(options, protocols or DEMONSTRATED, graph)
    return Plan(
        options,
        prepared.graph,
        int(prepared.heard.edges.shape[1]),
        prepared.preset.name,
        prepared.preset.epochs,
        prepared.device,
        f"pooled over {int(prepared.graph.test_mask.sum()):,} devices",
        f"chosen on {prepared.preset.selection} accuracy",
        tuple(HiFGLSubject(prepared, scheme) for scheme in prepared.schemes),
        CONTROLS,
        NOTES,
    )
