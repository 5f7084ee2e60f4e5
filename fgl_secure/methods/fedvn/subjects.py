"""FedVN under each scheme for sums of summands, as it is trained and audited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fgl_secure.auditing.method import Asked
from fgl_secure.auditing.plan import Plan, Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.wording import Score
from fgl_secure.graph.data import GraphSets
from fgl_secure.methods.fedvn.claims import claim_of
from fgl_secure.methods.fedvn.controls import CONTROLS
from fgl_secure.methods.fedvn.preset import fedvn_preset
from fgl_secure.methods.fedvn.scenarios import ROUNDS, Setting, as_attacked, recording_under
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.runtime import Claim, Recording
from fgl_secure.training.job import Job
from fgl_secure.training.loop import TrainingResult, compute_device
from fgl_secure.training.presets import choice_of_round
from fgl_secure.training.server_sums import server_schemes

if TYPE_CHECKING:
    from fgl_secure.methods.fedvn.configuration import FedVN

NOTES = (
    "A client is a silo of this report and has graphs of its own; a device is a node of one of them. Which client has "
    "which graph comes with the data set, so partition and number of silos have no say.",
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
        scheme: how summands are added up.
    """

    setting: Setting
    scheme: Scheme

    @property
    def name(self) -> str:
        """The scheme's."""
        return self.scheme.name

    @property
    def claims(self) -> Mapping[str, Claim]:
        """What the scheme promises for so many clients, and what a sum tells whatever the scheme."""
        return {self.name: claim_of(self.scheme, self.setting.sets.num_clients)}

    @property
    def job(self) -> Job:
        """The clients, each with its own graphs."""
        return self.setting.job(self.scheme)

    @property
    def attacked_rounds(self) -> int:
        """So many that each can be compared with the one before."""
        return min(ROUNDS, self.setting.preset.epochs)

    @property
    def recording(self) -> Recording:
        """Everything of these rounds, and in the clear the summands."""
        return recording_under(self.scheme)

    def runs(self, result: TrainingResult) -> Iterator[RecordedRun]:
        """The first rounds of training."""
        yield as_attacked(self.setting, result.transcript, self.name, "first rounds of training")

    def independent(self, seed: int) -> Subject:
        """On graphs that clients hand on, of labels that have moved on."""
        return FedVNSubject(self.setting.brief().independent(seed), self.scheme)

    def unprotected(self) -> tuple[Subject, ...]:
        """In the clear."""
        return (FedVNSubject(self.setting.brief(), Plaintext()),)


def fedvn_plan(method: FedVN, asked: Asked) -> Plan:
    """Checks every choice and loads the data; nothing is run."""
    device = compute_device(asked.device)
    assert isinstance(asked.data, GraphSets)
    sets = asked.data.drawn(asked.seed)
    preset = fedvn_preset(method.preset, sets.name).with_epochs(method.epochs)
    preset = preset.with_virtual_nodes(method.virtual_nodes)
    setting = Setting(sets, sets.union(), preset, asked.seed, device)
    score = Score.ACCURACY if sets.num_classes else Score.ABSOLUTE_ERROR
    return Plan(
        method.name,
        "gin",
        asked.seed,
        setting.union,
        setting.union.edges.shape[1],
        preset.name,
        preset.epochs,
        device,
        f"mean of the {score} of {sets.num_clients} clients, on {int(sets.test.sum()):,} graphs",
        choice_of_round(preset.selection, setting.union, str(score)),
        tuple(FedVNSubject(setting, scheme) for scheme in server_schemes(asked.runs, sets.num_clients)),
        CONTROLS,
        NOTES,
        score,
    )
