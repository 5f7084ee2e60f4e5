"""Commands of other packages."""

import argparse
from importlib.metadata import EntryPoint

import pytest

from fgl_secure import plugins
from fgl_secure.cli.main import main
from fgl_secure.cli.subcommand import GROUP, Subcommand
from fgl_secure.cli.usage import add_common_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=1, help="what the status is")
    add_common_options(parser)


COMMAND = Subcommand("count", "exit with a count", add_arguments, lambda chosen, words: chosen.count + len(words))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commands of packages that are not installed, one of them broken."""
    points = (
        EntryPoint("count", f"{__name__}:COMMAND", GROUP),
        EntryPoint("broken", "no_such_module:COMMAND", GROUP),
        EntryPoint("function", f"{__name__}:add_arguments", GROUP),
    )
    monkeypatch.setattr(plugins, "installed_plugins", lambda group: points if group == GROUP else ())


@pytest.mark.usefixtures("installed")
def test_an_installed_command_runs_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    """It gets the parsed options and the words, and what it returns is the status."""
    assert main(["count", "--count", "4"]) == 4 + 3
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    assert "exit with a count" in capsys.readouterr().out


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("name", "cause"), [("broken", "no_such_module"), ("function", "Subcommand")])
def test_a_broken_command_says_what_is_broken(name: str, cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 2
    assert cause in capsys.readouterr().err
    assert main(["count"]) == 2
