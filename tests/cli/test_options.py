"""Options of the command line are the fields of configurations, one for one."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from fgl_secure.auditing.method import Method
from fgl_secure.cli.options import add_method_options, configure_method, data_of
from fgl_secure.config_fields import Choice, choices_of, default_of
from fgl_secure.errors import InputError
from fgl_secure.graph import Data
from fgl_secure.methods import HiFGL, method, names
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from tests.error_codes import about

METHODS = [method(name) for name in names()]


def parsed(kind: type[Method], *words: str) -> argparse.Namespace:
    """What a command reads of a method's options."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    add_method_options(parser, kind)
    return parser.parse_args(words)


def own(kind: type) -> list[tuple[str, Any, Choice]]:
    """The choices of a configuration that are no configurations themselves."""
    return [(name, each, says) for name, (each, says) in choices_of(kind).items() if says.part is None]


@pytest.mark.parametrize("kind", [*METHODS, *dict.fromkeys(each.data for each in METHODS), EmbeddingPrivacy])
def test_every_field_says_what_it_means(kind: type) -> None:
    """No choice is without words, and a default that must be among known names is."""
    assert len(fields(kind)) == len(choices_of(kind)) > 0
    for name, (each, says) in choices_of(kind).items():
        assert says.says, name
        assert not says.names or default_of(each) in (None, *says.names)


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)
def test_who_chooses_nothing_gets_the_defaults(kind: type[Method]) -> None:
    """Without options the configurations are those that Python makes without arguments."""
    chosen = parsed(kind)
    assert configure_method(kind, chosen) == kind()
    assert data_of(kind, chosen) == kind.data()


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)
def test_every_option_reaches_its_field(kind: type[Method]) -> None:
    """Each option changes the field that it is made from, and no other."""
    for name, each, says in own(kind):
        if name in ("clip", "tau", "least_nodes", "pooled", "count_queries", "proximal", "without_noise"):
            continue  # they go with others, which their methods' tests choose
        if (kind.name, name) in (("gcfl", "noise"), ("fedspray", "k")):
            continue  # clusters refuse noise, and k goes with backbone sgc
        option, usual = says.option or name.replace("_", "-"), default_of(each)
        words: list[str]
        value: object
        if usual is False:
            words, value = [f"--{option}"], True
        elif says.names:
            word = next(known for known in says.names if known != usual)
            words, value = [f"--{option}", word], word
        else:
            words, value = [f"--{option}", "7"], "7" if "str" in str(each.type) else 7
        changed = configure_method(kind, parsed(kind, *words))
        assert getattr(changed, name) == value
        assert sum(getattr(changed, other) != getattr(kind(), other) for other in choices_of(kind)) == 1


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.name)
def test_options_of_other_methods_do_not_exist(kind: type[Method]) -> None:
    mine = {name for name, *_ in own(kind)} | {name for name, *_ in own(kind.data)}
    others = {name for other in METHODS for name, *_ in own(other)} - mine
    assert others or kind.name == "hifgl"
    for name in others:
        with pytest.raises((argparse.ArgumentError, SystemExit)):
            parsed(kind, f"--{name.replace('_', '-')}", "7")


def test_data_are_read() -> None:
    """Data set, partition, silos and folders reach the configuration of the data."""
    words = (
        "--dataset",
        "Cora",
        "--partition",
        "louvain",
        "--silos",
        "3",
        "--data-root",
        "raw",
        "--silo-file",
        "s.npy",
    )
    assert data_of(HiFGL, parsed(HiFGL, *words)) == Data("Cora", "louvain", 3, Path("s.npy"), Path("raw"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dp-delta", "1e-3"), "dp_delta"),
        (("--dp-unit", "node"), "dp_unit"),
        (("--dp-clip", "2"), "dp_clip"),
        (("--dp-cap", "9"), "dp_cap"),
        (("--dp-rounds", "3"), "dp_rounds"),
    ],
)
def test_noise_needs_its_budget(words: tuple[str, str], message: str) -> None:
    """Without an epsilon there is no noise, so what else is said about it is refused; with one it is read."""
    with pytest.raises(InputError, check=about(message)):
        configure_method(HiFGL, parsed(HiFGL, *words))
    read = configure_method(HiFGL, parsed(HiFGL, "--dp-epsilon", "4", *words))
    assert isinstance(read, HiFGL)
    assert read.privacy is not None
    assert read.privacy.epsilon == 4
    assert read.privacy != EmbeddingPrivacy(4.0)
