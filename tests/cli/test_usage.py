"""What a person meets who mistypes, repeats a run, or asks for less: hints, files of options, completion, faults."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fgl_secure.auditing import report as report_module
from fgl_secure.cli import commands
from fgl_secure.cli.config import RUN_FILE, run_file, with_options
from fgl_secure.cli.main import BAD_INPUT, FAULT, OK, VIOLATED
from fgl_secure.cli.parser import SCRIPTS, candidates, suggest
from fgl_secure.cli.usage import parser_for
from fgl_secure.methods import names
from tests.cli.test_main import AUDIT, CHEAP, Cli, cli
from tests.methods.conftest import few_digits

__all__ = ["cli", "few_digits"]

LONG = ("audit", "--epochs", "1", "--device", "cpu", "--scheme", "secmp[T=2]", "--attack", "visible-devices")


class TestHints:
    @pytest.mark.parametrize(
        ("words", "near"),
        [
            (("audt",), "audit"),
            (("audit", "hifg"), "hifgl"),
            (("audit", "--epoch", "3"), "--epochs"),
            (("audit", "--dataset", "Corra"), "Cora"),
            (("audit", "--scheme", "relay-code"), "relay-coded"),
            (("audit", "--attack", "all-code"), "all-codes"),
            (("train", "hifgl", "--backbone", "gnc"), "gcn"),
            (("list", "scheme"), "schemes"),
        ],
    )
    def test_say_what_was_meant(self, cli: Cli, words: tuple[str, ...], near: str) -> None:
        """A name that is nearly one of those that exist is answered with that one, in the one line that there is."""
        result = cli(*words)
        assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
        assert f"; did you mean {near}?" in result.err

    def test_say_nothing_where_nothing_is_near(self) -> None:
        """A word like no other gets no hint."""
        assert suggest("xyzzy", ["audit", "train"]) == ""

    def test_options_are_written_out(self, cli: Cli) -> None:
        """A beginning of an option is none: what it stood for would change with the options."""
        assert cli("audit", "--epo", "3").status == BAD_INPUT


@pytest.mark.usefixtures("few_digits")
class TestFilesOfOptions:
    def test_a_run_repeats_from_the_file_beside_its_report(self, cli: Cli, tmp_path: Path) -> None:
        """The file has every option of the run; with it alone the same findings are made, and words said win."""
        assert cli(*LONG, "--out", "first").status == VIOLATED
        table = tomllib.loads((tmp_path / "first" / RUN_FILE).read_text(encoding="utf-8"))
        assert (table["command"], table["method"], table["scheme"]) == ("audit", "hifgl", ["secmp[T=2]"])
        assert (table["epochs"], table["static-first-layer"], table["seed"]) == (1, False, 0)
        again = cli("audit", "--config", f"first/{RUN_FILE}", "--out", "second")
        assert (again.status, again.err) == (VIOLATED, "")
        reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("first", "second")]
        assert reports[0]["records"] == reports[1]["records"]
        other = cli("audit", f"--config=first/{RUN_FILE}", "--scheme", "plaintext", "--out", "third")
        assert other.status == OK
        third = json.loads((tmp_path / "third/report.json").read_text())
        assert third["run"]["protocols"] == ["plaintext"]

    @pytest.mark.parametrize("name", names())
    @pytest.mark.parametrize("command", ["audit", "train"])
    def test_every_method_reads_its_own_defaults(self, command: str, name: str) -> None:
        """What is written of a command line without options is read as the same choices."""
        parser = parser_for([command, name])
        chosen = parser.parse_args([command, name])
        chosen.parser = parser.parser_of([command, name])
        table = tomllib.loads(run_file(chosen, [command, name]))
        words = with_options(table, chosen.parser, [command, name], 2)
        again = parser.parse_args(words)
        del chosen.parser
        assert vars(again) == vars(chosen)

    def test_odd_texts_come_back(self) -> None:
        """Quotes, backslashes, control characters and other scripts survive the file."""
        odd = 'a "b" \\ c\td\x7f \u00e9 \u4e2d'
        parser = parser_for(["audit", "hifgl"])
        chosen = parser.parse_args(["audit", "hifgl", "--dataset", odd])
        chosen.parser = parser.parser_of(["audit", "hifgl"])
        assert tomllib.loads(run_file(chosen, ["audit", "hifgl"]))["dataset"] == odd

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("epochz = 3", "config must name options of fgl-secure audit hifgl; found epochz; did you mean epochs?"),
            ("verbose = true", "config must name options of fgl-secure audit hifgl; found verbose"),
            ("epochs = [1, 2]", "epochs of a config must be one value; found [1, 2]"),
            ("epochs = {a = 1}", "epochs of a config must be text, a number"),
            ("static-first-layer = 1", "static-first-layer of a config must be true or false; found 1"),
            ("epochs = 'two'", "argument --epochs: must be an integer; found 'two'"),
            ("command = 'train'", "command of a config must be audit, as on the command line; found 'train'"),
            ("method = 3", "method of a config must be text; found 3"),
            ("method = 'hifg'", "did you mean hifgl?"),
            ("epochs = ", "config must be a TOML file that can be read; found run.toml (Invalid value"),
        ],
    )
    def test_what_a_file_may_not_hold(self, cli: Cli, tmp_path: Path, text: str, message: str) -> None:
        """Every mistake is one line that names the file's key, the rule and what was found."""
        (tmp_path / "run.toml").write_text(text, encoding="utf-8")
        result = cli("audit", "--config", "run.toml")
        assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
        assert message in result.err


@pytest.mark.usefixtures("few_digits")
class TestTelling:
    def test_json_of_an_audit_is_its_report(self, cli: Cli, tmp_path: Path) -> None:
        """With --json the report is printed, alone, and written as always."""
        result = cli(*AUDIT, *CHEAP, "--json")
        assert json.loads(result.out) == json.loads((tmp_path / "fgl-secure-report/report.json").read_text())

    def test_quiet_says_the_essence(self, cli: Cli) -> None:
        """With --quiet there is a summary, and where it is written."""
        result = cli(*AUDIT, *CHEAP, "--quiet")
        assert (result.status, result.err, result.out.count("\n")) == (OK, "", 2)
        assert result.out.startswith("No protection is guaranteed by plaintext")

    def test_verbose_says_all(self, cli: Cli) -> None:
        """With --verbose every figure, claim and note is printed."""
        out = cli(*AUDIT, *CHEAP, "--verbose").out
        assert "exact recovery" in out
        assert "Note: Attacks read what was sent in the first round" in out

    def test_findings_are_printed_before_files_are_written(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where files can't be written the findings have been printed, and the status says that something failed."""

        def full(_texts: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(report_module, "_replace_all", full)
        result = cli(*AUDIT, *CHEAP)
        assert result.status == BAD_INPUT
        assert "no guarantee" in result.out
        assert "written" not in result.out
        assert result.err.count("\n") == 1
        assert "No space left on device" in result.err

    def test_lists_for_programs(self, cli: Cli) -> None:
        """Each kind has its names and words."""
        listed = json.loads(cli("list", "--json").out)
        assert list(listed) == ["datasets", "schemes", "attacks", "methods"]
        assert {"name", "says"} == set(listed["attacks"][0])
        assert [each["name"] for each in listed["methods"]] == list(names())

    @pytest.mark.parametrize("verbose", [False, True])
    def test_a_fault_is_one_line(self, cli: Cli, monkeypatch: pytest.MonkeyPatch, verbose: bool) -> None:
        """An error that nobody has thought of is one line with status 1; --verbose adds where it was met."""

        def broken(_path: Path) -> None:
            raise ZeroDivisionError("somewhere\ndeep")

        monkeypatch.setattr(commands, "check_folder", broken)
        result = cli(*AUDIT, *(["-v"] if verbose else []))
        assert (result.status, result.out) == (FAULT, "")
        assert result.err.splitlines()[-1].startswith("fgl-secure: fault: ZeroDivisionError: somewhere deep")
        assert ("Traceback" in result.err) is verbose
        assert verbose or result.err.count("\n") == 1

    def test_the_package_is_the_command(self, tmp_path: Path) -> None:
        """`python -m fgl_secure` is the same program."""
        done = subprocess.run([sys.executable, "-m", "fgl_secure", "--version"], capture_output=True, text=True,
                              cwd=tmp_path, check=False)  # fmt: skip
        assert (done.returncode, done.stderr) == (OK, "")
        assert done.stdout.startswith("fgl-secure ")


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "some"),
        [
            ((), {"audit", "train", "list"}),
            (("au",), {"audit"}),
            (("audit", "fed"), {"fedstruct", "fedavg"}),
            (("audit", "hifgl", "--par"), {"--partition"}),
            (("audit", "hifgl", "--partition", "lou"), {"louvain", "louvain-packed"}),
            (("train", "hifgl", "--engine", ""), {"one-process", "flower"}),
            (("audit", "hifgl", "--scheme", "se"), {"secmp"}),
            (("audit", "hifgl", "--attack", "all"), {"all-codes"}),
            (("list", "s"), {"schemes"}),
        ],
    )
    def test_words_are_those_that_are_taken(self, words: tuple[str, ...], some: set[str]) -> None:
        """Commands, methods, options and the values of options, each by how it begins."""
        found = candidates(parser_for(words), words)
        assert some <= set(found)
        assert all(each.startswith(words[-1] if words else "") for each in found)

    def test_options_are_offered_when_asked_for(self) -> None:
        """An empty word offers no options, for there are many."""
        assert candidates(parser_for(["list", ""]), ["list", ""]) == ["datasets", "schemes", "attacks", "methods"]

    def test_bash_reads_its_script(self, cli: Cli, tmp_path: Path) -> None:
        """The script defines a completion that asks the program, one word a line."""
        (tmp_path / "fgl-secure").write_text(f'#!/bin/sh\nexec {sys.executable} -m fgl_secure "$@"\n')
        (tmp_path / "fgl-secure").chmod(0o755)
        script = cli("completion", "bash").out
        asked = f'{script}\nCOMP_WORDS=(fgl-secure list s) COMP_CWORD=2; _fgl_secure; echo "${{COMPREPLY[*]}}"'
        path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, env=path, check=False)
        assert (done.stdout, done.returncode) == ("schemes\n", 0)

    @pytest.mark.parametrize("shell", SCRIPTS)
    def test_every_shell_has_a_script(self, cli: Cli, shell: str) -> None:
        """Each asks the program, so that names are those of today."""
        assert "fgl-secure __complete" in cli("completion", shell).out
