"""One arm of a comparison: a protocol on fixed inputs, watched by a coalition, on all coin tapes or on samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fgl_secure.coins import Coins
from fgl_secure.errors import InputError
from fgl_secure.runtime import Party, Private, Recording
from fgl_secure.testing.coins import BatchCoins, CountingCoins, Draw, Tapes, tape_count
from fgl_secure.testing.protocol import Inputs, Protocol
from fgl_secure.testing.views import Views, views_of

_CHUNK = 2**14  # samples that run at once: bounds memory, not the result
_MOST_SINGLE_RUNS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """What is run and who watches.

    Attributes:
        protocol: what runs.
        inputs: on which inputs.
        coalition: who pools views.
        kinds: what else than messages belongs to the view: own inputs, own coins.
    """

    protocol: Protocol
    inputs: Inputs
    coalition: tuple[Party, ...]
    kinds: tuple[Private, ...] = (Private.INPUT, Private.COINS)

    def draws(self) -> tuple[Draw, ...]:
        """The coins that one run draws, found by a dry run on coins that are all zero."""
        coins = CountingCoins((1,) if self.protocol.batched else ())
        self.protocol.transcript(self.inputs, coins, Recording())
        return tuple(coins.draws)

    def on_all_tapes(self) -> list[Views]:
        """The view on every coin tape: in one run, or in as many runs as there are tapes."""
        draws = self.draws()
        if self.protocol.batched:
            return [self._on(Tapes(draws))]
        tapes = tape_count(draws)
        if tapes > _MOST_SINGLE_RUNS:
            raise InputError(
                f"coin tapes of a protocol with batched=False must number at most 2^16; found {tapes}: take a smaller "
                "field, or let the protocol carry the channel's batch_shape"
            )
        return [self._on(Tapes(draws, tape)) for tape in range(tapes)]

    def sample(self, size: int, coins: Coins) -> list[Views]:
        """The views of independent runs."""
        return [self._view(batch) for batch in self._batches(size, coins)]

    def _batches(self, size: int, coins: Coins) -> Iterator[Coins]:
        if not self.protocol.batched:
            yield from (coins for _ in range(size))
            return
        for start in range(0, size, _CHUNK):
            yield BatchCoins(coins, min(_CHUNK, size - start))

    def _on(self, tapes: Tapes) -> Views:
        views = self._view(tapes)
        if not tapes.exhausted:
            raise InputError("draws must not depend on the values of earlier coins; found a run that drew fewer")
        return views

    def _view(self, coins: Coins) -> Views:
        transcript = self.protocol.transcript(self.inputs, coins, Recording.everything())
        return views_of(transcript, self.coalition, self.kinds)
