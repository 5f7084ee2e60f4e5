"""What every scheme for one sum has to refuse: messages that are stale, cut, forged, misaddressed or said twice."""

import re
from abc import ABC
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.identity import Identity, Names
from fgl_secure.protocols.secagg.terms import Stage
from fgl_secure.runtime import OwnDraws, Phase, Step, decode
from tests.error_codes import about
from tests.protocols.secagg.rounds import (
    LEADER,
    NOW,
    SESSION,
    STAGES,
    Sent,
    Sum,
    changed,
    mark,
    names_of,
    topology_of,
    vectors_of,
)
from tests.protocols.secagg.sums import SumsConformance

OTHER_SESSION = bytes(reversed(range(16)))

Bad = Callable[[Sum, Sent], Iterator[bytes]]


class MessageConformance(SumsConformance, ABC):
    """Messages that an honest party refuses, and goes on as if they had never come."""

    def _refuses(self, bad: Bad, errors: type[ProtocolError] | tuple[type[ProtocolError], ...]) -> None:
        """All parties refuse some messages at every stage without a trace, and the sum is exact."""
        for split in self.splits:
            tried: dict[bool, int] = {False: 0, True: 0}

            def listen(run: Sum, sent: Sent, tried: dict[bool, int] = tried) -> None:
                machine = run.machines[sent.receiver]
                before = mark(machine)
                for data in bad(run, sent):
                    tried[sent.receiver == LEADER] += 1
                    with pytest.raises(errors):
                        machine.receive(decode(data, SESSION))
                assert mark(machine) == before

            run = self.five(split=split).play(listen=listen)
            assert min(tried.values()) > 0, "clients and server were shown bad messages"
            assert run.result == vectors_of(5).sum(axis=0).tolist()

    def test_messages_of_another_session_step_or_stage_are_stale(self) -> None:
        """Replayed they raise StaleMessageError, or another ProtocolError where they say a thing again."""
        foreign: dict[bool, list[Sent]] = {}
        for split in self.splits:
            other = self.five(split=split, session=OTHER_SESSION).play().log
            foreign[split] = [*other, *self.five(split=split, step=Step(4)).play().log]

        def stale(run: Sum, sent: Sent) -> Iterator[bytes]:
            split = run.topology.receiver != LEADER
            mine = [one for one in run.log if one.receiver == sent.receiver and one.phase is not sent.phase]
            theirs = [one for one in foreign[split] if (one.sender, one.receiver) == (sent.sender, sent.receiver)]
            yield from (one.data for one in [*mine, *theirs])

        self._refuses(stale, StaleMessageError)

    def test_messages_to_or_from_others_are_misaddressed(self) -> None:
        """What is for somebody else, or from somebody who has no say, raises ProtocolError."""

        def misaddressed(run: Sum, sent: Sent) -> Iterator[bytes]:
            for end in (63, int(run.topology.senders[0]), LEADER, 2**40, -1):
                if end != sent.receiver:
                    yield changed(sent, receivers=np.array([end]))
                if end != sent.sender and (sent.receiver != LEADER or end not in run.topology.senders):
                    yield changed(sent, senders=np.array([end]))

        self._refuses(misaddressed, ProtocolError)

    def test_messages_cut_or_extended_anywhere_are_malformed(self) -> None:
        """Empty, within or after the head, at the ends of fields or within them: MalformedMessageError."""

        def misshapen(_: Sum, sent: Sent) -> Iterator[bytes]:
            size = len(sent.data)
            lengths = {0, 1, 4, 5, 20, 21, 40, 50, size - 1, *range(0, size, max(1, size // 12))}
            yield from (sent.data[:length] for length in sorted(lengths))
            yield from (sent.data + b"\0", sent.data + bytes(8), sent.data + sent.data)

        self._refuses(misshapen, MalformedMessageError)

    def test_fields_of_other_shapes_or_types_are_malformed(self) -> None:
        """Each field left out, under another name, shorter, longer, flat, or of another type: refused."""

        def misshapen(_: Sum, sent: Sent) -> Iterator[bytes]:
            fields = decode(sent.data, SESSION).fields
            for name, value in fields.items():
                other = np.dtype("<f8") if value.dtype != np.float64 else np.dtype("<i4")
                yield changed(sent, **{name: value.astype(other)})
                yield changed(sent, **{name: np.concatenate([value, value], axis=-1)})
                yield changed(sent, **{name: value[..., None]})
                if value.ndim > 1:
                    yield changed(sent, **{name: value[..., :-1]})

        self._refuses(misshapen, MalformedMessageError)

    def test_a_phase_that_is_none_of_the_scheme_is_refused(self) -> None:
        """Whatever its fields."""

        def foreign(_: Sum, sent: Sent) -> Iterator[bytes]:
            yield from (changed(sent, phase=phase) for phase in (Phase.GRADIENT, Phase.HOP_ENTRIES))

        self._refuses(foreign, ProtocolError)

    def test_a_message_counts_once(self) -> None:
        """The same message again raises, whoever it is for; the sum is exact."""
        for split in self.splits:
            run = self.five(split=split)
            for out in run.turns():
                for sent in out:
                    run.hand(sent)
                    with pytest.raises(ProtocolError):
                        run.hand(sent)
            assert run.result == vectors_of(5).sum(axis=0).tolist()

    def test_a_bad_message_does_not_stop_others_of_its_batch(self) -> None:
        """Of messages that come together the good ones are taken, and the bad one is remarked on with its sender."""
        topology = topology_of(5, split=self.splits[0])
        draws = OwnDraws(SimulationCoins(0))
        server, clients = self.three.machines(topology, SESSION, draws)[:2]
        server.begin(NOW)
        clients.begin(NOW, vectors_of(5))
        (first, *_) = list(clients.step())
        twice = first.rows(np.array([0, 1, 1, 2]))
        server.receive(twice)
        assert [remark.party for remark in server.remarks] == [int(topology.senders[1])]
        with pytest.raises(ProtocolError):
            server.receive(first.rows(np.array([0, 1])))

    def test_a_late_answer_is_not_heard(self) -> None:
        """An answer that comes after its stage is over raises, and is not in the sum."""
        for gone in list(Stage)[:-1]:
            run = self.five()
            who, late = int(run.topology.senders[1]), list[Sent]()
            for out in run.turns():
                for sent in late if not any(STAGES.get(one.phase) is gone for one in out) else ():
                    with pytest.raises(ProtocolError):
                        run.hand(sent)
                for sent in out:
                    if sent.sender == who and STAGES.get(sent.phase) is gone:
                        late.append(sent)
                    else:
                        run.hand(sent)
            if late:
                kept = [u for u in range(5) if u != 1 or gone > Stage.VECTORS]
                assert run.result == vectors_of(5)[kept].sum(axis=0).tolist()

    def test_keys_must_be_signed_by_those_whose_they_are(self) -> None:
        """With identities a sum completes, restarts included; a forger, or one that signs nothing, is refused."""
        if not self.signs:
            pytest.skip("no keys are signed")
        for split in self.splits:
            assert self.five(split=split, known=True).play().result == vectors_of(5).sum(axis=0).tolist()
            _, everybody = names_of(5, split=split)
            forger, topology = Identity.generate(SimulationCoins(200)), topology_of(5, split=split)
            lies = type(everybody)({**everybody.public, 2: forger.public})
            for names in (Names({2: forger}, lies), None):
                run = self.five(split=split, known=True)
                party = np.array([topology.senders[2]])
                draws = OwnDraws(SimulationCoins(7))
                (bad,) = self.three.machines(topology, SESSION, draws, party, names=names)
                bad.begin(NOW, vectors_of(5)[2:3])
                run.machines[int(party[0])] = bad
                with pytest.raises(ProtocolError, check=about("keys of client 2")):
                    run.play()

    def test_nothing_printed_holds_a_secret(self) -> None:
        """Printed parties and errors hold no vector entry, and no eight bytes of what a party keeps."""
        texts: list[str] = []
        kept: list[bytes] = []

        def listen(run: Sum, sent: Sent) -> None:
            machine = run.machines[sent.receiver]
            kept.extend(value.tobytes() for name, value in machine.state().items() if name != "digest")
            for data in (sent.data[:-1], sent.data[:-1] + bytes([sent.data[-1] ^ 64])):
                try:
                    machine.receive(decode(data, SESSION))
                except ProtocolError as error:
                    texts.append(str(error))
                else:
                    raise _Taken
            texts.append(repr(machine))

        run = self.five(vectors=np.array([[41, -43]] * 5, dtype=np.int64))
        with suppress(_Taken, ProtocolError):
            run.play(listen=listen)
        texts += [repr(machine) for machine in run.machines.values()]
        printed = "\n".join(texts)
        assert texts
        assert not re.search(r"\b4[13]\b", printed)
        for text in re.findall(r"[0-9a-fA-F]{16,}", printed):
            assert not any(bytes.fromhex(text[:16]) in state for state in kept)


class _Taken(Exception):  # noqa: N818  # not an error
    """A garbled message was taken."""
