import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from fgl_secure import __version__, schemes
from fgl_secure.attacks.registry import attacks
from fgl_secure.cli.main import BAD_INPUT, OK, VIOLATED, main
from fgl_secure.graph import available
from fgl_secure.graph.datasets import load_digits_graph
from fgl_secure.runtime import Channel
from tests.cli.processes import started

INSTALLED = Path(sys.executable).with_name("fgl-secure")
AUDIT = ("audit", "--epochs", "1", "--device", "cpu")
FILES = {"report.html", "report.json", "report.md", "report.xml", "run.toml"}
FEW = 300
"""Nodes."""
CHEAP = ("--scheme", "plaintext", "--attack", "clear-values")
TRAIN = ("train", "hifgl", "--epochs", "2", "--device", "cpu")


@dataclass(frozen=True, slots=True)
class Result:
    """What a call of the command line left: exit status and both streams."""

    status: int
    out: str
    err: str


class Cli:
    """Runs the command line in this process, in an empty folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> Result:
        """Runs `fgl-secure` with these words."""
        self._capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else -1
        said = self._capsys.readouterr()
        return Result(status, said.out, said.err)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, called from an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


def _separate(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own whose output goes into pipes."""
    quiet = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    command = [sys.executable, "-W", "error", "-m", "fgl_secure", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=quiet, check=False, timeout=240)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One audit of the published scheme: what it left on the streams, and the folder of its report."""
    folder = tmp_path_factory.mktemp("audited")
    out, err = io.StringIO(), io.StringIO()
    words = (*AUDIT, "--scheme", "secmp", "--attack", "all-codes", "--out", "here/a folder")
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words)
    return Result(status, out.getvalue(), err.getvalue()), folder / "here/a folder"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options that name a sixth of the embedded data set, as a graph of one's own."""
    digits, file = load_digits_graph(), tmp_path_factory.mktemp("few") / "few.npz"
    kept = digits.edges[:, (digits.edges < FEW).all(axis=0)]
    np.savez(file, x=digits.features[:FEW], y=digits.labels[:FEW], edge_index=kept)
    return "--dataset", str(file)


class TestAudit:
    def test_demonstration_finds_breaks_and_exits_0(self, cli: Cli, tmp_path: Path, few: tuple[str, ...]) -> None:
        """Without --scheme what is found is the finding: the report names violations, and the status is 0."""
        result = cli(*AUDIT, *few, "--attack", "visible-devices")
        assert (result.status, result.err) == (OK, "")
        assert "secmp: 1 guarantee violated, by visible-devices" in result.out
        assert {path.name for path in (tmp_path / "fgl-secure-report").iterdir()} == FILES

    def test_contradicted_scheme_exits_3(self, audited: tuple[Result, Path]) -> None:
        """With --scheme secmp evidence violates its claim, and the status is 3, with both reports written."""
        result, folder = audited
        assert (result.status, result.err) == (VIOLATED, "")
        assert "1 guarantee violated, by all-codes" in result.out
        data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        assert data["run"]["protocols"] == ["secmp"]
        assert any(record["violates_guarantee"] for record in data["records"])
        assert {path.name for path in folder.iterdir()} == FILES

    def test_report_names_the_command(self, audited: tuple[Result, Path]) -> None:
        """The report holds the command that repeats it, quoted for a shell."""
        data = json.loads((audited[1] / "report.json").read_text(encoding="utf-8"))
        words = f"fgl-secure {' '.join(AUDIT)} --scheme secmp --attack all-codes --out 'here/a folder'"
        assert data["run"]["command"] == words

    def test_html_needs_no_network(self, audited: tuple[Result, Path]) -> None:
        """The page loads nothing: no scripts or styles from elsewhere, no images, fonts or imports by address."""
        page = (audited[1] / "report.html").read_text(encoding="utf-8")
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert page.rstrip().endswith("</html>")
        assert not re.search(r"<(link|iframe|object|embed)\b|@import|\burl\(\s*['\"]?(?!data:|#)", page)
        assert not re.search(r"\b(?:src|srcset|poster|action|data)\s*=\s*['\"]?(?!data:)\S*//", page)
        assert not re.search(r"<script[^>]*\bsrc\b", page)
        assert "all-codes" in page

    def test_scheme_without_a_claim_exits_0(self, cli: Cli, few: tuple[str, ...]) -> None:
        """Plaintext promises nothing, so reading it completely violates nothing."""
        result = cli(*AUDIT, *few, *CHEAP)
        assert (result.status, result.err) == (OK, "")
        assert "no guarantee" in result.out

    def test_contradiction_of_one_among_several_exits_3(self, cli: Cli, few: tuple[str, ...]) -> None:
        """One violated scheme among those named is enough for status 3."""
        names = ("--scheme", "secmp", "--scheme", "plaintext")
        assert cli(*AUDIT, *few, *names, "--attack", "visible-devices").status == VIOLATED

    def test_scheme_that_is_not_contradicted_exits_0(self, cli: Cli) -> None:
        """Attacks that find nothing leave the status 0: where there is one silo, it sees no foreign device."""
        result = cli(*AUDIT, "--silos", "1", "--scheme", "secmp", "--attack", "visible-devices")
        assert (result.status, result.err) == (OK, "")
        assert "no violation" not in result.out  # in the clear, too, there is nothing to find
        assert "violated" not in result.out

    def test_scheme_with_nothing_measured_says_so(self, cli: Cli, few: tuple[str, ...]) -> None:
        """An attack that reads one scheme of two and nothing of the other leaves the other's claims untested."""
        result = cli(*AUDIT, *few, *CHEAP, "--scheme", "secmp")
        assert (result.status, result.err) == (OK, "")
        told = " ".join(result.out.split())
        assert "Nothing was measured under secmp, which says nothing of its 4 guarantees." in told
        assert "No finding violates" not in told

    def test_declared_leak_exits_0(self, cli: Cli, few: tuple[str, ...]) -> None:
        """What a protocol says of itself violates nothing, however completely it is read."""
        result = cli(
            *AUDIT, *few, "--preset", "public-code", "--scheme", "secmp", "--attack", "single-neighbour-device"
        )
        assert (result.status, result.err) == (OK, "")
        assert "declared leakage" in result.out

    def test_report_is_replaced(self, cli: Cli, tmp_path: Path, few: tuple[str, ...]) -> None:
        """A second audit into the same folder replaces the report and leaves other files alone."""
        folder = tmp_path / "fgl-secure-report"
        folder.mkdir()
        (folder / "notes.txt").write_text("mine", encoding="utf-8")
        (folder / "report.json").write_text("old", encoding="utf-8")
        assert cli(*AUDIT, *few, *CHEAP).status == OK
        assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["schema"] == 4
        assert {path.name for path in folder.iterdir()} == {"notes.txt", *FILES}


class TestTrain:
    def test_prints_figures(self, cli: Cli, few: tuple[str, ...]) -> None:
        """Accuracy pooled and per silo, validation accuracy, rounds, messages, bytes and seconds are printed."""
        result = cli(*TRAIN, *few)
        assert (result.status, result.err) == (OK, "")
        for word in (
            "test accuracy",
            "per silo",
            "validation",
            "rounds",
            "messages",
            "bytes",
            "seconds",
            "relay-coded",
        ):
            assert word in result.out

    def test_json_parses(self, cli: Cli) -> None:
        """With --json one object is printed and nothing else."""
        result = cli(*TRAIN, "--json", "--scheme", "plaintext", "--backbone", "sage", "--silos", "3")
        data = json.loads(result.out)
        assert (result.status, result.err) == (OK, "")
        assert (data["protocol"], data["backbone"], data["silos"]) == ("plaintext", "sage", 3)
        assert 0 <= data["accuracy"]["test"] <= 1
        assert len(data["accuracy"]["per_silo"]) == 3
        assert data["cost"]["rounds"] == 2
        assert min(data["cost"][key] for key in ("messages", "bytes", "seconds")) > 0

    def test_secured_and_plain_training_agree(self, cli: Cli, few: tuple[str, ...]) -> None:
        """With one seed both protocols reach the same accuracy within .2 points, and codes cost more bytes."""
        schemes = ("secmp", "plaintext")
        secured, plain = (json.loads(cli(*TRAIN, *few, "--json", "--scheme", name).out) for name in schemes)
        assert abs(secured["accuracy"]["test"] - plain["accuracy"]["test"]) <= 0.002
        assert secured["cost"]["bytes"] > plain["cost"]["bytes"]

    def test_writes_nothing(self, cli: Cli, tmp_path: Path, few: tuple[str, ...]) -> None:
        """Training leaves no files behind."""
        assert cli(*TRAIN, *few, "--silos", "2").status == OK
        assert not list(tmp_path.iterdir())


class TestList:
    def test_names_everything(self, cli: Cli) -> None:
        """All data sets, schemes, attacks and methods are listed by name."""
        result = cli("list")
        assert (result.status, result.err) == (OK, "")
        names = {line.split()[0] for line in result.out.splitlines() if line.strip()}
        assert names >= {*available(), *schemes.names(), *attacks(), "hifgl"}

    @pytest.mark.parametrize("kind", ["datasets", "schemes", "attacks", "methods"])
    def test_names_one_kind(self, cli: Cli, kind: str) -> None:
        """One kind is listed alone."""
        result = cli("list", kind)
        assert result.status == OK
        assert result.out.splitlines()[0] == kind
        assert [line for line in result.out.splitlines() if not line.startswith("  ")] == [kind]


class TestHelp:
    @pytest.mark.parametrize(
        "words",
        [("--help",), ("audit", "--help"), ("audit", "fedvn", "--help"), ("train", "--help"), ("list", "--help")],
    )
    def test_is_everywhere(self, cli: Cli, words: tuple[str, ...]) -> None:
        """Every command explains itself and exits with 0."""
        result = cli(*words)
        assert (result.status, result.err) == (OK, "")
        assert "usage: fgl-secure" in result.out

    @pytest.mark.parametrize("command", ["audit", "train"])
    def test_says_every_option_and_its_default(self, cli: Cli, command: str) -> None:
        """The options of the issue are all there, with their defaults and bits, primes and counts named."""
        out = " ".join(cli(command, "hifgl", "--help").out.split())
        for option in ("--dataset", "--partition", "--silos", "--scheme", "--preset", "--epochs", "--seed",
                       "--data-root", "--device", "--backbone"):  # fmt: skip
            assert option in out
        for default in ("random", "5", "honest", "0", "auto"):
            assert f"(default: {default})" in out
        assert "(default: digits)" in out
        assert "(default: Motif-mini)" in " ".join(cli(command, "fedvn", "--help").out.split())

    def test_version(self, cli: Cli) -> None:
        assert cli("--version").out.split() == ["fgl-secure", __version__]


BAD = {
    "no command": (),
    "unknown command": ("attack",),
    "unknown option": ("audit", "--speed", "9"),
    "unknown data set": ("audit", "--dataset", "Imagenet"),
    "unknown scheme": ("audit", "--scheme", "magic"),
    "unknown attack": ("audit", "--attack", "x-ray"),
    "unknown method": ("audit", "fedprox"),
    "unknown partition": ("audit", "--partition", "metis"),
    "unknown preset": ("audit", "--preset", "best"),
    "unknown backbone": ("audit", "--backbone", "gat"),
    "unknown device": ("audit", "--device", "tpu"),
    "unknown topology": ("audit", "--scheme", "neighbors=secmp"),
    "topology of another method": ("audit", "--scheme", "clients=ckks"),
    "scheme of another topology": ("audit", "--scheme", "ckks"),
    "scheme that is none": ("audit", "--scheme", "secmp["),
    "data folder without files": ("audit", "--dataset", "Cora", "--data-root", "nowhere"),
    "own graph that is not there": ("audit", "--dataset", "mine.npz"),
    "silo file that is not there": ("audit", "--silo-file", "silos.txt"),
    "value beyond the bound": (*AUDIT, "--scheme", "secmp[bound=1e-6]"),
    "T too large for the field": ("audit", "--scheme", "secmp[p=11,T=5]"),
    "attack that measures nothing of its scheme": (*AUDIT, "--scheme", "secmp", "--attack", "clear-values"),
    "attack that has nothing to measure": (*AUDIT, "--scheme", "secmp", "--attack", "visible-edges"),
    "k_min above all degrees": ("audit", "--scheme", "relay-coded[k_min=10000]"),
    "field not a prime": ("audit", "--scheme", "secmp[p=12]"),
    "no silos": ("audit", "--silos", "0"),
    "more silos than devices": ("audit", "--silos", "1798"),
    "no epochs": ("audit", "--epochs", "0"),
    "negative seed": ("audit", "--seed", "-1"),
    "epochs no integer": ("audit", "--epochs", "two"),
    "bound no number": ("audit", "--scheme", "secmp[bound=big]"),
    "training an unknown method": ("train", "fedprox"),
    "training no method": ("train",),
    "training under an unknown scheme": ("train", "hifgl", "--scheme", "magic"),
}


USELESS = {
    "hops of fedspray": ("fedspray", "--hops", "7"),
    "virtual-nodes of hifgl": ("hifgl", "--virtual-nodes", "4"),
    "silos of fedvn": ("fedvn", "--silos", "9"),
    "partition of fedvn": ("fedvn", "--partition", "louvain"),
    "batch of fed2gnn": ("fed2gnn", "--batch", "4"),
    "clip of fed2gnn": ("fed2gnn", "--clip", "2"),
    "preset of fedavg": ("fedavg", "--preset", "paper"),
    "dp-epsilon of fedspray": ("fedspray", "--dp-epsilon", "1"),
    "protocol, as it was": ("hifgl", "--protocol", "secmp"),
    "exchange, as it was": ("fedstruct", "--exchange", "ckks"),
}
"""Options that the method doesn't have."""

ALONE = {
    "clip of fedavg without noise": ("fedavg", "--clip", "2"),
    "dp_rounds without dp_epsilon": ("hifgl", "--dp-rounds", "2"),
    "kept of fedstruct's hopwise exchange": ("fedstruct", "--kept", "3", "--scheme", "relay-coded"),
    "scheme of fedvn for nobody": ("fedvn", "--scheme", "secmp"),
}
"""Options that go with others."""


def _check_refused(result: Result, folder: Path) -> None:
    assert result.status == BAD_INPUT
    assert result.out == ""
    assert re.fullmatch(r"fgl-secure( \w+)*: error: \S[^\n]*\n", result.err)
    assert "Traceback" not in result.err
    assert not list(folder.iterdir())


class TestBadInput:
    @pytest.mark.parametrize("words", BAD.values(), ids=BAD.keys())
    def test_exits_2_with_one_line(self, cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
        """Bad input gives status 2 and one line on the error stream; nothing is printed and nothing written."""
        _check_refused(cli(*words), tmp_path)

    @pytest.mark.parametrize("command", ["train", "audit"])
    @pytest.mark.parametrize("words", USELESS.values(), ids=USELESS.keys())
    def test_options_of_other_methods_exit_2(
        self, cli: Cli, tmp_path: Path, words: tuple[str, ...], command: str
    ) -> None:
        """An option that the method has no use for does not exist, and is refused by name."""
        result = cli(command, *words)
        assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
        assert f"unrecognized arguments: {words[1]}" in result.err
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("command", ["train", "audit"])
    @pytest.mark.parametrize(("case", "words"), ALONE.items(), ids=ALONE.keys())
    def test_options_without_what_they_go_with_exit_2(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, words: tuple[str, ...], command: str
    ) -> None:
        """An option that nothing comes of is refused by name, and no message is sent."""
        monkeypatch.setattr(Channel, "send", lambda *_: pytest.fail("something ran"))
        result = cli(command, *words)
        _check_refused(result, tmp_path)
        assert f" error: {case.split(maxsplit=1)[0]} must " in result.err

    @pytest.mark.parametrize("bound", ["nan", "inf", "1e300"])
    @pytest.mark.parametrize("command", [("audit",), ("train", "hifgl")])
    def test_bounds_beyond_numbers_exit_2(self, cli: Cli, tmp_path: Path, command: tuple[str, ...], bound: str) -> None:
        """A bound that is no number, infinite or astronomical is refused like any other."""
        _check_refused(cli(*command, "--scheme", f"relay-coded[bound={bound}]"), tmp_path)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
    def test_absent_cuda_exits_2(self, cli: Cli, tmp_path: Path) -> None:
        """CUDA asked for and absent is said in one line."""
        result = cli("audit", "--device", "cuda")
        _check_refused(result, tmp_path)
        assert "CUDA" in result.err

    def test_a_file_in_place_of_the_folder_exits_2(self, cli: Cli, tmp_path: Path) -> None:
        """A report cannot go into a file, and the file stays as it was."""
        (tmp_path / "report").write_text("mine", encoding="utf-8")
        result = cli("audit", "--out", "report")
        assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
        assert (tmp_path / "report").read_text(encoding="utf-8") == "mine"
        below = cli(*AUDIT, *CHEAP, "--out", "report/deep")
        assert (below.status, below.out, below.err.count("\n")) == (BAD_INPUT, "", 1)
        assert [path.name for path in tmp_path.iterdir()] == ["report"]

    @pytest.mark.parametrize(
        ("words", "known"),
        [
            (("--dataset", "Imagenet"), available()),
            (("--scheme", "magic"), schemes.names()),
            (("--scheme", "magic=secmp"), tuple(schemes.TOPOLOGIES)),
            (("--attack", "x-ray"), tuple(attacks())[:20]),
        ],
        ids=["data set", "scheme", "topology", "attack"],
    )
    def test_unknown_names_come_with_the_known_ones(
        self, cli: Cli, words: tuple[str, ...], known: Sequence[str]
    ) -> None:
        """The line says which names exist, and which was found."""
        err = cli("audit", *words).err
        assert all(name in err for name in known)
        assert words[1].split("=")[0] in err

    def test_a_folder_without_the_files_is_named(self, cli: Cli) -> None:
        """The line says where the files were looked for, which are missing and how to get them."""
        err = cli("audit", "--dataset", "CiteSeer", "--data-root", "nowhere").err
        assert str(Path("nowhere/Planetoid/CiteSeer/raw")) in err
        assert "ind.citeseer.x" in err
        assert "download" in err

    def test_bad_graphs_of_ones_own_exit_2(self, cli: Cli, tmp_path: Path) -> None:
        """One line names the rule; tests/graph have what is refused."""
        ring = np.arange(4)
        np.savez(
            tmp_path / "mine.npz", x=np.full((4, 1), np.nan), y=ring % 2, edge_index=np.stack([ring, (ring + 1) % 4])
        )
        (tmp_path / "silos.txt").write_text("0 0 1 1", encoding="utf-8")
        result = cli("audit", "--dataset", "mine.npz", "--silo-file", "silos.txt")
        assert (result.status, result.out, result.err.count("\n")) == (BAD_INPUT, "", 1)
        assert "features must be finite; node 0" in result.err
        assert {path.name for path in tmp_path.iterdir()} == {"mine.npz", "silos.txt"}

    def test_failure_leaves_an_old_report_alone(self, cli: Cli, tmp_path: Path) -> None:
        """An audit that stops in its first round leaves the report of an earlier one as it was."""
        folder = tmp_path / "old"
        folder.mkdir()
        (folder / "report.json").write_text("{}", encoding="utf-8")
        assert cli(*AUDIT, "--scheme", "secmp[bound=1e-6]", "--out", "old").status == BAD_INPUT
        assert [path.name for path in folder.iterdir()] == ["report.json"]
        assert (folder / "report.json").read_text(encoding="utf-8") == "{}"


FULL = re.compile(r"fgl-secure: error: standard output must take [^\n]*No space left[^\n]*\n")
"""One line, and no traceback."""


def _without_progress(said: str) -> str:
    """Standard error without the line that a command in a pipe prints every 30 seconds, on a machine that is slow."""
    return re.sub(r"^fgl-secure: (training|attacking) [^\n]* so far[^\n]*\n", "", said, flags=re.MULTILINE)


class TestProcess:
    def test_audit_in_a_pipe(self, tmp_path: Path, few: tuple[str, ...]) -> None:
        """In a pipe there is no progress bar, no colour and no warning, and the status is 3."""
        done = _separate(tmp_path, (*AUDIT, *few, "--scheme", "secmp", "--attack", "all-codes", "--out", "out"))
        assert (done.returncode, _without_progress(done.stderr)) == (VIOLATED, "")
        assert "\x1b" not in done.stdout
        assert "\r" not in done.stdout
        assert "training under" not in done.stdout
        lines = done.stdout.splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 80
        assert (tmp_path / "out/report.json").is_file()

    @pytest.mark.parametrize(
        ("words", "status"),
        [(("list",), OK), ((*AUDIT, "--scheme", "secmp", "--attack", "all-codes"), VIOLATED)],
        ids=["list", "audit"],
    )
    def test_closed_pipe_keeps_the_status(
        self, tmp_path: Path, words: tuple[str, ...], status: int, few: tuple[str, ...]
    ) -> None:
        """A reader who has gone away changes neither the exit status nor what is written, and is not complained of."""
        said = (*words, *few) if words[0] == "audit" else words
        assert started(tmp_path, said, heard=False).ended() == (status, "", "")
        assert (tmp_path / "fgl-secure-report/report.json").is_file() is (words[0] == "audit")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    @pytest.mark.parametrize("words", [("list", "methods"), (*AUDIT, *CHEAP), ("list", "--help")])
    def test_a_full_disk_is_said_in_one_line(
        self, tmp_path: Path, words: tuple[str, ...], few: tuple[str, ...]
    ) -> None:
        """Where nothing can be printed there is no traceback, and an audit's files are written all the same."""
        said = (*words, *few) if words[0] == "audit" else words
        status, _, err = started(tmp_path, said, out=Path("/dev/full")).ended()
        assert status == BAD_INPUT
        assert FULL.fullmatch(err)
        assert (tmp_path / "fgl-secure-report/report.json").is_file() is (words[0] == "audit")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
    def test_a_full_disk_is_said_where_output_is_unbuffered(self, tmp_path: Path) -> None:
        """Help that could not be printed is not taken for printed."""
        command = [sys.executable, "-W", "error", "-m", "fgl_secure", "list", "--help"]
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
                                  timeout=120, env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
        assert done.returncode == BAD_INPUT
        assert FULL.fullmatch(done.stderr)

    def test_bad_input_in_a_pipe(self, tmp_path: Path) -> None:
        """A mistake gives status 2 and one line, no traceback."""
        status, out, err = started(tmp_path, ("train", "hifgl", "--dataset", "Imagenet")).ended()
        _check_refused(Result(-1 if status is None else status, out, err), tmp_path)

    def test_help_loads_no_torch(self, tmp_path: Path) -> None:
        """Help answers before torch is loaded."""
        lines = (
            "import sys",
            "from fgl_secure.cli.main import main",
            "try: main(['audit', 'hifgl', '--help'])",
            "finally: assert 'torch' not in sys.modules",
        )
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == OK

    @pytest.mark.skipif(not INSTALLED.is_file(), reason="the command fgl-secure is not installed")
    def test_installed_command(self, tmp_path: Path) -> None:
        done = subprocess.run([INSTALLED, "list", "methods"], capture_output=True, text=True, cwd=tmp_path,
                              check=False, timeout=60)  # fmt: skip
        assert done.returncode == OK
        assert "hifgl" in done.stdout
