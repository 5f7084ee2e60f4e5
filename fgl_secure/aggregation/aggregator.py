"""The safe recipe: means of mappings of arrays over clients, under a scheme for sums."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fgl_secure.aggregation.arguments import (
    DEFAULT_LIMITS,
    Limits,
    bytes_of,
    check_kind,
    integer_of,
    list_of,
    number_of,
)
from fgl_secure.aggregation.client_round import ClientRound, Place
from fgl_secure.aggregation.encoding import IntegerRule, RoundingErrors
from fgl_secure.aggregation.layout import TensorLayout, Tree
from fgl_secure.aggregation.privacy import DistributedNoise, EpsilonLedger
from fgl_secure.aggregation.record import RoundOutcome, RoundRecord, recording_for, warn_of_lost_updates
from fgl_secure.aggregation.report import LabelTest, RoundComparison, write_report
from fgl_secure.aggregation.rules import Rules
from fgl_secure.aggregation.server_round import ServerRound
from fgl_secure.aggregation.simulation import ClientUpdates, RoundInputs, UpdateFactory
from fgl_secure.aggregation.sums import Opening, SumKind
from fgl_secure.algebra import Weighing
from fgl_secure.coins import Coins, SystemCoins
from fgl_secure.errors import InputError, ProtocolError, UnknownNameError
from fgl_secure.host import numpy_settings
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.identity import Identities, Identity
from fgl_secure.protocols.scheme import Rounding, Scheme
from fgl_secure.runtime import Channel, Claim, Role
from fgl_secure.runtime.messages import SESSION_BYTES
from fgl_secure.schemes import server_scheme
from fgl_secure.typing import Integers

_DEFAULT_SCHEME = "pairwise-masking"
_MOST_ROUNDS = 2**32
_DEFAULT_WEIGHT_BOUND = 2.0**20
"""Numbers of training examples fit; every bit of it is a bit less behind the binary point."""


def _flag_of(value: Any, name: str) -> bool:
    """Return a truth value of Python or numpy, or 0 or 1, as a bool: text that says "no" would count as true.

    Raises:
        InputError: it is none; names the argument.
    """
    if not isinstance(value, bool | np.bool_) and not (type(value) is int and value in (0, 1)):
        raise InputError(f"{name} must be True or False; found {type(value).__name__}")
    return bool(value)


def _simulate_round(
    inputs: RoundInputs, number: int, bounds: Mapping[str, float] | None
) -> tuple[Any, RoundRecord, Mapping[str, float] | None]:
    """One round.

    Args:
        inputs: what clients bring.
        number: of the round in the session.
        bounds: ranges, as a round before found them.

    Returns:
        The mean, what was seen of the round, and the ranges that hold now.

    Raises:
        InputError: a client refuses its mapping or weight; names the client.
        TooFewClientsError: fewer than the threshold are left.
    """
    rules, layout, start = inputs.rules, inputs.layout, time.perf_counter()
    loss = inputs.arrives if inputs.loses else None
    channel = Channel(rules.parties, inputs.coins, recording_for(rules, layout), loss)
    opening = Opening(layout, bounds if rules.finds_ranges(layout) else None)
    purpose = rules.first(opening)
    while True:
        summed = _compute_sum(inputs, channel, purpose, number, opening)
        if purpose.is_mean and summed is not None:
            total, included = summed
            break
        if summed is not None:
            opening = rules.next_opening(purpose, opening, summed[0])
        purpose = rules.after(purpose, layout)
    outcome = RoundOutcome(rules, opening, total, included)
    mean, weights = outcome.mean, {client: number_of(inputs.weights[client], "weight") for client in included}
    counted, code = [client for client in included if weights[client]], rules.code(opening)
    warn_of_lost_updates(rules, code, inputs.mappings, counted, sum(weights.values()), mean)
    for client in included:
        if client in inputs.kept:
            inputs.kept[client].settle()
    return mean, outcome.record(number, channel, time.perf_counter() - start), opening.bounds


def _compute_sum(
    inputs: RoundInputs, channel: Channel, purpose: SumKind, number: int, opening: Opening
) -> tuple[Integers, tuple[int, ...]] | None:
    """One sum, int64 [length], and whose vectors are in it; None where it was vetoed."""
    rules, (vectors, vetoes) = inputs.rules, inputs.vectors(purpose, opening)
    collective = Collective(rules.scheme, rules.topology(purpose, opening), channel)
    total: Integers = collective.sum(vectors, rules.step(purpose, number), vetoes)[0]
    if collective.is_vetoed:
        return None
    included = collective.contributors
    if included is None:
        raise ProtocolError("scheme must say whose vectors are in a sum; it does not")
    return total, tuple(np.flatnonzero(np.isin(rules.parties.ids(Role.SILO), included)).tolist())


class SecureAggregator:
    """Means of what clients hold, such that the server learns the mean, the sum of the weights, and no single update.

    `for_clients` makes one. `mean` runs all parties in this process; `client_round` and `server_round` make the parts
    of processes of their own, which agree on the same rules by calling `for_clients` with the same arguments.

    Args:
        rules: as all parties agreed on them.
        coins: of the parties that run in this process.
        limits: what parties of this process read of a message at most.

    Examples:
        >>> import numpy as np
        >>> aggregator = SecureAggregator.for_clients(3, bound=8.0)
        >>> mean = aggregator.mean([{"weight": np.full(2, i / 2)} for i in range(3)], weights=[1, 1, 2])
        >>> mean["weight"].tolist()
        [0.625, 0.625]
    """

    def __init__(self, rules: Rules, coins: Coins, limits: Limits = DEFAULT_LIMITS) -> None:
        self._rules, self._coins, self._limits = rules, coins, limits
        self._session, self._next = bytes(coins.uniform(256, (SESSION_BYTES,)).tolist()), 0
        self._taken: set[Place] = set()
        self._ledger = EpsilonLedger(rules.privacy, rules.threshold)
        self._server: ServerRound | None = None
        self._last: RoundRecord | None = None
        self._bounds: Mapping[str, float] | None = None
        self._layout: TensorLayout | None = None
        self._kept: dict[int, RoundingErrors] = {}

    @classmethod
    def for_clients(
        cls,
        clients: int,
        scheme: str | Scheme = _DEFAULT_SCHEME,
        *,
        threshold: int | None = None,
        bound: float | None = None,
        fraction_bits: int | None = None,
        weight_bound: float | None = None,
        weight_fraction_bits: int = 0,
        integers: IntegerRule = IntegerRule.ROUND,
        privacy: DistributedNoise | None = None,
        k_min: int = 1,
        watched: bool = True,
        clip: bool = False,
        precision: int | None = None,
        error_feedback: bool = False,
        coins: Coins | None = None,
        limits: Limits | None = None,
    ) -> SecureAggregator:
        """An aggregator for so many clients.

        Args:
            clients: n, at least 2.
            scheme: a scheme for sums at a server, or its name, such as "lightsecagg" or "pairwise-masking[degree=8]".
            threshold: least clients that a mean is over; None takes the scheme's default.
            bound: largest magnitude of any float; None has it found for every tensor in the first round, and again
                whenever a number has exceeded it.
            fraction_bits: bits behind the binary point; None takes the most that the scheme has room for.
            weight_bound: largest weight; None takes 2^20, and 1 where `precision` and `bound` are given.
            weight_fraction_bits: weights are rounded to multiples of 2^-weight_fraction_bits; with none they must be
                integers.
            integers: what the mean of integers is.
            privacy: noise, and what all means together may cost.
            k_min: fewest clients that an entry of a mean is opened for, no matter which party of them may vanish;
                entries with fewer contributions are 0 in the mean, and `last_round.withheld` has them. For updates in
                which 0 is no change, such as those of embeddings of nodes. 1 opens all.
            watched: whether each round tells whether numbers have exceeded the ranges that were found, and finds new
                ones then: by vetoes of the mean under pairwise masking among few, by a small sum beforehand elsewhere,
                which takes as many exchanges as the mean. Without it such numbers are an error.
            clip: whether floats beyond `bound` count as the bound; else they are an error.
            precision: bits of a number on its way, 8, 16 or 32; None takes as many as the scheme has room for. Numbers
                times weights are rounded to multiples of a unit at random, right on average, with the client's own
                coins; the unit is the range over 2^(precision - 1) - 1. Vectors are masked in the smallest ring that
                holds their sum, and sent bit by bit: 16 bits of 100 clients take 23. Ranges that are found are found
                anew in each round. As `scheme="pairwise-masking[precision=16]"`.
            error_feedback: whether each client keeps what its numbers were rounded by, and adds it to those of its next
                round. It stays with the client (`ClientRound.rounding_errors`), but is in the next round's sum.
            coins: of all parties in this process; None takes secret ones.
            limits: what parties of this process read of a message at most; None takes the defaults of `Limits`, and
                for the number of clients this one. Parties need not agree on them.

        Raises:
            UnknownNameError: there is no scheme, or no rule for integers, of that name.
            InputError: fewer than 2 clients, a threshold that privacy forbids, a k_min beyond the threshold, a
                precision that the scheme does not have, or arguments that contradict each other.
        """
        if not isinstance(integers, str) or integers not in tuple(IntegerRule):
            raise UnknownNameError("integers", str(integers), tuple(IntegerRule))
        if privacy is not None:
            check_kind(privacy, DistributedNoise, "privacy")
        if limits is not None:
            check_kind(limits, Limits, "limits")
        _check_coins(coins)
        scheme_at_precision = _scheme(scheme, None if threshold is None else integer_of(threshold, "threshold"))
        rounding = Rounding.ERROR_FEEDBACK if _flag_of(error_feedback, "error_feedback") else Rounding.FRESH
        if precision is not None or rounding is Rounding.ERROR_FEEDBACK:
            scheme_at_precision = scheme_at_precision.at_precision(integer_of(precision, "precision"), rounding)
        if weight_bound is None:
            weight_bound = (
                1.0 if scheme_at_precision.precision is not None and bound is not None else _DEFAULT_WEIGHT_BOUND
            )
        rules = Rules(
            scheme_at_precision,
            integer_of(clients, "clients"),
            bound=None if bound is None else number_of(bound, "bound"),
            fraction_bits=None if fraction_bits is None else integer_of(fraction_bits, "fraction_bits"),
            weighing=Weighing(
                number_of(weight_bound, "weight_bound"), integer_of(weight_fraction_bits, "weight_fraction_bits")
            ),
            integers=IntegerRule(integers),
            privacy=privacy,
            k_min=integer_of(k_min, "k_min"),
            watched=_flag_of(watched, "watched"),
            clip=_flag_of(clip, "clip"),
        )
        limits = limits or replace(DEFAULT_LIMITS, clients=max(DEFAULT_LIMITS.clients, rules.clients))
        limits.check_clients(rules.clients)
        return cls(rules, coins or SystemCoins(), limits)

    def __repr__(self) -> str:
        return f"SecureAggregator({self._rules})"

    @property
    def rules(self) -> Rules:
        """As all parties agreed on them."""
        return self._rules

    @property
    def claim(self) -> Claim:
        """What the scheme promises for so many clients, and what the mean tells all the same."""
        return self._rules.claim

    @property
    def last_round(self) -> RoundRecord | None:
        """What was seen of the last round that was finished in this process; None before."""
        self._settle()
        return self._last

    @property
    def bounds(self) -> Mapping[str, float] | None:
        """Ranges as they were found, by tensor; None where the rules give them or none was made yet."""
        self._settle()
        return self._bounds

    @property
    def spent_epsilon(self) -> float | None:
        """Epsilon of the rounds that this process took part in, at the target's delta; None without privacy.

        Of neighbouring inputs that differ in one client's update, present or all zero.
        """
        return self._ledger.epsilon

    @property
    def spent_rounds(self) -> int:
        """How many rounds the budget was spent on; for `resume_budget` in a process that goes on later."""
        return self._ledger.rounds

    def resume_budget(self, rounds: int) -> None:
        """Counts the rounds that an earlier process took part in, before the first of this one."""
        self._ledger.resume(integer_of(rounds, "rounds"))

    @numpy_settings()
    def mean(
        self,
        mappings: Sequence[Tree | UpdateFactory | None],
        weights: Sequence[float] | None = None,
        dropped: Collection[int] = frozenset(),
    ) -> Any:
        """The weighted mean, all parties in this process.

        Args:
            mappings: one for each client: torch tensors or numpy arrays by name, such as state dicts, or in lists or
                tuples, nested or not; None for a client that never came. A function of no arguments makes the mapping
                when it is read, a few times a round and equal each time: so there are never all clients' in memory.
            weights: one for each client, not negative; None counts all alike.
            dropped: clients that vanish after they shared their keys; the mean is over the others.

        Returns:
            A mapping, list or tuple with the kinds, types, devices and order of the first one.

        Warns:
            PrecisionWarning: a client's numbers keep next to no bits: others' are far larger, or the bound that was
                given is.

        Raises:
            InputError: mappings that differ in keys, shapes or types, NaN or infinity, weights or clients that do not
                exist, or integers without an integer mean; names client and key.
            FieldRangeError: a number beyond its bound, which was given, or was found and is not watched.
            BudgetExhaustedError: the round would cost more than the privacy budget has left.
            TooFewClientsError: fewer clients than the threshold are left.
        """
        present, dropped_clients = _present(mappings, self._rules.clients), _indices(dropped, self._rules.clients)
        counted = _weights(weights, self._rules.clients)
        updates = ClientUpdates(present)
        bounds, number = self._begin_round(updates.layout)
        rounding_errors = {index: self._errors_of(index) for index in present} if self._rules.feeds_back else {}
        inputs = RoundInputs(self._rules, updates, counted, dropped_clients, self._coins, rounding_errors)
        mean, self._last, self._bounds = _simulate_round(inputs, number, bounds)
        return mean

    @numpy_settings()
    def server_round(self, layout: TensorLayout, coins: Coins | None = None) -> ServerRound:
        """The server's part in the next round; its `session` and `number` are what clients need to take part.

        Args:
            layout: of the mappings, such as `TensorLayout.of(global_model.state_dict())`.
            coins: of the server; None takes those of this process.

        Raises:
            InputError, FieldRangeError: the scheme has no room for such sums, or noise no place in such mappings.
            BudgetExhaustedError: the round would cost more than the privacy budget has left.
        """
        check_kind(layout, TensorLayout, "layout", "give TensorLayout.of(mapping)")
        _check_coins(coins)
        bounds, number = self._begin_round(layout)
        coins = coins or self._coins
        self._server = ServerRound(self._rules, layout, self._session, number, coins, bounds, limits=self._limits)
        return self._server

    def client_round(
        self,
        index: int,
        session: bytes,
        number: int,
        coins: Coins | None = None,
        identity: Identity | None = None,
        identities: Identities | None = None,
        rounding_errors: RoundingErrors | None = None,
    ) -> ClientRound:
        """A client's part in a round; under privacy its first vector is counted against this process's budget.

        Args:
            index: the client's number.
            session: of the server's round. A client must not take part in one round of one session twice; it is for
                the application to see to that over the life of a process.
            number: of the server's round.
            coins: of this client; None takes those of this process.
            identity: the key that it signs with, if clients have any.
            identities: the others' public keys, as this client knows them from elsewhere.
            rounding_errors: `ClientRound.rounding_errors` of its round before, if errors are fed back and another
                process made it; None takes what it kept in this one.

        Raises:
            InputError: no such client, session or number, or it has taken part in this round already.
        """
        place = Place(bytes_of(session, "session", SESSION_BYTES), _round(number), integer_of(index, "index"))
        _check_coins(coins)
        if rounding_errors is not None:
            check_kind(rounding_errors, RoundingErrors, "rounding_errors")
        if place in self._taken:
            raise InputError(f"client must take part in a round once; found client {index} in round {number} again")
        coins = coins or self._coins
        if rounding_errors is not None:
            self._kept[place.index] = rounding_errors
        rounding_errors = self._errors_of(place.index) if self._rules.feeds_back else None
        client = ClientRound(
            self._rules, place, coins, identity, identities, self._ledger, self._limits, rounding_errors
        )
        self._taken.add(place)
        return client

    def restored_client(
        self,
        state: bytes,
        coins: Coins | None = None,
        identity: Identity | None = None,
        identities: Identities | None = None,
    ) -> ClientRound:
        """A client that goes on where `ClientRound.state` was taken; spends nothing again.

        A state is good for one client at a time: two that go on from one state could be told two different things, and
        would open together what neither opens alone.

        Raises:
            MalformedMessageError: it is no state of a client under these rules.
            InputError: the client checked identities, and would not any more.
        """
        _check_coins(coins)
        coins = coins or self._coins
        client = ClientRound.restore(self._rules, state, coins, identity, identities, self._ledger, self._limits)
        self._taken.add(client.place)
        if client.rounding_errors is not None:
            self._kept[client.place.index] = client.rounding_errors
        return client

    @numpy_settings()
    def write_report(
        self, path: str | Path, updates: Sequence[Tree | None], labels: LabelTest | None = None
    ) -> RoundComparison:
        """Writes one page on the last round: what the server has of each client in plaintext and under the scheme.

        Args:
            path: of the HTML file; it refers to nothing outside itself.
            updates: the mappings that `mean` took, to compare with; the aggregator keeps none of them.
            labels: whether to read labels from the last bias, and which are right.

        Returns:
            The figures on the page.

        Raises:
            InputError: no round was finished, updates or labels do not fit it, or the file cannot be written.
        """
        record = self.last_round
        if record is None:
            raise InputError("report must be on a round that was finished; found none")
        privacy, epsilon_text = self._rules.privacy, ""
        if privacy is not None:
            epsilon_text = f"The means cost epsilon {self.spent_epsilon:.3g} of {privacy.target} so far"
        return write_report(path, record, updates, self.claim, labels, epsilon_text)

    def forget_ranges(self) -> None:
        """Has ranges found anew in the next round: when numbers have become much smaller, or ranges are not watched."""
        self._layout = None

    def _begin_round(self, layout: TensorLayout) -> tuple[Mapping[str, float] | None, int]:
        """Ranges that are known for a layout, and the number of the round that begins; it is counted."""
        bounds = self.bounds if layout == self._layout else None
        opening = Opening(layout, bounds)
        self._rules.topology(self._rules.first(opening), opening)  # raises where there is no such sum
        self._server = None
        if self._rules.privacy is not None:
            self._ledger.spend(layout, self._session, self._next)
        self._next += 1
        self._layout = layout
        return bounds, self._next - 1

    def _errors_of(self, client: int) -> RoundingErrors:
        return self._kept.setdefault(client, RoundingErrors())

    def _settle(self) -> None:
        """Takes over what the server of a round found, as far as it is."""
        if self._server is None:
            return
        self._bounds = self._server.bounds
        if self._server.is_done:
            self._last, self._server = self._server.record, None


def _scheme(scheme: str | Scheme, threshold: int | None) -> Scheme:
    if not isinstance(scheme, str | Scheme):
        raise InputError(f"scheme must be a Scheme or the name of one; found {type(scheme).__name__}")
    if isinstance(scheme, Scheme):
        if threshold is not None:
            raise InputError(f"threshold must be the scheme's own where a scheme is given; found {threshold}")
        return scheme
    return server_scheme(scheme if threshold is None else f"{scheme}[threshold={threshold}]")


def _check_coins(coins: Coins | None) -> None:
    if coins is not None:
        check_kind(coins, Coins, "coins", "give SimulationCoins(seed) for repeatable ones, which keep no secret")


def _round(number: int) -> int:
    checked = integer_of(number, "number")
    if not 0 <= checked < _MOST_ROUNDS:
        raise InputError(f"number must lie in 0..{_MOST_ROUNDS - 1}; found {checked}")
    return checked


def _present(mappings: Sequence[Tree | UpdateFactory | None], clients: int) -> dict[int, Tree | UpdateFactory]:
    result = list_of(mappings, "mappings")
    if len(result) != clients:
        raise InputError(f"mappings must be one for each of {clients} clients, or None; found {len(result)}")
    present = {index: mapping for index, mapping in enumerate(result) if mapping is not None}
    if not present:
        raise InputError("mappings must be given for some clients; found None for all")
    return present


def _indices(dropped: Collection[int], clients: int) -> frozenset[int]:
    if isinstance(dropped, str | bytes) or not isinstance(dropped, Iterable):
        raise InputError(f"dropped must be a collection of clients; found {type(dropped).__name__}: give {{1, 2}}")
    indices = [integer_of(index, "dropped") for index in dropped]
    if len(set(indices)) < len(indices) or not all(0 <= index < clients for index in indices):
        raise InputError(f"dropped must be different clients among 0..{clients - 1}; found {sorted(indices)}")
    return frozenset(indices)


def _weights(weights: Sequence[float] | None, clients: int) -> Sequence[float]:
    if weights is None:
        return [1.0] * clients
    result = list_of(weights, "weights")
    if len(result) != clients:
        raise InputError(f"weights must be one for each of {clients} clients; found {len(result)}")
    return result
