"""Methods by name: those of this package, and those that others add by an entry point."""

from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any, ClassVar, cast

import pytest

import fgl_secure.methods
import fgl_secure.testing
from fgl_secure import backbones, methods, plugins
from fgl_secure.auditing.audit import audit
from fgl_secure.auditing.method import Method, check_method
from fgl_secure.auditing.train import train
from fgl_secure.cli.main import BAD_INPUT, OK, main
from fgl_secure.config_fields import choice, choices_of
from fgl_secure.errors import InputError, UnknownNameError
from fgl_secure.graph import Data
from fgl_secure.methods import FedAvg, HiFGL
from fgl_secure.protocols.relay_coded import RelayCoded
from fgl_secure.training.backbones import MessageLayer
from tests.error_codes import about


@dataclass(frozen=True)
class Outside(FedAvg):
    """A method from elsewhere: federated averaging under another name."""

    name: ClassVar[str] = "outside"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """That method, installed."""
    found = [
        EntryPoint("outside", f"{__name__}:Outside", methods.GROUP),
        EntryPoint("hifgl", f"{__name__}:Outside", methods.GROUP),
    ]
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: found if group == methods.GROUP else [])


def test_every_method_is_its_own_class() -> None:
    """Names and classes agree, and the package hands out its own classes."""
    for name in methods.names():
        each = methods.method(name)
        assert each.name == name
        assert getattr(methods, each.__name__, each) is each
        assert issubclass(each, Method)


@pytest.mark.parametrize("module", [fgl_secure.methods, fgl_secure.testing])
def test_modules_list_what_they_load_when_asked_for(module: ModuleType) -> None:
    assert set(module.__all__) <= set(dir(module))


def test_unknown_methods_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, check=about("method")):
        methods.method("fedprox")
    with pytest.raises(AttributeError):
        _ = methods.FedProx


@pytest.mark.usefixtures("outside")
def test_a_class_from_outside_is_an_attribute() -> None:
    """As those of the toolkit are; other names are missing."""
    assert methods.Outside is Outside
    with pytest.raises(AttributeError):
        _ = methods.Nothing


@pytest.mark.usefixtures("outside")
def test_a_method_from_outside_is_listed_trained_and_audited(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """One class and an entry point suffice; a name of this package stays this package's."""
    assert methods.names()[-1] == "outside"
    assert methods.method("hifgl") is HiFGL
    assert main(["list", "methods"]) == OK
    assert "outside" in capsys.readouterr().out
    words = ["audit", "outside", "--epochs", "1", "--attack", "gradient-labels", "--out", str(tmp_path)]
    assert main(words) == OK
    assert (tmp_path / "report.json").exists()


def test_backbones_are_those_that_there_are() -> None:
    """What a configuration offers without loading models is what the models are called."""
    assert choices_of(HiFGL)["backbone"][1].names == backbones.names() == HiFGL.backbones()
    assert all(issubclass(cast("type", backbones.maker(name)), MessageLayer) for name in backbones.names())
    assert set(FedAvg.backbones()) <= set(backbones.names())


@pytest.mark.parametrize("name", methods.names())
def test_every_method_refuses_choices_out_of_range(name: str) -> None:
    method: Any = methods.method(name)
    wrong = {"preset": "best", "epochs": 0, "backbone": "gin"}
    for word, value in wrong.items():
        if word in choices_of(method):
            with pytest.raises(InputError, check=about(word)):
                method(**{word: value}).plan()


def test_configurations_are_frozen_values() -> None:
    """Equal choices are equal methods, and a choice cannot be changed afterwards."""
    assert HiFGL(epochs=3) == HiFGL(epochs=3) != HiFGL()
    assert len({HiFGL(), HiFGL(), FedAvg()}) == 2
    with pytest.raises(AttributeError):
        HiFGL().epochs = 3  # type: ignore[misc]  # frozen


@pytest.mark.parametrize("method", ["hifgl", HiFGL, None])
def test_a_method_comes_with_its_choices(method: Any) -> None:
    """A name or a class is refused, and the message says what is wanted."""
    with pytest.raises(InputError, check=about("method")):
        check_method(method)
    with pytest.raises(InputError, check=about("method")):
        audit(method)
    with pytest.raises(InputError, check=about("method")):
        train(method)


def test_schemes_may_be_objects() -> None:
    """By topology; a topology that the method has not is refused."""
    (subject,) = HiFGL().plan(None, [{"neighbours": RelayCoded(k_min=1)}]).subjects
    assert subject.name == "relay-coded[k_min=1]"
    with pytest.raises(InputError, check=about("schemes")):
        HiFGL().plan(None, [{"clients": RelayCoded()}])


def test_names_in_one_report_are_different() -> None:
    """Equal schemes run once; different ones of one name are refused."""
    assert len(HiFGL().plan(None, ["secmp", "secmp"]).subjects) == 1
    with pytest.raises(InputError, check=about("schemes")):
        HiFGL().plan(None, ["secmp", "secmp[bound=8]"])


def test_data_are_of_a_kind() -> None:
    with pytest.raises(InputError, check=about("data")):
        HiFGL().plan(3)  # type: ignore[arg-type]  # on purpose
    assert HiFGL().plan(Data(silos=3), ["plaintext"]).graph.num_silos == 3


def test_training_says_what_came_of_it() -> None:
    """The figures are those of the result, and a noiseless run has no price of privacy."""
    done = train(FedAvg(epochs=1), "digits", "plaintext", device="cpu")
    assert done.to_json()["protocol"] == done.scheme == "plaintext"
    assert done.accuracy == done.result.accuracy
    assert done.privacy is None


@dataclass(frozen=True)
class Unreadable(FedAvg):
    """Has a field that no option can be made of."""

    name: ClassVar[str] = "unreadable"
    pairs: tuple[int, ...] = choice((), "some numbers")


@dataclass(frozen=True)
class Crowded(FedAvg):
    """Has a field called like an option of every run."""

    name: ClassVar[str] = "crowded"
    task: ClassVar[str] = "100 % of it"
    seed: int = choice(0, "another seed")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("no_such_module:X", "entry point broken of fgl_secure.methods must load; found ModuleNotFoundError"),
        (f"{__name__}:choice", "entry point broken of fgl_secure.methods must name a class of methods"),
        (f"{__name__}:Unreadable", "fields of a method must be numbers, texts, paths, switches or parts"),
        (f"{__name__}:Crowded", "fields of Crowded must make options"),
    ],
)
def test_a_broken_package_breaks_itself_alone(
    place: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own command says what is wrong with it, in one line; the others are as they were."""
    found = [EntryPoint("broken", place, methods.GROUP)]
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: found if group == methods.GROUP else [])
    assert main(["train", "broken", "--epochs", "3"]) == BAD_INPUT
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    for words in (["list", "schemes"], ["train", "fedavg", "--help"], ["audit", "--help"]):
        with suppress(SystemExit):
            assert main(words) == OK
        assert capsys.readouterr().err == ""
