"""What there is to choose from, with what computes it loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fgl_secure import schemes
from fgl_secure.attacks.registry import attacks
from fgl_secure.auditing.method import Method
from fgl_secure.cli.kept import Rows
from fgl_secure.graph import describe
from fgl_secure.graph.graph_sets import describe_sets
from fgl_secure.methods import method
from fgl_secure.methods import names as method_names


def lines_of(each: type[Method]) -> Rows:
    """The lines of one method: first column and second; the first column is empty but on the first line."""
    lines = [(each.name, f"{each.title}: {each.task}"), ("", f"sums      {each.summed}")]
    lines += [("", f"sees      {under}: {what}") for under, what in each.sees.items()]
    lines += [("", f"tells     {kind}, {there} to {back}: {what}") for (kind, there, back), what in each.tells.items()]
    lines.append(("", f"schemes   {'; '.join(_served(topology) for topology in each.topologies)}"))
    lines.append(("", f"backbones {', '.join(each.backbones()) or 'its own'}"))
    return lines


def matrix() -> str:
    """Which scheme runs which sums of which method, as Markdown: the table in the README."""
    header = ["method", "sums", *(f"`{name}`" for name in schemes.names())]
    rows = [header, ["---"] * len(header)]
    for kind in map(method, method_names()):
        for topology in kind.topologies:
            served = ["yes" if schemes.refusal(name, topology) is None else "" for name in schemes.names()]
            rows.append([f"`{kind.name}`", f"`{topology}`", *served])
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows)


def _served(topology: str) -> str:
    return f"{topology}={'|'.join(schemes.names(topology))}"


def _datasets() -> Rows:
    nodes = [
        (d.name, f"{d.description}; {d.nodes:,} devices, {d.edges:,} messages a layer, {d.features:,} features, "
                 f"{d.classes} classes")
        for d in describe()
    ]  # fmt: skip
    return nodes + [(d.name, f"{d.description} (fedvn)") for d in describe_sets()]


def _schemes() -> Rows:
    rows = []
    for name in schemes.names():
        serving = [topology for topology in schemes.TOPOLOGIES if schemes.refusal(name, topology) is None]
        made = {topology: schemes.parse(name, (topology,))[1] for topology in serving}
        promises = max((schemes.promises(scheme, topology) for topology, scheme in made.items()), default=0)
        taken = f"[{', '.join(schemes.parameters(name))}]" if schemes.parameters(name) else "nothing"
        says = f"serves {', '.join(serving) or 'nothing'}; promises {promises or 'nothing'}; takes {taken}"
        rows.append((name, f"{schemes.summary(name)}; {says}"))
    return rows


def _attacks() -> Rows:
    return [(a.card.name, f"{a.card.summary} ({a.card.source})") for a in attacks().values()]


def _methods() -> Rows:
    return [line for name in method_names() for line in lines_of(method(name))]


TABLES: Mapping[str, Callable[[], Rows]] = MappingProxyType({
    "datasets": _datasets,
    "schemes": _schemes,
    "attacks": _attacks,
    "methods": _methods,
})  # fmt: skip
"""By kind, what lists it: a name and words for each; the first column is empty where words go on."""
