"""What schemes guarantee to hide, and what became of each guarantee: the one picture that a report opens with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fgl_secure.auditing.records import GAME, Json, check_types, plain
from fgl_secure.runtime import Circumstance, Claim, Leak, Role, SecretKind

if TYPE_CHECKING:
    from fgl_secure.attacks.base import Card
    from fgl_secure.auditing.records import Record


class State(StrEnum):
    """What became of a guarantee."""

    VIOLATED = "violated"
    DECLARED = "declared leakage"
    """The scheme says itself that it leaks this."""
    NOT_VIOLATED = "no violation found"
    """Some attack could have violated it, and did not."""
    NOT_APPLICABLE = "not applicable"
    """Guaranteed, and a game found that no message reaches these parties."""
    NOT_TESTED = "not tested"
    """Guaranteed, and no attack of this audit could have violated it."""
    NO_GUARANTEE = "no guarantee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One secret before the parties of one role, under one scheme.

    Attributes:
        scheme: name of the run.
        secret: what may be hidden.
        role: from whom.
        state: what became of it.
        promises: sentences of the scheme's claim.
        admits: leaks by design, in the scheme's words.
        attacks: those that violate it, read most where it is admitted or not claimed, or tested it.
        value: the figure that exceeds its prior most; None where nothing was read.
        prior: of that figure; None together with it.
        metric: of that figure; "" together with it.
    """

    scheme: str
    secret: SecretKind
    role: str
    state: State
    promises: tuple[str, ...] = ()
    admits: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    value: float | None = None
    prior: float | None = None
    metric: str = ""

    @property
    def figures(self) -> tuple[float, float] | None:
        """What an attack reached and its baseline, where nothing is guaranteed; otherwise None."""
        if self.value is None or self.prior is None or self.state not in (State.DECLARED, State.NO_GUARANTEE):
            return None
        return self.value, self.prior

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Cell:
        """Return the cell of which `to_json` gave these values; a secret of a package that is absent is refused.

        Raises:
            ValueError: no secret or state has that name.
        """
        check_types(cls, values)
        secret_kinds = {str(secret): secret for secret in SecretKind.every()}
        if values["secret"] not in secret_kinds:
            raise ValueError(f"no secret is called {values['secret']!r}")
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists, "secret": secret_kinds[values["secret"]], "state": State(values["state"])})

    def to_json(self) -> dict[str, Json]:
        """All fields as JSON values."""
        return {field.name: plain(getattr(self, field.name), field.name) for field in fields(self)}


def matrix(
    claims: Mapping[str, Mapping[str, Claim]],
    records: Sequence[Record],
    cards: Mapping[str, Card],
    blind: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> tuple[Cell, ...]:
    """The cells of an audit, secret by secret and scheme by scheme.

    Args:
        claims: by name of a run, what is promised by the name of the run and of each of its variants, its own first;
            what falls or is read under a variant counts for the run, and what is kept there does not.
        records: the findings.
        cards: of the attacks that ran, by name.
        blind: by name of a run, the games in which no message reached the observers.
    """
    by_run = {
        run: [r for r in records if r.protocol in protocols and r.attack in cards] for run, protocols in claims.items()
    }
    protocols = {run: variants[run] for run, variants in claims.items()}
    return tuple(
        _cell(
            run, secret, role, claim,
            [r for r in by_run[run] if _is_about(cards[r.attack], secret, role)], cards, blind.get(run, ()),
        )
        for secret, role in _rows(protocols.values(), records, cards)
        for run, claim in protocols.items()
    )  # fmt: skip


def _is_about(card: Card, secret: SecretKind, role: Role) -> bool:
    """Whether an attack bears on a promise; claims speak of parties that keep to the protocol."""
    return card.secret is secret and card.observer is role and card.circumstance is not Circumstance.MALICIOUS_DEVICE


def _rows(
    claims: Iterable[Claim], records: Sequence[Record], cards: Mapping[str, Card]
) -> Iterator[tuple[SecretKind, Role]]:
    """Every secret before every role that a scheme speaks of or an attack read it as, in the order of the enumerations.

    A promise against coalitions of several roles has a row for those roles that a scheme admits something to, that an
    attack looks from, or that a game was won from; for the first of them as well where a game was played, or where
    there is none.
    """
    run_names = tuple(claims)
    known_records = [item for item in records if item.attack in cards and item.verdict.is_measured]
    measured = [cards[item.attack] for item in known_records if item.metric != GAME or item.violates_guarantee]
    looked = {
        (card.secret, card.observer) for card in measured if card.circumstance is not Circumstance.MALICIOUS_DEVICE
    }
    admitted = {(leak.secret, leak.role) for claim in run_names for leak in claim.leaks_by_design}
    relevant = looked | admitted
    for promise in (item for claim in run_names for item in claim.guarantees):
        roles = [role for role, most in promise.coalition.items() if most > 0]
        played = any(item.metric == GAME and cards[item.attack].secret is promise.secret for item in known_records)
        if roles and (played or not any((promise.secret, role) in relevant for role in roles)):
            relevant.add((promise.secret, roles[0]))
    secret_kinds = SecretKind.every()
    yield from sorted(relevant, key=lambda pair: (secret_kinds.index(pair[0]), list(Role).index(pair[1])))


def _cell(
    run: str,
    secret: SecretKind,
    role: Role,
    claim: Claim,
    about: list[Record],
    cards: Mapping[str, Card],
    blind: Collection[str],
) -> Cell:
    promised = [item for item in claim.guarantees if item.secret is secret and item.coalition.get(role, 0) > 0]
    admitted = [item for item in claim.leaks_by_design if item.secret is secret and item.role is role]
    against = [item for item in about if item.violates_guarantee]
    exposed = [item for item in about if item.verdict.is_exposure and item.controls_hold]
    tested = [
        item
        for item in about
        if item.protocol == run and item.verdict.is_measured and item.controls_hold and item.is_conclusive
        and claim.borne_on(secret, cards[item.attack].coalition, cards[item.attack].circumstance)
    ]  # fmt: skip
    looked = (card for name in blind if _is_about(card := cards[name], secret, role))
    unread = any(claim.borne_on(secret, card.coalition, card.circumstance) for card in looked)
    state, basis = _judge(bool(promised), admitted, against, exposed, tested)
    state = State.NOT_APPLICABLE if state is State.NOT_TESTED and unread else state
    best = (
        max(basis, key=lambda item: item.value - item.prior, default=None) if state is not State.NOT_VIOLATED else None
    )
    return Cell(
        scheme=run,
        secret=secret,
        role=str(role),
        state=state,
        promises=tuple(dict.fromkeys(item.statement for item in promised)),
        admits=tuple(dict.fromkeys(item.statement for item in admitted)),
        attacks=tuple(dict.fromkeys(item.attack for item in basis)),
        value=None if best is None else best.value,
        prior=None if best is None else best.prior,
        metric="" if best is None else best.metric,
    )


def _judge(
    promised: bool, admitted: list[Leak], against: list[Record], exposed: list[Record], tested: list[Record]
) -> tuple[State, list[Record]]:
    """The state, and the findings that it rests on; a leak that was not met leaves a promise beside it as it is."""
    if against:
        return State.VIOLATED, against
    met = exposed or any(item.circumstance is Circumstance.ANY for item in admitted)
    if admitted and (met or not promised):
        return State.DECLARED, exposed
    if promised:
        return (State.NOT_VIOLATED, tested) if tested else (State.NOT_TESTED, [])
    return State.NO_GUARANTEE, exposed
