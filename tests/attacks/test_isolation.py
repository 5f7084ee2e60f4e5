"""Attacks are kept away from secrets by what they import, by what their inference names and by what views hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fgl_secure.attacks
from fgl_secure.coins import SimulationCoins
from fgl_secure.graph import FederatedGraph
from fgl_secure.methods.hifgl.program import hierarchy_of, neighbour_sums
from fgl_secure.protocols.grouped_sum import Scheme
from fgl_secure.protocols.plaintext import Path as Way
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.secmp import MuDelivery
from fgl_secure.protocols.topology import Grouping
from fgl_secure.runtime import Channel, Direction, Party, ReceivedRows, Recording, Role, Step, Transcript, View
from fgl_secure.runtime.view import PrivateRows
from tests.attacks.conformance import bases
from tests.attacks.recorded import random_graph, record, secmp, star_and_path, whole_numbers

FOLDER = Path(fgl_secure.attacks.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))
"""All files of the attacks, in folders of every depth, whether they hold an attack or help one."""

TRUTHS = [module for module in MODULES if module.name == "truth.py"]
"""What may know graphs: the truth of all attacks, and that of a family in the family's folder."""
FORBIDDEN = tuple(f"fgl_secure.{part}" for part in ("protocols", "training", "auditing", "methods", "graph"))


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


def names_of_truth(source: str) -> list[str]:
    """Names in the bodies of functions called `infer` or `infer_with` that speak of the truth."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    inferring = [function for function in functions if function.name in ("infer", "infer_with")]
    words = [
        node.id if isinstance(node, ast.Name) else node.attr
        for function in inferring
        for node in ast.walk(function)
        if isinstance(node, ast.Name | ast.Attribute)
    ]
    return [word for word in words if "truth" in word.casefold()]


def place(module: Path) -> str:
    """Where a module is among the attacks."""
    return str(module.relative_to(FOLDER))


@pytest.mark.parametrize("module", [module for module in MODULES if module not in TRUTHS], ids=place)
def test_only_the_truth_knows_graphs_and_nobody_knows_schemes(module: Path) -> None:
    """No module of the attacks but the truth imports protocols, learning, methods or graphs."""
    assert not forbidden_imports(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", TRUTHS, ids=place)
def test_truth_knows_graphs_but_no_scheme(module: Path) -> None:
    """A truth is gathered from transcript and graph, and imports neither schemes nor models."""
    found = forbidden_imports(module.read_text(encoding="utf-8"))
    assert all(f"{name}.".startswith("fgl_secure.graph.") for name in found)


def test_modules_of_all_folders_are_looked_at() -> None:
    """Every folder of the attacks has files among those that are checked, and some truth is there."""
    assert {module.parent for module in MODULES} == {FOLDER, *(each for each in FOLDER.rglob("[!_]*") if each.is_dir())}
    assert len({module.parent for module in MODULES}) > 1
    assert any(forbidden_imports(module.read_text(encoding="utf-8")) for module in TRUTHS)


@pytest.mark.parametrize("module", MODULES, ids=place)
def test_inference_never_speaks_of_the_truth(module: Path) -> None:
    """The body of no `infer` and no `infer_with` names a truth."""
    assert not names_of_truth(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "import fgl_secure.training.loop",
        "from fgl_secure import protocols",
        "from fgl_secure.protocols.secmp import Mu",
        "def infer(self, view, public):\n    from fgl_secure.graph import load",
    ],
)
def test_forbidden_imports_are_noticed(source: str) -> None:
    """The check of imports rejects a module that breaks it."""
    assert forbidden_imports(source)


def test_truth_in_inference_is_noticed() -> None:
    """The check of names rejects an inference that looks at the truth, and leaves scoring alone."""
    for name in ("infer", "infer_with"):
        assert names_of_truth(f"def {name}(self, view, public):\n    return self.truth.edges")
    assert not names_of_truth("def score(self, guess, truth):\n    return truth.edges")


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("delivery", MuDelivery)
def test_rows_of_a_view_do_not_show_how_messages_were_laid_out(seed: int, delivery: MuDelivery) -> None:
    """Laying out the same messages in another order changes what was recorded, and no row of any view."""
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


@pytest.mark.parametrize("role", [Role.SILO, Role.DEVICE])
def test_rows_of_a_view_are_sorted_by_receiver_and_sender(role: Role) -> None:
    """The order of the rows follows from who received and who sent, which the observers know anyway."""
    graph = random_graph(4, directed=True, devices=12, pairs=30)
    shuffled = _shuffled(neighbour_sums(graph), 4)
    for rows in _summed_both_ways(graph, shuffled, MuDelivery.SILO).views(role).received:
        ends = list(zip(rows.receivers.tolist(), rows.senders.tolist(), strict=True))
        assert ends == sorted(ends)


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
    payloads = [batch.payload for batch in transcript.messages if batch.payload is not None]
    recorded = [*payloads, *(batch.values for batch in transcript.private)]
    assert len(payloads) == len(transcript.messages) > 0
    for array in recorded:
        for each in (array, *bases(array)):
            with pytest.raises(ValueError, match="read-only"):
                each[...] = 0


def _summed_both_ways(graph: FederatedGraph, grouping: Grouping, delivery: MuDelivery) -> Transcript:
    channel = Channel(hierarchy_of(graph), SimulationCoins(0), Recording.everything())
    session = secmp(101, delivery=delivery).open(channel, grouping, 3)
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
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
