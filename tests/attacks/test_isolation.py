"""Attacks are kept away from secrets by what they import, by what their inference names and by what views hold."""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fgl_secure.attacks
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.protocols.plaintext import Path as Way
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.scheme import Scheme
from fgl_secure.protocols.secmp import MuDelivery
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Direction, Party, ReceivedRows, Recording, Role, Step, Transcript, View
from fgl_secure.runtime.transcript import PrivateRows
from fgl_secure.training.parties import hierarchy_of, neighbour_sums
from tests.attacks.conformance import bases
from tests.attacks.recorded import random_graph, record, secmp, star_and_path, whole_numbers
from tests.protocols.conformance import opened

FOLDER = Path(fgl_secure.attacks.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))


def dotted(module: Path) -> str:
    """The name under which a module is imported."""
    return ".".join(["fgl_secure", "attacks", *module.relative_to(FOLDER).with_suffix("").parts])


OUTPUTS = FOLDER / "outputs"
"""Attacks on models, whose attacker holds the graph; they read no view."""
ABOVE = (FOLDER / "registry", FOLDER / "arrays", OUTPUTS)
"""Stand on all families, or beside them."""
FAMILIES = sorted(each for each in FOLDER.iterdir() if (each / "__init__.py").exists() and each not in ABOVE)
SOURCES = {dotted(module): module.read_text(encoding="utf-8") for module in MODULES}
FORBIDDEN = tuple(
    f"fgl_secure.{part}" for part in ("protocols", "training", "graph", "methods", "auditing", "aggregation")
)


def imported(source: str) -> Iterator[str]:
    """Full names of all that a module imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden_imports(source: str) -> list[str]:
    """Imports that reach schemes, models or graphs."""
    return [name for name in imported(source) if any(f"{name}.".startswith(f"{top}.") for top in FORBIDDEN)]


NO_INFERENCE = ("card", "score", "permuted")
"""Functions that guesses are no part of: a card has to name the type of the truth."""

Definitions = dict[str, list[ast.FunctionDef]]


@cache
def definitions(source: str) -> Definitions:
    """The functions behind each name of a module: itself, or all that a class has but how it scores."""
    found: Definitions = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found[node.name] = [each for each in methods if each.name not in NO_INFERENCE]
    return found


def reached(source: str, modules: dict[str, str]) -> list[ast.FunctionDef]:
    """The functions called `infer` and `infer_with`, and all that they may call in turn, in any of some modules."""
    known = {name: (definitions(text), _handed_over(text)) for name, text in modules.items()}
    known[""] = (definitions(source), _handed_over(source))
    waiting = [("", each) for name in ("infer", "infer_with") for each in known[""][0].get(name, [])]
    found = {id(function): function for _, function in waiting}
    while waiting:
        module, function = waiting.pop()
        own, elsewhere = known[module]
        for word in words_of(function):
            home, there = (module, own) if word in own else (elsewhere.get(word, ""), {})
            there = there or (known[home][0] if home else {})
            for each in there.get(word, []):
                if id(each) not in found and each.name not in NO_INFERENCE:
                    found[id(each)] = each
                    waiting.append((home, each))
    return list(found.values())


@cache
def _handed_over(source: str) -> dict[str, str]:
    """Names that a module imports from modules of attacks, and from which."""
    split = [name.rpartition(".") for name in imported(source)]
    return {last: module for module, _, last in split if module.startswith("fgl_secure.attacks.")}


@cache
def words_of(function: ast.FunctionDef) -> list[str]:
    """All names and attributes in a function, its signature included."""
    return [
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Name | ast.Attribute)
    ]


def names_of_truth(source: str, modules: dict[str, str] | None = None) -> list[str]:
    """Names that speak of the truth, in `infer` and `infer_with` and in all that these may call."""
    words = [word for function in reached(source, modules or {}) for word in words_of(function)]
    return [word for word in words if "truth" in word.casefold()]


def names_a_family(source: str, own: str) -> list[str]:
    """Imports that reach into families other than the module's own."""
    others = [f"fgl_secure.attacks.{folder.name}." for folder in FAMILIES if folder.name != own]
    return [name for name in imported(source) if any(f"{name}.".startswith(other) for other in others)]


def offenders(check: Callable[[Path, str], Iterable[str]]) -> list[tuple[str, str]]:
    """What a check finds in any module, with the module."""
    return [(dotted(module), each) for module in MODULES for each in check(module, SOURCES[dotted(module)])]


def test_only_the_truth_knows_graphs_and_no_module_knows_schemes() -> None:
    """A truth is gathered from transcript and graph; no module imports protocols, learning or methods."""
    assert len(FAMILIES) >= 6
    found = offenders(lambda _, source: forbidden_imports(source))
    assert found
    knowing = (".truth", *(dotted(module) for module in OUTPUTS.glob("*.py")))
    assert all(module.endswith(knowing) and name.startswith("fgl_secure.graph.") for module, name in found)


def test_knowledge_of_observers_is_defined_without_a_look_at_what_is_secret() -> None:
    assert all((family / "knowledge.py").exists() for family in FAMILIES)
    assert not offenders(
        lambda module, source: [n for n in imported(source) if module.name == "knowledge.py" and ".truth." in f"{n}."]
    )


def test_families_do_not_lean_on_each_other() -> None:
    """What two families need stands beside them, and nothing beside them imports a family."""
    assert not offenders(
        lambda module, source: (
            [] if module.parent in ABOVE else names_a_family(source, module.relative_to(FOLDER).parts[0])
        )
    )


def test_inference_never_speaks_of_the_truth() -> None:
    """No `infer` and no `infer_with` names a truth, and neither does any helper that they may call."""
    assert not offenders(lambda _, source: names_of_truth(source, SOURCES))


@pytest.mark.parametrize(
    "source",
    [
        "import fgl_secure.training.loop",
        "from fgl_secure import protocols",
        "from fgl_secure.protocols.secmp import Mu",
        "import fgl_secure.methods.hifgl.program",
        "def infer(self, view, public):\n    from fgl_secure.graph import load",
    ],
)
def test_forbidden_imports_are_noticed(source: str) -> None:
    assert forbidden_imports(source)


def test_truth_in_inference_is_noticed() -> None:
    """The check of names rejects an inference that looks at the truth, and leaves scoring alone."""
    for name in ("infer", "infer_with"):
        assert names_of_truth(f"def {name}(self, view, public):\n    return self.truth.edges")
    assert not names_of_truth("def score(self, guess, truth):\n    return truth.edges")


def test_truth_in_a_helper_is_noticed() -> None:
    """A helper that an inference calls is looked at as well, in its own module and in another one."""
    helper = "def peek(run):\n    return run.truth.edges"
    calls = "class A:\n    def infer(self, view, public):\n        return self.step(view)\n"
    calls += "    def step(self, view):\n        return peek(view)\n"
    assert names_of_truth(f"{helper}\n{calls}")
    there = {"fgl_secure.attacks.help": helper}
    assert names_of_truth(f"from fgl_secure.attacks.help import peek\n{calls}", there)
    assert not names_of_truth(calls, there)


@pytest.mark.parametrize("delivery", MuDelivery)
def test_rows_of_a_view_do_not_show_how_messages_were_laid_out(delivery: MuDelivery) -> None:
    seed = 1
    graph = random_graph(seed, directed=True, devices=12, pairs=30)
    grouping = neighbour_sums(graph)
    first = _summed_both_ways(graph, grouping, delivery)
    other = _summed_both_ways(graph, _shuffled(grouping, seed), delivery)
    assert _laid_out(first) != _laid_out(other)
    for role in Role:
        assert _content(first.views(role)) == _content(other.views(role))
    for index in range(graph.num_silos):
        alone = [Party(Role.SILO, index)]
        assert _content(first.view(alone)) == _content(other.view(alone))


SCHEMES = pytest.mark.parametrize("scheme", [secmp(101), Plaintext(), Plaintext(Way.SILO)], ids=lambda each: each.name)


@SCHEMES
def test_what_devices_put_in_is_in_the_view_of_one_alone(scheme: Scheme) -> None:
    """Side by side devices show none of their rows; the view of one party alone has that party's row and no other."""
    transcript = record(star_and_path(), scheme, whole_numbers(9, 4, 40)).transcript
    (secret,) = transcript.secrets()
    assert len(secret.values) == 9
    for role in Role:
        assert transcript.views(role).own("values") == ()
    for index, party in enumerate(transcript.parties.ids(Role.DEVICE)):
        (own,) = transcript.view([Party(Role.DEVICE, index)]).own("values")
        assert own.owners.tolist() == [party]
        assert np.array_equal(own.values, secret.values[[index]])
    assert transcript.view([Party(Role.SILO, 0)]).own("values") == ()


@SCHEMES
def test_recorded_arrays_cannot_be_written_to(scheme: Scheme) -> None:
    """Neither a recorded array nor any array that it is a window into takes another value."""
    transcript = record(star_and_path(), scheme, whole_numbers(9, 4, 40)).transcript
    payloads = [field for batch in transcript.messages if batch.fields for field in batch.fields.values()]
    recorded = [*payloads, *(batch.values for batch in transcript.private)]
    assert len(payloads) >= len(transcript.messages) > 0
    for array in recorded:
        for each in (array, *bases(array)):
            with pytest.raises(ValueError, match="read-only"):
                each[...] = 0


def _summed_both_ways(graph: FederatedGraph, grouping: Grouping, delivery: MuDelivery) -> Transcript:
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    session = opened(secmp(101, delivery=delivery), channel, grouping, 3)
    values = whole_numbers(graph.num_devices, 3, 40)
    session.sum(values, Step(0, 0))
    session.sum(values, Step(0, 0, Direction.BACKWARD))
    return channel.transcript


def _shuffled(grouping: Grouping, seed: int) -> Grouping:
    order = np.random.default_rng(seed).permutation(len(grouping.source))
    return replace(grouping, source=grouping.source[order], target=grouping.target[order])


def _laid_out(transcript: Transcript) -> list[tuple[bytes, bytes]]:
    return [(batch.senders.tobytes(), batch.receivers.tobytes()) for batch in transcript.messages]


def _content(view: View) -> list[list[object]]:
    """Every field of every table of a view, arrays as type, shape and bytes."""
    tables: tuple[ReceivedRows | PrivateRows, ...] = (*view.received, *view.private)
    return [[_plain(getattr(rows, field.name)) for field in fields(rows)] for rows in tables]


def _plain(value: NDArray[Any] | object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
