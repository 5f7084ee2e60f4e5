"""What every staged scheme has to refuse: messages that are stale, cut, forged, misaddressed or said twice."""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError, MalformedMessageError, ProtocolError, StaleMessageError
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.staged.interface import Stage, StagedClient, StagedServer
from tests.protocols.staged.conformance_sums import SumsConformance
from tests.protocols.staged.mutations import HEAD_BYTES
from tests.protocols.staged.rounds import Moment, Sum, moments_of, server_at, stages_of, vectors_of

OTHER_SESSION = bytes(reversed(range(16)))


class MessageConformance(SumsConformance, ABC):
    """Messages that an honest party refuses, and goes on as if they had never come."""

    def test_messages_of_another_session_sum_or_stage_are_stale(self) -> None:
        """Replayed to clients and server they raise StaleMessageError, and the round is unharmed.

        All but one: asked again what it answered last, a client may say the same again.
        """
        mine = moments_of(self.five())
        foreign = [*moments_of(self.five(session=OTHER_SESSION)), *moments_of(self.five(number=4))]
        stages = [moment.stage for moment in mine]

        def stale(stage: Stage, client: int, answers: bool) -> Iterator[bytes]:
            due = stages.index(stage)
            passed = mine[:due] if answers else mine[: max(0, due - 1)]
            for moment in (*foreign, *passed, *mine[due + 1 :]):
                yield (moment.replies if answers else moment.requests)[client]

        self._refuses(stale, StaleMessageError)

    def test_messages_to_or_from_others_are_misaddressed(self) -> None:
        """A request to another client, an answer of another client, and either's echo raise MalformedMessageError."""
        mine = {moment.stage: moment for moment in moments_of(self.five())}

        def misaddressed(stage: Stage, client: int, answers: bool) -> Iterator[bytes]:
            theirs, own = mine[stage].requests, mine[stage].replies
            there, back = (own, theirs) if answers else (theirs, own)
            yield from (there[(client + 1) % 5], there[(client + 3) % 5], back[client])

        self._refuses(misaddressed, MalformedMessageError)

    def test_messages_cut_or_extended_anywhere_are_malformed(self) -> None:
        """Empty, within or after the head, at the ends of fields or within them: MalformedMessageError."""
        mine = {moment.stage: moment for moment in moments_of(self.five())}

        def misshapen(stage: Stage, client: int, answers: bool) -> Iterator[bytes]:
            message = (mine[stage].replies if answers else mine[stage].requests)[client]
            lengths = {0, 1, 3, 4, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + 8, len(message) - 1}
            lengths |= set(range(HEAD_BYTES, len(message), max(1, len(message) // 12)))
            yield from (message[:length] for length in sorted(lengths) if length < len(message))
            yield from (message + b"\0", message + bytes(8), message + message)

        self._refuses(misshapen, MalformedMessageError)

    def test_a_bit_changed_in_the_head_is_noticed(self) -> None:
        """Every byte of the head counts."""
        mine = {moment.stage: moment for moment in moments_of(self.five())}

        def changed(stage: Stage, client: int, answers: bool) -> Iterator[bytes]:
            message = (mine[stage].replies if answers else mine[stage].requests)[client]
            for at in range(client, HEAD_BYTES, 5):  # each byte with one of the clients
                yield message[:at] + bytes([message[at] ^ 1 << at % 8]) + message[at + 1 :]

        self._refuses(changed, ProtocolError)

    def _refuses(self, bad: Callable[[Stage, int, bool], Iterator[bytes]], error: type[ProtocolError]) -> None:
        """Both sides refuse some messages at every stage without a trace, and the sum is exact."""
        run, tried = self.five(), {False: 0, True: 0}
        while (stage := run.server.stage) is not None:
            for client, request in run.ask():
                before = run.clients[client].state()
                for message in bad(stage, client, False):
                    tried[False] += 1
                    with pytest.raises(error):
                        run.clients[client].reply(message)
                assert run.clients[client].state() == before
                reply = run.clients[client].reply(request)
                for message in bad(stage, client, True):
                    tried[True] += 1
                    with pytest.raises(error):
                        run.server.receive(client, message)
                run.server.receive(client, reply)
            run.server.advance()
        assert min(tried.values()) > 0, "clients and server were shown bad messages"
        assert run.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_an_answer_counts_once(self) -> None:
        """The same answer again, or that of another client under one's name, raises; the sum is exact."""
        run = self.five()
        while run.server.stage is not None:
            replies = {u: run.clients[u].reply(message) for u, message in run.ask()}
            for u, reply in replies.items():
                with pytest.raises(ProtocolError):
                    run.server.receive((u + 1) % 5, reply)
                run.server.receive(u, reply)
                with pytest.raises(ProtocolError):
                    run.server.receive(u, reply)
            run.server.advance()
        assert run.server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_a_client_that_dropped_out_is_not_heard(self) -> None:
        """An answer that comes after its stage is over raises, whatever stage it is of, and is not in the sum."""
        for gone in stages_of(self.three):
            run, late = self.five(), b""
            while run.server.stage is not None:
                if late:
                    with pytest.raises(ProtocolError):
                        run.server.receive(1, late)
                for u, message in run.ask():
                    reply = run.clients[u].reply(message)
                    if u == 1 and run.server.stage == gone:
                        late = reply
                    else:
                        run.server.receive(u, reply)
                run.server.advance()
            kept = [u for u in range(5) if u != 1 or gone > Stage.VECTORS]
            assert run.server.result().tolist() == vectors_of(5)[kept].sum(axis=0).tolist()

    def test_two_different_requests_of_a_stage_are_not_both_answered(self) -> None:
        """Told one thing and then another in one stage, a client answers the first alone, in either order."""
        mine = self.five()
        moments, compared = moments_of(mine), 0
        for moment in moments[1:]:
            fewer = self._without_last_client(mine, moments, moment.stage)
            for client in range(4):
                told = [moment.requests[client], fewer.requests()[client]]
                for first, second in (told, told[::-1]) if told[0] != told[1] else ():
                    part = mine.scheme.restored(mine.terms, moment.states[client])
                    part.reply(first)
                    with pytest.raises(ProtocolError):
                        part.reply(second)
                    compared += 1
        assert compared or len(moments) == 1

    def _without_last_client(self, run: Sum, moments: list[Moment], stage: Stage) -> StagedServer:
        """A server at a stage, to which the last client fell silent in the stage before."""
        before = max(moment.stage for moment in moments if moment.stage < stage)
        server = server_at(run, moments, before)
        for u, reply in next(moment.replies for moment in moments if moment.stage == before).items():
            if u < 4:
                server.receive(u, reply)
        server.advance()
        return server

    def test_keys_must_be_signed_by_those_whose_they_are(self) -> None:
        """With identities a round completes; keys under another identity are refused, and the round goes on without."""
        if Stage.KEYS not in stages_of(self.three):
            pytest.skip("no keys are exchanged")
        names = {u: Identity.generate(SimulationCoins(100 + u)) for u in range(5)}
        known = Identities({u: name.public for u, name in names.items()})
        forger = Identity.generate(SimulationCoins(200))
        forged = Identities({**known.public, 2: forger.public})
        scheme, terms = self.three, self.five().terms
        good = {u: scheme.client(terms, u, SimulationCoins(u), name, known) for u, name in names.items()}
        for bad in (
            scheme.client(terms, 2, SimulationCoins(7), forger, forged),
            scheme.client(terms, 2, SimulationCoins(7)),
        ):
            with pytest.raises(ProtocolError):
                self._sum_of({**good, 2: bad})
        self._sum_of(good)

    def _sum_of(self, clients: Mapping[int, StagedClient]) -> None:
        """Plays a sum of clients as they are now, who stay so."""
        run = self.five()
        for u, vector in enumerate(vectors_of(5)):
            run.clients[u] = run.scheme.restored(run.terms, clients[u].state())
            run.clients[u].provide(vector)
        assert run.play().server.result().tolist() == vectors_of(5).sum(axis=0).tolist()

    def test_an_identity_comes_with_those_of_all(self) -> None:
        """One without the others, or that is another than they say, raises InputError."""
        if Stage.KEYS not in stages_of(self.three):
            pytest.skip("no keys are exchanged")
        names = {u: Identity.generate(SimulationCoins(100 + u)) for u in range(5)}
        known = Identities({u: name.public for u, name in names.items()})
        for name, others in ((names[0], None), (None, known), (names[1], known), (names[0], Identities({}))):
            with pytest.raises(InputError):
                self.three.client(self.five().terms, 0, SimulationCoins(0), name, others)

    def test_nothing_printed_holds_a_secret(self) -> None:
        """Printed parties and errors hold no vector entry, and no eight bytes of what a client keeps secret."""
        run = self.five(vectors=np.array([[41, -43]] * 5, dtype=np.int64))
        texts, kept = [repr(run.server)], []
        for moment in moments_of(run):
            for u in range(5):
                part = run.scheme.restored(run.terms, moment.states[u])
                kept.append(moment.states[u])
                texts += [repr(part), str(part)]
                for message in (moment.requests[u][:-1], moment.requests[(u + 1) % 5], moment.replies[u]):
                    with pytest.raises(ProtocolError) as raised:
                        part.reply(message)
                    texts.append(str(raised.value))
        printed = "\n".join([*texts, repr(run.server)])
        assert not re.search(r"\b4[13]\b", printed)  # whole words: addresses of objects have such digits by chance
        for text in re.findall(r"[0-9a-fA-F]{16,}", printed):
            assert not any(bytes.fromhex(text[:16]) in state for state in kept)
