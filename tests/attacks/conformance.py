"""What every attack must keep, inherited by one test class per attack."""

import gc
import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fgl_secure.attacks import base
from fgl_secure.attacks.base import Attack, InformedAttack, Measurement, Truth, guess_of
from fgl_secure.attacks.registry import attacks
from fgl_secure.auditing.controls import control
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.auditing.verdict import MARGIN
from fgl_secure.graph import FederatedGraph, Graph
from fgl_secure.methods.fed2gnn.audit_target import CONTROLS as FED2GNN
from fgl_secure.methods.fedavg.audit_runs import CONTROLS as FEDAVG
from fgl_secure.methods.fedspray.audit_runs import CONTROLS as FEDSPRAY
from fgl_secure.methods.fedstruct.audit_runs import CONTROLS as FEDSTRUCT
from fgl_secure.methods.fedvn.audit_target import CONTROLS as FEDVN
from fgl_secure.methods.hifgl.controls import CONTROLS as HIFGL
from fgl_secure.runtime import MessageKind, Party, PublicParameters, Recording, Step, Transcript, View
from fgl_secure.runtime.channel import Loss, RecordingLevel
from tests.attacks.recorded import SCHEMES, Run, federated, random_graph, record, words

Claims = Counter[Hashable]
FIRST_DEVICE = 4
"""Number of the first device behind a server and three silos."""

MAKERS = (HIFGL, FEDSTRUCT, FED2GNN, FEDSPRAY, FEDAVG, FEDVN)


class AttackConformance(ABC):
    """Inherit as `Test...`, name the attack and list its claims.

    Attributes:
        reads_sizes: whether the attack needs no payload.
        needs_edges: whether it finds nothing where nobody has a neighbour.
        beats_its_knowledge: whether it finds more on its control than what it knows reveals without a message.
    """

    reads_sizes = False
    needs_edges = True
    beats_its_knowledge = True

    @property
    @abstractmethod
    def attack(self) -> Attack[Any, Any]:
        """The attack under test."""

    @property
    @abstractmethod
    def rests_on(self) -> tuple[frozenset[MessageKind], ...]:
        """Sets of phases; without the messages of any one set the attack is blind."""

    @abstractmethod
    def claims(self, guess: Any) -> Claims:
        """The single statements of a guess, without saying which observer makes them."""

    def control(self) -> RecordedRun:
        """The run that the attack must break."""
        return control(self.attack.card.control, MAKERS)

    def read(self, run: Run, view: View | None = None) -> Claims:
        """The claims on a run: of all observers side by side unless a view is given."""
        view = view or run.transcript.views(self.attack.card.observer)
        guess = guess_of(self.attack, view, run.public, run.knowledge)
        return Counter() if guess is None else self.claims(guess)

    def guess(self, run: Run | RecordedRun) -> Any:
        """The guess of the attack on a run, which must give one."""
        return guess_on(self.attack, run)

    def run(self, loss: Loss | None = None, recording: Recording | None = None) -> Run:
        """An exchange of 0/1 rows under the scheme that the attack must break."""
        graph = random_graph(5, directed=False, pairs=22)
        return self.exchange(graph, words(graph.num_devices, 16), loss=loss, recording=recording)

    def exchange(self, graph: FederatedGraph, values: NDArray[np.float64], **network: Any) -> Run:
        """What is recorded for the attack on a graph: an exchange under the scheme of its control."""
        return record(graph, SCHEMES[self.attack.card.control], values, **network)

    def test_breaks_its_control_and_no_permuted_truth(self) -> None:
        """Every figure on the control reaches its share of a complete break; on permuted truth none beats baselines.

        What the knowledge of the attacker tells alone is a prior, and some figure beats it.
        """
        run = self.control()
        guess = run.guess(self.attack)
        assert guess is not None
        bare, real = run.score(self.attack, guess), run.measure(self.attack, guess)
        metrics = [found.metric for found in bare]
        assert len(set(metrics)) == len(metrics)
        for found in bare:
            assert found.reachable > 0
            assert found.value / found.reachable >= self.attack.card.minimum
            well_formed(found)
        assert [replace(found, prior=0.0) for found in bare] == [replace(found, prior=0.0) for found in real]
        assert all(after.prior >= before.prior for before, after in zip(bare, real, strict=True))
        assert any(found.value > found.prior for found in real) is self.beats_its_knowledge
        for seed in (1, 2, 3):
            nulls = run.score(self.attack, guess, seed)
            assert [found.metric for found in nulls] == metrics
            for found in nulls:
                well_formed(found)
                assert found.interval.low <= max(found.random, found.prior) + MARGIN
                assert found.value <= max(found.reachable / 2, found.prior + MARGIN)

    def test_infers_from_view_and_public_parameters_only(self) -> None:
        hints = get_type_hints(type(self.attack).infer)
        hints.pop("return")
        assert list(inspect.signature(self.attack.infer).parameters) == ["view", "public"]
        assert hints == {"view": View, "public": PublicParameters}
        if isinstance(self.attack, InformedAttack):
            informed = get_type_hints(type(self.attack).infer_with)
            informed.pop("return")
            assert informed == {**hints, "known": self.attack.card.knowledge}
            assert self.attack.card.auxiliary
        else:
            assert self.attack.card.knowledge is None
        assert not getattr(self.attack, "__dict__", {})
        assert type(attacks()[self.attack.card.name]) is type(self.attack)

    def test_views_hold_what_observers_saw_alone(self) -> None:
        """No reference leads to a secret, no array is a window into a larger one, and reading writes nothing."""
        run = self.run()
        view = run.transcript.views(self.attack.card.observer)
        seen = list(reachable(view))
        assert not [each for each in seen if isinstance(each, Transcript | Truth | FederatedGraph | Graph)]
        arrays = [each for each in seen if isinstance(each, np.ndarray)]
        assert arrays
        assert all(base.nbytes <= array.nbytes for array in arrays for base in bases(array))
        before = [array.tobytes() for array in arrays]
        first = self.read(run, view)
        assert [array.tobytes() for array in arrays] == before
        assert first == self.read(run) == self.read(self.run())

    def test_finds_nothing_where_nothing_is_shown(self) -> None:
        """Not in an empty run, nor without the knowledge that an attack needs; sizes give counts of messages alone."""
        run = self.run()
        if isinstance(self.attack, InformedAttack):
            assert guess_of(self.attack, run.transcript.views(self.attack.card.observer), run.public, []) is None
        empty = Transcript(run.transcript.parties).views(self.attack.card.observer)
        assert guess_of(self.attack, empty, run.public, run.knowledge) is None
        sizes = self.run(recording=Recording(RecordingLevel.SIZES))
        assert sizes.transcript.message_count > 0
        assert self.read(sizes) == (self.read(run) if self.reads_sizes else Counter())

    def test_claims_nothing_where_nobody_has_a_neighbour(self) -> None:
        graph = federated(np.empty((2, 0), dtype=np.int64), np.arange(6) % 2)
        run = self.exchange(graph, words(6, 16))
        assert bool(self.read(run)) is not self.needs_edges

    def test_rests_on_messages(self) -> None:
        """Losing half of the messages that the attack rests on leaves fewer of its claims, losing all leaves none."""
        everything = self.read(self.run())
        for phases in self.rests_on:
            some, none = self.read(self.run(losing_of_even(phases))), self.read(self.run(losing(phases)))
            assert some < everything
            assert some
            assert not none

    def test_observers_attack_alone(self) -> None:
        """What the observers claim side by side is what each of them claims alone, also when messages get lost."""
        for loss in (None, *(losing_of_even(phases) for phases in self.rests_on)):
            run = self.run(loss)
            assert self.read(run) == self.read_one_by_one(run)

    def read_one_by_one(self, run: Run) -> Claims:
        """The claims of every observer that sees its own messages and no others."""
        alone: Claims = Counter()
        role = self.attack.card.observer
        for index in range(run.transcript.parties.counts[role]):
            alone += self.read(run, run.transcript.view([Party(role, index)]))
        return alone


def well_formed(found: Measurement) -> None:
    """A figure lies within its interval, rests on some units, and says in words what it found."""
    assert found.interval.contains(found.value, 1e-12)
    assert -1 <= found.value <= 1
    assert found.n > 0
    assert 0 <= found.random <= 1
    assert 0 <= found.prior <= 1
    assert found.finding.endswith(".")


def measured(attack: Attack[Any, Any], run: Run | RecordedRun) -> Mapping[str, Measurement]:
    """The figures of an attack on a run, which must give a guess, by metric, with what its knowledge tells alone."""
    guess = guess_on(attack, run)
    truth = run.truth(attack.card.truth) if isinstance(run, RecordedRun) else run.truth
    found = base.measure(attack, guess, truth, run.transcript.parties, run.knowledge)
    return {each.metric: each for each in found}


def guess_on(attack: Attack[Any, Any], run: Run | RecordedRun) -> Any:
    """The guess of an attack on a run, which must give one."""
    guess = guess_of(attack, run.transcript.views(attack.card.observer), run.public, run.knowledge)
    assert guess is not None
    return guess


def losing(phases: frozenset[MessageKind]) -> Loss:
    """A network that loses all messages of some phases."""

    def arrives(phase: MessageKind, step: Step, senders: NDArray[np.int64], receivers: NDArray[np.int64]) -> Any:  # noqa: ARG001
        return np.full(len(receivers), phase not in phases)

    return arrives


def losing_of_even(phases: frozenset[MessageKind]) -> Loss:
    """A network that loses the messages of some phases to devices of even number, and from them to silos."""

    def arrives(phase: MessageKind, step: Step, senders: NDArray[np.int64], receivers: NDArray[np.int64]) -> Any:  # noqa: ARG001
        device = np.where(receivers < FIRST_DEVICE, senders, receivers)
        return np.full(len(receivers), phase not in phases) | (device % 2 == 1)

    return arrives


def reachable(start: object) -> Iterator[object]:
    """Everything that a chain of references reaches, without what is code."""
    seen, waiting = {id(start)}, [start]
    while waiting:
        current = waiting.pop()
        yield current
        further = [*gc.get_referents(current), *(bases(current) if isinstance(current, np.ndarray) else ())]
        for each in further:
            if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
                seen.add(id(each))
                waiting.append(each)


def bases(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The arrays that an array is a window into, from near to far."""
    base = array.base
    while isinstance(base, np.ndarray):
        yield base
        base = base.base
