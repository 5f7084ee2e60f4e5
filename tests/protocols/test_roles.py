"""Every role of every scheme is one class: in simulations, in a process for each party, and over all coins."""

import ast
import pathlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fgl_secure
from fgl_reproduction.known_flaws.ideal_masking import IdealCryptography
from fgl_reproduction.known_flaws.ideal_relays import IdealCryptography as IdealRelays
from fgl_secure import protocols
from fgl_secure.algebra import PrimeField
from fgl_secure.coins import SimulationCoins, TapeCoins
from fgl_secure.protocols.coded_products import CodedProducts
from fgl_secure.protocols.lightsecagg import LightSecAgg
from fgl_secure.protocols.pairwise_masking import PairwiseMasking
from fgl_secure.protocols.perturbed import Noisy
from fgl_secure.protocols.plaintext import Path, Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.protocols.scheme import Scheme, SumMachine
from fgl_secure.protocols.stepwise import CompositeMachine
from fgl_secure.protocols.topology import TOPOLOGIES, Topology
from fgl_secure.runtime import Channel, Directory, Draws, OwnDraws, Role
from fgl_secure.schemes import IN_TREE
from tests.protocols.hostile import PRODUCTS

SESSION = bytes(16)
WRAPPERS = {CompositeMachine, Noisy}
"""Machines around machines of any scheme."""

ROOT = pathlib.Path(fgl_secure.__file__).resolve().parents[1]


class Extra(SumMachine):
    """A second class for a role that there is already."""


def served(scheme: Scheme) -> Iterator[Topology]:
    """A small topology of each name that a scheme serves, with its helpers."""
    parties = Directory.hierarchy(3, 3, scheme.helpers.get(Role.RELAY, 0))
    helpers = parties.ids(Role.RELAY) if Role.RELAY in parties.counts else np.empty(0, dtype=np.int64)
    for name in TOPOLOGIES:
        topology = replace(Topology.example(name), helpers=helpers)
        if scheme.refuses(topology) is None:
            yield topology


def everybody(topology: Topology) -> NDArray[np.int64]:
    """The identifiers of all that take part in a topology."""
    g = topology.grouping
    added = [] if topology.aggregator is None else [topology.aggregator]
    owners, custodians = (g.row_owner, g.group_owner), (g.row_custodian, g.group_custodian)
    return np.unique(np.concatenate([*owners, *custodians, topology.helpers, np.array(added, dtype=np.int64)]))


def apart(machines: Iterable[SumMachine]) -> Iterator[type[SumMachine]]:
    """Classes of machines, those of wrapped ones in place of the wrapper."""
    for machine in machines:
        if isinstance(machine, CompositeMachine):
            yield from apart(machine._parts)
        else:
            yield type(machine)


def draws() -> Draws:
    return OwnDraws(SimulationCoins(0))


@cache
def concrete() -> frozenset[type[SumMachine]]:
    """All classes of machines of the package that can be made."""
    for each in walk_packages(protocols.__path__, f"{protocols.__name__}."):
        import_module(each.name)

    def below(kind: type[Any]) -> Iterator[type[SumMachine]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    inside = {kind for kind in below(SumMachine) if kind.__module__.startswith("fgl_secure.")}
    inside = {kind for kind in inside if not kind.__module__.endswith(".controls")}  # of schemes that lack a rule
    return frozenset(kind for kind in inside if not getattr(kind, "__abstractmethods__", None)) - WRAPPERS


SHOWN = RelayCoded(profile=Profile.SHOWN)
ALL: tuple[Scheme, ...] = (
    *(SHOWN if kind is RelayCoded else kind() for kind in IN_TREE), Plaintext(path=Path.SILO),
)  # fmt: skip
"""Rows of the small topologies travel one way, which relays that may see the graph add up. Plaintext has two ways for
neighbours' rows, each with roles of its own."""


@pytest.mark.parametrize("scheme", ALL, ids=lambda scheme: scheme.name)
def test_a_process_of_its_own_runs_what_a_simulation_runs(scheme: Scheme) -> None:
    """Who hosts one party alone, as a Flower node does, has machines of the classes that host all in one process."""
    for topology in served(scheme):
        together = set(apart(scheme.machines(topology, SESSION, draws())))
        alone: set[type[SumMachine]] = set()
        for party in everybody(topology).tolist():
            alone |= set(apart(scheme.machines(topology, SESSION, draws(), np.array([party]))))
        assert together == alone != set()


@pytest.mark.parametrize(
    ("real", "ideal"),
    [
        (
            SHOWN,
            RelayCoded(
                field=PrimeField(13),
                bound=1.0,
                k_min=1,
                fraction_bits=0,
                cryptography=IdealRelays,
                profile=Profile.SHOWN,
            ),
        ),
        (PairwiseMasking(), PairwiseMasking(modulus=13, cryptography=IdealCryptography)),
        (LightSecAgg(), LightSecAgg(modulus=13, cryptography=IdealCryptography)),
    ],
    ids=lambda scheme: scheme.name,
)
def test_what_is_enumerated_is_what_runs(real: Scheme, ideal: Scheme) -> None:
    """Over all coins, under ideal cryptography, the machines are of the classes that people run."""
    for topology in served(real):
        small = replace(topology, bound=None)
        if real.refuses(small) is not None:
            continue
        channel = Channel(Directory.hierarchy(3, 3, 2), TapeCoins(13, 1))
        assert set(apart(ideal.machines(small, SESSION, channel))) == set(apart(real.machines(small, SESSION, draws())))


def test_no_class_is_left_over() -> None:
    """Every class of machines plays a role in some scheme; one more would be a second one for some role."""
    made = (each.machines(topology, SESSION, draws()) for each in ALL for topology in served(each))
    playing = {each for machines in made for each in apart(machines)}
    coded = CodedProducts()
    members = next(topology for topology in served(coded) if topology.name == "members")
    playing.update(apart(coded.product_machines(members, PRODUCTS, SESSION, draws())))
    assert concrete() == playing
    assert Extra not in concrete()  # a twin counts where it is part of the package


def test_schemes_alone_make_machines() -> None:
    """Outside a scheme's own folder nobody names the classes of its machines, so that all get them from the scheme."""
    homes = {(kind.__module__.rpartition(".")[0], kind.__name__) for kind in concrete()}
    for path in [*ROOT.glob("fgl_secure/**/*.py"), *ROOT.glob("protocols/**/*.py")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = module if module.startswith("fgl_secure") else f"fgl_secure.{module}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and not node.module.startswith(module.rpartition(".")[0])
            ):
                found = {(home, name.name) for name in node.names for home, kind in homes
                         if kind == name.name and node.module.startswith(home)}  # fmt: skip
                shared = {each for each in found if each[0].endswith(".secagg")}
                if module.endswith(".controls"):  # what shows that an attack succeeds where a rule is lacking
                    shared |= {each for each in found if each[1].endswith("Silos")}
                assert found == shared, f"{module} names {found}"
