"""FedVN under each scheme for sums of summands, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fgl_secure.audit.recorded_run import RecordedRun
from fgl_secure.audit.schema import Score
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.commands.options import Options, check_common
from fgl_secure.commands.subjects import Plan, Subject
from fgl_secure.commands.train import PrivacyCost
from fgl_secure.errors import InputError
from fgl_secure.graph import FederatedGraph
from fgl_secure.graph.graph_sets.catalogue import load_set
from fgl_secure.methods.fedvn.claims import claim_of
from fgl_secure.methods.fedvn.controls import CONTROLS
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.scenarios import ROUNDS, Setting, recorded_rounds
from fgl_secure.protocols.staged.interface import StagedScheme
from fgl_secure.protocols.staged.registry import staged
from fgl_secure.runtime import Claim, Recording
from fgl_secure.training.loop import Progress, TrainingResult, compute_device

DEMONSTRATED = ("plaintext", "pairwise-masking")
"""What an audit runs when no scheme is named; the first heads the report, as the first named one does."""

TRAINED = "pairwise-masking"
"""What training takes when no scheme is named."""

CLEAR = "plaintext"

NOTES = (
    "A client is a silo of this report and has graphs of its own; a device is a node of one of them. Which client has "
    "which graph comes with the data set, so partition and number of silos have no say.",
    f"Attacks read the first {ROUNDS} rounds, which are trained once more with the same seed and everything recorded: "
    "what is sent is the same, bit for bit.",
    "Under a scheme the server's own knowledge, the sum, is noted with the transcript.",
    "Whatever names a summand is forgotten by the attack that tells clients: what it finds, an anonymising channel "
    "would not have hidden.",
    "Edge generators never leave their clients, and no attack here is on them.",
)


@dataclass(frozen=True, slots=True, eq=False)
class FedVNSubject(Subject):
    """FedVN under one scheme.

    Attributes:
        setting: how to train, on what.
        scheme: how summands are added up; None for in the clear.
    """

    setting: Setting
    scheme: StagedScheme | None

    @property
    def name(self) -> str:
        """The scheme's."""
        return CLEAR if self.scheme is None else self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What the scheme promises for so many clients, and what a sum tells whatever the scheme."""
        return {self.name: claim_of(self.scheme, self.setting.sets.num_clients)}

    def train(
        self, *, coins: Coins | None = None, recording: Recording | None = None, progress: Progress | None = None
    ) -> TrainingResult:
        """Trains to the end."""
        return self.setting.train(self.scheme, coins or SystemCoins(), recording, progress)

    def privacy_cost(self, result: TrainingResult, progress: Callable[[str], Progress]) -> PrivacyCost | None:  # noqa: ARG002
        """None: no noise is added."""
        return None

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:  # noqa: ARG002  # its record is of one round alone
        """The first rounds of training."""
        yield recorded_rounds(self.setting, self.scheme, self.name, "first rounds of training")


def fedvn_plan(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None = None) -> Plan:
    """Checks every choice and loads the data; nothing is run.

    Args:
        options: the choices.
        protocols: none: no neighbourhood sums cross clients.
        graph: none: a client has many graphs.
    """
    _check(options, protocols, graph)
    device = compute_device(options.device)
    sets = load_set(options.dataset, options.seed, options.data_root)
    preset = fedvn_preset(options.preset, sets.name).with_epochs(options.epochs)
    preset = preset.with_virtual_nodes(options.virtual.virtual_nodes)
    setting = Setting(sets, sets.union(), preset, options.seed, device)
    names = tuple(dict.fromkeys(options.updates.schemes or DEMONSTRATED))
    schemes = [None if name == CLEAR else staged(name, options.updates.threshold) for name in names]
    for scheme in schemes:
        if scheme is not None:
            scheme.threshold_for(sets.num_clients)
    score = Score.ACCURACY if sets.num_classes else Score.ABSOLUTE_ERROR
    return Plan(
        options,
        setting.union,
        setting.union.edges.shape[1],
        preset.name,
        preset.epochs,
        device,
        f"mean of the {score} of {sets.num_clients} clients, on {int(sets.test.sum()):,} graphs",
        f"chosen on {preset.selection} {score}",
        tuple(FedVNSubject(setting, scheme) for scheme in schemes),
        CONTROLS,
        NOTES,
        score,
    )


def _check(options: Options, protocols: tuple[str, ...], graph: FederatedGraph | None) -> None:
    check_common(options)
    options.updates.check()
    options.virtual.check()
    if protocols:
        raise InputError(
            f"protocol must be left out for fedvn, whose summands are added up under --scheme; found {protocols[0]}"
        )
    if graph is not None:
        raise InputError(f"graph must be left out for fedvn, whose clients have many; found {graph.graph.name}")
