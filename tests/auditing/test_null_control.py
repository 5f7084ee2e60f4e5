"""The null control notices truth that reaches an inference by any other way than the view."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack, Card, Measurement
from fgl_secure.attacks.edge_claims import ClaimedEdges, score_claimed_edges
from fgl_secure.attacks.message_passing.knowledge import PLAINTEXT, TRAINING
from fgl_secure.attacks.truth import MessageTruth
from fgl_secure.auditing.audit import attempts, audit
from fgl_secure.auditing.method import Method
from fgl_secure.auditing.plan import Subject
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.records import Record
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods import Fed2GNN, FedAvg, FedSpray, FedStruct, FedVN, HiFGL
from fgl_secure.methods.fedvn.audit_target import FedVNSubject
from fgl_secure.methods.hifgl.controls import CONTROLS
from fgl_secure.runtime import Direction, Phase, PublicParameters, Role, Secret, View

Ids = NDArray[np.int64]

BY_THE_BACK_DOOR: dict[int, Ids] = {}
"""Edges int64 [2, m] by how many devices there are: no truth object, and nothing that a view leads to."""

METHOD = HiFGL(epochs=1)


class ReadsMessages(Attack[ClaimedEdges, MessageTruth]):
    """Whoever gets a row in the clear knows who sent it."""

    name = "reads-messages"

    @property
    def card(self) -> Card:
        """Every device alone."""
        return Card(
            self.name, "who sends to whom", "nowhere", Role.DEVICE, Secret.CROSS_EDGE, TRAINING, PLAINTEXT,
            truth=MessageTruth,
        )  # fmt: skip

    def infer(self, view: View, public: PublicParameters) -> ClaimedEdges | None:  # noqa: ARG002
        """The ends of every message of the first forward pass."""
        batches = [
            each
            for each in view.messages(Phase.VALUES, round=0)
            if each.step.layer == 0 and each.step.direction is Direction.FORWARD
        ]
        if not batches:
            return None
        return ClaimedEdges(*(np.concatenate([getattr(b, end) for b in batches]) for end in ("senders", "receivers")))

    def score(self, guess: ClaimedEdges, truth: MessageTruth) -> tuple[Measurement, ...]:
        """Over all pairs."""
        return score_claimed_edges(guess, truth, crossing=False)


class ReadsTheAnswers(ReadsMessages):
    """The same by a module-level variable that somebody has put the edges into."""

    name = "reads-the-answers"

    def infer(self, view: View, public: PublicParameters) -> ClaimedEdges | None:  # noqa: ARG002
        """Whatever is in there."""
        devices = view.parties.ids(Role.DEVICE)
        return ClaimedEdges(*devices[BY_THE_BACK_DOOR[len(devices)]])


@pytest.fixture
def answers() -> Iterator[Mapping[int, Ids]]:
    """The edges of the subject and of the positive control, where no audit sees them."""
    graphs = (METHOD.plan().graph, CONTROLS[PLAINTEXT]().truth(MessageTruth))
    BY_THE_BACK_DOOR.update({len(each.silo_of): each.edges for each in graphs})
    yield BY_THE_BACK_DOOR
    BY_THE_BACK_DOOR.clear()


def records_of(each: Attack[Any, Any], monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """What an audit of messages in the clear says of one attack."""
    monkeypatch.setattr("fgl_secure.attacks.registry.IN_TREE", (each,))
    report = audit(METHOD, schemes=("plaintext",))
    return [record for record in report.records if record.attack == each.card.name and record.metric != "precision"]


@pytest.mark.usefixtures("answers")
def test_truth_by_the_back_door_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It scores as well when it is shown an independent run: its findings are no evidence and violate nothing."""
    records = records_of(ReadsTheAnswers(), monkeypatch)
    assert len(records) == 2
    for record in records:
        assert record.value == 1
        assert record.positive_holds
        assert record.null_control is not None
        assert record.null_control > 0.9
        assert not record.null_holds
        assert not record.violates_guarantee


@pytest.mark.usefixtures("answers")
def test_permuting_the_truth_would_not_have_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the null control used to be: the same guess is at chance on permuted truth, whoever handed it over."""
    each, subject = ReadsTheAnswers(), METHOD.plan(schemes=("plaintext",)).subjects[0]
    run = next(subject.record_runs(0))
    guess = run.guess(each)
    assert guess is not None
    for found in run.score(each, guess, 1):
        assert found.interval.low <= max(found.random, found.prior) + MARGIN
    assert not all(record.null_holds for record in records_of(each, monkeypatch))


def test_an_attack_that_reads_messages_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The honest twin finds as much, and nothing of this run in an independent one."""
    records = records_of(ReadsMessages(), monkeypatch)
    assert len(records) == 2
    for record in records:
        assert record.value == 1
        assert record.null_holds


SUBJECTS: dict[str, Method] = {
    "hifgl": HiFGL(epochs=1),
    "fedstruct": FedStruct(epochs=1),
    "fed2gnn": Fed2GNN(epochs=1),
    "fedspray": FedSpray(epochs=1),
    "fedavg": FedAvg(epochs=1),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_independent_subjects_have_the_same_shape_and_other_secrets(name: str) -> None:
    check_independent(SUBJECTS[name])


def check_independent(method: Method) -> None:
    """As many devices, silos and edges between silos, and hardly any node keeps its neighbours."""
    subject = method.plan().subjects[0]
    other = subject.independent(1)
    before, after = graph_of(subject), graph_of(other)
    assert type(other) is type(subject)
    assert other.name == subject.name
    assert np.array_equal(np.sort(np.bincount(before.silo_of)), np.sort(np.bincount(after.silo_of)))
    assert before.edges.shape == after.edges.shape
    assert before.crosses_silos.sum() == after.crosses_silos.sum()
    same = np.isin(pairs_of(before), pairs_of(after))
    assert same.mean() < 0.05


def graph_of(subject: Subject) -> FederatedGraph:
    """Where a subject keeps its graph."""
    found: Any = getattr(subject, "prepared", subject)
    graph = found.graph
    assert isinstance(graph, FederatedGraph)
    return graph


def pairs_of(graph: FederatedGraph) -> Ids:
    """A number for each edge."""
    return np.asarray(graph.edges[0] * graph.num_devices + graph.edges[1])


def test_clients_of_fedvn_hand_on_what_they_have() -> None:
    """Who sends a summand is the same in every run, so in an independent one it says nothing of the round before."""
    (clear,) = FedVN(epochs=3).plan().subjects[0].unprotected_subjects()
    assert isinstance(clear, FedVNSubject)
    own = replace(clear, setting=clear.setting.independent(1))
    for each, step in ((clear, 0), (own, -1)):
        (run,) = each.record_runs(0)
        sent = [batch for batch in run.transcript.messages if batch.phase is Phase.VECTORS]
        rows = [batch.payload for batch in sent if not batch.step.evaluation]
        first, second = (np.asarray(each)[:, -1] for each in rows[:2])
        assert np.allclose(np.roll(first, step), second)
    before, after = (each.setting.sets for each in (clear, own))
    assert np.array_equal((before.targets + 1) % before.num_classes, after.targets)


def test_runs_that_do_not_go_together_are_refused() -> None:
    """A subject whose independent runs are of other kinds is a mistake in the method, and said so."""
    subject = METHOD.plan(schemes=("plaintext",)).subjects[0]

    class Fewer(type(subject)):  # type: ignore[misc]  # of the method that there is
        def independent(self, seed: int) -> Subject:  # noqa: ARG002
            return self

        def record_runs(self, seed: int) -> Iterator[RecordedRun]:  # noqa: ARG002
            return iter(())

    fewer = Fewer(**{each.name: getattr(subject, each.name) for each in fields(subject)} | {"name": "fewer"})
    with pytest.raises(AssertionError, match="independent of fewer must give the same kinds of runs"):
        list(attempts((), fewer, subject.record_runs(0), 1))
