from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fgl_secure.attacks.base import Attack
from fgl_secure.attacks.message_passing.relay_patterns import CARRYING, Patterns, SiloPattern
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.controls import OF_OWN_SILOS, UnmixedCryptography
from fgl_secure.methods.hifgl.scenarios import recorded_exchange
from fgl_secure.protocols.relay_coded import Profile, RelayCoded, Tagging
from fgl_secure.runtime import Channel, Draws, Party, Phase, ReceivedRows, Recording, Role, Step, Transcript
from fgl_secure.runtime.channel import Loss
from fgl_secure.training.neighbourhood import open_neighbours
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from tests.attacks.conformance import AttackConformance, Claims
from tests.attacks.message_passing.tagged import record_forwarded
from tests.attacks.message_passing.test_tag_matching import meshed
from tests.attacks.recorded import Run, random_graph, words

Ids = NDArray[np.int64]


class TestSiloPattern(AttackConformance):
    attack: Attack[Patterns, Any] = SiloPattern()
    rests_on = (frozenset({Phase.SHARE_HEADERS}),)

    def claims(self, guess: Patterns) -> Claims:
        rows = zip(guess.tags.tolist(), guess.counts.tolist(), strict=True)
        return Counter((*tag, *counts) for tag, counts in rows)

    def exchange(
        self,
        graph: FederatedGraph,
        values: NDArray[np.float64],  # noqa: ARG002  # counts do not depend on it
        loss: Loss | None = None,
        recording: Recording | None = None,
    ) -> Run:
        return record_forwarded(graph, loss=loss, recording=recording)

    @pytest.mark.parametrize(("mixed", "most"), [(False, 1.0), (True, 0.5)])
    def test_counts_are_right_where_silos_do_not_mix(self, mixed: bool, most: float) -> None:
        """Those of silos that hand on what their own devices send are all right, drawn ones hardly ever."""
        run = record_forwarded(random_graph(5, directed=False, pairs=22), mixed=mixed)
        guess = self.attack.infer(run.transcript.views(Role.RELAY), run.public)
        assert guess is not None
        (found,) = self.attack.score(guess, run.truth)
        assert found.value <= most
        assert mixed or found.value == 1

    @pytest.mark.parametrize("tags", Tagging)
    @pytest.mark.parametrize("scheme", [RelayCoded(k_min=1, profile=Profile.HIDDEN), OF_OWN_SILOS])
    def test_silos_that_mix_stop_it(self, scheme: RelayCoded, tags: Tagging) -> None:
        """By way of silos that are drawn no count tells of neighbours; by way of its own silo each is right."""
        run = recorded_exchange(replace(scheme, tags=tags), meshed(), words(60, 8), "rows", 0, both_ways=True)
        guess = self.attack.infer(run.transcript.views(Role.RELAY), run.public)
        assert guess is not None
        (found,) = run.score(self.attack, guess)
        assert found.value == 1 if scheme is OF_OWN_SILOS else found.interval.low <= found.prior

    def test_named_senders_are_not_its_business(self) -> None:
        """Where devices send in their own name silos send nothing; `tag-matching` is for that."""
        run = recorded_exchange(
            RelayCoded(k_min=1, profile=Profile.SHOWN), meshed(), words(60, 8), "rows", 0, both_ways=True
        )
        assert self.attack.infer(run.transcript.views(Role.RELAY), run.public) is None


class Stale(UnmixedCryptography):
    """The broken twin: openings of tags and numbers of the first step serve in all, and nothing is shuffled."""

    def openings(self, draws: Draws, step: Step, owners: Ids) -> Ids:
        return self._first("openings", super().openings(draws, step, owners))

    def numbers(self, draws: Draws, step: Step, senders: Ids) -> Ids:
        return self._first("numbers", super().numbers(draws, step, senders))

    def ways(self, draws: Draws, step: Step, silos: Ids, before: int) -> Ids:
        drawn = super().ways(draws, step, silos, before)
        return np.stack([drawn[:, 0], np.arange(len(drawn))], axis=1)

    def _first(self, name: str, drawn: Ids) -> Ids:
        kept: Ids = self.__dict__.setdefault(f"{name} of {len(drawn)}", drawn)
        return kept


HIDDEN = RelayCoded(k_min=1, profile=Profile.HIDDEN)
STEPS = 12


def summed(scheme: RelayCoded) -> Transcript:
    """The same rows summed in several rounds, with everything recorded."""
    graph = meshed()
    channel = Channel(hierarchy_of(graph, scheme.helpers), SimulationCoins(0), Recording.everything())
    session = open_neighbours(scheme, neighbour_sums(graph), 8, channel)
    for number in range(STEPS):
        session.sum(words(60, 8), Step(number, 0))
    return channel.transcript


def got(transcript: Transcript, number: int, relay: int = 0) -> list[ReceivedRows]:
    """The messages without names that a relay got in a round."""
    view = transcript.view([Party(Role.RELAY, relay)])
    return [each for phase in CARRYING for each in view.messages(phase) if each.step.round == number]


def called(transcript: Transcript, number: int) -> dict[str, set[bytes]]:
    """All that the messages of a round are called by at a relay, but their places."""
    found: dict[str, set[bytes]] = {}
    for batch in got(transcript, number):
        for name in {"tag", "number", "seed"} & set(batch.fields or ()):
            found.setdefault(name, set()).update(np.asarray(row).tobytes() for row in batch[name])
    return found


def owners(transcript: Transcript, number: int) -> dict[bytes, int]:
    """The index of the device whose a tag is, of those that it tells its partners: no relay knows."""
    told = [each for each in transcript.messages if each.phase is Phase.TAGS and each.step.round == number]
    return {
        np.asarray(tag).tobytes(): device
        for each in told
        if each.fields is not None and "ticket" not in each.fields
        for device, tag in zip(transcript.parties.index_of(each.senders, Role.DEVICE), each["tag"], strict=True)
    }


def placed(transcript: Transcript, number: int) -> dict[tuple[int, int], int]:
    """In whose sum is what came from a silo, by its index, at a place."""
    owner = owners(transcript, number)
    return {
        (int(silo), int(place)): owner[word]
        for each in got(transcript, number)
        for silo, place, tag in zip(
            transcript.parties.index_of(each.senders, Role.SILO), each["slot"], each["tag"], strict=True
        )
        if (word := np.asarray(tag).tobytes()) in owner
    }


@pytest.mark.parametrize("tags", Tagging)
def test_steps_have_no_names_in_common_that_could_be_intersected(tags: Tagging) -> None:
    """Neither tags, numbers nor seeds of a round are those of another; where they stay the test says so."""
    for scheme in (HIDDEN, replace(OF_OWN_SILOS, cryptography=Stale)):
        transcript = summed(replace(scheme, tags=tags))
        once, again = called(transcript, 0), called(transcript, 1)
        assert set(once) == set(again) == {"tag", "number", "seed"}
        kept = {name for name in once if once[name] & again[name]}
        stays = {"number"} if tags is Tagging.SEALED else {"number", "tag"}
        assert kept == (set() if scheme is HIDDEN else stays)


def test_places_of_two_steps_have_nothing_in_common() -> None:
    """At the same place of the same silo there is a message to somebody else; where nothing is shuffled it stays."""
    for scheme, least, most in ((HIDDEN, 0, 4 / 60), (replace(OF_OWN_SILOS, cryptography=Stale), 1, 1)):
        transcript = summed(scheme)
        once, again = placed(transcript, 0), placed(transcript, 1)
        both = once.keys() & again.keys()
        assert len(both) > len(once) / 2
        assert least <= np.mean([once[place] == again[place] for place in both]) <= most


def correlation(transcript: Transcript) -> float:
    """Between the neighbours that a device has at another silo and what comes from there under all of its tags."""
    graph, counts, actual = meshed(), np.zeros((60, 3), dtype=np.int64), np.zeros((60, 3), dtype=np.int64)
    for number in range(STEPS):
        for (silo, _), device in placed(transcript, number).items():
            counts[device, silo] += 1
    np.add.at(actual, (graph.edges[1], graph.silo_of[graph.edges[0]]), 1)
    abroad = np.arange(3) != graph.silo_of[:, None]
    return float(np.corrcoef(counts[abroad], actual[abroad])[0, 1])


def test_counts_of_all_steps_tell_nothing_even_where_somebody_links_tags() -> None:
    """A way is drawn for each message: twelve rounds add up to as much from any silo; without mixing they tell all."""
    assert abs(correlation(summed(HIDDEN))) < 4.5 / np.sqrt(120)
    assert correlation(summed(OF_OWN_SILOS)) > 0.999
