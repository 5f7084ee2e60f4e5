"""What pages say of schemes and methods is made of what the code says: `python -m tests.repository.page_tables`.

A section of a page between `<!-- made: KIND NAME -->` and `<!-- end -->` is written by this module: what a scheme
promises, admits and assumes (its claim), who is sent what in one sum of it (the transcript of a small one), what the
parties of a method see and tell, what is promised in its runs, and tables of the results file. The command writes all
sections anew; a test fails where a page says something else than the code or the file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from os.path import relpath
from pathlib import Path

import numpy as np

from fgl_secure import schemes
from fgl_secure.algebra import PrimeField
from fgl_secure.auditing.method import Method
from fgl_secure.auditing.tables import MEANING
from fgl_secure.cli.listing import matrix
from fgl_secure.coins import SimulationCoins
from fgl_secure.methods import method, names
from fgl_secure.protocols.collective import Collective
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.topology import CLIENTS, MEMBERS, NEIGHBOURS, SERVER, Grouping, Topology
from fgl_secure.runtime import Channel, Circumstance, Claim, Directory, Role, SecretKind, Step
from tests.repository import figures

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REPRODUCTION = ROOT / "reproduction" / "docs"
SECTION = re.compile(r"(<!-- made: ([\w-]+)(?: ([\w-]+))? -->\n).*?(<!-- end -->)", re.DOTALL)

SECRETS = SecretKind.every()
"""In the order in which pages list them."""
CLIENTS_THERE = 10
"""Silos in the sums that tables are about: the number that the figures of docs/schemes/index.md are for."""
ANYBODY = 1_000_000
"""From so many colluding parties on, any number may collude."""


def page(text: str) -> str:
    """A page with its sections made anew."""
    return SECTION.sub(lambda found: f"{found[1]}{made(found[2], found[3])}\n{found[4]}", text)


def pages() -> list[Path]:
    """Pages of both distributions."""
    return sorted([*DOCS.rglob("*.md"), *REPRODUCTION.rglob("*.md")])


def method_page(name: str) -> Path:
    """The page on a method, in docs/ or beside the second distribution."""
    first = DOCS / f"{name}.md"
    return first if first.exists() else REPRODUCTION / f"{name}.md"


def made(kind: str, name: str | None) -> str:
    """One section, as Markdown."""
    if name:
        return "\n".join({"scheme": _scheme, "method": _method, "figures": figures.section}[kind](name))
    return "\n".join({"schemes": _schemes, "methods": _methods, "states": _states, "values": _values}[kind]())


def parties(scheme: Scheme) -> Directory:
    """Ten silos with four devices each, a server, and the scheme's helpers."""
    return Directory.hierarchy(CLIENTS_THERE, 4 * CLIENTS_THERE, scheme.helpers.get(Role.RELAY, 0))


def topology(name: str, among: Directory) -> Topology:
    """A sum of that name: every device next to four others, and with its silo; every silo a client."""
    silos, devices = among.ids(Role.SILO), among.ids(Role.DEVICE)
    if name == SERVER:
        return Topology.to_server(among, 1, 1)
    if name == CLIENTS:
        return Topology.to_client(among, silos[1:], int(silos[0]), 1, 1)
    rows, of = np.arange(len(devices)), np.repeat(silos, 4)
    if name == MEMBERS:
        return Topology(MEMBERS, Grouping(devices, silos, rows, rows // 4, of, silos), 1)
    source, ahead = np.repeat(rows, 4), np.tile([1, 2, len(rows) - 2, len(rows) - 1], len(rows))
    return Topology(NEIGHBOURS, Grouping(devices, devices, source, (source + ahead) % len(rows), of, of), 1)


def _schemes() -> Iterator[str]:
    yield "| scheme | what it does | sums | guarantees |"
    yield "|---|---|---|---|"
    for name in schemes.names():
        serving = summed_by(name)
        most = max(len(_claim(schemes.kinds()[name](), each).guarantees) for each in serving)
        sums = ", ".join(f"`{each}`" for each in serving)
        yield f"| [`{name}`]({name}.md) | {schemes.summary(name)} | {sums} | {most or 'none'} |"
    yield ""
    yield "Which scheme computes which sums of which method:"
    yield ""
    yield matrix()


def _scheme(name: str) -> Iterator[str]:
    scheme = schemes.kinds()[name]()
    yield f"Sums that it computes: {', '.join(f'`{each}` ({schemes.TOPOLOGIES[each]})' for each in summed_by(name))}."
    taken = ", ".join(f"`{_default(scheme, each)}`" for each in scheme.parameters)
    yield ""
    yield f"Parameters, with their defaults: {taken or 'none'}."
    for variant in _variants(scheme):
        under = f" under `{variant.name}`" if variant != scheme else ""
        for where, claim in _by_claim(variant):
            yield ""
            yield f"### Guarantees for {' and '.join(f'`{each}`' for each in where)}{under}"
            yield ""
            yield from _claimed(claim)
        for each in summed_by(name):
            yield ""
            yield f"### Messages of a sum of `{each}`{under}"
            yield ""
            yield from _table(("from", "to", "message"), traffic(variant, each))


def _variants(scheme: Scheme) -> list[Scheme]:
    """The scheme as it stands, and with each other profile that it has."""
    own = getattr(scheme, "profile", None)
    others = [] if own is None else [each for each in type(own) if each is not own]
    return [scheme, *(type(scheme).of_parameters({"profile": each}) for each in others)]


def _method(name: str) -> Iterator[str]:
    kind = method(name)
    yield f"It adds up {kind.summed}."
    yield ""
    yield from _table(("under", "who sees what"), [(_coded(under), what) for under, what in kind.sees.items()])
    if kind.tells:
        yield ""
        yield "Beside sums, parties tell each other:"
        yield ""
        said = [(label, f"{there} to {back}", what) for (label, there, back), what in kind.tells.items()]
        yield from _table(("message", "from whom to whom", "what it tells"), said)
    yield ""
    yield from _runs(kind)


def _runs(kind: type[Method]) -> Iterator[str]:
    """What is promised in the runs that an audit of the method has where nobody names any."""
    claims = {each.name: each.claims[each.name] for each in kind().plan().subjects}
    yield "What is guaranteed to be hidden from whom, in the runs of its audit:"
    yield ""
    pairs = dict.fromkeys(pair for claim in claims.values() for pair in _pairs(claim))
    order = sorted(pairs, key=lambda pair: (SECRETS.index(pair[0]), list(Role).index(pair[1])))
    rows = [
        (secret.short, f"{role}s", *(_cell(each, secret, role) for each in claims.values())) for secret, role in order
    ]
    yield from _table(("what", "from", *map(_coded, claims)), rows)
    yield from _own_leaks(claims)


def _methods() -> Iterator[str]:
    yield "| method | what is learnt | sums | trains under |"
    yield "|---|---|---|---|"
    for name in names():
        kind = method(name)
        sums = ", ".join(f"`{each}`" for each in kind.topologies)
        link = relpath(method_page(name), DOCS)
        yield f"| [{kind.title}]({link}) | {kind.task} | {sums} | `{kind.trained}` |"


def _states() -> Iterator[str]:
    yield from _table(("cell", "means"), [(f"*{state}*", what) for state, what in MEANING.items()])


def _values() -> Iterator[str]:
    yield from _table(("figure", "value", "measured on", "interval", "baseline", "command"), figures.values())


def summed_by(name: str) -> list[str]:
    return [each for each in schemes.TOPOLOGIES if schemes.refusal(name, each) is None]


@cache
def _claim(scheme: Scheme, where: str) -> Claim:
    wanted = topology(where, parties(scheme))
    return scheme.adapt(wanted).claim_for(wanted)


def _by_claim(scheme: Scheme) -> list[tuple[list[str], Claim]]:
    """Topologies with one and the same claim together."""
    found: list[tuple[list[str], Claim]] = []
    for each in summed_by(scheme.label):
        claim = _claim(scheme, each)
        same = next((where for where, other in found if other == claim), None)
        if same is None:
            found.append(([each], claim))
        else:
            same.append(each)
    return found


def _claimed(claim: Claim) -> Iterator[str]:
    if not claim.guarantees and not claim.leaks_by_design:
        yield "None: nothing is hidden from those who are sent it, and nothing is assumed."
        return
    roles = [role for role in Role if any(role is each for _, each in _pairs(claim))]
    secrets = [secret for secret in SECRETS if any(secret is each for each, _ in _pairs(claim))]
    rows = [(secret.value, *(_cell(claim, secret, role) for role in roles)) for secret in secrets]
    yield from _table(("hidden from", *(f"{role}s" for role in roles)), rows)
    yield ""
    against = (f"to hold against {_coalition(each.coalition)}; {each.strength}" for each in claim.guarantees)
    said = (f"{each.statement} ({each.source})" for each in claim.guarantees)
    promised = zip(against, said, strict=True)  # one sentence may be of two secrets
    yield from (f"- **Guaranteed** ({whom}): {what}." for whom, what in dict.fromkeys(promised))
    for leak in claim.leaks_by_design:
        when = "" if leak.circumstance is Circumstance.ANY else f", if {leak.circumstance}"
        yield f"- **Declared** (to a {leak.role}{when}): {leak.statement}."
    for assumption in claim.assumptions:
        yield f"- **Assumed**: {assumption}."


def _pairs(claim: Claim) -> Iterator[tuple[SecretKind, Role]]:
    for promise in claim.guarantees:
        yield from ((promise.secret, role) for role, most in promise.coalition.items() if most > 0)
    yield from ((leak.secret, leak.role) for leak in claim.leaks_by_design)


def _cell(claim: Claim, secret: SecretKind, role: Role) -> str:
    promised = any(each.secret is secret and each.coalition.get(role, 0) > 0 for each in claim.guarantees)
    when = {each.circumstance for each in claim.leaks_by_design if each.secret is secret and each.role is role}
    if Circumstance.ANY in when:
        return "declared"
    if when:
        return "guaranteed, with exceptions" if promised else "declared, at times"
    return "guaranteed" if promised else "no guarantee"


def _own_leaks(claims: Mapping[str, Claim]) -> Iterator[str]:
    """What the runs of a method admit, and no scheme admits by itself."""
    served = [
        (variant, where)
        for name, kind in schemes.kinds().items()
        for where in summed_by(name)
        for variant in _variants(kind())
    ]
    known = {leak.statement for each in served for leak in _claim(*each).leaks_by_design}
    runs: dict[str, list[str]] = {}
    for run, claim in claims.items():
        for statement in dict.fromkeys(leak.statement for leak in claim.leaks_by_design):
            runs.setdefault(statement, []).append(run)
    own = [(statement, where) for statement, where in runs.items() if statement not in known]
    if own:
        yield ""
        yield "What these runs declare, beside what the schemes' own pages say:"
        yield ""
        yield from (f"- {_coded(', '.join(where))}: {statement}." for statement, where in own)


def _coalition(most: Mapping[Role, int]) -> str:
    *first, last = (_several(role, count) for role, count in most.items() if count)
    return f"{', '.join(first)} and {last}" if first else last


def _several(role: Role, count: int) -> str:
    if count > ANYBODY:
        return f"any {role}s"
    return f"the {role}" if role is Role.SERVER else f"{count} {role}{'s' if count > 1 else ''}"


def traffic(scheme: Scheme, where: str) -> list[tuple[str, str, str]]:
    """Who is sent what in one sum of ones."""
    among = parties(scheme)
    channel, wanted = Channel(among, SimulationCoins(0)), topology(where, among)
    rows = np.ones((len(wanted.grouping.row_owner), 1), dtype=np.int64 if wanted.is_one_sum else np.float64)
    Collective(scheme, wanted, channel).sum(rows, Step(0, 0))
    traffic = channel.transcript.traffic()
    return [(str(each.sender_role), str(each.receiver_role), each.phase.content) for each in traffic]


def _default(scheme: Scheme, name: str) -> str:
    assert name in {field.name for field in fields(scheme)}  # type: ignore[arg-type]  # all are dataclasses
    value = getattr(scheme, name)
    shown = value.modulus if isinstance(value, PrimeField) else value
    return name if shown is None else f"{name}={shown}"


def _coded(names_: str) -> str:
    return ", ".join(f"`{each}`" for each in names_.split(", "))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(row)} |"


def main() -> None:
    """Writes the sections of all pages anew."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        new = page(text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
