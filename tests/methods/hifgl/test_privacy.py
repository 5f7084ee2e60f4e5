"""Differential privacy as a choice of a run: what is calibrated, refused, printed and stopped."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fgl_secure import train
from fgl_secure.auditing import privacy_cost
from fgl_secure.auditing.audit import audit
from fgl_secure.cli.main import BAD_INPUT, main
from fgl_secure.cli.printing import describe
from fgl_secure.coins import SimulationCoins
from fgl_secure.errors import InputError
from fgl_secure.graph import Data
from fgl_secure.methods import HiFGL
from fgl_secure.methods.hifgl.audit_target import perturb_scheme, releases
from fgl_secure.methods.hifgl.configuration import EmbeddingPrivacy
from fgl_secure.methods.hifgl.program import silos_of
from fgl_secure.protocols.perturbed import PerturbedScheme
from fgl_secure.protocols.plaintext import Plaintext
from fgl_secure.protocols.relay_coded import Profile, RelayCoded
from fgl_secure.runtime import Channel
from fgl_secure.training.parties import hierarchy_of
from fgl_secure.training.presets import HONEST, Preset
from tests.error_codes import about
from tests.graphs import two_communities

GRAPH = two_communities()
QUICK = replace(HONEST, hidden=4, epochs=3)
TRAIN = ("train", "hifgl", "--device", "cpu", "--epochs", "2")


def scheme_for(choice: EmbeddingPrivacy, preset: Preset = QUICK) -> PerturbedScheme:
    return perturb_scheme(Plaintext(), choice, preset, GRAPH)


def wide_graph(folder: Path) -> str:
    """Writes a ring of 60 devices with four neighbours each and 80 words, and says where."""
    rng = np.random.default_rng(0)
    edges = np.array([(v, (v + step) % 60) for v in range(60) for step in (1, 2, 58, 59)]).T
    words = (rng.random((60, 80)) < 0.1).astype(np.float32)
    np.savez(folder / "wide.npz", x=words, y=np.arange(60) % 2, edge_index=edges)
    return str(folder / "wide.npz")


@pytest.mark.parametrize(("layers", "static", "dropout"), [(1, False, 0.0), (2, True, 0.0), (3, True, 0.5)])
def test_releases_are_those_that_a_run_makes(dropout: float, static: bool, layers: int) -> None:
    """A whole run, scoring passes and the last models included, spends the budget to the last release."""
    preset = replace(QUICK, dropout=dropout, static_first_layer=static, layers=layers)
    choice = EmbeddingPrivacy(8.0)
    exact = scheme_for(choice, preset)
    channel = Channel(hierarchy_of(GRAPH), SimulationCoins(0))
    result = silos_of(GRAPH, exact, preset).train(channel)
    assert not result.budget_spent
    steps = {(batch.phase, batch.step) for batch in channel.transcript.messages if batch.phase.label == "values"}
    assert len(steps) == exact.settings.target.releases == releases(preset, preset.epochs)


def test_training_stops_when_the_budget_is_spent() -> None:
    """A budget for two rounds of six ends training after two, without an error, and the result says so."""
    preset = replace(QUICK, epochs=6)
    scheme = scheme_for(EmbeddingPrivacy(8.0, rounds=2), preset)
    result = silos_of(GRAPH, scheme, preset).train(Channel(hierarchy_of(GRAPH), SimulationCoins(0)))
    assert result.budget_spent
    assert result.rounds == 2


def test_noise_is_split_where_single_messages_are_hidden() -> None:
    """Under relay-coded k_min senders make up the noise of a sum; in the clear every message has all of it."""
    choice = EmbeddingPrivacy(4.0)
    hidden = perturb_scheme(RelayCoded(k_min=3, profile=Profile.SHOWN), choice, QUICK, GRAPH)
    shown = perturb_scheme(Plaintext(), choice, QUICK, GRAPH)
    assert (hidden.settings.honest, shown.settings.honest) == (3, 1)
    assert hidden.settings.sigma == pytest.approx(shown.settings.sigma, rel=0.01)
    assert isinstance(hidden.inner, RelayCoded)
    assert hidden.inner.bound >= hidden.settings.largest


def test_node_privacy_refuses_a_device_beyond_the_cap() -> None:
    degree = int(np.bincount(np.asarray(Data().load().edges[0])).max())
    too_low = EmbeddingPrivacy(8.0, unit="node", cap=degree - 1)
    with pytest.raises(InputError, check=about("messages of one device in one pass")):
        HiFGL(privacy=too_low).plan(None, ["plaintext"])
    (subject,) = HiFGL(privacy=replace(too_low, cap=degree)).plan(None, ["plaintext"]).subjects
    assert subject.name == "plaintext+dp"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dp-epsilon", "0"), "epsilon"),
        (("--dp-epsilon", "1e-6"), "noise for epsilon=1e-06"),
        (("--dp-epsilon", "4", "--dp-delta", "1"), "delta"),
        (("--dp-epsilon", "4", "--dp-clip", "0"), "clip"),
        (("--dp-epsilon", "4", "--dp-unit", "node"), "cap"),
        (("--dp-epsilon", "4", "--dp-cap", "5"), "cap"),
        (("--dp-epsilon", "4", "--dp-rounds", "0"), "rounds must be at least 1"),
    ],
)
def test_impossible_budgets_are_refused_before_training(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on the error stream names the figure, nothing is printed, and the exit status is 2."""
    assert main([*TRAIN, *words]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_train_reports_epsilon_its_accountant_the_lower_bound_and_the_price(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The claimed epsilon is the one asked for, the measured one lies below it, and both accuracies are there."""
    monkeypatch.setattr(privacy_cost, "CANARIES", 300)
    method = HiFGL(epochs=2, privacy=EmbeddingPrivacy(4.0, unit="edge"))
    done = train(method, Data(wide_graph(tmp_path), silos=2), device="cpu")
    privacy: Any = done.to_json()["privacy"]
    assert privacy["epsilon"] == pytest.approx(4.0, abs=0.01)
    assert 0.5 < privacy["epsilon_lower_bound"] < privacy["epsilon"]
    assert privacy["accountant"] == "privacy loss distributions"
    assert privacy["relation"] == "one undirected edge, present or all zero"
    assert privacy["releases"] == releases(replace(HONEST, epochs=2), 2)
    assert 0 <= privacy["test_accuracy_without_noise"] <= 1
    said = describe(done)
    for word in ("privacy", "measured", "price", "without noise", "epsilon is at least"):
        assert word in said


def test_a_noisy_protocol_can_be_audited(tmp_path: Path) -> None:
    """A budget of fewer releases than an attack's rounds, and rows wider than the hidden layer, are no obstacle."""
    data = Data(wide_graph(tmp_path), silos=2)
    attacks = ("fingerprint-device", "differencing-device")
    report = audit(HiFGL(epochs=1, privacy=EmbeddingPrivacy(4.0)), data, "relay-coded", attacks, device="cpu")
    assert report.run["protocol"] == "relay-coded[graph-shown]+dp"
    read = [r.value for r in report.records if r.attack in attacks]
    assert read
    assert max(read) == 0
