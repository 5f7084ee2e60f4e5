"""What every scheme for one sum over clients has to do while all goes well: exact sums, checks of rows, sizes."""

from abc import ABC
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fgl_secure.coins import SimulationCoins
from fgl_secure.crypto.keys import KeyAgreement
from fgl_secure.errors import FieldRangeError, InputError, ProtocolError
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.secagg.scheme import AggregationScheme
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.protocols.topology import NEIGHBOURS, Grouping, Topology
from fgl_secure.runtime import Channel, LazyArray, Messages, OwnDraws, Recording, Role, Step, Strength
from fgl_secure.runtime.channel import Loss
from tests.error_codes import about
from tests.protocols.secagg.rounds import NOW, SESSION, Ints, Sum, directory_of, messages_in, topology_of, vectors_of


def channel_of(clients: int, loss: Loss | None = None, seed: int = 0) -> Channel:
    """A channel that records everything."""
    return Channel(directory_of(clients), SimulationCoins(seed), Recording.everything(), loss)


def bare(messages: Messages) -> dict[str, bytes]:
    """Fields by name, without what the library's own randomness hides: secrets wrapped for keys of ML-KEM."""
    kept = {name: value for name, value in messages.fields.items() if name != "wrapped"}
    if "boxes" in kept and KeyAgreement.best() is KeyAgreement.HYBRID:
        kept["boxes"] = kept["boxes"][..., KeyAgreement.HYBRID.wrapped_bytes :]
    return {name: np.ascontiguousarray(value).tobytes() for name, value in kept.items()}


class CoreConformance(ABC):
    """Sums and sizes.

    Attributes:
        make: the scheme under test from a threshold; None takes its default.
        splits: whether the receiver may be, and whether it may not be, who adds up.
        signs: whether keys can be signed.
    """

    make: ClassVar[Callable[..., AggregationScheme]]
    splits: ClassVar[tuple[bool, ...]] = (False, True)
    signs: ClassVar[bool] = True

    @property
    def three(self) -> AggregationScheme:
        """The scheme with a threshold of three: for five clients."""
        return type(self).make(3)

    def five(
        self,
        *,
        split: bool | None = None,
        step: Step = NOW,
        session: bytes = SESSION,
        seed: int = 0,
        vectors: Ints | None = None,
        known: bool = False,
    ) -> Sum:
        """Five clients with vectors of small numbers, of which three must be left."""
        split = self.splits[0] if split is None else split
        rows = vectors_of(5) if vectors is None else vectors
        topology = topology_of(5, split=split)
        return Sum.of(self.three, topology, rows, step=step, session=session, seed=seed, known=known)

    def summed(self, clients: int, rows: Ints, loss: Loss | None = None, *, split: bool = False) -> list[int]:
        """One sum over a channel, all clients in one machine."""
        topology = topology_of(clients, split=split, length=rows.shape[1])
        collective = Collective(self.three, topology, channel_of(clients, loss))
        found: list[int] = collective.sum(rows, NOW)[0].tolist()
        return found

    @given(st.data())
    @settings(max_examples=25)
    def test_the_sum_is_exact(self, data: st.DataObject) -> None:
        """The receiver gets the sum of the vectors, integer for integer, whoever adds up, and says whose it is of."""
        n, length = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 5))
        bound, split = data.draw(st.sampled_from([1, 7, 2**20])), data.draw(st.sampled_from(self.splits))
        rows = data.draw(hnp.arrays(np.int64, (n, length), elements=st.integers(-bound, bound)))
        topology = topology_of(n, split=split, length=length, bound=bound)
        collective = Collective(type(self).make(None), topology, channel_of(n))
        total = collective.sum(rows, NOW)
        assert total.dtype == np.int64
        assert total.tolist() == [rows.sum(axis=0).tolist()]
        assert collective.contributors is not None
        assert collective.contributors.tolist() == topology.senders.tolist()

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_the_largest_sum_is_exact(self, sign: int) -> None:
        """Vectors at the bound add up to what the scheme states as its limit, on both sides of zero."""
        scheme = type(self).make(None)
        limit = scheme.limit(3)
        assert limit is not None
        for split in self.splits:
            topology = topology_of(3, split=split, bound=limit // 3)
            rows = np.full((3, 2), sign * (limit // 3), dtype=np.int64)
            assert Collective(scheme, topology, channel_of(3)).sum(rows, NOW).tolist() == [[3 * rows[0, 0]] * 2]

    @given(st.data())
    @settings(max_examples=8)
    def test_residues_add_up_modulo_the_field(self, data: st.DataObject) -> None:
        """Without a bound any elements add up modulo the scheme's prime; without a modulus such sums are refused."""
        scheme, topology = type(self).make(None), topology_of(4, bound=None, split=self.splits[0])
        p = scheme.modulus
        if p is None:
            with pytest.raises(InputError, check=about("bound")):
                Collective(scheme, topology, channel_of(4))
            return
        rows = data.draw(hnp.arrays(np.int64, (4, 2), elements=st.integers(0, p - 1)))
        expected = [sum(column) % p for column in zip(*rows.tolist(), strict=True)]
        collective = Collective(scheme, topology, channel_of(4))
        assert collective.sum(rows, NOW).tolist() == [expected]
        for value in (-1, p):
            with pytest.raises(InputError, check=about("rows")):
                collective.sum(np.full((4, 2), value), Step(9))

    def test_machines_of_one_process_or_of_many_sum_alike(self) -> None:
        """Every party in a process of its own, all in one, or some together: one sum."""
        for split in self.splits:
            assert self.five(split=split).play().result == vectors_of(5).sum(axis=0).tolist()
            assert self.summed(5, vectors_of(5), split=split) == vectors_of(5).sum(axis=0).tolist()

    def test_one_client_vanishes_at_each_stage(self) -> None:
        """The sum is that of those whose vectors arrived."""
        for gone, stage in enumerate((Stage.KEYS, Stage.SHARES, Stage.VECTORS, Stage.AGREEMENT, Stage.OPENING)):
            run = self.five().play({gone: stage})
            kept = [u for u in range(5) if u != gone or stage > Stage.VECTORS]
            assert (run.included, run.result) == (kept, vectors_of(5)[kept].sum(axis=0).tolist())

    def test_sizes_do_not_depend_on_values(self) -> None:
        """Every message, by phase and ends, is as long whatever the vectors hold."""
        for split in self.splits:
            seen = []
            for rows in (np.zeros((5, 2), dtype=np.int64), np.full((5, 2), 50), vectors_of(5)):
                log = self.five(split=split, vectors=rows).play().log
                seen.append([(sent.sender, sent.receiver, sent.phase, len(sent.data)) for sent in log])
            assert seen[0] == seen[1] == seen[2]


class SumsConformance(CoreConformance, ABC):
    """What does not depend on keys and precision: rows and topologies that are refused, steps, parties, claims."""

    def test_vectors_may_be_made_when_they_are_handed_in(self) -> None:
        """The sum is the same; where the scheme can read them so each is made once, alone, and checked then."""
        scheme = type(self).make(None)
        rows, read = np.arange(-4, 4).reshape(4, 2), list[int]()

        def make(places: Ints) -> Ints:
            read.extend(places.tolist())
            assert len(places) == 1 or not scheme.reads_one_by_one
            return rows[places]

        def total(split: bool) -> list[list[int]]:
            channel = Channel(directory_of(4), SimulationCoins(0), Recording())
            collective = Collective(scheme, topology_of(4, bound=4, split=split), channel)
            found: list[list[int]] = collective.sum(LazyArray(make, (4, 2), rows.dtype), NOW).tolist()
            return found

        for split in self.splits:
            rows[2, 1], read[:] = 1, []
            assert total(split) == [rows.sum(axis=0).tolist()]
            assert sorted(read) == [0, 1, 2, 3]
            rows[2, 1] = 5
            with pytest.raises(InputError, check=about("rows")):
                total(split)

    def test_there_is_no_sum_before_the_end(self) -> None:
        """`sums` is None until the sum is done; it is a copy, and nobody speaks afterwards."""
        run = self.five()
        receiver = run.topology.receiver
        assert receiver is not None
        last = None
        for out in run.turns():
            done = run.machines[receiver].sums
            assert last is None or done is not None, "it stays there"
            last = done
            for sent in out:
                run.hand(sent)
        sums = run.machines[receiver].sums
        assert sums is not None
        sums[:] = 0
        assert run.result == vectors_of(5).sum(axis=0).tolist()
        assert not any(list(machine.step()) for machine in run.machines.values())

    def test_steps_do_not_disturb_each_other(self) -> None:
        """One session gives the exact sums of several rounds, layers and parts, in any order."""
        steps = [Step(4, 1, part=1), Step(2), Step(4, 1), Step(4, 0, evaluation=True), Step(2, final=True)]
        for split in self.splits:
            collective = Collective(self.three, topology_of(5, split=split), channel_of(5))
            for at, step in enumerate(steps):
                rows = vectors_of(5) + at
                assert collective.sum(rows, step).tolist() == [rows.sum(axis=0).tolist()]

    def test_a_step_is_never_summed_twice(self) -> None:
        """A second sum of one step raises, before a message is sent; other steps go on, also after a restart."""
        channel = channel_of(5)
        collective = Collective(self.three, topology_of(5, split=self.splits[0]), channel)
        collective.sum(vectors_of(5), NOW)
        said = channel.transcript.message_count
        with pytest.raises(ProtocolError, check=about("a step")):
            collective.sum(vectors_of(5) + 1, NOW)
        assert channel.transcript.message_count == said
        assert collective.sum(vectors_of(5), Step(9)).tolist() == [vectors_of(5).sum(axis=0).tolist()]
        run = self.five().play()
        run.restart(self.three, 1)
        with pytest.raises(ProtocolError, check=about("a step")):
            run.machines[1].begin(NOW, vectors_of(1))

    def test_sums_repeat_for_equal_coins(self) -> None:
        """Equal coins give equal messages but for what wraps a secret, and other coins other ones."""
        first, same, other = (messages_in(self.five(seed=seed).play().log) for seed in (0, 0, 100))
        alike = [[bare(a) == bare(b) for a, b in zip(first, some, strict=True)] for some in (same, other)]
        assert all(alike[0])
        assert not all(alike[1])
        assert len({scheme.name for scheme in (self.three,)}) == 1
        assert self.five(seed=100).play().result == self.five().play().result

    @pytest.mark.parametrize("value", [51, -51, 2**63 - 1, -(2**63)])
    def test_a_value_beyond_the_bound_is_refused(self, value: int) -> None:
        """It raises without the value, whoever it is from, before a message is sent, and other rows are taken."""
        channel = channel_of(5)
        collective = Collective(self.three, topology_of(5, split=self.splits[0]), channel)
        for position in range(5):
            rows = vectors_of(5)
            rows[position, 1] = value
            with pytest.raises(InputError, check=about("rows")) as raised:
                collective.sum(rows, NOW)
            assert str(abs(value)) not in str(raised.value).replace(",", "")
        assert channel.transcript.message_count == 0
        assert collective.sum(vectors_of(5), NOW).tolist() == [vectors_of(5).sum(axis=0).tolist()]

    @pytest.mark.parametrize(
        "rows",
        [
            np.zeros((4, 2), dtype=np.int64), np.zeros((6, 2), dtype=np.int64), np.zeros((5, 3), dtype=np.int64),
            np.zeros(5, dtype=np.int64), np.zeros((5, 2, 1), dtype=np.int64), np.zeros((5, 2), dtype=np.int32),
        ],
        ids=lambda rows: f"{rows.dtype} {list(rows.shape)}",
    )  # fmt: skip
    def test_rows_of_another_kind_are_refused(self, rows: Ints) -> None:
        """Rows are int64 of the width agreed on, one a client."""
        collective = Collective(self.three, topology_of(5, split=self.splits[0]), channel_of(5))
        with pytest.raises(InputError):
            collective.sum(rows, NOW)

    def test_topologies_and_sessions_that_do_not_fit_are_refused(self) -> None:
        """Several sums, nobody who adds up, too few clients, too large a bound, a session that is too short."""
        scheme = type(self).make(None)
        limit = scheme.limit(5)
        assert limit is not None
        two = np.arange(2, dtype=np.int64)
        several = Topology(NEIGHBOURS, Grouping(two, two, two, two[::-1].copy(), two, two), 2, 50, 0)
        good = topology_of(5, split=self.splits[0])
        nobody = Topology(good.name, good.grouping, 2, 50)
        for topology in (several, nobody):
            assert scheme.refuses(topology)
            with pytest.raises(InputError, check=about("scheme")):
                Collective(scheme, topology, channel_of(5))
        assert scheme.refuses(good) is None
        with pytest.raises(FieldRangeError, check=about("bound")):
            Collective(scheme, topology_of(5, split=self.splits[0], bound=limit // 5 + 1), channel_of(5))
        with pytest.raises(InputError, check=about("senders")):
            Collective(scheme, topology_of(1, split=self.splits[0]), channel_of(5))
        with pytest.raises(InputError, check=about("session")):
            scheme.machines(good, b"short", OwnDraws(SimulationCoins(0)))

    def test_thresholds_out_of_range_are_refused(self) -> None:
        """More than all clients, or none at all, cannot be left."""
        for threshold, clients in ((6, 5), (0, 5), (-1, 5)):
            with pytest.raises(InputError):
                type(self).make(threshold).threshold_for(clients)
        with pytest.raises(InputError):
            type(self).make(None).threshold_for(1)
        assert type(self).make(None).threshold_for(2) == 2

    def test_claim_and_name_are_stated(self) -> None:
        """A guarantee names its source, a coalition and a statement; the scheme has a name, a label and a summary."""
        scheme = type(self).make(None)
        assert scheme.name.startswith(scheme.label)
        assert scheme.summary
        for clients in (5, 50):
            for guarantee in scheme.claim_for(topology_of(clients, split=self.splits[0])).guarantees:
                assert guarantee.source
                assert guarantee.statement
                assert any(guarantee.coalition.values())
                assert guarantee.strength in Strength

    def test_parties_are_those_of_the_topology(self) -> None:
        """Machines host exactly the clients, the server and the receiver; the bystander has none."""
        for split in self.splits:
            topology, draws = topology_of(5, split=split), OwnDraws(SimulationCoins(0))
            hosted = [party for machine in self.three.machines(topology, SESSION, draws) for party in machine.parties]
            assert sorted(hosted) == sorted({0, *topology.senders.tolist(), topology.receiver})
            bystander = directory_of(5).ids(Role.SILO)[-1:]
            assert self.three.machines(topology, SESSION, draws, bystander) == ()
