from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import pytest

from fgl_secure.arguments import add_run_options, options_of
from fgl_secure.commands.options import METHODS, Options
from fgl_secure.commands.privacy import PrivacyChoice
from fgl_secure.commands.unused_choices import CHOICES, check_unused
from fgl_secure.errors import InputError

SHARED = {"dataset", "backbone", "preset", "epochs", "seed", "data_root", "device"}
"""Options that all methods use."""

OF_NOISE = {"dp_delta", "dp_unit", "dp_clip", "dp_cap", "dp_rounds"}
"""Options that go with dp_epsilon."""

SET = ("static_first_layer", "count_queries", "pooled", "allow_wrap")
VALUES = {
    "partition": "louvain", "silos": "3", "silo_file": "silos.txt", "dp_epsilon": "1", "features": "degree",
    "exchange": "ckks", "hops": "2", "pruning": "shares", "kept": "4", "sharing": "queries", "delivery": "owner",
    "tau": "0.5", "scheme": "ckks", "threshold": "4", "batch": "2", "local_steps": "2", "local_rate": "0.2",
    "noise": "1", "clip": "2", "neighbours": "3", "virtual_nodes": "3", "relays": "4", "k_min": "4", "profile": "anon",
    "field": str(2**61 - 1), "T": "2", "bound": "8", "fraction_bits": "4", "mu": "target",
}  # fmt: skip
"""Something else than the default of each option that some methods use."""

USERS = {
    option: {method for choice in CHOICES if choice.option == option for method in choice.methods}
    for option in (*VALUES, *SET)
}


def parser(command: str) -> argparse.ArgumentParser:
    """What `train` and `audit` read of the options in question."""
    made = argparse.ArgumentParser()
    made.add_argument("--method")
    add_run_options(made)
    if command == "train":
        made.set_defaults(json=False)
    return made


def chosen(command: str, method: str, option: str | None = None) -> Options:
    """The choices of a command line with one option, or none."""
    words = (
        [] if option is None else [f"--{option.replace('_', '-')}", *((VALUES[option],) if option in VALUES else ())]
    )
    return options_of(parser(command).parse_args(["--method", method, *words]))


def test_no_option_is_missing() -> None:
    """Every option of a run is used by all methods, goes with noise, or stands in the table, and nothing else does."""
    known = {action.dest for action in parser("audit")._actions} - {"help", "method"}
    assert known - SHARED - OF_NOISE == {choice.option for choice in CHOICES} == {*VALUES, *SET}


@pytest.mark.parametrize("command", ["audit", "train"])
@pytest.mark.parametrize("method", METHODS)
def test_who_chooses_nothing_is_never_refused(command: str, method: str) -> None:
    """Without options nothing is of no use."""
    check_unused(chosen(command, method), Options())


@pytest.mark.parametrize("option", [*VALUES, *SET])
@pytest.mark.parametrize("method", METHODS)
def test_an_option_changes_the_run_or_is_refused(method: str, option: str) -> None:
    """A method in the table accepts the option, which changes its choices; any other refuses it by name."""
    for command in ("audit", "train"):
        options = chosen(command, method, option)
        assert options != chosen(command, method)
        if method in USERS[option]:
            check_unused(options, Options())
        else:
            with pytest.raises(InputError, match=f"^{option} must be left out for {method}, .*; found ") as refused:
                check_unused(options, Options())
            assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", METHODS)
def test_hops_are_of_one_method(method: str) -> None:
    """The same option is the power of the adjacency for FedStruct and the depth of trees for Fed2GNN."""
    options = chosen("train", method, "hops")
    assert (options.structure.hops, options.trees.hops) == ((None, 2) if method == "fed2gnn" else (2, None))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dp-delta", "1e-3"), "dp_delta must go with dp_epsilon, .*; found 0.001"),
        (("--dp-unit", "node"), "dp_unit must go with dp_epsilon, .*; found node"),
        (("--dp-clip", "2"), "dp_clip must go with dp_epsilon, .*; found 2.0"),
        (("--dp-cap", "9"), "dp_cap must go with dp_epsilon, .*; found 9"),
        (("--dp-rounds", "3"), "dp_rounds must go with dp_epsilon, .*; found 3"),
    ],
)
def test_noise_needs_its_budget(words: tuple[str, str], message: str) -> None:
    """Without an epsilon there is no noise, so what else is said about it is refused; with one it is read."""
    with pytest.raises(InputError, match=message):
        options_of(parser("audit").parse_args(["--method", "hifgl", *words]))
    read = options_of(parser("audit").parse_args(["--method", "hifgl", "--dp-epsilon", "4", *words])).privacy
    assert read is not None
    assert replace(read, epsilon=4.0) != PrivacyChoice(4.0)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"privacy": PrivacyChoice(2.5)}, "found 2.5"),
        ({"static_first_layer": True}, "found it set"),
        ({"partition": "louvain"}, "found louvain"),
    ],
)
def test_the_value_is_said(change: dict[str, Any], found: str) -> None:
    """The message ends in what was found."""
    with pytest.raises(InputError, match=f"{found}$"):
        check_unused(replace(Options(method="fedvn"), **change), Options())
