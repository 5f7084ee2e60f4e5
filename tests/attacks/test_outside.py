"""An attack from a package of its own: with its knowledge, its truth, its scenario and its control."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from fgl_secure import attacks, plugins
from fgl_secure.attacks.base import KnowledgeBaseline, alone
from fgl_secure.attacks.registry import IN_TREE
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.controls import control
from fgl_secure.auditing.recorded_run import RecordedRun
from fgl_secure.cli.listing import listing
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.controls import CONTROLS
from tests.error_codes import about

MODULE = dedent('''
    """Two attacks: one of a family of its own, one that reads what HiFGL's runs show."""

    from __future__ import annotations

    from dataclasses import dataclass

    from fgl_secure.attacks.base import Attack, Card, InformedAttack, Measurement, Truth
    from fgl_secure.attacks.truth import MessageTruth
    from fgl_secure.attacks.message_passing.knowledge import TRAINING
    from fgl_secure.auditing.recorded_run import RecordedRun
    from fgl_secure.methods.hifgl.controls import CONTROLS as TREE
    from fgl_secure.runtime import Directory, PublicParameters, Role, Secret, SecretKind, Step, Transcript
    from fgl_secure.statistics.metrics import exact_proportion


    class PetSecret(SecretKind):
        NAME = ("what a pet is called", "names of pets")


    @dataclass(frozen=True)
    class Pets(Truth):
        names: tuple[str, ...]

        def permute(self, seed):
            return Pets(self.names[1:] + self.names[:1])


    @dataclass(frozen=True)
    class Register:
        names: tuple[str, ...]


    def share(right):
        found = exact_proportion(sum(right), len(right))
        return (Measurement("names", found.value, found.interval, found.n, 0.0, 0.0, 1.0, True, "Names are read."),)


    class ReadsRegister(InformedAttack):
        card = Card("reads-register", "names in a register", "nowhere", Role.SERVER, PetSecret.NAME, "pets", "a pet",
                    auxiliary="a register", truth=Pets, knowledge=Register)

        def infer_with(self, view, public, known):
            return known.names

        def score(self, guess, truth):
            return share([a == b for a, b in zip(guess, truth.names)])


    class CountsSilos(Attack):
        card = Card("counts-silos", "how many silos there are", "nowhere", Role.SERVER, Secret.DEGREE, TRAINING,
                    "three silos", truth=MessageTruth)

        def infer(self, view, public):
            return view.parties.counts[Role.SILO]

        def score(self, guess, truth):
            return share([guess == len(set(truth.silo_of))])


    def a_pet():
        transcript, names = Transcript(Directory.hierarchy(1, 1)), ("Tom", "Rex")
        return RecordedRun("none", "pets", "pets", PublicParameters(), transcript, (Pets(names),), (Register(names),))


    CONTROLS = {"a pet": a_pet, "three silos": TREE["plaintext"]}
    A_NUMBER = 3
    BROKEN = 1 / 0 if __name__ == "outside_broken" else 0


    class Twice(CountsSilos):
        pass


    class Needy(CountsSilos):
        def __init__(self, register):
            self.register = register
''')


def installed(folder: Path, points: str) -> None:
    """A package as an installer lays it out."""
    (folder / "outside_attacks.py").write_text(MODULE, encoding="utf-8")
    (folder / "outside_broken.py").write_text(MODULE, encoding="utf-8")
    about = folder / "outside_attacks-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-attacks\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    plugins._installed_on.cache_clear()  # installed anew where it was looked for before


POINTS = """
[fgl_secure.attacks]
register = outside_attacks:ReadsRegister
silos = outside_attacks:CountsSilos

[fgl_secure.controls]
outside = outside_attacks:CONTROLS
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package, installed for one test."""
    installed(tmp_path, POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("outside_attacks", "outside_broken"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("outside")
def test_it_is_found_by_name_after_those_of_this_package() -> None:
    assert attacks.names()[: len(IN_TREE)] == tuple(each.card.name for each in IN_TREE)
    assert {"reads-register", "counts-silos"} <= set(attacks.names()[len(IN_TREE) :])
    assert attacks.attack("counts-silos").card.summary in listing("attacks")


@pytest.mark.usefixtures("outside")
def test_its_own_family_runs_on_its_own_run() -> None:
    """Scenario, knowledge, truth and control are its own, and nobody in here knows them."""
    each = attacks.attack("reads-register")
    run = control(each.card.control, [CONTROLS])
    assert run.is_for(each)
    assert not CONTROLS["plaintext"]().is_for(each)
    guess = run.guess(each)
    assert guess == ("Tom", "Rex")
    assert [found.value for found in run.score(each, guess)] == [1]
    assert [found.value for found in run.score(each, guess, 1)] == [0]
    assert alone(each) is KnowledgeBaseline.NOT_LOOKED_AT  # which every record of it says
    untold = RecordedRun(run.protocol, run.what, run.scenario, run.public, run.transcript, run.truths)
    assert untold.guess(each) is None


@pytest.mark.usefixtures("outside")
def test_an_audit_runs_it() -> None:
    """An attack on runs that a method of this package makes gets its record, with the control that it brought."""
    report = audit(HiFGL(epochs=1), "digits", ("plaintext",), ("counts-silos",))
    (record,) = (record for record in report.records if record.attack == "counts-silos")
    assert (record.value, record.positive_control) == (1, 1)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("[fgl_secure.attacks]\na = outside_attacks:CountsSilos\nb = outside_attacks:Twice\n", "attack"),
        ("[fgl_secure.attacks]\na = outside_attacks:A_NUMBER\n", "entry point a of fgl_secure.attacks"),
        ("[fgl_secure.attacks]\na = outside_attacks:Needy\n", "a of fgl_secure.attacks"),
        ("[fgl_secure.attacks]\na = outside_attacks:Missing\n", "entry point a of fgl_secure.attacks"),
        ("[fgl_secure.attacks]\na = outside_broken:CountsSilos\n", "entry point a of fgl_secure.attacks"),
    ],
)
def test_what_is_no_attack_is_refused(outside: Path, points: str, message: str) -> None:
    """A name that is taken, something else than an attack, and a package that does not load, each in one line."""
    installed(outside, points)
    with pytest.raises(InputError, check=about(message)) as refused:
        attacks.names()
    assert "\n" not in str(refused.value)


def test_controls_are_refused_likewise(outside: Path) -> None:
    """A control that no package makes, and an entry point that names no mapping; a method's own comes first."""
    with pytest.raises(UnknownNameError, match="a pet"):
        control("a goldfish", [CONTROLS])
    assert control("a pet", [{"a pet": CONTROLS["plaintext"]}]) is CONTROLS["plaintext"]()
    installed(outside, "[fgl_secure.controls]\na = outside_attacks:A_NUMBER\n")
    with pytest.raises(InputError, check=about("entry point a of fgl_secure.controls")):
        control("a pet")
